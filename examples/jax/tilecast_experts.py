"""A mixture of experts whose grouped products `tilecast emit` writes, in JAX, with the experts spread over devices.

    python tilecast_experts.py --tilecast PATH [--target v5e] [--tokens N] [--hidden N] [--width N] [--experts N] [--top-k N]

`grouped_matmul` gives a function of JAX arrays, differentiable and usable under `jit` and `shard_map`, whose passes are the emitted
modules. `experts_layer` makes a layer of it: each token goes to the devices of its experts and its results come back, by one exchange of
all devices each way. Run as a program, the file checks the layer on four devices that the CPU stands for against a layer that sends nothing, and
compiles a training step with it ahead of time, for a TPU that need not be there.
"""
if __name__ == "__main__":
    import offline  # noqa: F401 (before JAX)

import argparse
import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from emitted import TOPOLOGIES, callable_of, emitted

AXIS = "experts"


def grouped_matmul(rows, experts, inputs, outputs, dtype=jnp.bfloat16, *, target, command="tilecast", options=()):
    """`(x, w, sizes) -> y`: the first `sizes[0]` rows of `x` times `w[0]`, the next `sizes[1]` times `w[1]`, and so on.

    Shapes: `x [rows, inputs]`, `w [experts, inputs, outputs]` and `y [rows, outputs]` of `dtype`, `sizes [experts]` int32. Rows
    behind the last group are zero in `y`. There are gradients to `x` and `w`.
    """
    array = jax.ShapeDtypeStruct
    x, w, y = array((rows, inputs), dtype), array((experts, inputs, outputs), dtype), array((rows, outputs), dtype)
    sizes = array((experts,), jnp.int32)
    shape = {"tokens": rows, "experts": experts, "hidden": inputs, "out-features": outputs}
    text = lambda pass_: emitted("gmm", pass_, shape, dtype, target=target, command=command, options=options)
    forward = callable_of("grouped_matmul", text("forward"), [x, w, sizes], [y])
    backward = callable_of("grouped_matmul_backward", text("backward"), [x, w, sizes, y], [x, w])

    @jax.custom_vjp
    def product(x, w, sizes):
        return forward(x, w, sizes)[0]

    def gradients(residuals, dy):
        return (*backward(*residuals, dy), np.zeros((experts,), jax.dtypes.float0))

    product.defvjp(lambda x, w, sizes: (product(x, w, sizes), (x, w, sizes)), gradients)
    return product


@jax.custom_vjp
def moved(x, sources, targets):
    """Rows of `x` elsewhere: row `i` is `x[sources[i]]`, and zero where there is no such row.

    `targets [rows of x, n]` says where each row of `x` went, with anything beyond the result for nowhere. With it the gradient is a sum of rows that are
    read, which is exact in its order and fast on a TPU; JAX's own would add each row to where it came from.
    """
    return jnp.take(x, sources, axis=0, mode="fill", fill_value=0)


def _moved_back(residuals, dy):
    sources, targets = residuals
    rows = jnp.take(dy, targets, axis=0, mode="fill", fill_value=0)
    none = lambda index: np.zeros(index.shape, jax.dtypes.float0)
    return rows.sum(axis=1), none(sources), none(targets)


moved.defvjp(lambda x, sources, targets: (moved(x, sources, targets), (sources, targets)), _moved_back)


def inverse(order):
    """Where each element of a permutation is."""
    return jnp.zeros_like(order).at[order].set(jnp.arange(order.size, dtype=order.dtype), unique_indices=True)


def exchanged(blocks, devices):
    """Block `d` of each device goes to device `d`; what comes is in the order of the devices it comes from."""
    return blocks if devices == 1 else jax.lax.all_to_all(blocks, AXIS, split_axis=0, concat_axis=0)


