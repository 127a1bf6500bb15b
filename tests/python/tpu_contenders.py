"""The fused cross-entropies that bench_tpu.py compares, each as StableHLO for a target.

* `emit`: what `tilecast emit` writes, with the blocks it chooses within the default limit of VMEM.
* `tune`: the same with the first of `tilecast tune`, which raises the limit.
* `tokamax`: the kernels of the installed package, with the blocks of its own heuristic and with given ones.
* `levanter-style`: the structure of the Pallas kernel that levanter had in February 2026, written here from its description: the
  grid walks rows, columns, hidden blocks; logits of a block are summed in scratch and reduced after the last hidden block. For its
  backward pass, which adds to both gradients in HBM at each step, our strategy `combined` stands in, in turn and with its default blocks.
* `un-fused`: the same loss as JAX users write it, logits stored; XLA makes the kernels. The memory of all is held against its.
"""
import functools
import json
import os
import subprocess
import tempfile

import foreign_modules
import jax
import jax.numpy as jnp
import mosaic_tool
import tpu_schedule
from foreign_modules import DT, spec
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

OURS, OTHERS = ["emit", "tune"], ["tokamax", "levanter-style", "un-fused"]
NAMES = OURS + OTHERS
TOKENS = 8192
# In the order in which they are tried, the heuristic's first.
TOKAMAX_BLOCKS = [(1024, 512, 2048), (1024, 512, 1024), (1024, 256, 512)]
LEVANTER_BLOCKS = (1024, 512, 1024)
LANES = 128


class Refused(Exception):
    """A kernel cannot be made for a cell; says why."""


def operands(cell):
    """x, labels, w of a cell."""
    dtype = cell.dtype
    return spec((TOKENS, cell.hidden), dtype), spec((TOKENS,), jnp.int32), spec((cell.hidden, cell.vocab), dtype)


def lower(fn, specs, cell):
    try:
        return mosaic_tool.lower(fn, specs, foreign_modules.TOPOLOGIES[cell.target])[0]
    except Exception as error:  # whatever the kernel or the package says against it
        raise Refused(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}") from error


def emit(tilecast, cell, passes, *more):
    """StableHLO that `tilecast emit` writes, and the blocks it says."""
    with tempfile.TemporaryDirectory(prefix="tilecast-emit-") as folder:
        path = os.path.join(folder, "program.mlir")
        command = [tilecast, "emit", "linear-ce", "--target", cell.target, "--tokens", str(TOKENS), "--hidden", str(cell.hidden)]
        command += ["--vocab", str(cell.vocab), "--dtype", cell.dtype, "--pass", passes, "--f32-products", "rounded"]
        command += [*more, "--format", "stablehlo", "--output", path]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise Refused(done.stderr.strip())
        with open(path) as f:
            return f.read(), done.stdout.split(": ", 1)[1].split(";")[0].removeprefix(passes).strip()


