#!/usr/bin/env python3
"""Compares the ops on logits (cross-entropy, entropy, policy loss), given and of a head, with PyTorch in f64.

    cargo run --release -p tilecast-tests --example logits_cases -- FOLDER
    python=$(bash tests/python/setup.sh) && "$python" tests/python/compare_logits.py FOLDER

The formulas are written out here in plain PyTorch, as a training script would, and differentiated by autograd; the
results in FOLDER were computed in f32 by the CPU backend from exactly the same inputs. Allowed:

* vectors: 2e-6 of max(1, |reference|).
* gradients: 1e-5 of the largest entry; in bf16 also 2^-8 of |reference| per element, for the rounding of the result.

Prints a line per case, then the totals. Exit code 1 if anything failed.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

STATISTIC = 2e-6
GRADIENT = 1e-5
BF16_ROUNDING = 2.0**-8


def load(folder, name):
    """A stored array in f64, or its integers."""
    data = (folder / name).read_bytes()
    kind = name.rsplit(".", 1)[1]
    if kind == "i32":
        return torch.from_numpy(np.frombuffer(data, np.int32).astype(np.int64))
    if kind == "bf16":
        wide = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
        return torch.from_numpy(wide.view(np.float32).astype(np.float64))
    return torch.from_numpy(np.frombuffer(data, np.float32).astype(np.float64))


def cross_entropy(case, logits, a):
    z = logits / case["temperature"]
    lse = torch.logsumexp(z, -1)
    ignored = -100 if case["ignore_index"] is None else case["ignore_index"]
    labels = a["labels"]
    keep = labels != ignored
    loss = F.cross_entropy(z, labels, reduction="none", ignore_index=ignored, label_smoothing=case["label_smoothing"])
    loss = loss + torch.where(keep, case["z_loss"] * lse**2, 0.0)
    picked = torch.log_softmax(z, -1).gather(-1, labels.clamp(min=0)[:, None])[:, 0]
    return {"loss": loss, "logp": torch.where(keep, picked, 0.0), "lse": lse}


def entropy(case, logits, a):
    logp = torch.log_softmax(logits / case["temperature"], -1)
    return {"entropy": -(logp.exp() * logp).sum(-1)}


def policy(case, logits, a):
    """The loss as GRPO trainers write it, on [sequences, length]."""
    shape = (-1, case["sequence_length"])
    logps = torch.log_softmax(logits / case["temperature"], -1)
    logp = logps.gather(-1, a["labels"][:, None])[:, 0].reshape(shape)
    mask = a["mask"].reshape(shape) if "mask" in a else torch.ones_like(logp)
    advantage = a["advantage"].reshape(shape)
    old = logp.detach() if case["self_old"] else a["old_logp"].reshape(shape)
    log_ratio = logp - old
    if case["sequence_level"]:
        mean = (log_ratio * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)
        log_ratio = mean[:, None].expand_as(logp)
    ratio = log_ratio.exp()
    low, high = 1 - case["clip_low"], 1 + case["clip_high"]
    if case["variant"] == "cispo":
        loss = -ratio.clamp(max=case["clip_high"]).detach() * advantage * logp
        clipped = (ratio > case["clip_high"]) & (advantage > 0)
    else:
        free = ratio if case["delta"] is None else ratio.clamp(max=case["delta"])
        loss = -torch.min(free * advantage, ratio.clamp(low, high) * advantage)
        clipped = ((ratio < low) & (advantage < 0)) | ((ratio > high) & (advantage > 0))
    if case["beta"]:
        d = a["ref_logp"].reshape(shape) - logp
        loss = loss + case["beta"] * (d.exp() - d - 1)
    total, tokens = (loss * mask).sum(), mask.sum().clamp(min=1.0)
    if case["per_token"]:
        result = (loss * mask).reshape(-1)
    elif case["variant"] == "grpo":
        result = ((loss * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).mean()
    elif case["variant"] == "dr_grpo":
        result = total / (mask.shape[0] * (case["max_length"] or case["sequence_length"]))
    elif case["variant"] == "bnpo":
        result = total / tokens
    else:
        result = total / (case["tokens_in_batch"] or tokens)
    counts = mask != 0
    return {
        "loss": result.reshape(-1),
        "logp": torch.where(counts, logp, 0.0).reshape(-1),
        "ratio": torch.where(counts, ratio, 1.0).reshape(-1),
        "is_clipped": (clipped & counts).double().reshape(-1),
        "entropy": -(logps.exp() * logps).sum(-1),
    }


OPS = {"logits-ce": cross_entropy, "entropy": entropy, "grpo": policy}


def source(case, a):
    """The logits, and what they are made of by the names of its gradients: itself, or a head and what it is applied to."""
    tokens, vocab = case["tokens"], case["vocab"]
    if "hidden" not in case:
        logits = a["logits"].reshape(tokens, vocab).requires_grad_()
        return logits, {"d_logits": logits}
    x = a["x"].reshape(tokens, case["hidden"]).requires_grad_()
    w = a["w"].reshape(case["hidden"], vocab).requires_grad_()
    logits, leaves = x @ w, {"dx": x, "dw": w}
    if "bias" in a:
        leaves["dbias"] = a["bias"].requires_grad_()
        logits = logits + leaves["dbias"]
    if case["soft_cap"]:
        logits = case["soft_cap"] * torch.tanh(logits / case["soft_cap"])
    return logits, leaves


def compare(case, folder):
    """The worst error as a share of what is allowed, and reports of what is over it."""
    a = {name: load(folder, file) for name, file in case["arrays"].items()}
    logits, leaves = source(case, a)
    outputs = OPS[case["op"]](case, logits, a)
    objective = sum((outputs[name[2:]] * d).sum() for name, d in a.items() if name.startswith("d_"))
    gradients = torch.autograd.grad(objective, list(leaves.values()))
    outputs |= {name: gradient.reshape(-1) for name, gradient in zip(leaves, gradients)}
    worst, reports = 0.0, []
    for name, want in outputs.items():
        got, want = a[f"out.{name}"], want.detach()
        if name in leaves:
            rounded = case["dtype"] == "bf16" and name != "dbias"
            allowed = GRADIENT * want.abs().max() + (BF16_ROUNDING * want.abs() if rounded else 0.0)
        else:
            allowed = STATISTIC * want.abs().clamp(min=1.0)
        share = ((got - want).abs() / allowed).nan_to_num(nan=float("inf"))
        worst = max(worst, float(share.max()))
        if got.shape != want.shape or not bool((share <= 1).all()):
            i = int(share.argmax())
            reports.append(f"{name}: {int((share > 1).sum())} of {share.numel()} wrong, [{i}] is {got[i]:.9g}, not {want[i]:.9g}")
    return worst, reports


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1])
    cases = json.loads((folder / "cases.json").read_text())
    failed = 0
    for case in cases:
        worst, reports = compare(case, folder)
        failed += bool(reports)
        text = " ".join(f"{k}={v}" for k, v in case.items() if k != "arrays" and v not in (None, False))
        print(f"{'FAIL' if reports else 'ok':4}  {worst:5.2f}  {text}")
        for report in reports:
            print(f"          {report}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