def experts_layer(into, out_of, *, experts, top_k, devices, capacity):
    """`(x, router, gate, up, down) -> (y, dropped)`: what one device of `devices` does, within `shard_map` over the axis `AXIS`.

    Shapes: `x` and `y` `[tokens, hidden]`, the tokens of this device; `router [hidden, experts]`; `gate` and `up` `[experts / devices, hidden,
    width]`, `down [experts / devices, width, hidden]`, the experts of this device. `into` and `out_of` are the grouped products of
    `devices * capacity` rows.

    A device sends another at most `capacity` rows. What is more has no part in `y`, and `dropped` counts it on this device: with `capacity = tokens * top_k`
    it is none whatever the router does, with `tokens * top_k / devices` none if it balances.
    """
    local = experts // devices
    buffer = devices * capacity

    def layer(x, router, gate, up, down):
        tokens = x.shape[0]
        scores = jax.nn.softmax(jnp.dot(x, router, preferred_element_type=jnp.promote_types(x.dtype, jnp.float32)))
        weights, chosen = jax.lax.top_k(scores, top_k)
        weights = weights / weights.sum(axis=1, keepdims=True)

        # Choices in the order of their experts, and with that of their devices: to send, and who may.
        chosen = chosen.reshape(-1).astype(jnp.int32)
        order = jnp.argsort(chosen).astype(jnp.int32)
        counts = jnp.bincount(chosen, length=experts).astype(jnp.int32).reshape(devices, local)
        first = jnp.cumsum(counts.sum(axis=1)) - counts.sum(axis=1)
        before = jnp.cumsum(counts, axis=1) - counts
        sent = jnp.clip(capacity - before, 0, counts)
        place, choice = jnp.arange(capacity, dtype=jnp.int32), jnp.arange(tokens * top_k, dtype=jnp.int32)
        is_sent = place < sent.sum(axis=1, keepdims=True)
        choices = jnp.where(is_sent, order.at[first[:, None] + place].get(mode="clip"), tokens * top_k).reshape(-1)
        device = chosen // local
        place = inverse(order) - first[device]
        slots = jnp.where(place < capacity, device * capacity + place, buffer)
        rows = moved(x, jnp.where(choices < choice.size, choices // top_k, tokens), slots.reshape(tokens, top_k))

        # What came, in the order of the experts here; slots that nobody filled are last.
        came = exchanged(sent, devices)
        rows = exchanged(rows.reshape(devices, capacity, -1), devices).reshape(buffer, -1)
        ends = jnp.cumsum(came, axis=1)
        expert = (jnp.arange(capacity)[None, :, None] >= ends[:, None, :]).sum(axis=2).reshape(-1)
        by_expert = jnp.argsort(expert).astype(jnp.int32)
        back = inverse(by_expert)
        rows, sizes = moved(rows, by_expert, back[:, None]), came.sum(axis=0)

        hidden = jax.nn.silu(into(rows, gate, sizes)) * into(rows, up, sizes)
        rows = moved(out_of(hidden, down, sizes), back, by_expert[:, None])

        rows = exchanged(rows.reshape(devices, capacity, -1), devices).reshape(buffer, -1)
        rows = moved(rows, slots, choices[:, None]).reshape(tokens, top_k, -1)
        y = (rows.astype(weights.dtype) * weights[:, :, None]).sum(axis=1).astype(x.dtype)
        return y, choice.size - sent.sum()

    return layer


def plain_layer(x, router, gate, up, down, top_k):
    """Every expert for every token, those that were not chosen with the weight zero."""
    scores = jax.nn.softmax(x @ router)
    weights, chosen = jax.lax.top_k(scores, top_k)
    weights = weights / weights.sum(axis=1, keepdims=True)
    weights = (weights[:, :, None] * jax.nn.one_hot(chosen, router.shape[1], dtype=x.dtype)).sum(axis=1)
    hidden = jax.nn.silu(jnp.einsum("th,ehw->etw", x, gate)) * jnp.einsum("th,ehw->etw", x, up)
    return jnp.einsum("etw,ewh,te->th", hidden, down, weights)


def spread(layer, mesh):
    """The layer over all devices: tokens and experts are spread, the router is everywhere."""
    on = PartitionSpec(AXIS)
    one = lambda *arrays: (lambda y, dropped: (y, dropped[None]))(*layer(*arrays))
    return jax.shard_map(
        one, mesh=mesh, in_specs=(on, PartitionSpec(), on, on, on), out_specs=(on, on), check_vma=False
    )


def check_numbers():
    """The layer on four devices against the plain one, values and gradients, with XLA's grouped product in f64 in place of ours."""
    devices, tokens, hidden, width, experts, top_k = 4, 24, 16, 12, 8, 3
    mesh = Mesh(np.array(jax.devices()[:devices]), [AXIS])
    random = np.random.default_rng(0)
    shapes = [(devices * tokens, hidden), (hidden, experts), (experts, hidden, width), (experts, hidden, width), (experts, width, hidden)]
    arrays = [random.standard_normal(shape) for shape in shapes]
    cotangent = random.standard_normal(shapes[0])
    arrays[1][:, 0] += np.sign(arrays[1][:, 0])  # some experts have more than others
    with_capacity = lambda capacity: spread(
        experts_layer(
            jax.lax.ragged_dot, jax.lax.ragged_dot, experts=experts, top_k=top_k, devices=devices, capacity=capacity
        ),
        mesh,
    )
    with jax.enable_x64(True):
        exact = jax.jit(jax.value_and_grad(
            lambda *arrays: (plain_layer(*arrays, top_k) * cotangent).sum(), argnums=range(5)
        ))(*arrays)
        layer = with_capacity(tokens * top_k)
        ours = jax.jit(jax.value_and_grad(
            lambda *arrays: (layer(*arrays)[0] * cotangent).sum(), argnums=range(5)
        ))(*arrays)
        worst = max(
            float(jnp.abs(a - b).max() / jnp.abs(b).max()) for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(exact))
        )
        # Rows that are left out are counted, and only their tokens are other than they should be.
        y, dropped = jax.jit(with_capacity(tokens * top_k // devices))(*arrays)
        different = jnp.abs(y - plain_layer(*arrays, top_k)).max(axis=1) > 1e-9
        different = different.reshape(devices, tokens).sum(axis=1)
    print(f"{devices} devices, values and gradients: {worst:.1e} from the plain layer, in f64")
    print(f"room for a balanced router only: {dropped.tolist()} choices left out, {different.tolist()} tokens miss one")
    if not worst < 1e-12:
        sys.exit("the layer is wrong")
    if not all(0 < d <= n <= d * top_k for d, n in zip(different.tolist(), dropped.tolist())):
        sys.exit("tokens miss what is not counted")


def check_program(options):
    """A training step for all devices of a host of the target, compiled; fails unless each product is a kernel."""
    target, tokens, hidden, width = options.target, options.tokens, options.hidden, options.width
    experts, top_k = options.experts, options.top_k
    topology = topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGIES[target])
    mesh = Mesh(np.array(topology.devices), [AXIS])
    devices = mesh.size
    if experts % devices:
        sys.exit(f"{experts} experts cannot be spread over {devices} devices evenly")
    # A quarter more than a balanced router needs, in whole tiles.
    capacity = -(-tokens * top_k * 5 // (devices * 4 * 128)) * 128
    product = functools.partial(grouped_matmul, devices * capacity, experts // devices, target=target, command=options.tilecast)
    layer = spread(
        experts_layer(
            product(hidden, width), product(width, hidden), experts=experts, top_k=top_k, devices=devices, capacity=capacity
        ),
        mesh,
    )

    def objective(*arrays):
        y, dropped = layer(*arrays)
        return jnp.mean(jnp.square(y.astype(jnp.float32))), dropped

    place = lambda shape, spec: jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=NamedSharding(mesh, spec))
    on = PartitionSpec(AXIS)
    compiled = jax.jit(jax.value_and_grad(objective, argnums=range(5), has_aux=True)).lower(
        place((devices * tokens, hidden), on),
        place((hidden, experts), PartitionSpec()),
        place((experts, hidden, width), on),
        place((experts, hidden, width), on),
        place((experts, width, hidden), on),
    ).compile()
    text = compiled.as_text()
    kernels = text.count('custom_call_target="tpu_custom_call"')
    exchanges = text.count(" all-to-all(") + text.count(" all-to-all-start(")
    temporary_bytes = compiled.memory_analysis().temp_size_in_bytes
    print(
        f"{target}, {devices} devices, {tokens} tokens for {top_k} of {experts} experts each, {hidden} to {width}: {kernels} kernels, "
        f"{exchanges} exchanges, {temporary_bytes:,} temporary bytes"
    )
    # Three products, and two for the gradients of each.
    if kernels != 9:
        sys.exit(f"expected 9 kernels, not {kernels}")
    if exchanges == 0:
        sys.exit("nothing is exchanged")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilecast", default="tilecast", help="the command")
    parser.add_argument("--target", default="v5e", choices=sorted(TOPOLOGIES))
    parser.add_argument("--tokens", type=int, default=2048, help="per device")
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--width", type=int, default=768, help="of an expert")
    parser.add_argument("--experts", type=int, default=32)
    parser.add_argument("--top-k", type=int, default=4)
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", 4)
    check_numbers()
    check_program(options)


if __name__ == "__main__":
    main()
