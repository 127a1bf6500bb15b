"""The fused linear cross-entropy of `tilecast emit`, called from JAX.

    python tilecast_loss.py --tilecast PATH [--target v5e] [--tokens N] [--hidden N] [--vocab N]

`linear_ce` gives a function of JAX arrays, differentiable and usable under `jit` and `shard_map`, whose forward and
backward passes are the emitted modules. Run as a program, the file compiles a training step with it ahead of time, for a
TPU that need not be there, and checks that the step holds the kernels and no B x V array.
"""
if __name__ == "__main__":
    import offline  # noqa: F401 (before JAX)

import argparse
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from emitted import TOPOLOGIES, callable_of, emitted


def linear_ce(tokens, hidden, vocab, dtype=jnp.bfloat16, *, target, command="tilecast", options=()):
    """`(x, w, labels) -> (loss, lse)`: the loss of each token and the logsumexp of its logits.

    Shapes: `x [tokens, hidden]` and `w [hidden, vocab]` of `dtype`, `labels [tokens]` int32, `loss` and `lse` `[tokens]` f32.
    Both outputs have gradients, to `x` and `w`. `options` are further options of `tilecast emit` that keep this signature:
    soft cap, z-loss, label smoothing, ignore index, block sizes, strategy; not `--bias`, `--weight` or `--reduction`.
    """
    array = jax.ShapeDtypeStruct
    x, w = array((tokens, hidden), dtype), array((hidden, vocab), dtype)
    labels, per_token = array((tokens,), jnp.int32), array((tokens,), jnp.float32)
    shape = {"tokens": tokens, "hidden": hidden, "vocab": vocab}
    text = lambda pass_: emitted("linear-ce", pass_, shape, dtype, target=target, command=command, options=options)
    forward = callable_of("linear_ce_forward", text("forward"), [x, w, labels], [per_token, per_token])
    backward = callable_of(
        "linear_ce_backward", text("backward"), [x, w, labels, per_token, per_token, per_token], [x, w]
    )

    @jax.custom_vjp
    def loss_and_lse(x, w, labels):
        return tuple(forward(x, w, labels))

    def with_residuals(x, w, labels):
        loss, lse = forward(x, w, labels)
        return (loss, lse), (x, w, labels, lse)

    def gradients(residuals, cotangents):
        dx, dw = backward(*residuals, *cotangents)
        return dx, dw, np.zeros((tokens,), jax.dtypes.float0)

    loss_and_lse.defvjp(with_residuals, gradients)
    return loss_and_lse


def check(compiled, name, kernels, tokens, vocab):
    """Fails unless the program calls `kernels` kernels or more and has no room for logits; prints one line."""
    calls = compiled.as_text().count('custom_call_target="tpu_custom_call"')
    temporary_bytes = compiled.memory_analysis().temp_size_in_bytes
    # Logits in bf16 are the least a step that stores them would need.
    logits_bytes = tokens * vocab * 2
    print(f"{name}: {calls} kernels, {temporary_bytes:,} temporary bytes; B x V logits would be {logits_bytes:,} in bf16")
    if calls < kernels:
        sys.exit(f"{name}: expected {kernels} kernels or more")
    if temporary_bytes >= logits_bytes:
        sys.exit(f"{name}: room for a B x V array")
    for shape in (f"[{tokens},{vocab}]", f"[{vocab},{tokens}]"):
        if shape in compiled.as_text():
            sys.exit(f"{name}: holds an array {shape}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilecast", default="tilecast", help="the command")
    parser.add_argument("--target", default="v5e", choices=sorted(TOPOLOGIES))
    parser.add_argument("--tokens", type=int, default=8192, help="per device")
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--vocab", type=int, default=32768)
    options = parser.parse_args()
    tokens, hidden, vocab = options.tokens, options.hidden, options.vocab
    topology = topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGIES[options.target])
    loss_and_lse = linear_ce(tokens, hidden, vocab, target=options.target, command=options.tilecast)

    def objective(x, w, labels):
        loss, lse = loss_and_lse(x, w, labels)
        return jnp.mean(loss) + 1e-4 * jnp.mean(lse**2)

    def compiled(step, mesh, batch, tokens):
        place = lambda shape, dtype, spec: jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))
        return jax.jit(step).lower(
            place((tokens, hidden), jnp.bfloat16, batch),
            place((hidden, vocab), jnp.bfloat16, PartitionSpec()),
            place((tokens,), jnp.int32, batch),
        ).compile()

    one = Mesh(np.array(topology.devices[:1]), ["data"])
    step = jax.value_and_grad(objective, argnums=(0, 1))
    check(compiled(step, one, PartitionSpec(), tokens), f"{options.target}, one device", 2, tokens, vocab)

    # Data parallel: the tokens are split, the head is on every device, its gradient is summed.
    all_ = Mesh(np.array(topology.devices), ["data"])
    batch, everywhere = PartitionSpec("data"), PartitionSpec()

    def sharded(x, w, labels):
        value, (dx, dw) = step(x, w, labels)
        devices = all_.size
        return jax.lax.pmean(value, "data"), (dx / devices, jax.lax.psum(dw.astype(jnp.float32), "data") / devices)

    parallel = jax.shard_map(
        sharded, mesh=all_, in_specs=(batch, everywhere, batch), out_specs=(everywhere, (batch, everywhere)), check_vma=False
    )
    check(
        compiled(parallel, all_, batch, tokens * all_.size), f"{options.target}, {all_.size} devices", 2, tokens, vocab
    )


if __name__ == "__main__":
    main()
