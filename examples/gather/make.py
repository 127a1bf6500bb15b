"""Wraps the Mosaic kernels of this folder in StableHLO modules, which `tilecast compile` takes.

    make.py [--check]

Writes NAME.stablehlo.mlir beside each NAME.mlir. With --check it writes nothing and fails if a module is out of date.
Plain Python, no packages: the custom call carries the kernel as text, every operation renamed `stable_mosaic.`, with the
version of that vocabulary on the module.
"""
import argparse
import base64
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
VERSION = 18

MODULE = """\
module @{name} {{
  func.func public @main(%x: tensor<8x128xf32>, %labels: tensor<1x128xi32>) -> tensor<1x128xf32> {{
    %0 = stablehlo.custom_call @tpu_custom_call(%x, %labels) {{backend_config = "{config}", kernel_name = "{name}", \
operand_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<[1, 0]> : tensor<2xindex>], \
result_layouts = [dense<[1, 0]> : tensor<2xindex>]}} : (tensor<8x128xf32>, tensor<1x128xi32>) -> tensor<1x128xf32>
    return %0 : tensor<1x128xf32>
  }}
}}
"""


def stable(text):
    """The kernel in the vocabulary that newer and older compilers read alike."""
    text = re.sub(r"^//.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r'"(?!builtin\.)(\w+\.\w+)"\(', r'"stable_mosaic.\1"(', text)
    end = r"\{(sym_name = \"\w+\")\} : \(\) -> \(\)\n\Z"
    text, found = re.subn(end, rf"{{\1, stable_mosaic.version = {VERSION} : i64}} : () -> ()\n", text)
    if found != 1:
        sys.exit("make: the text does not end in a module with a name")
    return text


def wrap(name, text):
    body = base64.b64encode(stable(text).encode()).decode()
    config = {"custom_call_config": {"body": body, "serialization_format": 1, "needs_layout_passes": True}}
    return MODULE.format(name=name, config=json.dumps(config).replace('"', "\\22"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    for name in ["gather", "compare"]:
        module = wrap(name, (HERE / f"{name}.mlir").read_text())
        path = HERE / f"{name}.stablehlo.mlir"
        if not options.check:
            path.write_text(module)
        elif not path.exists() or path.read_text() != module:
            sys.exit(f"make: {path.name} is out of date; run examples/gather/make.py")


if __name__ == "__main__":
    main()
