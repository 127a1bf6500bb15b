#!/usr/bin/env python3
"""The fused linear cross-entropy as JAX users write it, timed for bench_linear.py.

    linear_jax.py TOKENS HIDDEN VOCAB f32|bf16 THREADS

The contenders are `jax` (logits stored), `scan` (blocks of the vocabulary in turn, logits recomputed in the backward pass) and
`tokamax` (its op, by chunks in XLA). What it answers is in turns.py, `serve`.
"""

import os
import pathlib
import sys
import types

TOKENS, HIDDEN, VOCAB = map(int, sys.argv[1:4])
DTYPE, THREADS = sys.argv[4], int(sys.argv[5])
# XLA has as many threads as cores that it may use when it starts.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import tensors  # noqa: E402
from turns import serve, timed, words  # noqa: E402

# Columns of a block of the vocabulary.
MOST_COLUMNS = 8192
TOKAMAX_MOST_COLUMNS = 2048
TOKAMAX_MOST_ROWS = 1024
DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16}


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


def tokamax():
    """Its op by chunks, and why it cannot run if it cannot."""
    # Its chunks count the columns that they are padded with into the logsumexp, so they must divide the vocabulary. 1024 rows and
    # 2048 columns are their defaults; fewer tokens would be padded to that and computed.
    columns = max((c for c in range(128, TOKAMAX_MOST_COLUMNS + 1, 128) if VOCAB % c == 0), default=None)
    if columns is None:
        return None, f"its chunks are wrong for a vocabulary of {VOCAB}, which is no multiple of 128"
    # A profiler for its own benchmarks, large, and never called here.
    sys.modules["xprof.cli.tools"] = types.SimpleNamespace(get_kernel_stats_tool=None)
    try:
        from tokamax._src.ops.linear_softmax_cross_entropy_loss import chunked_xla
    except ImportError as error:
        return None, f"it cannot be imported: {error}"
    # The public function takes no block sizes.
    rows = min(TOKAMAX_MOST_ROWS, -(-TOKENS // 128) * 128)
    config = chunked_xla.Config(b_block_size=rows, v_block_size=columns)
    op = chunked_xla.ChunkedXlaLinearSoftmaxCrossEntropyLoss(config=config)
    return lambda x, w, labels: op(x, labels, w, reduction="sum"), None


def main():
    functions, skipped = {"jax": plain, "scan": scan}, {}
    functions["tokamax"], reason = tokamax()
    if reason:
        skipped["tokamax"] = reason
    compiled = {(name, "forward"): jax.jit(function) for name, function in functions.items() if function}
    compiled |= {(name, "both"): jax.jit(jax.grad(functions[name], argnums=(0, 1))) for name, _ in compiled}

    x, w = (jnp.asarray(words(rows, columns, seed), DTYPES[DTYPE]) for rows, columns, seed in ((TOKENS, HIDDEN, 1), (HIDDEN, VOCAB, 2)))
    labels = jnp.asarray(np.arange(TOKENS) * 37 % VOCAB)

    def run(name, what):
        seconds, result = timed(lambda: jax.block_until_ready(compiled[name, what](x, w, labels)))
        return seconds, float(result if what == "forward" else jnp.abs(result[0][0].astype(jnp.float32)).sum())

    def write(name, source, target):
        given = tensors.decode(pathlib.Path(source).read_bytes())
        given = [jnp.asarray(given[key]) for key in ("x", "w", "labels")]
        loss, (dx, dw) = compiled[name, "forward"](*given), compiled[name, "both"](*given)
        found = {"loss": loss, "dx": dx, "dw": dw}
        pathlib.Path(target).write_bytes(tensors.encode({key: np.asarray(value, np.float32) for key, value in found.items()}))

    serve(skipped, run, write)


if __name__ == "__main__":
    main()
