#!/usr/bin/env python3
"""The peak of memory of the fused linear cross-entropy and of the contenders of bench_linear.py, in MiB. Linux only.

    cargo build --release -p tilecast-benches --example linear_peer
    python=$(bash tests/python/setup.sh)
    "$python" tests/python/memory_linear.py --peer target/release/examples/linear_peer --dtype bf16 --threads 2

A number is the peak of resident memory in the second run, less what was resident before it and less the gradients it returns. What
was resident before holds the inputs, and what the first run left: code, but also memory that a library keeps and uses
again. The two cannot be told apart, so that growth is in the line `left` under each: the truth is between the first number
and the sum of both. Each is of a process of its own.
"""

import argparse
import sys
import time

from linear_peers import PEERS, SHAPES, runs_here, start
from turns import Peer

BYTES = {"f32": 4, "bf16": 2}
# glibc raises its threshold when a block is freed, and then keeps what is freed: the next run would find that memory resident.
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
SETTLE_S = 0.3


def memory(peer):
    """The peak since the last call, and what is resident now, in MiB."""
    # JAX frees a little after it has answered.
    time.sleep(SETTLE_S)
    return [int(count) / 2**20 for count in peer.ask("memory").split()]


def peak_mib(peer, request, returned_bytes):
    """What the second run of `request` needs beyond what it returns, and what the first left."""
    _, start = memory(peer)
    peer.run(request)
    _, before = memory(peer)
    peer.run(request)
    peak, _ = memory(peer)
    return peak - before - returned_bytes / 2**20, before - start


def measure(binary, shape, dtype, threads):
    """Prints the table of one problem."""
    tokens, hidden, vocab = shape
    gradients = (tokens + vocab) * hidden * BYTES[dtype]
    print(f"B={tokens} H={hidden} V={vocab} {dtype}, {threads} thread(s), MiB; logits in f32 are {tokens * vocab / 2**18:.1f}")
    columns = {}
    whats = ("forward", "both", "f32-delta") if dtype == "bf16" else ("forward", "both")
    for what in whats:
        with Peer(binary, *shape, dtype, threads, **ENVIRONMENT) as peer:
            columns["ours", what] = peak_mib(peer, what, 0 if what == "forward" else gradients)
    names = ["ours"]
    for name, program in PEERS.items():
        for what in ("forward", "both"):
            with start(program, shape, dtype, threads, **ENVIRONMENT) as peer:
                if not runs_here(name, peer):
                    break
                columns[name, what] = peak_mib(peer, f"{name} {what}", 0 if what == "forward" else gradients)
        else:
            names.append(name)
    print(f"{'':10}" + "".join(f" {name:>9}" for name in names))
    for what in whats:
        for title, index in ((what, 0), ("  left", 1)):
            cells = (columns.get((name, what)) for name in names)
            print(f"{title:10}" + "".join(f" {f'{cell[index]:.1f}' if cell else '-':>9}" for cell in cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True, help="the binary of the example linear_peer")
    parser.add_argument("shape", nargs="*", type=int, help="B, H and V (four shapes in turn)")
    parser.add_argument("--dtype", choices=BYTES, default="f32")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if not sys.platform.startswith("linux"):
        parser.error("resident memory is read from Linux's /proc")
    for shape in [tuple(args.shape)] if args.shape else SHAPES:
        measure(args.peer, shape, args.dtype, args.threads)


if __name__ == "__main__":
    main()
