"""Small Pallas kernels of this project, one feature of the dialect each.

Every function returns `(fn, specs)`. The Mosaic texts they lower to are kept in `data/`, written
by `mosaic_tool.py data`.
"""
import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BF16, F32, I32 = jnp.bfloat16, jnp.float32, jnp.int32


def spec(shape, dtype=F32):
    return jax.ShapeDtypeStruct(tuple(shape), dtype)


def tiled_matmul():
    """Accumulates in scratch over the last grid axis; both predicates of a reduction axis."""
    def kernel(x, w, o, acc):
        @pl.when(pl.program_id(2) == 0)
        def _():
            acc[...] = jnp.zeros_like(acc)
        acc[...] += jnp.dot(x[...], w[...], preferred_element_type=F32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            o[...] = acc[...].astype(o.dtype)

    def f(x, w):
        return pl.pallas_call(
            kernel, grid=(2, 2, 2),
            in_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, k)),
                      pl.BlockSpec((128, 128), lambda i, j, k: (k, j),
                                   pipeline_mode=pl.Buffered(1))],
            out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)),
            out_shape=spec((256, 256), BF16),
            scratch_shapes=[pltpu.VMEM((128, 128), F32)],
            compiler_params=pltpu.CompilerParams(
                dimension_semantics=("parallel", "parallel", "arbitrary")))(x, w)
    return f, (spec((256, 256), BF16), spec((256, 256), BF16))


def logsumexp():
    """Row reductions, a one-hot compare with iota, and a loop over sub-tiles of rows."""
    def kernel(x, labels, lse, picked):
        def rows(i, _):
            s = pl.ds(pl.multiple_of(i * 8, 8), 8)
            t = x[s, :]
            m = jnp.max(t, axis=1, keepdims=True)
            lse[s, :] = m + jnp.log(jnp.sum(jnp.exp(t - m), axis=1, keepdims=True))
            hot = lax.broadcasted_iota(I32, t.shape, 1) == labels[s, :]
            picked[s, :] = jnp.sum(jnp.where(hot, t, 0.0), axis=1, keepdims=True)
            return 0
        lax.fori_loop(0, 4, rows, 0)

    def f(x, labels):
        return pl.pallas_call(
            kernel, grid=(2,),
            in_specs=[pl.BlockSpec((32, 256), lambda i: (i, 0)),
                      pl.BlockSpec((32, 1), lambda i: (i, 0))],
            out_specs=[pl.BlockSpec((32, 1), lambda i: (i, 0))] * 2,
            out_shape=[spec((64, 1)), spec((64, 1))])(x, labels)
    return f, (spec((64, 256)), spec((64, 1), I32))


def copies():
    """Copies by hand between HBM and VMEM, with DMA semaphores, and a scalar in SMEM."""
    def kernel(n, x, o, buf, sem):
        def step(i, _):
            slot = lax.rem(i, 2)
            pltpu.make_async_copy(x.at[pl.ds(i * 8, 8), :], buf.at[slot], sem.at[slot]).start()
            pltpu.make_async_copy(x.at[pl.ds(i * 8, 8), :], buf.at[slot], sem.at[slot]).wait()
            buf[slot] = buf[slot] * 2.0
            out = pltpu.make_async_copy(buf.at[slot], o.at[pl.ds(i * 8, 8), :], sem.at[slot])
            out.start()
            out.wait()
            return 0
        lax.fori_loop(0, n[0], step, 0)

    def f(n, x):
        return pl.pallas_call(
            kernel,
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1, grid=(1,),
                in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
                out_specs=pl.BlockSpec(memory_space=pl.ANY),
                scratch_shapes=[pltpu.VMEM((2, 8, 128), F32), pltpu.SemaphoreType.DMA((2,))]),
            out_shape=spec((32, 128)))(n, x)
    return f, (spec((1,), I32), spec((32, 128)))


def pipeline():
    """A kernel that runs its own pipeline over HBM."""
    def body(x, y, o):
        o[...] = jnp.tanh(x[...]) + y[...]

    def kernel(x, y, o):
        pltpu.emit_pipeline(
            body, grid=(4, 2),
            in_specs=[pl.BlockSpec((64, 128), lambda i, j: (i, j)),
                      pl.BlockSpec((64, 128), lambda i, j: (0, j))],
            out_specs=[pl.BlockSpec((64, 128), lambda i, j: (i, j))])(x, y, o)

    def f(x, y):
        return pl.pallas_call(
            kernel, in_specs=[pl.BlockSpec(memory_space=pl.ANY)] * 2,
            out_specs=pl.BlockSpec(memory_space=pl.ANY), out_shape=spec((256, 256)))(x, y)
    return f, (spec((256, 256)), spec((64, 256)))


