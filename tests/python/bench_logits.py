#!/usr/bin/env python3
"""Times the ops on logits (cross-entropy, entropy, policy loss) and PyTorch in turn, and prints the ratios.

    cargo build --release -p tilecast-benches --example logits_peer
    python=$(bash tests/python/setup.sh)
    "$python" tests/python/bench_logits.py --peer target/release/examples/logits_peer 4096 32768 --dtype bf16 --threads 2

PyTorch runs eagerly and compiled, with as many threads, on the same numbers; what it computes is written out below as a
training script would. Each round takes all three in turn; times are medians of the rounds. `forward` is the loss alone;
`both` is the loss and the gradient of the logits in new memory, which is what autograd does; `given` is the same into
memory that is there, beside PyTorch's `both`. The results are compared as well, and that is all that --smoke is for: it
runs once on a small problem and says nothing about times. Exit code 1 if results differ.
"""

import argparse
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

from turns import Peer, header, in_turn, timed

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
PEERS = ["eager", "compiled"]
# bf16 eager rounds every intermediate.
TOLERANCE = {"f32": 1e-4, "bf16": 5e-2}


def inputs(tokens, vocab, dtype):
    """The problem of benches/src/logits.rs."""
    rows = []
    for start in range(0, tokens * vocab, vocab):
        words = np.arange(start, start + vocab, dtype=np.uint64) * 2654435761 & 0xFFFFFFFF
        rows.append((words >> 8).astype(np.float32) / np.float32(1 << 21) - np.float32(4))
    logits = torch.empty(tokens, vocab, dtype=dtype)
    for row, values in zip(logits, rows):
        row.copy_(torch.from_numpy(values))
    i = torch.arange(tokens)
    usual = -math.log(vocab) - 2
    return logits.requires_grad_(), i * 37 % vocab, (i % 4).float() - 1.5, usual + 0.1 * (i % 7).float()


def cross_entropy(logits, labels, advantage, old_logp):
    return F.cross_entropy(logits, labels, reduction="sum")


def entropy(logits, labels, advantage, old_logp):
    logp = torch.log_softmax(logits, -1)
    return -(logp.exp() * logp).sum()


def policy(logits, labels, advantage, old_logp):
    logp = torch.log_softmax(logits, -1).gather(-1, labels[:, None])[:, 0]
    ratio = (logp - old_logp).exp()
    return -torch.minimum(advantage * ratio, advantage * ratio.clamp(0.8, 1.2)).mean()


OPS = {"logits-ce": cross_entropy, "entropy": entropy, "grpo": policy}


def run(function, what, given):
    """Seconds, and the number to check."""
    logits = given[0]
    logits.grad = None
    if what == "forward":
        with torch.no_grad():
            return timed(lambda: function(*given).item())
    seconds, _ = timed(lambda: function(*given).backward())
    return seconds, logits.grad[0].float().abs().sum().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True, help="the binary of the example logits_peer")
    parser.add_argument("shape", nargs="*", type=int, help="tokens and vocabulary (4096 32768)")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="one round on 64 x 1000, both types")
    args = parser.parse_args()
    if args.smoke:
        results = [compare(args.peer, 64, 1000, dtype, 1, 1) for dtype in DTYPES]
    else:
        tokens, vocab = args.shape or (4096, 32768)
        results = [compare(args.peer, tokens, vocab, args.dtype, args.threads, args.rounds)]
    passed, failed = (sum(counts) for counts in zip(*results))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def compare(binary, tokens, vocab, dtype, threads, rounds):
    """Prints the table of one problem; how many results agreed and how many did not."""
    torch.set_num_threads(threads)
    given = inputs(tokens, vocab, DTYPES[dtype])
    print(f"{tokens} x {vocab} {dtype}, {threads} thread(s), medians of {rounds}")
    print(header(PEERS))
    counts = [0, 0]
    with Peer(binary, tokens, vocab, dtype, threads) as peer:
        for op, function in OPS.items():
            compiled = torch.compile(function)
            for whats in (("forward",), ("both", "given")):
                found = in_turn(
                    op,
                    {what: (lambda what=what: peer.run(f"{op} {what}")) for what in whats},
                    {
                        "eager": lambda: run(function, whats[0], given),
                        "compiled": lambda: run(compiled, whats[0], given),
                    },
                    rounds,
                    dict.fromkeys(PEERS, TOLERANCE[dtype]),
                )
                counts = [sum(pair) for pair in zip(counts, found)]
    return counts


if __name__ == "__main__":
    sys.exit(main())
