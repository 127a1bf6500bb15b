"""Compiles what `tilecast emit` writes with the real TPU compiler, for every cell of a matrix.

    compile_matrix.py --tilecast PATH --libtpu FILE [--filter TEXT] [--jobs N] [--quick]

A cell is a target, a pass or backward strategy, a type and a shape; block sizes are those the library chooses. Each is
emitted as StableHLO and compiled ahead of time, without a TPU, by `tilecast compile` (built with the feature `pjrt`).
One line per cell: VMEM used by its kernels, the limit they ask for, seconds. Exit code 1 if any cell does not compile.
Quick leaves out all but one shape per type.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

TARGETS = ["v4", "v5e", "v5p", "v6e", "v7x"]
PARTS = {
    "forward": ["--pass", "forward"],
    "combined": ["--pass", "backward", "--strategy", "combined"],
    "streaming": ["--pass", "backward", "--strategy", "streaming"],
}
DTYPES = ["bf16", "f32"]
SHAPES = [
    (8192, 4096, 128256),
    (8192, 1536, 151936),
    (4096, 2048, 151643),
    (2048, 512, 32768),
    (1000, 768, 50257),
]
QUICK = {"bf16": [(1000, 768, 50257)], "f32": [(2048, 512, 32768)]}


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=3000)


def cell(options, target, part, dtype, shape):
    """The outcome of one cell: whether it compiled, and what to print."""
    tokens, hidden, vocab = map(str, shape)
    name = f"{target:4} {part:9} {dtype:4} B={tokens} H={hidden} V={vocab}"
    with tempfile.TemporaryDirectory(prefix="tilecast-matrix-") as folder:
        module = os.path.join(folder, "module.mlir")
        emitted = run(
            [options.tilecast, "emit", "linear-ce", "--target", target, "--tokens", tokens, "--hidden", hidden]
            + ["--vocab", vocab, "--dtype", dtype, "--format", "stablehlo", "--output", module]
            + PARTS[part]
        )
        if emitted.returncode != 0:
            return False, f"FAIL  {name}  emit: {emitted.stderr.strip()}"
        blocks = emitted.stdout.split(": ", 1)[1].split(";")[0]
        compiled = run(
            [options.tilecast, "compile", "--stablehlo", module, "--target", target, "--libtpu", options.libtpu, "--json"]
        )
    try:
        answer = json.loads(compiled.stdout)
    except json.JSONDecodeError:
        return False, f"FAIL  {name}  ({blocks})  compile: {compiled.stderr.strip()[:500]}"
    used, limit = answer["used_bytes"], answer["limit_bytes"]
    mib = lambda n: "?" if n is None else f"{n / 2**20:.2f}"
    line = f"{name}  {mib(used):>6} of {mib(limit):>6} MiB  {answer['seconds']:6.1f} s  {blocks}"
    if answer["status"] != "ok":
        return False, f"FAIL  {line}  {answer['status']}: {str(answer['message'])[:500]}"
    return True, f"ok    {line}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilecast", default="target/release/tilecast")
    parser.add_argument("--libtpu", required=True)
    parser.add_argument("--filter", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    cells = [
        (target, part, dtype, shape)
        for dtype in DTYPES
        for shape in (QUICK[dtype] if options.quick else SHAPES)
        for part in PARTS
        for target in TARGETS
    ]
    words = options.filter.split()
    cells = [c for c in cells if all(word in " ".join(map(str, c)) for word in words)]
    passed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for ok, line in pool.map(lambda c: cell(options, *c), cells):
            passed += ok
            print(line, flush=True)
    print(f"{passed} passed, {len(cells) - passed} failed")
    return 0 if passed == len(cells) else 1


if __name__ == "__main__":
    sys.exit(main())