def shapes():
    """Slices, concatenation, transposition, rotation, reshapes, integer and boolean vectors."""
    def kernel(x, k, o, p):
        t = x[...]
        a = jnp.concatenate([t[:, 128:], t[:, :128]], axis=1)
        b = pltpu.roll(a, 1, 1) + pltpu.roll(a, 3, 0)
        c = jnp.where((t > 0.5) | (a < -0.5), b, -t)
        o[...] = c + jnp.max(a, axis=0, keepdims=True)
        bits = pltpu.bitcast(t, I32)
        q = (bits >> 3) & 7
        p[...] = jnp.where(q % 3 == 1, q * k[0], q ^ 5).T + jnp.argmax(t, axis=1)[None, :8]

    def f(x, k):
        return pl.pallas_call(
            kernel, in_specs=[pl.BlockSpec(memory_space=pltpu.VMEM),
                              pl.BlockSpec(memory_space=pltpu.SMEM)],
            out_shape=[spec((8, 256)), spec((256, 8), I32)])(x, k)
    return f, (spec((8, 256)), spec((1,), I32))


def while_loop():
    """A loop whose trip count depends on the data, with carried scalars and vectors."""
    def kernel(n, x, o):
        def cond(c):
            i, s, _ = c
            return (i < n[0]) & (s < 100.0)

        def step(c):
            i, s, v = c
            v = v * 0.5 + lax.rsqrt(v + 1.0)
            return i + 1, s + 1.5, v
        _, _, v = lax.while_loop(cond, step, (jnp.int32(0), jnp.float32(0), x[...]))
        o[...] = lax.cond(n[1] > 2, lambda: v, lambda: -v)

    def f(n, x):
        return pl.pallas_call(
            kernel, in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM),
                              pl.BlockSpec(memory_space=pltpu.VMEM)],
            out_shape=spec((8, 128)))(n, x)
    return f, (spec((2,), I32), spec((8, 128)))


def ragged():
    """A block that overhangs the array, masked; an element-offset window; squeezed axes."""
    def kernel(x, e, o):
        left = 300 - pl.program_id(1) * 128
        m = lax.broadcasted_iota(I32, (8, 128), 1) < left
        o[...] = jnp.where(m, x[...].astype(F32), 0.0) * e[...]

    def f(x, e):
        return pl.pallas_call(
            kernel, grid=(2, 3),
            in_specs=[pl.BlockSpec((None, 8, 128), lambda i, j: (i, 0, j)),
                      pl.BlockSpec((pl.Element(8), pl.Element(128)), lambda i, j: (i * 8, 0))],
            out_specs=pl.BlockSpec((None, 8, 128), lambda i, j: (i, 0, j)),
            out_shape=spec((2, 8, 300)))(x, e)
    return f, (spec((2, 8, 300), BF16), spec((16, 128)))


def rare():
    """Operations that few kernels use: masks, gathers, strides, packed and 8-bit types, signals."""
    def kernel(n, x, y, f8, o, b, s, sem):
        t = x[...]
        m = lax.broadcasted_iota(I32, t.shape, 0) < n[0]
        pltpu.store(o.at[...], t, mask=m)
        o[:, 0:128] = pl.reciprocal(t[:, 0:128], approx=True)
        o[:, 128:] = jnp.take_along_axis(t[:, 0:128], y[...], axis=1)
        u = y[pl.ds(0, 4, stride=2), :].astype(F32)
        s[0] = jnp.sum(u)
        s[1] = jnp.where(jnp.any(t > 1.0), jnp.max(t), jnp.min(t))
        s[2] = jnp.float32(n[0])
        b[...] = (f8[...].astype(F32) * 0.3333333432674408).astype(BF16) + BF16(1.5)
        pl.semaphore_signal(sem, 1)
        pl.semaphore_wait(sem, 1)
        i = jnp.clip(t, -3.0, 3.0).astype(I32)
        v = jnp.bitwise_count(i) + jnp.abs(i) + lax.population_count(i)
        b[0:8, 0:128] += jnp.floor(jnp.sqrt(v.astype(F32))).astype(BF16)[:, 0:128]
        pl.debug_check(n[0] > 0, "n must be positive")

    def f(n, x, y, f8):
        return pl.pallas_call(
            kernel, in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)]
            + [pl.BlockSpec(memory_space=pltpu.VMEM)] * 3,
            out_specs=[pl.BlockSpec(memory_space=pltpu.VMEM)] * 2
            + [pl.BlockSpec(memory_space=pltpu.SMEM)],
            out_shape=[spec((8, 256)), spec((32, 128), BF16), spec((3,))],
            scratch_shapes=[pltpu.SemaphoreType.REGULAR])(n, x, y, f8)
    return f, (spec((1,), I32), spec((8, 256)), spec((8, 128), I32),
               spec((32, 128), jnp.float8_e4m3fn))


def batched():
    """A batched product with a transposed operand at high precision, in bf16 and int8."""
    def kernel(x, y, q, r, o, p):
        o[...] = lax.dot_general(x[...], y[...], (((2,), (2,)), ((0,), (0,))),
                                 precision=lax.Precision.HIGHEST, preferred_element_type=F32)
        p[...] = jnp.dot(q[...], r[...], preferred_element_type=I32)

    def f(x, y, q, r):
        return pl.pallas_call(kernel, out_shape=[spec((2, 128, 128)), spec((128, 128), I32)])(
            x, y, q, r)
    return f, (spec((2, 128, 256)), spec((2, 128, 256)), spec((128, 128), jnp.int8),
               spec((128, 128), jnp.int8))


KERNELS = (tiled_matmul, logsumexp, copies, pipeline, shapes, while_loop, ragged, rare, batched)
