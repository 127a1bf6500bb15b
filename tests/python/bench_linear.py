#!/usr/bin/env python3
"""Times the fused linear cross-entropy, PyTorch and JAX in turn, and prints the ratios.

    cargo build --release -p tilecast-benches --example linear_peer
    python=$(bash tests/python/setup.sh)
    "$python" tests/python/bench_linear.py --peer target/release/examples/linear_peer --dtype bf16 --threads 2

All run with as many threads on the same numbers. The contenders are those of linear_torch.py and linear_jax.py; one that cannot run is
named with the reason.
`of peak` is useful work, 2BHV operations forward and 6BHV with backward, over the highest rate of multiply-adds from registers, measured in each round.
`forward` is the losses alone, `both` losses and gradients of both operands in new memory. `f32-delta` is `both` with the
gradient of the logits kept in f32; by default ours rounds it to bf16 for bf16 inputs, as PyTorch does. The results are compared as well,
and that is all that --smoke is for: it runs once on small problems and says nothing about times. Exit code 1 if results
differ. What they allocate is in memory_linear.py, how far off they are in accuracy_linear.py.
"""

import argparse
import contextlib
import sys

from linear_peers import PEERS, SHAPES, runs_here, start
from turns import Peer, header, in_turn

TOLERANCE = {"f32": 1e-4, "bf16": 2e-2}
# The second vocabulary is one that Tokamax can take.
SMOKE = [(48, 40, 500), (48, 40, 640)]


def compare(binary, shape, dtype, threads, rounds, calls, without=()):
    """Prints the table of one problem; how many results agreed and how many did not."""
    tokens, hidden, vocab = shape
    print(f"B={tokens} H={hidden} V={vocab} {dtype}, {threads} thread(s), medians of {rounds}, each of the fastest of {calls}")
    counts = [0, 0]
    with contextlib.ExitStack() as stack:
        peer = stack.enter_context(Peer(binary, *shape, dtype, threads))
        programs = {path: stack.enter_context(start(path, shape, dtype, threads)) for path in dict.fromkeys(PEERS.values())}
        peers = {name: programs[path] for name, path in PEERS.items() if name not in without and runs_here(name, programs[path])}
        # PyTorch's chunks add the losses up in the type of the inputs.
        tolerances = dict.fromkeys(peers, TOLERANCE[dtype]) | {"chunks": 2 * TOLERANCE[dtype]}
        print(header(peers, of_peak=True))
        gradients = ("both", "f32-delta") if dtype == "bf16" else ("both",)
        product = 2 * tokens * hidden * vocab
        for whats in (("forward",), gradients):
            found = in_turn(
                "linear-ce",
                {what: (lambda what=what: peer.run(what)) for what in whats},
                {name: (lambda name=name: peers[name].run(f"{name} {whats[0]}")) for name in peers},
                rounds,
                tolerances,
                peak=lambda: peer.run("peak"),
                calls=calls,
                operations={what: product if what == "forward" else 3 * product for what in whats},
            )
            counts = [sum(pair) for pair in zip(counts, found)]
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True, help="the binary of the example linear_peer")
    parser.add_argument("shape", nargs="*", type=int, help="B, H and V, of one shape or more (four shapes in turn)")
    parser.add_argument("--dtype", choices=TOLERANCE, default="f32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=3, help="in a row, of which the fastest counts")
    parser.add_argument("--without", action="append", choices=PEERS, default=[], help="a contender to leave out")
    parser.add_argument("--smoke", action="store_true", help="one round on small problems, both types")
    args = parser.parse_args()
    if len(args.shape) % 3:
        parser.error(f"a shape is B, H and V, but {len(args.shape)} numbers are given")
    if args.smoke:
        results = [compare(args.peer, shape, dtype, 1, 1, 1) for dtype in TOLERANCE for shape in SMOKE]
    else:
        shapes = list(zip(*[iter(args.shape)] * 3)) or SHAPES
        results = [compare(args.peer, shape, args.dtype, args.threads, args.rounds, args.calls, args.without) for shape in shapes]
    passed, failed = (sum(counts) for counts in zip(*results))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
