#!/usr/bin/env python3
"""Times the grouped product of a layer of experts, PyTorch and JAX in turn, and prints the ratios.

    cargo build --release -p tilecast-benches --example grouped_peer
    python=$(bash tests/python/setup.sh)
    "$python" tests/python/bench_grouped.py --peer target/release/examples/grouped_peer --dtype bf16 --threads 2

All run with as many threads on the same numbers: rows sorted by expert, of which some have many rows and some none. `loop` is PyTorch as
training scripts have it, a product for each expert; `grouped` is its `grouped_mm`; `ragged` is `jax.lax.ragged_dot`. `forward` is the
product, `both` the product and both gradients for the cotangent that is the product itself. `of peak` is useful work, 2 T I O operations
forward and three times as many for both, over the highest rate of multiply-adds from registers in the same run. The results are compared
as well, and that is all that --smoke is for. Calls are short, and the first few after another program ran take up to three times as
long: a turn has many. Exit code 1 if they differ.
"""

import argparse
import os
import sys

from turns import Peer, header, in_turn, timed, words

TOLERANCE = {"f32": 1e-4, "bf16": 3e-2}
PEERS = ["loop", "grouped", "ragged"]
# Rows, experts, inputs and outputs: few large experts, many small ones.
SHAPES = [(2048, 8, 1024, 2048), (4096, 64, 1024, 512)]
SMOKE = (96, 6, 40, 56)


def sizes_of(rows, experts):
    """Those of benches/examples/grouped_peer.rs."""
    shares = [expert * 7 % 13 for expert in range(experts)]
    return [rows * share // max(sum(shares), 1) for share in shares]


def torch_peers(x, w, sizes, dtype, threads):
    """Contenders by name: functions of `forward` or `both` to seconds and the number to check."""
    import torch

    torch.set_num_threads(threads)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    x, w = (torch.from_numpy(array).to(dtype).requires_grad_() for array in (x, w))
    ends = torch.tensor(sizes).cumsum(0).to(torch.int32)
    rest = len(x) - sum(sizes)

    def loop():
        parts = x.split([*sizes, rest])
        products = [part @ weights for part, weights in zip(parts, w)]
        return torch.cat([*products, x.new_zeros(rest, w.shape[2])])

    def grouped():
        return torch.nn.functional.grouped_mm(x, w, offs=ends)

    def contender(function):
        def run(what):
            x.grad = w.grad = None
            if what == "forward":
                with torch.no_grad():
                    seconds, y = timed(function)
                return seconds, y[0].float().abs().sum().item()

            def both():
                y = function()
                y.backward(y.detach())

            seconds, _ = timed(both)
            weights = w.grad[min(1, len(w) - 1), 0]
            return seconds, (x.grad[0].float().abs().sum() + weights.float().abs().sum()).item()

        return run

    return {"loop": contender(loop), "grouped": contender(grouped)}


def jax_peers(x, w, sizes, dtype, threads):
    """The same for JAX, whose threads are as many as the processors that it sees."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax
    import jax.numpy as jnp

    dtype = {"f32": jnp.float32, "bf16": jnp.bfloat16}[dtype]
    x, w, sizes = jnp.asarray(x, dtype), jnp.asarray(w, dtype), jnp.asarray(sizes, jnp.int32)
    product = lambda x, w: jax.lax.ragged_dot(x, w, sizes)

    def both(x, w):
        y, pull = jax.vjp(product, x, w)
        return pull(y)

    functions = {"forward": jax.jit(product), "both": jax.jit(both)}

    def run(what):
        seconds, result = timed(lambda: jax.block_until_ready(functions[what](x, w)))
        rows = [result[0]] if what == "forward" else [result[0][0], result[1][min(1, len(w) - 1), 0]]
        return seconds, sum(float(jnp.abs(row.astype(jnp.float32)).sum()) for row in rows)

    return {"ragged": run}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True, help="the binary of the example grouped_peer")
    parser.add_argument("shape", nargs="*", type=int, help="rows, experts, inputs, outputs, of one shape or more (two shapes in turn)")
    parser.add_argument("--dtype", choices=TOLERANCE, default="f32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=10, help="in a row, of which the fastest counts")
    parser.add_argument("--without", action="append", choices=PEERS, default=[], help="a contender to leave out")
    parser.add_argument("--smoke", action="store_true", help="one round on a small problem, both types")
    args = parser.parse_args()
    if len(args.shape) % 4:
        parser.error(f"a shape is rows, experts, inputs and outputs, but {len(args.shape)} numbers are given")
    if args.smoke:
        results = [compare(args.peer, SMOKE, dtype, 1, 1, 1, []) for dtype in TOLERANCE]
    else:
        shapes = list(zip(*[iter(args.shape)] * 4)) or SHAPES
        results = [compare(args.peer, shape, args.dtype, args.threads, args.rounds, args.calls, args.without) for shape in shapes]
    passed, failed = (sum(counts) for counts in zip(*results))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def compare(binary, shape, dtype, threads, rounds, calls, without):
    """Prints the table of one problem; how many results agreed and how many did not."""
    rows, experts, inputs, outputs = shape
    sizes = sizes_of(rows, experts)
    x, w = words(rows, inputs, 1), words(experts * inputs, outputs, 2).reshape(experts, inputs, outputs)
    print(f"{rows} rows, {experts} experts, {inputs} to {outputs}, {dtype}, {threads} thread(s), medians of {rounds}, each of the fastest of {calls}")
    work = 2 * sum(sizes) * inputs * outputs
    counts = [0, 0]
    with Peer(binary, *shape, dtype, threads) as peer:
        peers = torch_peers(x, w, sizes, dtype, threads) | jax_peers(x, w, sizes, dtype, threads)
        peers = {name: run for name, run in peers.items() if name not in without}
        print(header(peers, of_peak=True))
        for what, operations in (("forward", work), ("both", 3 * work)):
            found = in_turn(
                "grouped",
                {what: lambda: peer.run(what)},
                {name: (lambda run=run: run(what)) for name, run in peers.items()},
                rounds,
                dict.fromkeys(peers, TOLERANCE[dtype]),
                peak=lambda: peer.run("peak"),
                calls=calls,
                operations={what: operations},
            )
            counts = [sum(pair) for pair in zip(counts, found)]
    return counts


if __name__ == "__main__":
    sys.exit(main())
