"""Writes the Mosaic text of the Pallas kernels of other projects that `tilecast validate` is judged on.

    foreign_modules.py DIR [--points backend-sim/data/foreign.csv] [--targets v5e,v6e]
    tilecast validate --modules DIR

A row of foreign.csv names a function here, its parameters, a target and which kernel of the lowered function it is; its
text goes to DIR/TARGET/KERNEL PARAMETERS.mlir. The kernels are those of the installed packages (jax, tokamax): nothing of
theirs is kept here. Run with an interpreter that has jax, libtpu and tokamax; no TPU is needed. What differs from the text
that was measured, because of another version of a package, is counted and said.
"""
import argparse
import csv
import functools
import importlib
import importlib.util
import os
import sys
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "backend-tpu", "tests"))
import mosaic_tool  # noqa: E402

TOPOLOGIES = {"v4": "v4:2x2x1", "v5e": "v5e:2x2", "v5p": "v5p:2x2x1", "v6e": "v6e:2x2", "v7x": "tpu7x:2x2x1"}

import jax
import jax.numpy as jnp
import numpy as np

OPS = "jax.experimental.pallas.ops.tpu."
DT = {"bf16": jnp.bfloat16, "f32": jnp.float32, "i32": jnp.int32}
F32, I32 = jnp.float32, jnp.int32


def spec(shape, dtype="bf16"):
    return jax.ShapeDtypeStruct(tuple(shape), DT.get(dtype, dtype))


def double(m=256, n=256, dt="f32"):
    fn = importlib.import_module(OPS + "example_kernel").double
    return fn, (spec((m, n), dt),)


def matmul(bm=512, bn=512, n=1024, k=1024, dt="bf16"):
    fn = importlib.import_module(OPS + "matmul").matmul
    return functools.partial(fn, block_shape=(bm, bn)), (spec((n, k), dt), spec((k, n), dt))


def _flash(causal, grad, segments=False, bq=256, bk_major=512, bk=256, d=128, dt="bf16", T=1024):
    m = importlib.import_module(OPS + "flash_attention")
    blocks = m.BlockSizes(
        block_q=bq, block_k_major=bk_major, block_k=bk, block_b=1,
        block_q_major_dkv=bq, block_k_major_dkv=bk_major, block_k_dkv=bk, block_q_dkv=bq,
        block_k_major_dq=bk_major, block_k_dq=bk, block_q_dq=bq)

    def fwd(q, k, v, *ids):
        seg = m.SegmentIds(*ids) if segments else None
        return m.flash_attention(q, k, v, segment_ids=seg, causal=causal, sm_scale=0.125,
                                 block_sizes=blocks)

    def bwd(q, k, v, *ids):
        return jax.grad(lambda *a: fwd(*a, *ids).astype(F32).sum(), argnums=(0, 1, 2))(q, k, v)
    x = spec((1, 2, T, d), dt)
    ids = (spec((1, T), I32),) * 2 if segments else ()
    return (bwd if grad else fwd), (x, x, x) + ids


def flash_attention(**kw):
    return _flash(True, False, **kw)


def flash_attention_full(**kw):
    return _flash(False, False, **kw)


def flash_attention_segments(**kw):
    return _flash(False, False, True, **kw)


def flash_attention_backward(**kw):
    return _flash(True, True, **kw)


def _splash(grad, soft_cap=None, fused=False, local=False, bq=256, bkv=512, bc=256, d=128,
            dt="bf16", T=1024):
    k = importlib.import_module(OPS + "splash_attention.splash_attention_kernel")
    mk = importlib.import_module(OPS + "splash_attention.splash_attention_mask")
    head = mk.LocalMask((T, T), (256, 0), 0) if local else mk.CausalMask((T, T))
    mask = mk.MultiHeadMask([head for _ in range(2)])
    blocks = k.BlockSizes(
        block_q=bq, block_kv=bkv, block_kv_compute=bc, block_q_dkv=bq, block_kv_dkv=bkv,
        block_kv_dkv_compute=bc, block_q_dq=None if fused else bq,
        block_kv_dq=None if fused else bkv, use_fused_bwd_kernel=fused)
    attend = k.make_splash_mha(mask, head_shards=1, q_seq_shards=1, block_sizes=blocks,
                               attn_logits_soft_cap=soft_cap)

    def bwd(q, kk, v):
        return jax.grad(lambda *a: attend(*a).astype(F32).sum(), argnums=(0, 1, 2))(q, kk, v)
    x = spec((2, T, d), dt)
    return (bwd if grad else attend), (x, x, x)


def splash_attention(**kw):
    return _splash(False, **kw)


def splash_attention_soft_cap(**kw):
    return _splash(False, 30.0, local=True, **kw)


def splash_attention_backward(**kw):
    return _splash(True, **kw)


def splash_attention_backward_fused(**kw):
    return _splash(True, fused=True, **kw)


def _paged(ppcb=4, page=16, heads=32, kv=4, dt="bf16", **kw):
    fn = importlib.import_module(OPS + "paged_attention.paged_attention_kernel").paged_attention

    def f(q, k, v, lengths, pages):
        return fn(q, k, v, lengths, pages, pages_per_compute_block=ppcb, **kw)
    pages = spec((kv, 64, page, 128), dt)
    return f, (spec((4, heads, 128), dt), pages, pages, spec((4,), I32), spec((4, 16), I32))


def paged_attention(**kw):
    return _paged(**kw)


