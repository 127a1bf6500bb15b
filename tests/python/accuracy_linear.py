#!/usr/bin/env python3
"""How far the fused linear cross-entropy and the contenders of bench_linear.py are from the result in f64, as tables.

    cargo build --release
    python=$(bash tests/python/setup.sh)
    "$python" tests/python/accuracy_linear.py --tilecast target/release/tilecast

All compute from the same file, in f32 or bf16; the reference is reference_torch.py on exactly those numbers. The loss is the sum over
tokens. `loss`, `dx` and `dw` are the largest error divided by the largest entry. For bf16 `dx/ulp` and `dw/ulp` are the median error
in units of the rounding of each entry to bf16, 2^-8 of its size: a result that is exact but for that rounding has about 0.35. `f32-delta` is ours with
the gradient of the logits kept in f32.
"""

import argparse
import pathlib
import subprocess
import tempfile

import numpy as np

import cases
import reference_torch
import tensors
from compare import BF16_ROUNDING
from linear_peers import PEERS, runs_here, start

DTYPES = ("f32", "bf16")
THREADS = 2


def ours(tilecast, problem, source, target, *options):
    command = [tilecast, "run", "linear-ce", "--backend", "cpu", "--store-logits", "--input", source, "--output", target]
    subprocess.run([*command, *problem.arguments(), *options], check=True, stdout=subprocess.DEVNULL)


def line(name, path, want, in_bf16):
    """The errors of the file at `path`."""
    got = tensors.decode(path.read_bytes())
    cells, medians = [], []
    for key in ("loss", "dx", "dw"):
        error = np.abs(got[key].astype(np.float64) - want[key])
        cells.append(f"{error.max() / np.abs(want[key]).max():9.1e}")
        if in_bf16 and key != "loss":
            medians.append(f"{np.median(error / (BF16_ROUNDING * np.abs(want[key]))):9.2f}")
    print(f"{name:14}", *cells, *medians, flush=True)


def table(tilecast, shape, dtype, folder):
    tokens, hidden, vocab = shape
    problem = cases.Problem("accuracy", tokens=tokens, hidden=hidden, vocab=vocab, dtype=dtype, reduction="sum")
    inputs = problem.inputs()
    source = folder / "input.safetensors"
    source.write_bytes(tensors.encode(inputs))
    wide = {key: value if key == "labels" else value.astype(np.float64) for key, value in inputs.items()}
    want = reference_torch.reference(problem, wide)
    in_bf16 = dtype == "bf16"
    print(f"B={tokens} H={hidden} V={vocab} {dtype}")
    print(f"{'':14}", *(f"{key:>9}" for key in ("loss", "dx", "dw", *(("dx/ulp", "dw/ulp") if in_bf16 else ()))))
    target = folder / "ours.safetensors"
    ours(tilecast, problem, source, target)
    line("ours", target, want, in_bf16)
    if in_bf16:
        ours(tilecast, problem, source, target, "--delta-dtype", "f32")
        line("f32-delta", target, want, in_bf16)
    for program in dict.fromkeys(PEERS.values()):
        with start(program, shape, dtype, THREADS) as peer:
            for name in (name for name, path in PEERS.items() if path == program and runs_here(name, peer)):
                target = folder / f"{name}.safetensors"
                peer.ask(f"{name} values {source} {target}")
                line(name, target, want, in_bf16)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilecast", required=True, type=pathlib.Path, help="the command")
    parser.add_argument("shape", nargs="*", type=int, default=[256, 256, 4096], help="B, H and V (256 256 4096)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tilecast-accuracy-") as folder:
        for dtype in DTYPES:
            table(args.tilecast.resolve(), tuple(args.shape), dtype, pathlib.Path(folder))


if __name__ == "__main__":
    main()
