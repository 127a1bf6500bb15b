"""Public Pallas kernels, at sizes small enough to compile in seconds.

Every function returns `(fn, specs)`: a traceable function and the shapes and dtypes of its
arguments. The kernels are used as installed (jax, tokamax); nothing of theirs is kept here.
"""
import functools
import importlib
import importlib.util
import sys

import jax
import jax.numpy as jnp

BF16, F32, I32 = jnp.bfloat16, jnp.float32, jnp.int32
OPS = "jax.experimental.pallas.ops.tpu."


def spec(shape, dtype=BF16):
    return jax.ShapeDtypeStruct(tuple(shape), dtype)


def double():
    """The smallest kernel of jax: one window each way."""
    fn = importlib.import_module(OPS + "example_kernel").double
    return fn, (spec((256, 256), F32),)


def matmul():
    fn = importlib.import_module(OPS + "matmul").matmul
    return functools.partial(fn, block_shape=(512, 512)), (spec((1024, 1024)), spec((1024, 1024)))


def _flash(causal, grad, segments=False):
    m = importlib.import_module(OPS + "flash_attention")
    blocks = m.BlockSizes(
        block_q=256, block_k_major=512, block_k=256, block_b=1,
        block_q_major_dkv=256, block_k_major_dkv=512, block_k_dkv=256, block_q_dkv=256,
        block_k_major_dq=512, block_k_dq=256, block_q_dq=256)

    def fwd(q, k, v, *ids):
        seg = m.SegmentIds(*ids) if segments else None
        return m.flash_attention(q, k, v, segment_ids=seg, causal=causal, sm_scale=0.125,
                                 block_sizes=blocks)

    def bwd(q, k, v, *ids):
        return jax.grad(lambda *a: fwd(*a, *ids).astype(F32).sum(), argnums=(0, 1, 2))(q, k, v)
    x = spec((1, 2, 1024, 128))
    ids = (spec((1, 1024), I32),) * 2 if segments else ()
    return (bwd if grad else fwd), (x, x, x) + ids


def flash_attention():
    return _flash(True, False)


def flash_attention_segments():
    return _flash(False, False, True)


def flash_attention_backward():
    return _flash(True, True)


def _splash(grad, soft_cap=None, fused=False, local=False):
    k = importlib.import_module(OPS + "splash_attention.splash_attention_kernel")
    mk = importlib.import_module(OPS + "splash_attention.splash_attention_mask")
    head = mk.LocalMask((1024, 1024), (256, 0), 0) if local else mk.CausalMask((1024, 1024))
    mask = mk.MultiHeadMask([head for _ in range(2)])
    blocks = k.BlockSizes(
        block_q=256, block_kv=512, block_kv_compute=256, block_q_dkv=256, block_kv_dkv=512,
        block_kv_dkv_compute=256, block_q_dq=None if fused else 256,
        block_kv_dq=None if fused else 512, use_fused_bwd_kernel=fused)
    attend = k.make_splash_mha(mask, head_shards=1, q_seq_shards=1, block_sizes=blocks,
                               attn_logits_soft_cap=soft_cap)

    def bwd(q, kk, v):
        return jax.grad(lambda *a: attend(*a).astype(F32).sum(), argnums=(0, 1, 2))(q, kk, v)
    x = spec((2, 1024, 128))
    return (bwd if grad else attend), (x, x, x)


def splash_attention():
    return _splash(False)


def splash_attention_soft_cap():
    return _splash(False, 30.0, local=True)


def splash_attention_backward():
    return _splash(True)


def splash_attention_backward_fused():
    return _splash(True, fused=True)


def _paged(**kw):
    fn = importlib.import_module(OPS + "paged_attention.paged_attention_kernel").paged_attention

    def f(q, k, v, lengths, pages):
        return fn(q, k, v, lengths, pages, pages_per_compute_block=4, **kw)
    pages = spec((4, 64, 16, 128))
    return f, (spec((4, 32, 128)), pages, pages, spec((4,), I32), spec((4, 16), I32))


