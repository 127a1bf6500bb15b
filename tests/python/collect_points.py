"""Measures the VMEM of the points of `tilecast validate` again, with the TPU compiler; with --cycles their cycles too.

    collect_points.py --tilecast PATH --libtpu FILE [--set fit|heldout] [--targets v5e,v6e] [--limit N] [--smallest] [--cycles]

A row of backend-sim/data/SET.csv is emitted with its problem and blocks, compiled ahead of time (`tilecast` built with the
feature pjrt; no TPU), and the bytes that its kernel uses are compared with the row. Where the library now makes another text
of the kernel than was measured, the row is counted as changed and not compared. Exit code 1 if any row differs.

Cycles are read from the compiler's listings by tpu_schedule.py, with the scalars of the first launch, as the rows have them.
Cycles that wait for copies are printed beside those of the row, and not compared: the rows have them from another model of the
pipeline. Rows of v4 are left out: they are of one core, and the program is compiled for the two of a chip.
"""
import argparse
import csv
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import zlib

import tpu_schedule

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OPTIONS = {
    "soft_cap": ["--soft-cap", "30"],
    "bias": ["--bias"],
    "weight": ["--weight"],
    "z_loss": ["--z-loss", "1e-4"],
    "label_smoothing": ["--label-smoothing", "0.1"],
}


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=900)


def emit_arguments(row, target, limit_bytes):
    blocks = ",".join(row[side] for side in "bhv")
    arguments = ["linear-ce", "--target", target, "--tokens", row["tokens"], "--hidden", row["hidden"]]
    arguments += ["--vocab", row["vocab"], "--dtype", row["dtype"], "--blocks", blocks, "--backward-blocks", blocks]
    arguments += ["--pass", "backward" if row["strategy"] else "forward", "--vmem-limit-kib", str(limit_bytes >> 10)]
    if row["strategy"]:
        arguments += ["--strategy", row["strategy"]]
    if row["products"]:
        arguments += ["--f32-products", row["products"]]
    for option in row["options"].split():
        arguments += OPTIONS[option]
    return arguments


def emit(tilecast, row, folder):
    """The StableHLO of the row's program and the text of its kernel."""
    limit = int(row["limit_bytes"])
    # `emit` keeps room for spills, which v4 does not have to spare; v5p has the same text.
    for target, limit_bytes in [(row["target"], limit), ("v5p", 64 << 20)]:
        arguments = emit_arguments(row, target, limit_bytes)
        path = os.path.join(folder, "program.stablehlo")
        emitted = run([tilecast, "emit", *arguments, "--format", "stablehlo", "--output", path])
        if emitted.returncode == 0 or row["target"] != "v4":
            break
    if emitted.returncode != 0:
        raise RuntimeError(emitted.stderr.strip())
    with open(path) as f:
        program = re.sub(r"(size\\22: )\d+", rf"\g<1>{limit}", f.read())
    with open(path, "w") as f:
        f.write(program)
    kernels = os.path.join(folder, "kernel.mlir")
    run([tilecast, "emit", *arguments, "--format", "mosaic", "--output", kernels])
    named = os.path.join(folder, f"kernel.{row['kernel']}.mlir")
    with open(named if os.path.exists(named) else kernels, "rb") as f:
        return path, f.read()


def measure(options, row):
    """What came of a row: same, changed, differs or failed; and a line to print."""
    with tempfile.TemporaryDirectory(prefix="tilecast-points-") as folder:
        try:
            path, text = emit(options.tilecast, row, folder)
        except RuntimeError as error:
            return "failed", str(error)
        if f"{zlib.adler32(text):08x}" != row["text"]:
            return "changed", "the kernel has another text now"
        answer = tpu_schedule.compile_with_listings(options.tilecast, options.libtpu, row["target"], path, folder)
        if answer["status"] == "error":
            return "failed", str(answer["message"])[:300]
        if options.cycles and answer["status"] == "ok":
            figures = tpu_schedule.figures(options.tilecast, row["target"])
            try:
                return cycles(row, answer, tpu_schedule.read(folder, figures)["calls"])
            except tpu_schedule.Unreadable as error:
                return "failed", str(error)
    if answer["status"] == "vmem_oom":
        used = answer["used_bytes"]
        same = row["status"] == "oom"
    else:
        used = [kernel["used_bytes"] for kernel in answer["kernels"] if kernel["name"].startswith(row["kernel"])]
        used = used[0] if used else answer["used_bytes"]
        same = used == int(row["used_bytes"])
    return ("same" if same else "differs"), f"{used} bytes, measured {row['used_bytes']}"


def cycles(row, answer, calls):
    """The outcome for the cycles of a row's kernel, which is the one of the program with its bytes and, of those, its cycles."""
    called = [calls[kernel["name"]] for kernel in answer["kernels"] if kernel["used_bytes"] == int(row["used_bytes"])]
    found = [(call["first_cycles"], call["first_cycles_with_copies"]) for call in called]
    if not found:
        return "differs", f"no kernel uses {row['used_bytes']} bytes"
    measured = int(row["cycles"])
    read, with_copies = min(found, key=lambda pair: abs(pair[0] - measured))
    copies = f"; with copies {with_copies}, {row['cycles_shared']}" if row["cycles_shared"] else ""
    return ("same" if read == measured else "differs"), f"{read} cycles, measured {measured}{copies}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilecast", default="target/release/tilecast")
    parser.add_argument("--libtpu", required=True)
    parser.add_argument("--set", default="heldout", choices=["fit", "heldout"])
    parser.add_argument("--targets", default="v4,v5e,v5p,v6e,v7x")
    parser.add_argument("--limit", type=int, help="only this many rows, evenly spread")
    parser.add_argument("--smallest", action="store_true", help="with --limit, the rows of the smallest blocks instead")
    parser.add_argument("--cycles", action="store_true", help="compare cycles, of the rows that were compiled, and not VMEM")
    options = parser.parse_args()
    with open(os.path.join(ROOT, "backend-sim", "data", f"{options.set}.csv")) as f:
        rows = [row for row in csv.DictReader(f) if row["target"] in options.targets.split(",")]
    if options.cycles:
        rows = [row for row in rows if row["status"] == "ok" and row["cycles"] and row["target"] != "v4"]
    if options.smallest:
        rows = sorted(rows, key=lambda row: (math.prod(int(row[side]) for side in "bhv"), row["cycles"]))[: options.limit]
    elif options.limit:
        rows = rows[:: max(1, len(rows) // options.limit)][: options.limit]
    counts = {"same": 0, "changed": 0, "differs": 0, "failed": 0}
    for row in rows:
        outcome, line = measure(options, row)
        counts[outcome] += 1
        sides = "b h v tokens hidden vocab".split()
        print(outcome, row["target"], row["kernel"], row["dtype"], *(row[side] for side in sides), line, flush=True)
    print(", ".join(f"{n} {outcome}" for outcome, n in counts.items()))
    return 1 if counts["differs"] + counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
