"""Ranks block sizes of Tokamax's fused cross-entropy, without a TPU.

    tokamax_blocks.py --target v5p --tokens 8192 --hidden 4096 --vocab 128256 --blocks 1024,512,1024 1024,512,2048

For those who run that kernel and cannot change it tomorrow. Its own Pallas code is lowered for the target, once for each choice of
blocks (tokens, hidden, vocabulary), and `tilecast simulate --mosaic` says of the text whether it fits VMEM and how long it
takes: the kernel itself is judged, not one like it. Needs jax, libtpu and tokamax from PyPI, and `tilecast` on the PATH or in
$TILECAST. To rank another Pallas kernel, replace `kernel`.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, folder) for folder in ("tests/python", "backend-tpu/tests")]
import foreign_modules
import mosaic_tool

DEFAULT = ["1024,512,1024", "1024,512,2048", "1024,256,512", "512,512,512", "512,512,1024", "1024,1024,512"]


def kernel(options, blocks):
    """The function to lower and its arguments."""
    b, h, v = (int(size) for size in blocks.split(","))
    make = {
        "forward": foreign_modules.tokamax_cross_entropy,
        "backward": foreign_modules.tokamax_cross_entropy_backward,
    }[options.run]
    return make(b=b, h=h, v=v, B=options.tokens, H=options.hidden, V=options.vocab, dt=options.dtype)


def simulate(text, options):
    """The report on one kernel."""
    command = [os.environ.get("TILECAST", "tilecast"), "simulate", "--json", "--target", options.target]
    if options.vmem_limit_kib:
        command += ["--vmem-limit-kib", str(options.vmem_limit_kib)]
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([*command, "--mosaic", file.name], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def judge(blocks, options):
    """Verdict, seconds and bytes of VMEM for a choice of blocks."""
    fn, specs = kernel(options, blocks)
    _, texts = mosaic_tool.lower(fn, specs, foreign_modules.TOPOLOGIES[options.target])
    reports = [simulate(pretty, options) for pretty, _ in texts]
    kernels = [kernel for report in reports for kernel in report["kernels"]]
    used = max(kernel["vmem"]["used_bytes"] for kernel in kernels)
    verdict = next((r["verdict"] for r in reports if r["verdict"] != "fits"), "fits")
    seconds = sum(r["total"]["time_s"] for r in reports) if verdict == "fits" else None
    return blocks, verdict, seconds, used


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True, choices=foreign_modules.TOPOLOGIES)
    for size in ("tokens", "hidden", "vocab"):
        parser.add_argument(f"--{size}", type=int, required=True)
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "f32"])
    parser.add_argument("--pass", dest="run", default="forward", choices=["forward", "backward"])
    parser.add_argument("--vmem-limit-kib", type=int)
    parser.add_argument("--blocks", nargs="+", default=DEFAULT)
    options = parser.parse_args()
    rows = []
    for blocks in options.blocks:
        try:
            rows.append(judge(blocks, options))
        except Exception as error:  # what the kernel itself refuses, or the model does not know
            print(f"{blocks}: {error}", file=sys.stderr)
    rows.sort(key=lambda row: (row[2] is None, row[2] or row[3]))
    print(f"{'blocks':>16}  {'verdict':>8}  {'time':>10}  {'VMEM':>10}")
    for blocks, verdict, seconds, used in rows:
        time = f"{seconds * 1e3:.2f} ms" if seconds else "-"
        print(f"{blocks:>16}  {verdict:>8}  {time:>10}  {used / 2**20:>6.2f} MiB")
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
