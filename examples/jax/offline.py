"""Imported before JAX by programs that only compile: JAX computes on the CPU, and libtpu asks nobody about TPUs."""
import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TPU_SKIP_MDS_QUERY"] = "1"
os.environ["TPU_ACCELERATOR_TYPE"] = "v5litepod-1"  # of this host, not of the target
os.environ["TPU_WORKER_HOSTNAMES"] = "localhost"
os.environ["TPU_WORKER_ID"] = "0"
