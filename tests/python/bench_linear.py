#!/usr/bin/env python3
"""Times the fused linear cross-entropy, PyTorch and JAX in turn, and prints the ratios.

    cargo build --release -p tilecast-benches --example linear_peer
    python=$(bash tests/python/setup.sh)
    "$python" tests/python/bench_linear.py --peer target/release/examples/linear_peer --dtype bf16 --threads 2

All run with as many threads on the same numbers. PyTorch: the product, logits in f32 and cross-entropy, `eager` and `compiled`, and its
own `linear_cross_entropy` by `chunks` of tokens, which takes w as [V, H]. JAX: the same stored (`jax`) and by blocks of the vocabulary (`scan`).
`forward` is the losses alone, `both` losses and gradients of both operands in new memory. `bf16-delta` is `both` with the
gradient of the logits rounded to bf16, as PyTorch's is; by default ours keeps it in f32. The results are compared as well,
and that is all that --smoke is for: it runs once on a small problem and says nothing about times. Exit code 1 if results
differ.
"""

import argparse
import pathlib
import sys

import torch
import torch.nn.functional as F

from turns import Peer, header, in_turn, timed, words

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
TOLERANCE = {"f32": 1e-4, "bf16": 2e-2}
PEERS = ["eager", "compiled", "chunks", "jax", "scan"]
JAX = pathlib.Path(__file__).with_name("linear_jax.py")
SHAPES = [(512, 512, 32768), (1024, 1024, 32768), (512, 2048, 128256), (2048, 512, 128256)]


def values(rows, columns, seed, dtype):
    return torch.from_numpy(words(rows, columns, seed)).to(dtype).requires_grad_()


def loss(x, w, labels):
    return F.cross_entropy((x @ w).float(), labels, reduction="sum")


def chunks(x, w, labels):
    return F.linear_cross_entropy(x, w, labels, reduction="sum", options=torch.nn.LinearCrossEntropyOptions())


def run(function, what, given):
    """Seconds, and the number to check."""
    x, w, _ = given
    x.grad = w.grad = None
    if what == "forward":
        with torch.no_grad():
            return timed(lambda: function(*given).item())
    seconds, _ = timed(lambda: function(*given).backward())
    return seconds, x.grad[0].float().abs().sum().item()


def compare(binary, shape, dtype, threads, rounds):
    """Prints the table of one problem; how many results agreed and how many did not."""
    torch.set_num_threads(threads)
    tokens, hidden, vocab = shape
    labels = torch.arange(tokens) * 37 % vocab
    given = x, w, labels = values(tokens, hidden, 1, DTYPES[dtype]), values(hidden, vocab, 2, DTYPES[dtype]), labels
    by_rows = x, w.detach().T.contiguous().requires_grad_(), labels
    compiled = torch.compile(loss)
    print(f"B={tokens} H={hidden} V={vocab} {dtype}, {threads} thread(s), medians of {rounds}")
    print(header(PEERS))
    # PyTorch's chunks add the losses up in the type of the inputs.
    tolerances = dict.fromkeys(PEERS, TOLERANCE[dtype]) | {"chunks": 2 * TOLERANCE[dtype]}
    counts = [0, 0]
    with Peer(binary, *shape, dtype, threads) as peer, Peer(sys.executable, "-B", JAX, *shape, dtype, threads) as jax:
        gradients = ("both", "bf16-delta") if dtype == "bf16" else ("both",)
        for whats in (("forward",), gradients):
            found = in_turn(
                "linear-ce",
                {what: (lambda what=what: peer.run(what)) for what in whats},
                {
                    "eager": lambda: run(loss, whats[0], given),
                    "compiled": lambda: run(compiled, whats[0], given),
                    "chunks": lambda: run(chunks, whats[0], by_rows),
                    "jax": lambda: jax.run(f"plain {whats[0]}"),
                    "scan": lambda: jax.run(f"scan {whats[0]}"),
                },
                rounds,
                tolerances,
            )
            counts = [sum(pair) for pair in zip(counts, found)]
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True, help="the binary of the example linear_peer")
    parser.add_argument("shape", nargs="*", type=int, help="B, H and V (four shapes in turn)")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="one round on 48 x 40 x 500, both types")
    args = parser.parse_args()
    if args.smoke:
        results = [compare(args.peer, (48, 40, 500), dtype, 1, 1) for dtype in DTYPES]
    else:
        shapes = [tuple(args.shape)] if args.shape else SHAPES
        results = [compare(args.peer, shape, args.dtype, args.threads, args.rounds) for shape in shapes]
    passed, failed = (sum(counts) for counts in zip(*results))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
