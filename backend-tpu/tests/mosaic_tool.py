"""Lowers Pallas kernels for TPU on a machine without one, and gets at their Mosaic modules.

    mosaic_tool.py data DIR            texts of this project's kernels, as kept in data/
    mosaic_tool.py lower DIR [NAME..]  texts and StableHLO of this project's and public kernels
    mosaic_tool.py rewrap IN OUT BODY..  StableHLO with the k-th kernel's body replaced by a text
    mosaic_tool.py check FILE..        modules in any form through jaxlib's own parser and verifier

Needs jax and libtpu; public kernels of Tokamax need tokamax, jaxtyping and wadler-lindig.
"""
import base64
import json
import os
import re
import sys
import traceback

TARGET_ENV = {"TPU_SKIP_MDS_QUERY": "1", "TPU_ACCELERATOR_TYPE": "v5litepod-4",
              "TPU_WORKER_HOSTNAMES": "localhost", "TPU_WORKER_ID": "0", "JAX_PLATFORMS": "cpu",
              "TPU_LOG_DIR": "disabled", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
              "TPU_MIN_LOG_LEVEL": "3", "TPU_STDERR_LOG_LEVEL": "3"}
for _k, _v in TARGET_ENV.items():
    os.environ.setdefault(_k, _v)
CONFIG = re.compile(r'backend_config = "((?:[^"\\]|\\.)*)"')


def lower(fn, specs, topology="v5e:2x2"):
    """The StableHLO text, and for each kernel in it (pretty text, generic text)."""
    import jax
    from jax._src import mesh as mesh_lib
    from jax._src import tpu_custom_call
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding
    dev = topologies.get_topology_desc(platform="tpu", topology_name=topology).devices[0]
    kind = mesh_lib.AbstractDevice(device_kind=dev.device_kind, num_cores=dev.num_cores,
                                   platform="tpu")
    mesh = mesh_lib.AbstractMesh((1,), ("one",), abstract_device=kind)
    place = SingleDeviceSharding(dev)
    specs = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), tuple(specs))
    texts = []
    serialize = tpu_custom_call._lower_mosaic_module_to_asm

    def record(module, **kw):
        texts.append((module.operation.get_asm(),
                      module.operation.get_asm(print_generic_op_form=True)))
        return serialize(module, **kw)
    tpu_custom_call._lower_mosaic_module_to_asm = record
    try:
        with jax.sharding.use_abstract_mesh(mesh):
            stablehlo = jax.jit(fn).lower(*specs).as_text()
    finally:
        tpu_custom_call._lower_mosaic_module_to_asm = serialize
    return stablehlo, texts


def _unescape(text):
    """MLIR string literal: two hexadecimal digits, or one escaped character."""
    def one(m):
        return chr(int(m[1], 16)) if len(m[1]) == 2 else m[1]
    return re.sub(r'\\([0-9A-Fa-f]{2}|.)', one, text)


def bodies(stablehlo):
    """The bytecode of each kernel in a StableHLO text, in order."""
    return [base64.b64decode(json.loads(_unescape(m[1]))["custom_call_config"]["body"])
            for m in CONFIG.finditer(stablehlo) if "custom_call_config" in m[1]]


def _context():
    from jax._src.interpreters import mlir
    from jax._src.lib import tpu
    ctx = mlir.make_ir_context()
    ctx.allow_unregistered_dialects = True
    tpu.register_dialect(ctx)
    return ctx


def stable_text(body, version=None):
    """The generic text, operations renamed, of one body: what the compiler reads."""
    from jax._src.lib.mlir import ir
    from jaxlib.mlir.passmanager import PassManager
    with _context():
        module = ir.Module.parse(body)
        if version:
            PassManager.parse("builtin.module(mosaic-serde{serialize=false},mosaic-serde{"
                              f"serialize=true target-version={version}}})").run(module.operation)
        return module.operation.get_asm(print_generic_op_form=True)


def check(path):
    """What jaxlib finds wrong with a module in any form; none if nothing."""
    from jax._src.lib.mlir import ir
    from jaxlib.mlir.passmanager import PassManager
    with _context():
        try:
            with open(path) as f:
                module = ir.Module.parse(f.read())
            if "stable_mosaic.version" in module.operation.attributes:
                PassManager.parse("builtin.module(mosaic-serde{serialize=false})").run(
                    module.operation)
            module.operation.verify()
        except Exception as e:  # MLIRError, with the diagnostics as its text
            return str(e)
    return None


def rewrap(stablehlo, texts):
    """The StableHLO text with the body of its k-th kernel replaced by `texts[k]`."""
    texts = iter(texts)

    def one(m):
        if "custom_call_config" not in m[1]:
            return m[0]
        config = json.loads(_unescape(m[1]))
        call = config["custom_call_config"]
        call["body"] = base64.b64encode(next(texts).encode()).decode()
        call.pop("debug_locations", None)
        escaped = json.dumps(config).replace("\\", "\\5C").replace('"', "\\22")
        return f'backend_config = "{escaped}"'
    return CONFIG.sub(one, stablehlo)


def forms(path):
    """The pretty, the generic and the stable text of a module."""
    from jax._src.lib.mlir import ir
    from jaxlib.mlir.passmanager import PassManager
    with _context():
        with open(path) as f:
            op = ir.Module.parse(f.read()).operation
        pretty, generic = op.get_asm(), op.get_asm(print_generic_op_form=True)
        PassManager.parse("builtin.module(mosaic-serde{serialize=true target-version=18})").run(op)
        return pretty, generic, op.get_asm(print_generic_op_form=True)


def _write(path, text):
    with open(path, "w") as f:
        f.write(text)


def main(command, *args):
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import own_kernels
    if command == "rewrap":
        source, out, *parts = args
        _write(out, rewrap(open(source).read(), [open(p).read() for p in parts]))
        return 0
    if command == "check":
        found = {path: check(path) for path in args}
        for path, error in found.items():
            print(f"{path}: {error or 'ok'}")
        return sum(error is not None for error in found.values())
    kernels = list(own_kernels.KERNELS)
    if command == "data":
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "own_forms.mlir")
        for ending, text in zip((".mlir", ".generic.mlir", ".v18.mlir"), forms(source)):
            _write(os.path.join(args[0], "forms" + ending), text)
    names = args[1:]
    if command == "lower":
        import public_kernels
        kernels += public_kernels.KERNELS
    failed = 0
    for k in kernels:
        if names and k.__name__ not in names:
            continue
        base = os.path.join(args[0], k.__name__)
        try:
            stablehlo, texts = lower(*k())
        except Exception as e:  # reported, and the others still run
            traceback.print_exc()
            print(f"{k.__name__}: {type(e).__name__}: {str(e)[:200]}")
            failed += 1
            continue
        print(f"{k.__name__}: {len(texts)} kernels, {[len(t[0]) for t in texts]} characters")
        if command == "data":
            assert len(texts) == 1
            _write(base + ".mlir", texts[0][0])
            _write(base + ".generic.mlir", texts[0][1])
            body = bodies(stablehlo)[0]
            newest, oldest = stable_text(body), stable_text(body, 12)
            _write(base + ".v18.mlir", newest)
            if oldest != newest.replace("version = 18", "version = 12"):
                _write(base + ".v12.mlir", oldest)
            continue
        _write(base + ".stablehlo", stablehlo)
        for i, (body, text) in enumerate(zip(bodies(stablehlo), texts)):
            _write(f"{base}.{i}.mlir", text[0])
            _write(f"{base}.{i}.generic.mlir", text[1])
            _write(f"{base}.{i}.stable.mlir", stable_text(body))
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
