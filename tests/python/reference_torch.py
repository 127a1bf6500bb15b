"""The loss and its gradients in PyTorch: the library's own cross entropy, differentiated by autograd."""

import numpy as np
import torch
import torch.nn.functional as F


def reference(problem, inputs, dtype="float64"):
    """loss, lse and the gradients of `problem` at `inputs` (arrays already widened to f64), computed in `dtype`.

    `delta` is the gradient of the products, before bias and soft cap.
    """
    dtype = getattr(torch, dtype)

    def tensor(name, default=None):
        value = inputs.get(name)
        return default if value is None else torch.from_numpy(np.array(value)).to(dtype)

    x, w, bias = tensor("x"), tensor("w"), tensor("bias")
    labels = torch.from_numpy(np.array(inputs["labels"])).to(torch.int64)
    weight = tensor("weight", torch.ones(x.shape[0], dtype=dtype))
    leaves = {"dx": x, "dw": w} | ({} if bias is None else {"dbias": bias})
    for leaf in leaves.values():
        leaf.requires_grad_(True)

    # Without a marked label nothing is ignored: any number outside the vocabulary will do.
    ignore_index = -1 if problem.ignore_index is None else problem.ignore_index
    valid = labels != ignore_index

    logits = products = F.linear(x, w.T, bias)
    if problem.soft_cap is not None:
        logits = problem.soft_cap * torch.tanh(logits / problem.soft_cap)
    lse = torch.logsumexp(logits, dim=1)
    per_token = F.cross_entropy(
        logits, labels, ignore_index=ignore_index, label_smoothing=problem.label_smoothing, reduction="none"
    )
    if problem.z_loss:
        per_token = per_token + torch.where(valid, problem.z_loss * lse.square(), torch.zeros_like(lse))
    per_token = per_token * weight

    if problem.reduction == "none":
        loss = per_token
    else:
        loss = per_token.sum()
        if problem.reduction == "mean":
            total_weight = weight[valid].sum()
            loss = loss / total_weight if total_weight != 0 else loss * 0

    d_loss = tensor("d_loss", torch.ones_like(loss))
    d_lse = tensor("d_lse", torch.zeros_like(lse))
    leaves["delta"] = products
    gradients = torch.autograd.grad([loss, lse], list(leaves.values()), [d_loss, d_lse])
    results = {"loss": loss, "lse": lse} | dict(zip(leaves, gradients))
    return {name: value.detach().to(torch.float64).numpy() for name, value in results.items()}
