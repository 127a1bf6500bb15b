#!/usr/bin/env python3
"""The fused linear cross-entropy as PyTorch users write it, for bench_linear.py and its sisters.

    linear_torch.py TOKENS HIDDEN VOCAB f32|bf16 THREADS

The contenders are the product, logits in f32 and cross-entropy, `eager` and `compiled`; PyTorch's own `linear_cross_entropy` by
`chunks` of tokens; and `cce`, the package cut-cross-entropy, which off a GPU is compiled PyTorch. The last two take w as [V, H]. What it
answers is in turns.py, `serve`.
"""

import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

import tensors
from turns import serve, timed, words

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
BY_ROWS = ("chunks", "cce")


def plain(x, w, labels):
    return F.cross_entropy((x @ w).float(), labels, reduction="sum")


def chunks(x, w, labels):
    return F.linear_cross_entropy(x, w, labels, reduction="sum", options=torch.nn.LinearCrossEntropyOptions())


def cce(x, w, labels):
    return linear_cross_entropy(x, w, labels, reduction="sum", impl="torch_compile")


FUNCTIONS = {"eager": plain, "compiled": torch.compile(plain), "chunks": chunks, "cce": cce}
SKIPPED = {}
try:
    from cut_cross_entropy import linear_cross_entropy
except ImportError as error:
    # On Linux it imports its kernels for GPUs, and with them Triton, whatever is asked of it.
    SKIPPED["cce"] = f"it cannot be imported: {error}"


def operands(name, x, w, dtype):
    """The leaves, w stored as the contender takes it."""
    x, w = torch.from_numpy(x).to(dtype), torch.from_numpy(w).to(dtype)
    w = w.T.contiguous() if name in BY_ROWS else w
    return x.requires_grad_(), w.requires_grad_()


def main():
    tokens, hidden, vocab = map(int, sys.argv[1:4])
    dtype = DTYPES[sys.argv[4]]
    torch.set_num_threads(int(sys.argv[5]))
    x, w = operands("eager", words(tokens, hidden, 1), words(hidden, vocab, 2), dtype)
    by_rows = w.detach().T.contiguous().requires_grad_()
    labels = torch.arange(tokens) * 37 % vocab

    def run(name, what):
        function, given = FUNCTIONS[name], (x, by_rows if name in BY_ROWS else w, labels)
        if what == "forward":
            with torch.no_grad():
                return timed(lambda: function(*given).item())
        seconds, _ = timed(lambda: function(*given).backward())
        check = x.grad[0].float().abs().sum().item()
        # Not kept for the next run, which makes its own.
        x.grad = given[1].grad = None
        return seconds, check

    def write(name, source, target):
        given = tensors.decode(pathlib.Path(source).read_bytes())
        x, w = operands(name, given["x"].astype(np.float32), given["w"].astype(np.float32), dtype)
        loss = FUNCTIONS[name](x, w, torch.from_numpy(given["labels"].astype(np.int64)))
        loss.backward()
        dw = w.grad.T if name in BY_ROWS else w.grad
        found = {"loss": loss.detach(), "dx": x.grad, "dw": dw}
        pathlib.Path(target).write_bytes(tensors.encode({key: value.float().numpy() for key, value in found.items()}))

    serve(SKIPPED, run, write)


if __name__ == "__main__":
    main()
