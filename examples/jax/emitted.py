"""Modules of `tilecast emit` as functions of JAX arrays. The losses and layers beside this file are made of them."""
import dataclasses
import pathlib
import subprocess
import tempfile

import jax
import jax.numpy as jnp
from jax import export
from jax.extend import mlir

# The version of StableHLO in which a module is handed to JAX: the emitted operations are all that old.
STABLEHLO_VERSION = "1.0.0"
DTYPES = {"bfloat16": "bf16", "float32": "f32"}
# A host of each target, for `jax.experimental.topologies`.
TOPOLOGIES = {"v4": "v4:2x2x1", "v5e": "v5e:2x2", "v5p": "v5p:2x2x1", "v6e": "v6e:2x2", "v7x": "tpu7x:2x2x1"}


def emitted(op, pass_, shape, dtype, *, target, command="tilecast", options=()):
    """The StableHLO text of one pass of `op`; `shape` has the sizes by the names of their options."""
    with tempfile.TemporaryDirectory(prefix="tilecast-") as folder:
        path = pathlib.Path(folder, "module.mlir")
        sizes = [part for name, size in shape.items() for part in (f"--{name}", str(size))]
        arguments = [
            *["emit", op, "--target", target, "--pass", pass_, "--format", "stablehlo", "--output", str(path)],
            *[*sizes, "--dtype", DTYPES[jnp.dtype(dtype).name], *options],
        ]
        done = subprocess.run([command, *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{command} {' '.join(arguments)}: {done.stderr.strip()}")
        return path.read_text()


def callable_of(name, text, inputs, outputs):
    """A function of JAX arrays that runs the StableHLO module `text`.

    JAX exports a stand-in of the same signature, whose module is then replaced.
    """

    def stand_in(*_):
        return tuple(jnp.zeros(output.shape, output.dtype) for output in outputs)

    stand_in.__name__ = name
    exported = export.export(jax.jit(stand_in, keep_unused=True), platforms=["tpu"])(*inputs)
    module = mlir.serialize_portable_artifact(text, STABLEHLO_VERSION)
    return dataclasses.replace(exported, mlir_module_serialized=module).call