def tuned(tilecast, cell, passes):
    """Options of `tilecast emit` for the first of `tilecast tune`."""
    figures = tpu_schedule.figures(tilecast, cell.target)
    # Tokens of a chip, which its devices share.
    tokens = TOKENS * (1 if figures["megacore"] else int(figures["tensorcores"]))
    command = [tilecast, "tune", "linear-ce", "--target", cell.target, "--tokens", str(tokens), "--hidden", str(cell.hidden)]
    command += ["--vocab", str(cell.vocab), "--dtype", cell.dtype, "--pass", passes, "--f32-products", "rounded", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    best = json.loads(done.stdout)["best"] if done.returncode == 0 else None
    if best is None:
        raise Refused(done.stderr.strip() or "nothing fits")
    sides = lambda blocks: ",".join(str(blocks[side]) for side in "bhv")
    options = ["--vmem-limit-kib", str(best["vmem_limit_bytes"] >> 10)]
    if passes == "forward":
        return [*options, "--blocks", sides(best["blocks"])]
    options += ["--backward-blocks", sides(best["backward_blocks"]), "--strategy", best["strategy"]]
    if best["delta_columns"]:
        options += ["--delta-columns", str(best["delta_columns"])]
    for gradient in "dx", "dw":
        if own := best[f"{gradient}_blocks"]:
            options += [f"--{gradient}-blocks", f"{own['b']},{own['h']}"]
    return options


def tokamax(cell, passes, blocks, limit_bytes):
    """StableHLO of Tokamax's kernel with the given blocks, or those of its heuristic; and the blocks."""
    module = foreign_modules._tokamax_module()
    limit = int(0.9 * limit_bytes)  # as the package has it
    if blocks is None:
        heuristic = {"forward": module.get_heuristic_fwd_config, "backward": module.get_heuristic_bwd_config}[passes]

        def ask(*_):
            found = heuristic(TOKENS, cell.hidden, cell.vocab, dtype=DT[cell.dtype], vmem_limit_bytes=limit)
            chosen.append((found.b_block_size, found.h_block_size, found.v_block_size))
            return jnp.zeros(())

        chosen = []
        lower(ask, (), cell)  # it asks for the TPU, which is known while a function is lowered
        blocks = chosen[0]
    make = {
        "forward": foreign_modules.tokamax_cross_entropy,
        "backward": foreign_modules.tokamax_cross_entropy_backward,
    }[passes]
    b, h, v = blocks
    sizes = dict(b=b, h=h, v=v, B=TOKENS, H=cell.hidden, V=cell.vocab, dt=cell.dtype, limit_mib=limit >> 20)
    return lower(*make(**sizes), cell), ",".join(map(str, blocks))


def levanter_forward(cell, cores, limit_bytes):
    b, h, v = LEVANTER_BLOCKS
    h = min(h, cell.hidden)
    rows = TOKENS // b // cores
    columns, depth = pl.cdiv(cell.vocab, v), cell.hidden // h

    def kernel(x, labels, w, lse, picked, logits, most, total, found):
        column, k = pl.program_id(2), pl.program_id(3)
        product = jax.lax.dot(x[...], w[...], preferred_element_type=jnp.float32)

        @pl.when(k == 0)
        def _():
            logits[...] = product

        @pl.when(k > 0)
        def _():
            logits[...] += product

        @pl.when((column == 0) & (k == 0))
        def _():
            most[...] = jnp.full_like(most, -jnp.inf)
            total[...] = jnp.zeros_like(total)
            found[...] = jnp.zeros_like(found)

        @pl.when(k == depth - 1)
        def _():
            index = jax.lax.broadcasted_iota(jnp.int32, (b, v), 1) + column * v
            z = jnp.where(index < cell.vocab, logits[...], -jnp.inf)
            wide = functools.partial(jnp.broadcast_to, shape=(b, LANES))
            new = jnp.maximum(most[...], wide(z.max(axis=1, keepdims=True)))
            sum_here = jnp.exp(z - new[:, :1]).sum(axis=1, keepdims=True)
            total[...] = total[...] * jnp.exp(most[...] - new) + wide(sum_here)
            most[...] = new
            hit = index == labels[...].reshape(b, 1)
            found[...] += wide(jnp.where(hit, z, 0.0).sum(axis=1, keepdims=True))

        @pl.when((column == columns - 1) & (k == depth - 1))
        def _():
            lse[...] = most[...] + jnp.log(total[...])
            picked[...] = found[...]

    row = lambda core, i, j, k: core * rows + i
    lanes = pl.BlockSpec((b, LANES), lambda *at: (row(*at), 0))
    statistics = jax.ShapeDtypeStruct((TOKENS, LANES), jnp.float32)
    call = pl.pallas_call(
        kernel,
        grid=(cores, rows, columns, depth),
        in_specs=[
            pl.BlockSpec((b, h), lambda *at: (row(*at), at[3])),
            pl.BlockSpec((b,), lambda *at: (row(*at),)),
            pl.BlockSpec((h, v), lambda *at: (at[3], at[2])),
        ],
        out_specs=[lanes, lanes],
        out_shape=[statistics, statistics],
        scratch_shapes=[pltpu.VMEM((b, v), jnp.float32)] + [pltpu.VMEM((b, LANES), jnp.float32)] * 3,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary", "arbitrary"), vmem_limit_bytes=limit_bytes
        ),
    )

    def loss(x, labels, w):
        lse, picked = call(x, labels, w)
        return lse[:, 0] - picked[:, 0], lse[:, 0]

    return lower(loss, operands(cell), cell), f"{b},{h},{v}"


def unfused(cell, passes):
    def forward(x, w, labels):
        logits = jax.lax.dot(x, w, preferred_element_type=jnp.float32)
        lse = jax.nn.logsumexp(logits, axis=1)
        hit = jax.lax.broadcasted_iota(jnp.int32, logits.shape, 1) == labels[:, None]
        return lse - jnp.where(hit, logits, 0.0).sum(axis=1), lse

    def backward(x, w, labels, cotangents):
        return jax.vjp(lambda x, w: forward(x, w, labels)[0], x, w)[1](cotangents)

    x, labels, w = operands(cell)
    if passes == "forward":
        return lower(forward, (x, w, labels), cell), ""
    return lower(backward, (x, w, labels, spec((TOKENS,), jnp.float32)), cell), ""


def programs(name, cell, passes, tilecast, figures):
    """Functions that make StableHLO and blocks of a contender's variants, or raise Refused; `figures` are those of the target."""
    limit_bytes = figures["vmem_usable_bytes"]
    if name == "emit":
        yield lambda: emit(tilecast, cell, passes)
    elif name == "tune":
        yield lambda: emit(tilecast, cell, passes, *tuned(tilecast, cell, passes))
    elif name == "tokamax":
        for blocks in [None, *TOKAMAX_BLOCKS]:
            yield lambda blocks=blocks: tokamax(cell, passes, blocks, limit_bytes)
    elif name == "un-fused":
        yield lambda: unfused(cell, passes)
    elif passes == "forward":
        yield lambda: levanter_forward(cell, tpu_schedule.cores(figures), limit_bytes)
    else:
        blocks = ",".join(map(str, (LEVANTER_BLOCKS[0], min(LEVANTER_BLOCKS[1], cell.hidden), LEVANTER_BLOCKS[2])))
        yield lambda: emit(tilecast, cell, passes, "--structure", "in-turn", "--strategy", "combined", "--backward-blocks", blocks)
