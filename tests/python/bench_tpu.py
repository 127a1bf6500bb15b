"""Holds our fused cross-entropy against published ones by the TPU compiler's own schedule; no TPU needed.

    python=$(bash tests/python/setup.sh)
    TPU_LIBRARY_PATH=FILE $python tests/python/bench_tpu.py --tilecast PATH --libtpu FILE [--markdown docs/tpu-kernels.md]

`tilecast` is built with the feature pjrt, FILE is libtpu.so (tests/python/libtpu.sh). Each contender (tpu_contenders.py) is
compiled for each target, type and shape, forward and backward alone, and its schedule read (tpu_schedule.py). What was compiled once
and read is kept in --cache by content, so that a second run takes what has changed. --markdown replaces the tables of that file, between
its two marks, by those of this run.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading

import tpu_contenders
import tpu_schedule

TARGETS = ["v4", "v5e", "v5p", "v6e", "v7x"]
SHAPES = ["4096x128256", "512x32768", "2048x151936", "8192x128256"]
PASSES = {"forward": 1, "backward": 3}  # products of B x H x V
MARKS = "<!-- tables of bench_tpu.py -->", "<!-- end of tables -->"
Cell = collections.namedtuple("Cell", "target dtype hidden vocab")
LOWERING = threading.Lock()  # JAX's hooks are global


def measure(options, cell, program):
    """What the compiler makes of a program: its answer, with the schedule if it took it."""
    key = "\0".join([cell.target, str(os.path.getsize(options.libtpu)), tpu_schedule.VERSION, program])
    path = os.path.join(options.cache, hashlib.sha256(key.encode()).hexdigest()[:32] + ".json")
    if os.path.exists(path):
        with open(path) as f:
            return json.load(f)
    with tempfile.TemporaryDirectory(prefix="tilecast-bench-") as folder:
        source = os.path.join(folder, "program.mlir")
        with open(source, "w") as f:
            f.write(program)
        answer = tpu_schedule.compile_with_listings(options.tilecast, options.libtpu, cell.target, source, folder)
        if answer["status"] == "ok":
            # In a process of its own, for it is Python and takes seconds.
            command = [sys.executable, tpu_schedule.__file__, "--listings", folder, "--target", cell.target]
            done = subprocess.run([*command, "--tilecast", options.tilecast], capture_output=True, text=True)
            if done.returncode == 0:
                answer["schedule"] = json.loads(done.stdout)
            else:
                answer = {"status": "unread", "message": done.stderr.strip().splitlines()[-1]}
    timed_out = answer["status"] == "error" and "took" in str(answer.get("message"))
    if answer["status"] not in ("crash", "unread") and not timed_out:
        with open(path, "w") as f:
            json.dump(answer, f)
    return answer


def contend(options, figures, name, cell, passes):
    """The best variant of a contender in a cell: its row, or why there is none."""
    best, reasons = None, []
    for number, make in enumerate(tpu_contenders.programs(name, cell, passes, options.tilecast, figures)):
        if name == "tokamax" and number > 1 and best and not options.all_blocks:
            break  # smaller blocks than those that the compiler took
        try:
            with LOWERING:
                program, blocks = make()
        except tpu_contenders.Refused as refused:
            reasons.append(str(refused))
            continue
        answer = measure(options, cell, program)
        if answer["status"] != "ok":
            reasons.append(f"{blocks}: {answer['status']}: {str(answer.get('message')).splitlines()[0][:200]}")
            continue
        row = figures_of(answer, figures, cell, passes)
        if row["share"] > 1:
            reasons.append(f"{blocks}: unread: {row['cycles']} cycles are fewer than the products take")
            continue
        row["blocks"] = blocks
        print(name, *cell, passes, blocks, json.dumps({k: row[k] for k in ("share", "share_with_copies")}), flush=True)
        if best is None or rank(row) < rank(best):
            best = row
    return best or {"refused": "; ".join(reasons)}


def rank(row):
    return row["cycles_with_copies"] or row["cycles"]


def figures_of(answer, figures, cell, passes):
    """The columns of the table."""
    macs = tpu_contenders.TOKENS * cell.hidden * cell.vocab * PASSES[passes]
    floor = macs / (figures["mxu_macs_per_cycle"] * tpu_schedule.cores(figures))
    schedule = answer["schedule"]
    with_copies = schedule["cycles_with_copies"] if figures["dma_bytes_per_cycle"] else None
    return {
        "cycles": schedule["cycles"],
        "cycles_with_copies": with_copies,
        "share": floor / schedule["cycles"],
        "share_with_copies": floor / with_copies if with_copies else None,
        "vmem": max((kernel["used_bytes"] or 0 for kernel in answer["kernels"]), default=0) or answer["used_bytes"],
        "temporary_bytes": answer["hbm"]["temporary_bytes"],
    }


def table(cells, rows):
    """Markdown of one type."""
    head = "| target | H x V | kernel | forward | with copies | cycles | VMEM | HBM | backward | with copies | cycles | VMEM | HBM |"
    lines = [head, "|" + "---|" * (head.count("|") - 1)]
    share = lambda value: "" if value is None else f"{value:.3f}"
    for cell in cells:
        for name in tpu_contenders.NAMES:
            line = [cell.target, f"{cell.hidden} x {cell.vocab}", name]
            for passes in PASSES:
                row, plain = rows[name, cell, passes], rows["un-fused", cell, passes]
                if "refused" in row:
                    line += ["refused", "", "", "", ""]
                    continue
                memory = "" if "refused" in plain else f"{row['temporary_bytes'] / plain['temporary_bytes']:.3f}"
                cycles = row["cycles_with_copies"] or row["cycles"]
                vmem = f"{row['vmem'] / 2**20:.1f}" if row["vmem"] else ""
                line += [share(row["share"]), share(row["share_with_copies"]), f"{cycles / 1e6:.1f} M", vmem, memory]
            lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines)


def memory(cells, rows):
    """Markdown: what ours holds in HBM beside inputs and outputs, MiB and share of the f32 logits, which is the least that one without fusion holds."""
    targets = list(dict.fromkeys(cell.target for cell in cells))
    lines = ["| HBM | H x V | " + " | ".join(targets) + " |", "|" + "---|" * (len(targets) + 2)]
    for passes in PASSES:
        for hidden, vocab in dict.fromkeys((cell.hidden, cell.vocab) for cell in cells):
            line = [passes, f"{hidden} x {vocab}"]
            for cell in cells:
                if (cell.hidden, cell.vocab) == (hidden, vocab):
                    held = rows["tilecast", cell, passes].get("temporary_bytes")
                    logits = 4 * tpu_contenders.TOKENS * vocab
                    line.append("" if held is None else f"{held / 2**20:.0f} ({held / logits:.3f})")
            lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines)


def notes(cells, rows):
    """What was refused, and the blocks."""
    lines = []
    for cell in cells:
        for (name, where, passes), row in rows.items():
            if where == cell and "refused" in row:
                lines.append(f"* {cell.target} {cell.dtype} {cell.hidden} x {cell.vocab}, {name} {passes}: {row['refused']}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilecast", default="target/release/tilecast")
    parser.add_argument("--libtpu", required=True)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--shapes", default=",".join(SHAPES), help="HxV, separated by commas")
    parser.add_argument("--dtypes", default="bf16,f32")
    parser.add_argument("--contenders", default=",".join(tpu_contenders.NAMES))
    parser.add_argument("--all-blocks", action="store_true", help="compile every block of Tokamax, also those smaller than one it takes")
    parser.add_argument("--cache", default=os.path.expanduser("~/.cache/tilecast-bench-tpu"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--markdown")
    options = parser.parse_args()
    os.makedirs(options.cache, exist_ok=True)
    targets = {target: tpu_schedule.figures(options.tilecast, target) for target in options.targets.split(",")}
    dtypes = options.dtypes.split(",")
    cells = [
        Cell(target, dtype, *map(int, shape.split("x")))
        for dtype in dtypes
        for shape in options.shapes.split(",")
        for target in targets
    ]
    rows = {(name, cell, passes): {"refused": "left out"} for cell in cells for name in tpu_contenders.NAMES for passes in PASSES}
    names = options.contenders.split(",")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        tasks = {
            key: pool.submit(contend, options, targets[key[1].target], *key)
            for key in rows
            if key[0] in names
        }
        for key, task in tasks.items():
            rows[key] = task.result()
            if "refused" in rows[key]:
                print(*key, rows[key]["refused"], file=sys.stderr, flush=True)
    text = ""
    for dtype in dtypes:
        of = [cell for cell in cells if cell.dtype == dtype]
        text += f"\n### {dtype}\n\n{table(of, rows)}\n\n{memory(of, rows)}\n\n{notes(of, rows)}\n"
    print(text)
    if options.markdown:
        with open(options.markdown) as f:
            before, rest = f.read().split(MARKS[0])
        with open(options.markdown, "w") as f:
            f.write(before + MARKS[0] + "\n" + text + MARKS[1] + rest.split(MARKS[1])[1])


if __name__ == "__main__":
    main()