def paged_attention_grid(**kw):
    return _paged(inline_seq_dim=False, **kw)


def ragged_paged_attention(kvp=4, nq=16, heads=8, page=16, dt="bf16"):
    m = importlib.import_module(OPS + "ragged_paged_attention.kernel")

    def f(q, kv, kv_lens, pages, cu_q_lens, num_seqs):
        return m.ragged_paged_attention(
            q, kv, kv_lens, pages, cu_q_lens, num_seqs, sm_scale=0.1, num_kv_pages_per_block=kvp,
            num_queries_per_block=nq)
    return f, (spec((128, heads, 128), dt), spec((64, page, 8, 128), dt), spec((8,), I32),
               spec((8, 16), I32), spec((9,), I32), spec((1,), I32))


def _megablox():
    m = importlib.import_module(OPS + "megablox.gmm")
    return sys.modules.get(OPS + "megablox.gmm") or m


def megablox_gmm(tm=256, tk=256, tn=256, m=1024, k=512, n=512, dt="bf16"):
    mod = _megablox()
    fn = mod.gmm if hasattr(mod, "gmm") else mod
    g = 4

    def f(lhs, rhs, sizes):
        return fn(lhs, rhs, sizes, preferred_element_type=DT[dt], tiling=(tm, tk, tn))
    return f, (spec((m, k), dt), spec((g, k, n), dt), spec((g,), I32))


def megablox_tgmm(tm=256, tk=256, tn=256, m=1024, k=512, n=512, dt="bf16"):
    mod = _megablox()
    g = 4

    def f(lhs, rhs, sizes):
        return mod.tgmm(lhs, rhs, sizes, preferred_element_type=DT[dt], tiling=(tm, tk, tn))
    return f, (spec((k, m), dt), spec((m, n), dt), spec((g,), I32))


def threefry(m=512, n=512):
    mod = importlib.import_module(OPS + "random.threefry")
    return (lambda key: mod.plthreefry_random_bits(key, 32, (m, n)),
            (jax.ShapeDtypeStruct((2,), jnp.uint32),))


def _tokamax_module():
    root = importlib.util.find_spec("tokamax").submodule_search_locations[0]
    path = root + "/_src/ops/linear_softmax_cross_entropy_loss/pallas_mosaic_tpu_kernel.py"
    s = importlib.util.spec_from_file_location("tokamax_lce_kernel", path)
    m = importlib.util.module_from_spec(s)
    sys.modules[s.name] = m
    s.loader.exec_module(m)
    return m


def tokamax_cross_entropy(b=1024, h=512, v=1024, B=2048, H=1024, V=4096, dt="bf16",
                          limit_mib=100):
    m = _tokamax_module()
    m._get_vmem_limit_bytes = lambda: limit_mib << 20

    def f(x, labels, w):
        return m.linear_softmax_cross_entropy_loss_fwd_pallas_mosaic_tpu(
            x, labels, w, b_block_size=b, h_block_size=h, v_block_size=v, reduction="none")
    return f, (spec((B, H), dt), spec((B,), I32), spec((H, V), dt))


def tokamax_cross_entropy_backward(b=1024, h=512, v=1024, B=2048, H=1024, V=4096, dt="bf16",
                                   limit_mib=100, buffers=2):
    m = _tokamax_module()
    m._get_vmem_limit_bytes = lambda: limit_mib << 20

    def f(dout, x, labels, w, lse):
        return m.linear_softmax_cross_entropy_loss_bwd_pallas_mosaic_tpu(
            dout, lse, x, labels, w, b_block_size=b, h_block_size=h, v_block_size=v,
            reduction="none", buffer_count=(buffers, buffers))
    return f, (spec((B,), F32), spec((B, H), dt), spec((B,), I32), spec((H, V), dt),
               spec((B,), F32))


def parameters(text):
    """`bq=128 dt=f32` as arguments."""
    pairs = (item.split("=") for item in text.split())
    return {name: int(value) if value.lstrip("-").isdigit() else value for name, value in pairs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--points", default=os.path.join(ROOT, "backend-sim", "data", "foreign.csv"))
    parser.add_argument("--targets", default=",".join(TOPOLOGIES))
    options = parser.parse_args()
    targets = options.targets.split(",")
    with open(options.points) as f:
        rows = [row for row in csv.DictReader(f) if row["target"] in targets]
    lowered, changed, failed = {}, 0, 0
    for row in rows:
        function, number = row["kernel"].rsplit(".", 1)
        key = row["target"], function, row["parameters"]
        if key not in lowered:
            try:
                fn, specs = globals()[function](**parameters(row["parameters"]))
                _, texts = mosaic_tool.lower(fn, specs, TOPOLOGIES[row["target"]])
                lowered[key] = [pretty for pretty, _ in texts]
            except Exception as error:  # a package that lacks the kernel, or has another
                print(f"{' '.join(key)}: {type(error).__name__}: {error}", file=sys.stderr)
                lowered[key] = []
        texts = lowered[key]
        if int(number) >= len(texts):
            failed += 1
            continue
        text = texts[int(number)]
        changed += f"{zlib.adler32(text.encode()):08x}" != row["text"]
        folder = os.path.join(options.folder, row["target"])
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"{row['kernel']} {row['parameters']}".strip() + ".mlir"), "w") as f:
            f.write(text)
    print(f"{len(rows) - failed} kernels written, {changed} of them not as measured; {failed} could not be made")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
