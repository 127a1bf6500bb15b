#!/usr/bin/env python3
"""The fused linear cross-entropy as JAX users write it, timed for bench_linear.py.

    linear_jax.py TOKENS HIDDEN VOCAB f32|bf16 THREADS

Each line of input is what to run, `plain` (logits stored) or `scan` (blocks of the vocabulary in turn, logits recomputed in the
backward pass), and `forward` or `both`. The answer is that of benches/examples/linear_peer.rs: seconds, and a number to check.
"""

import os
import sys

TOKENS, HIDDEN, VOCAB = map(int, sys.argv[1:4])
DTYPE, THREADS = sys.argv[4], int(sys.argv[5])
# XLA has as many threads as cores that it may use when it starts.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from turns import timed, words  # noqa: E402

# Columns of a block of the vocabulary.
MOST_COLUMNS = 8192


def plain(x, w, labels):
    logits = jnp.dot(x, w, preferred_element_type=jnp.float32)
    picked = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return (jax.nn.logsumexp(logits, axis=1) - picked).sum()


def scan(x, w, labels):
    columns = max(c for c in range(1, MOST_COLUMNS + 1) if VOCAB % c == 0)
    blocks = w.reshape(HIDDEN, -1, columns).transpose(1, 0, 2)

    @jax.checkpoint
    def block(carry, numbered):
        most, total, picked = carry
        first, w = numbered
        z = jnp.dot(x, w, preferred_element_type=jnp.float32)
        larger = jnp.maximum(most, z.max(axis=1))
        total = total * jnp.exp(most - larger) + jnp.exp(z - larger[:, None]).sum(axis=1)
        column = labels - first
        inside = (column >= 0) & (column < columns)
        z = jnp.take_along_axis(z, jnp.clip(column, 0, columns - 1)[:, None], axis=1)[:, 0]
        return (larger, total, picked + jnp.where(inside, z, 0.0)), None

    start = jnp.full(TOKENS, -jnp.inf), jnp.zeros(TOKENS), jnp.zeros(TOKENS)
    (most, total, picked), _ = jax.lax.scan(block, start, (jnp.arange(0, VOCAB, columns), blocks))
    return (most + jnp.log(total) - picked).sum()


def main():
    dtype = {"f32": jnp.float32, "bf16": jnp.bfloat16}[DTYPE]
    x, w = (jnp.asarray(words(rows, columns, seed), dtype) for rows, columns, seed in ((TOKENS, HIDDEN, 1), (HIDDEN, VOCAB, 2)))
    labels = jnp.asarray(np.arange(TOKENS) * 37 % VOCAB)
    functions = {"plain": plain, "scan": scan}
    run = {f"{name} forward": jax.jit(function) for name, function in functions.items()}
    run |= {f"{name} both": jax.jit(jax.grad(function, argnums=(0, 1))) for name, function in functions.items()}
    for line in sys.stdin:
        seconds, result = timed(lambda line=line: jax.block_until_ready(run[line.strip()](x, w, labels)))
        check = result if line.strip().endswith("forward") else jnp.abs(result[0][0].astype(jnp.float32)).sum()
        print(seconds, float(check), flush=True)


if __name__ == "__main__":
    main()
