"""The loss and its gradients in JAX, written from the formulas and sharing nothing with the PyTorch reference."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)


def _forward(problem, labels, weight, parameters):
    z = parameters["x"] @ parameters["w"]
    if "bias" in parameters:
        z = z + parameters["bias"][None, :]
    if problem.soft_cap is not None:
        z = jnp.tanh(z / problem.soft_cap) * problem.soft_cap

    kept = jnp.ones(labels.shape, bool) if problem.ignore_index is None else labels != problem.ignore_index
    # An ignored label may lie outside the vocabulary: any column stands in for it.
    column = jnp.where(kept, labels, 0)
    peak = jax.lax.stop_gradient(z.max(axis=1, keepdims=True))
    lse = (peak + jnp.log(jnp.exp(z - peak).sum(axis=1, keepdims=True)))[:, 0]
    target = jnp.take_along_axis(z, column[:, None], axis=1)[:, 0]
    alpha = problem.label_smoothing
    per_token = lse - (1.0 - alpha) * target
    if alpha:
        per_token = per_token - alpha * z.mean(axis=1)
    if problem.z_loss:
        per_token = per_token + problem.z_loss * lse**2
    per_token = jnp.where(kept, weight * per_token, 0.0)

    if problem.reduction == "none":
        loss = per_token
    elif problem.reduction == "sum":
        loss = per_token.sum()
    else:
        total_weight = jnp.where(kept, weight, 0.0).sum()
        loss = jnp.where(total_weight == 0, 0.0, per_token.sum() / jnp.where(total_weight == 0, 1.0, total_weight))
    return loss, lse


def reference(problem, inputs):
    """loss, lse and the gradients of `problem` at `inputs` (arrays already widened to f64), in f64."""
    labels = jnp.asarray(inputs["labels"], jnp.int64)
    weight = jnp.asarray(inputs.get("weight", np.ones(labels.shape)), jnp.float64)
    parameters = {name: jnp.asarray(inputs[name], jnp.float64) for name in ("x", "w", "bias") if name in inputs}
    (loss, lse), pull_back = jax.vjp(functools.partial(_forward, problem, labels, weight), parameters)
    d_loss = jnp.asarray(inputs.get("d_loss", np.ones(loss.shape)), jnp.float64)
    d_lse = jnp.asarray(inputs.get("d_lse", np.zeros(lse.shape)), jnp.float64)
    (gradients,) = pull_back((d_loss, d_lse))
    results = {"loss": loss, "lse": lse} | {f"d{name}": value for name, value in gradients.items()}
    return {name: np.asarray(value, np.float64) for name, value in results.items()}
