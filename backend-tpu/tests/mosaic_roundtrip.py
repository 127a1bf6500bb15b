"""Compiles public kernels twice for TPU, as lowered and as read and written by this project.

    mosaic_roundtrip.py --tilecast TILECAST --libtpu FILE --binary MOSAIC_ROUNDTRIP [--targets v5e,v6e] [NAME..]

TILECAST is the command, built with the feature pjrt; MOSAIC_ROUNDTRIP is the example of that name.
Prints a table in Markdown; fails if a kernel that the compiler accepts does not come through with
the same VMEM and the same amount of code.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mosaic_tool  # noqa: E402
import own_kernels  # noqa: E402
import public_kernels  # noqa: E402

TOPOLOGIES = {"v4": "v4:2x2x1", "v5e": "v5e:2x2", "v5p": "v5p:2x2x1", "v6e": "v6e:2x2",
              "tpu7x": "tpu7x:2x2x1"}


def compile_module(args, target, path):
    command = [args.tilecast, "compile", "--stablehlo", path, "--target", target, "--libtpu", args.libtpu, "--json"]
    p = subprocess.run(command, capture_output=True, text=True)
    try:
        return json.loads(p.stdout)
    except json.JSONDecodeError:
        return {"status": "crash", "message": p.stderr[-300:]}


def figures(result):
    """Used VMEM of each kernel of a compiled program, and the size of its machine code."""
    used = [k.get("used_bytes") for k in result.get("kernels") or []]
    return used, result.get("code_bytes")


def read_and_write(binary, text, form, folder):
    path = os.path.join(folder, "in.mlir")
    with open(path, "w") as f:
        f.write(text)
    p = subprocess.run([binary, path, form], capture_output=True, text=True)
    return p.stdout if p.returncode == 0 else None, p.stderr.strip()


def check(kernel, target, args, folder):
    """The row of the table for one kernel and target."""
    row = [kernel.__name__, target]
    try:
        stablehlo, texts = mosaic_tool.lower(*kernel(), TOPOLOGIES[target])
    except Exception as e:  # the kernel does not support the target
        return row + ["-", f"does not lower: {type(e).__name__}: {str(e)[:100]}"] + [""] * 4
    row.append(len(texts))
    bodies, same_text = [], True
    for pretty, _ in texts:
        again, error = read_and_write(args.binary, pretty, "pretty", folder)
        if again is None:
            return row + [f"no: {error}"] + [""] * 4
        same_text &= again == pretty
        text, error = read_and_write(args.binary, again, "stable", folder)
        if text is None:
            return row + ["yes", f"no: {error}"] + [""] * 3
        bodies.append(text)
    row += ["yes", "yes, same text" if same_text else "yes"]
    results = []
    for tag, text in (("a", stablehlo), ("b", mosaic_tool.rewrap(stablehlo, bodies))):
        path = os.path.join(folder, f"{kernel.__name__}.{tag}.stablehlo")
        with open(path, "w") as f:
            f.write(text)
        results.append(compile_module(args, target, path))
    before, after = results
    same = after["status"] == before["status"]
    row.append(after["status"] if same else
               f"{before['status']} -> {after['status']}: {str(after.get('message'))[:200]}")
    for x, y in zip(figures(before), figures(after)):
        row.append(f"= {x}" if x == y else f"{x} != {y}")
    return row


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tilecast", required=True)
    ap.add_argument("--libtpu", required=True)
    ap.add_argument("--binary", required=True)
    ap.add_argument("--targets", default="v5e")
    ap.add_argument("names", nargs="*")
    args = ap.parse_args()
    print("| kernel | target | kernels | parses | prints | compiles | used bytes | code bytes |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for kernel in own_kernels.KERNELS + public_kernels.KERNELS:
            if args.names and kernel.__name__ not in args.names:
                continue
            for target in args.targets.split(","):
                row = check(kernel, target, args, folder)
                print("| " + " | ".join(map(str, row)) + " |", flush=True)
                bad += any("!=" in str(c) or "->" in str(c) or "no:" in str(c) for c in row)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
