"""Measures the VMEM of the points of `tilecast validate` again, with the TPU compiler; with --cycles their cycles too.

    collect_points.py --tilecast PATH --libtpu FILE [--set fit|heldout|fit_logits|heldout_logits|fit_experts|heldout_experts] [--targets v5e,v6e]
        [--kernels K] [--limit N] [--smallest] [--cycles [--record]]

A row of backend-sim/data/SET.csv is emitted with its problem and blocks, compiled ahead of time (no TPU), and the bytes that its kernel uses are compared with the row. Where the library now makes another text
of the kernel than was measured, the row is counted as changed and not compared. Exit code 1 if any row differs.

A kernel of the ops on logits and of grouped products (--set fit_logits, heldout_logits, fit_experts, heldout_experts) is compiled by
itself, as the rows of heads were in their program.

Cycles are read from the compiler's listings by tpu_schedule.py, with the scalars of the first launch, as the rows have them.
Cycles that wait for copies, each at the full rate or all taking turns, are printed beside those of the row and not compared; --record
writes them into the rows whose cycles are the same. Those of heads on v4 are left out: they are of one core, and the program is
compiled for the two of a chip.
"""
import argparse
import csv
import glob
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import zlib

import tpu_schedule

CHANGED = "changed", "the kernel has another text now"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OPTIONS = {
    "soft_cap": ["--soft-cap", "30"],
    "bias": ["--bias"],
    "weight": ["--weight"],
    "z_loss": ["--z-loss", "1e-4"],
    "label_smoothing": ["--label-smoothing", "0.1"],
    "temperature": ["--temperature", "0.7"],
    "in_place": ["--in-place"],
}


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=900)


def is_of_logits(row):
    return "op" in row


def is_of_experts(row):
    return "experts" in row


def is_alone(row):
    return is_of_logits(row) or is_of_experts(row)


def emit_arguments(row, target, limit_bytes):
    if is_of_logits(row):
        arguments = [row["op"].replace("_", "-"), "--target", target, "--tokens", row["tokens"], "--vocab", row["vocab"]]
        arguments += ["--dtype", row["dtype"], "--blocks", f"{row['b']},{row['v']}", "--vmem-limit-kib", str(limit_bytes >> 10)]
        arguments += ["--pass", "forward" if row["kernel"] == "softmax_statistics" else "backward"]
        return arguments + [word for option in row["options"].split() for word in OPTIONS[option]]
    if is_of_experts(row):
        arguments = ["gmm", "--target", target, "--tokens", row["rows"], "--experts", row["experts"], "--hidden", row["inputs"]]
        arguments += ["--out-features", row["outputs"], "--dtype", row["dtype"], "--vmem-limit-kib", str(limit_bytes >> 10)]
        is_forward = row["kernel"] == "grouped_matmul_forward"
        blocks = f"{row['b']},{row['i']},{row['o']}"
        return arguments + (["--pass", "forward", "--blocks", blocks] if is_forward else ["--pass", "backward", "--backward-blocks", blocks])
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
    """The path of the row's program, and the texts of its kernels by the ends of their names."""
    limit = int(row["limit_bytes"])
    # `emit` keeps room for spills, which v4 does not have to spare; v5p has the same text.
    for target, limit_bytes in [(row["target"], limit), ("v5p", 64 << 20)]:
        arguments = emit_arguments(row, target, limit_bytes)
        path = os.path.join(folder, "program.stablehlo")
        # The rows are of kernels with checks, as those of others have them.
        emitted = run([tilecast, "emit", *arguments, "--format", "stablehlo", "--bounds-checks", "--output", path])
        if emitted.returncode == 0 or row["target"] != "v4":
            break
    if emitted.returncode != 0:
        raise RuntimeError(emitted.stderr.strip())
    with open(path) as f:
        program = re.sub(r"(size\\22: )\d+", rf"\g<1>{limit}", f.read())
    with open(path, "w") as f:
        f.write(program)
    run([tilecast, "emit", *arguments, "--format", "mosaic", "--output", os.path.join(folder, "kernel.mlir")])
    kernels = {}
    for name in glob.glob(os.path.join(glob.escape(folder), "kernel*.mlir")):
        with open(name, "rb") as f:
            kernels[os.path.basename(name)[len("kernel"):-len(".mlir")]] = f.read()
    return path, kernels


def emit_alone(tilecast, row, folder):
    """The path of the row's kernel, and its text by its name."""
    path = os.path.join(folder, "kernel.mlir")
    limit = int(row["limit_bytes"])
    emitted = run([tilecast, "emit", *emit_arguments(row, row["target"], limit), "--format", "mosaic", "--output", path])
    if emitted.returncode != 0:
        raise RuntimeError(emitted.stderr.strip())
    one_of_several = os.path.join(folder, f"kernel.{row['kernel']}.mlir")
    path = one_of_several if os.path.exists(one_of_several) else path
    with open(path, "rb") as f:
        return path, {"." + row["kernel"]: f.read()}


def scalars_of(path):
    """What the kernel in the file gets at run time."""
    scalars = path + ".scalars.json"
    if not os.path.exists(scalars):
        return ()
    with open(scalars) as f:
        return json.load(f)["prefetched"]


def compile_alone(row):
    """How the kernel is compiled: logits that are masked in their window are no output."""
    outputs = 1
    if row["kernel"] == "softmax_statistics":
        outputs = {"entropy": 2, "grpo": 3, "logits_ce": 3 if "label_smoothing" in row["options"] else 2}[row["op"]]
    more = ["--outputs", str(outputs), "--vmem-limit-kib", str(int(row["limit_bytes"]) >> 10)]
    return {"form": "--mosaic", "more": more}


