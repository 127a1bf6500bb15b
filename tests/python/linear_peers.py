"""The contenders beside ours, the programs that run them, and how these are started."""

import pathlib
import sys

from turns import Peer

TORCH, JAX = (pathlib.Path(__file__).with_name(name) for name in ("linear_torch.py", "linear_jax.py"))
PEERS = {"eager": TORCH, "compiled": TORCH, "chunks": TORCH, "cce": TORCH, "jax": JAX, "scan": JAX, "tokamax": JAX}
# Tokens, hidden and vocabulary of what is timed and measured.
SHAPES = [(512, 512, 32768), (1024, 1024, 32768), (512, 2048, 128256), (2048, 512, 128256)]


def start(program, shape, dtype, threads, **environment):
    return Peer(sys.executable, "-B", program, *shape, dtype, threads, **environment)


def runs_here(name, peer):
    """Whether a contender can run; the reason is printed where it cannot."""
    reason = peer.ask(f"{name} skip")
    if reason:
        print(f"skipped: {name}: {reason}")
    return not reason