def paged_attention():
    return _paged()


def paged_attention_grid():
    return _paged(inline_seq_dim=False)


def ragged_paged_attention():
    m = importlib.import_module(OPS + "ragged_paged_attention.kernel")

    def f(q, kv, kv_lens, pages, cu_q_lens, num_seqs):
        return m.ragged_paged_attention(
            q, kv, kv_lens, pages, cu_q_lens, num_seqs, sm_scale=0.1, num_kv_pages_per_block=4,
            num_queries_per_block=16)
    return f, (spec((128, 8, 128)), spec((64, 16, 8, 128)), spec((8,), I32),
               spec((8, 16), I32), spec((9,), I32), spec((1,), I32))


def megablox_gmm():
    m = importlib.import_module(OPS + "megablox.gmm")
    fn = m.gmm if hasattr(m, "gmm") else m

    def f(lhs, rhs, sizes):
        return fn(lhs, rhs, sizes, preferred_element_type=BF16, tiling=(256, 256, 256))
    return f, (spec((1024, 512)), spec((4, 512, 512)), spec((4,), I32))


def megablox_tgmm():
    m = sys.modules.get(OPS + "megablox.gmm") or importlib.import_module(OPS + "megablox.gmm")

    def f(lhs, rhs, sizes):
        return m.tgmm(lhs, rhs, sizes, preferred_element_type=BF16, tiling=(256, 256, 256))
    return f, (spec((512, 1024)), spec((1024, 512)), spec((4,), I32))


def threefry():
    m = importlib.import_module(OPS + "random.threefry")
    return (lambda key: m.plthreefry_random_bits(key, 32, (512, 512)),
            (spec((2,), jnp.uint32),))


def _tokamax_module():
    root = importlib.util.find_spec("tokamax").submodule_search_locations[0]
    path = root + "/_src/ops/linear_softmax_cross_entropy_loss/pallas_mosaic_tpu_kernel.py"
    s = importlib.util.spec_from_file_location("tokamax_lce_kernel", path)
    m = importlib.util.module_from_spec(s)
    sys.modules[s.name] = m
    s.loader.exec_module(m)
    m._get_vmem_limit_bytes = lambda: 100 << 20
    return m


def tokamax_cross_entropy(vocab=4096):
    m = _tokamax_module()

    def f(x, labels, w):
        return m.linear_softmax_cross_entropy_loss_fwd_pallas_mosaic_tpu(
            x, labels, w, b_block_size=1024, h_block_size=512, v_block_size=1024,
            reduction="none")
    return f, (spec((2048, 1024)), spec((2048,), I32), spec((1024, vocab)))


def tokamax_cross_entropy_ragged():
    return tokamax_cross_entropy(4500)


def tokamax_cross_entropy_backward(vocab=4096):
    m = _tokamax_module()

    def f(dout, x, labels, w, lse):
        return m.linear_softmax_cross_entropy_loss_bwd_pallas_mosaic_tpu(
            dout, lse, x, labels, w, b_block_size=1024, h_block_size=512, v_block_size=1024,
            reduction="none", buffer_count=(2, 2))
    return f, (spec((2048,), F32), spec((2048, 1024)), spec((2048,), I32), spec((1024, vocab)),
               spec((2048,), F32))


def tokamax_cross_entropy_backward_ragged():
    return tokamax_cross_entropy_backward(4500)


KERNELS = (double, matmul, flash_attention, flash_attention_segments, flash_attention_backward,
           splash_attention, splash_attention_soft_cap, splash_attention_backward,
           splash_attention_backward_fused, paged_attention, paged_attention_grid,
           ragged_paged_attention, megablox_gmm, megablox_tgmm, threefry,
           tokamax_cross_entropy, tokamax_cross_entropy_ragged, tokamax_cross_entropy_backward,
           tokamax_cross_entropy_backward_ragged)
