"""Compiles what `tilecast emit` writes with the real TPU compiler, for every cell of a matrix.

    compile_matrix.py --tilecast PATH --libtpu FILE [--once] [--filter TEXT] [--jobs N]

A cell is an op, a target, a pass or backward strategy, a type and a shape; block sizes are those the library chooses. Each is
emitted as StableHLO and compiled ahead of time, without a TPU, by `tilecast compile`.
With --once every pass is compiled once for each target and type, and the shapes take turns.
One line per cell: VMEM used by its kernels, the limit they ask for, seconds. Exit code 1 if any cell does not compile.
"""
import argparse
import concurrent.futures
import json
import math
import os
import re
import subprocess
import sys
import tempfile

TARGETS = ["v4", "v5e", "v5p", "v6e", "v7x"]
PARTS = {
    "forward": ["--pass", "forward"],
    "backward": ["--pass", "backward"],
    "combined": ["--pass", "backward", "--strategy", "combined"],
    "streaming": ["--pass", "backward", "--strategy", "streaming"],
}
DTYPES = ["bf16", "f32"]
# Every option that adds to a kernel.
OPTIONS = {
    "linear-ce": [],
    "logits-ce": ["--label-smoothing", "0.1", "--z-loss", "1e-4", "--ignore-index=-100", "--temperature", "0.7"],
    "grpo": ["--mask", "--kl-beta", "0.04", "--clip-two-sided", "3", "--temperature", "0.7"],
    "entropy": ["--temperature", "0.7"],
    "gmm": [],
}
OPTIONS |= {f"linear-{op}": OPTIONS[op] for op in ("grpo", "entropy")}
HEAD_PARTS = ["forward", "combined", "streaming"]
# A letter for each size.
SIZES = {"tokens": "B", "experts": "E", "hidden": "H", "vocab": "V", "out-features": "O"}


def shapes(sizes, *shapes):
    return [dict(zip(sizes, shape)) for shape in shapes]


HEAD_SIZES = ["tokens", "hidden", "vocab"]
HEAD_SHAPES = shapes(
    HEAD_SIZES,
    (8192, 4096, 128256),
    (8192, 1536, 151936),
    (4096, 2048, 151643),
    (2048, 512, 32768),
    (1000, 768, 50257),
)
LOGITS_PARTS = ["forward", "backward"]
LOGITS_SHAPES = shapes(["tokens", "vocab"], (4096, 151936), (2048, 151643))
EXPERTS_SHAPES = shapes(
    ["tokens", "experts", "hidden", "out-features"],
    (16384, 8, 4096, 14336),
    (65536, 128, 2048, 768),
    (1000, 5, 768, 1000),
)
LINEAR_PARTS = ["forward", "streaming"]
# Products are those of linear-ce, and the kernels of the entropy those of the policy loss without labels.
PLANS = {
    "linear-ce": (HEAD_PARTS, HEAD_SHAPES),
    "logits-ce": (LOGITS_PARTS, LOGITS_SHAPES),
    "grpo": (LOGITS_PARTS, LOGITS_SHAPES),
    "entropy": (LOGITS_PARTS, LOGITS_SHAPES),
    "linear-grpo": (LINEAR_PARTS, shapes(HEAD_SIZES, (2048, 1024, 151936), (2048, 1024, 151643))),
    "linear-entropy": (LINEAR_PARTS, shapes(HEAD_SIZES, (2048, 1024, 151643))),
    "gmm": (LOGITS_PARTS, EXPERTS_SHAPES),
}


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=3000)


def name(op, target, part, dtype, shape):
    sizes = " ".join(f"{SIZES[size]}={n}" for size, n in shape.items())
    return f"{op:14} {target:4} {part:9} {dtype:4} {sizes}"


def emit(options, cell, module):
    """Writes the module of a cell: its blocks, and what went wrong."""
    op, target, part, dtype, shape = cell
    emitted = run(
        [options.tilecast, "emit", op, "--target", target]
        + [word for size, n in shape.items() for word in (f"--{size}", str(n))]
        + ["--dtype", dtype, "--format", "stablehlo", "--output", module]
        + PARTS[part]
        + OPTIONS[op]
    )
    if emitted.returncode != 0:
        return None, emitted.stderr.strip()
    return emitted.stdout.split(": ", 1)[1].split(";")[0], None


def effort(cell, blocks):
    """Grows with the time to compile a cell: the multiply-adds its products unroll, of which exact f32 has six passes."""
    _, _, part, dtype, _ = cell
    sides = re.search(r"(\d+),(\d+),(\d+)", blocks or "")
    macs = math.prod(map(int, sides.groups())) if sides else 0
    return macs * (6 if dtype == "f32" else 1) * (1 if part == "forward" else 2)


def compile_cell(options, cell, module, blocks, problem):
    """The outcome of one cell: whether it compiled, and what to print."""
    title = name(*cell)
    if problem is not None:
        return False, f"FAIL  {title}  emit: {problem}"
    command = [options.tilecast, "compile", "--stablehlo", module, "--target", cell[1], "--libtpu", options.libtpu, "--json"]
    try:
        compiled = run(command)
    except subprocess.TimeoutExpired as late:
        return False, f"FAIL  {title}  ({blocks})  compile: no answer in {late.timeout} s"
    try:
        answer = json.loads(compiled.stdout)
    except json.JSONDecodeError:
        return False, f"FAIL  {title}  ({blocks})  compile: {compiled.stderr.strip()[:500]}"
    used, limit = answer["used_bytes"], answer["limit_bytes"]
    mib = lambda n: "?" if n is None else f"{n / 2**20:.2f}"
    line = f"{title}  {mib(used):>6} of {mib(limit):>6} MiB  {answer['seconds']:6.1f} s  {blocks}"
    if answer["status"] != "ok":
        return False, f"FAIL  {line}  {answer['status']}: {str(answer['message'])[:500]}"
    return True, f"ok    {line}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilecast", default="target/release/tilecast")
    parser.add_argument("--libtpu", required=True)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--filter", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    cells = [
        (op, target, part, dtype, shape)
        for op, (parts, plan) in PLANS.items()
        for d, dtype in enumerate(DTYPES)
        for s, shape in enumerate(plan)
        for p, part in enumerate(parts)
        for t, target in enumerate(TARGETS)
        if not options.once or (d + p + t) % len(plan) == s
    ]
    words = options.filter.split()
    cells = [cell for cell in cells if all(word in name(*cell) for word in words)]
    passed = 0
    with tempfile.TemporaryDirectory(prefix="tilecast-matrix-") as folder, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        modules = [os.path.join(folder, f"{i}.mlir") for i in range(len(cells))]
        emitted = list(pool.map(lambda cell, module: emit(options, cell, module), cells, modules))
        # The longest first, so that no job is left alone with one of them; the lines come in the order of the cells.
        order = sorted(range(len(cells)), key=lambda i: -effort(cells[i], emitted[i][0]))
        outcomes = {i: pool.submit(compile_cell, options, cells[i], modules[i], *emitted[i]) for i in order}
        for i in range(len(cells)):
            ok, line = outcomes[i].result()
            passed += ok
            print(line, flush=True)
    print(f"{passed} passed, {len(cells) - passed} failed")
    return 0 if passed == len(cells) else 1


if __name__ == "__main__":
    sys.exit(main())