def measure(options, rows):
    """What came of each row of a program: same, changed, differs or failed; and a line to print."""
    with tempfile.TemporaryDirectory(prefix="tilecast-points-") as folder:
        try:
            alone = is_alone(rows[0])
            path, kernels = (emit_alone if alone else emit)(options.tilecast, rows[0], folder)
        except RuntimeError as error:
            return [("failed", str(error))] * len(rows)
        texts = [kernels.get("." + row["kernel"], kernels.get("")) for row in rows]
        changed = [text is None or f"{zlib.adler32(text):08x}" != row["text"] for row, text in zip(rows, texts)]
        if all(changed):
            return [CHANGED] * len(rows)
        how = compile_alone(rows[0]) if alone else {}
        answer = tpu_schedule.compile_with_listings(options.tilecast, options.libtpu, rows[0]["target"], path, folder, **how)
        schedules = []
        if options.cycles and answer["status"] == "ok":
            figures = tpu_schedule.figures(options.tilecast, rows[0]["target"])
            try:
                scalars = scalars_of(path) if alone else ()
                schedules = [tpu_schedule.read(folder, figures, independent, scalars)["calls"] for independent in (True, False)]
            except tpu_schedule.Unreadable as error:
                answer = {"status": "error", "message": error}
    found = []
    for row, is_changed in zip(rows, changed):
        if is_changed:
            found.append(CHANGED)
        elif answer["status"] not in ("ok", "vmem_oom"):
            found.append(("failed", str(answer["message"])[:300]))
        else:
            found.append(cycles(row, answer, *schedules) if schedules else vmem(row, answer))
    return found


def vmem(row, answer):
    """The outcome for the bytes of a row's kernel."""
    if answer["status"] == "vmem_oom":
        used = answer["used_bytes"]
        same = row["status"] == "oom"
    else:
        used = [kernel["used_bytes"] for kernel in answer["kernels"] if kernel["name"].startswith(row["kernel"])]
        used = used[0] if used else answer["used_bytes"]
        same = used == int(row["used_bytes"])
    return ("same" if same else "differs"), f"{used} bytes, measured {row['used_bytes']}"


def cycles(row, answer, independent, shared):
    """The outcome for the cycles of a row's kernel, which is the one of the program with its bytes and, of those, its cycles. The row
    gets those with copies."""
    names = [kernel["name"] for kernel in answer["kernels"] if kernel["used_bytes"] == int(row["used_bytes"])]
    if not names:
        return "differs", f"no kernel uses {row['used_bytes']} bytes"
    measured = int(row["cycles"])
    name = min(names, key=lambda name: abs(shared[name]["first_cycles"] - measured))
    read = shared[name]["first_cycles"]
    line = f"{read} cycles, measured {measured}"
    for column, calls in [("cycles_independent", independent), ("cycles_shared", shared)]:
        with_copies = calls[name]["first_cycles_with_copies"]
        line += f"; {column} {with_copies}, {row[column] or 'not measured'}"
        if read == measured and row["target"] != "v4":
            row[column] = with_copies
    return ("same" if read == measured else "differs"), line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilecast", default="target/release/tilecast")
    parser.add_argument("--libtpu", required=True)
    parser.add_argument("--set", default="heldout", choices=["fit", "heldout", "fit_logits", "heldout_logits", "fit_experts", "heldout_experts"])
    parser.add_argument("--targets", default="v4,v5e,v5p,v6e,v7x")
    parser.add_argument("--kernels", help="only rows of these kernels")
    parser.add_argument("--limit", type=int, help="only this many rows, evenly spread")
    parser.add_argument("--smallest", action="store_true", help="with --limit, the rows of the smallest blocks instead")
    parser.add_argument("--cycles", action="store_true", help="compare cycles, of the rows that were compiled, and not VMEM")
    parser.add_argument("--record", action="store_true", help="with --cycles, write those with copies into the rows")
    options = parser.parse_args()
    data = os.path.join(ROOT, "backend-sim", "data", f"{options.set}.csv")
    with open(data) as f:
        everything = list(csv.DictReader(f))
    rows = [row for row in everything if row["target"] in options.targets.split(",")]
    if options.kernels:
        rows = [row for row in rows if row["kernel"] in options.kernels.split(",")]
    if options.cycles:
        rows = [row for row in rows if row["status"] == "ok" and row["cycles"] and (is_alone(row) or row["target"] != "v4")]
    if options.smallest:
        rows = sorted(rows, key=lambda row: (math.prod(int(row[side]) for side in "bhvio" if side in row), row["cycles"]))[: options.limit]
    elif options.limit:
        rows = rows[:: max(1, len(rows) // options.limit)][: options.limit]
    counts = {"same": 0, "changed": 0, "differs": 0, "failed": 0}
    programs = {}
    for row in rows:  # the kernels of a program are rows of their own
        alone = row["kernel"] if is_alone(row) else None
        key = alone, row["target"], row["limit_bytes"], *emit_arguments(row, row["target"], 0)
        programs.setdefault(key, []).append(row)
    for rows in programs.values():
        for row, (outcome, line) in zip(rows, measure(options, rows)):
            counts[outcome] += 1
            sides = [row[side] for side in "b h v i o tokens hidden vocab rows experts inputs outputs".split() if side in row]
            print(outcome, row["target"], row["kernel"], row["dtype"], *sides, line, flush=True)
    if options.record:
        with open(data, "w") as f:
            writer = csv.DictWriter(f, everything[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(everything)
    print(", ".join(f"{n} {outcome}" for outcome, n in counts.items()))
    return 1 if counts["differs"] + counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
