"""Holds our fused cross-entropy against published ones by the TPU compiler's own schedule; no TPU needed.

    python=$(bash tests/python/setup.sh)
    TPU_LIBRARY_PATH=FILE $python tests/python/bench_tpu.py --tilecast PATH --libtpu FILE [--markdown docs/tpu-kernels.md]

FILE is libtpu.so (tests/python/libtpu.sh). Each contender (tpu_contenders.py) is
compiled for each target, type and shape, forward and backward alone, and its schedule read (tpu_schedule.py). What was compiled once
and read is kept in --cache by content, so that a second run takes what has changed. --markdown replaces the tables of that file, between
its two marks, by those of this run: for each type and pass the share of the floor of every contender, how many times as fast as the best of the
others ours is, and what it takes of VMEM (MiB) and HBM. Why something was refused goes to the standard error.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import math
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
    if options.cached:
        return {"status": "left out", "message": "not in the cache"}
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
                answer |= {"status": "unread", "message": done.stderr.strip().splitlines()[-1]}
    timed_out = answer["status"] == "error" and "took" in str(answer.get("message"))
    if answer["status"] != "crash" and not timed_out:
        with open(path, "w") as f:
            json.dump(answer, f)
    return answer


def contend(options, figures, name, cell, passes):
    """The best variant of a contender in a cell: its row, or why there is none."""
    best, reasons, held = None, [], {}
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
            if answer["status"] == "unread":
                held = {"temporary_bytes": answer["hbm"]["temporary_bytes"]}
            continue
        row = figures_of(answer, figures, cell, passes)
        if row["share"] > 1:
            reasons.append(f"{blocks}: unread: {row['cycles']} cycles are fewer than the products take")
            continue
        row["blocks"] = blocks
        print(name, *cell, passes, blocks, json.dumps({k: row[k] for k in ("share", "share_with_copies")}), flush=True)
        if best is None or rank(row) < rank(best):
            best = row
    return best or {"refused": "; ".join(reasons), **held}


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


def better(rows, names, cell, passes):
    """The fastest of these contenders in a cell, if any of them was compiled and read."""
    found = [row for name in names if "cycles" in (row := rows[name, cell, passes])]
    return min(found, key=rank, default=None)


def ahead(rows, cell, passes):
    """How many times as fast as the best of the others ours is, by the better of its blocks."""
    ours, others = (better(rows, names, cell, passes) for names in (tpu_contenders.OURS, tpu_contenders.OTHERS))
    return rank(others) / rank(ours) if ours and others else None


def table(cells, rows, passes):
    """Markdown of one type and pass. Shares are with copies, where the compiler has a model of them."""
    lines = ["| " + " | ".join([passes, "H x V", *tpu_contenders.NAMES, "ahead", "VMEM", "HBM"]) + " |"]
    lines.append("|" + "---|" * (lines[0].count("|") - 1))
    for cell in cells:
        line = [cell.target, f"{cell.hidden} x {cell.vocab}"]
        for name in tpu_contenders.NAMES:
            row = rows[name, cell, passes]
            share = row.get("share_with_copies") or row.get("share")
            blocks = f" ({row['blocks']})" if name in tpu_contenders.OURS and share else ""
            line.append(f"{share:.3f}{blocks}" if share else label(row["refused"]))
        ours, times = better(rows, tpu_contenders.OURS, cell, passes), ahead(rows, cell, passes)
        line.append(f"{times:.2f}" if times else "")
        line += [f"{ours['vmem'] / 2**20:.1f}", memory(rows, cell, passes, ours)] if ours else ["", ""]
        lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines)


def label(reasons):
    """Why there is no figure, in a word."""
    return next((word for word in ("unread", "left out") if word in reasons), reasons and "refused")


def memory(rows, cell, passes, row):
    """MiB that ours holds in HBM beside inputs and outputs; and as a share of what the un-fused program holds, or of the f32 logits, which are the
    least of that, where it is not compiled."""
    held, unfused = row["temporary_bytes"], rows["un-fused", cell, passes].get("temporary_bytes")
    share = held / (unfused or 4 * tpu_contenders.TOKENS * cell.vocab)
    return f"{held / 2**20:.0f}: {share:.3f}{'' if unfused else ' of the logits'}" if held >= 1 << 19 else "0"


def summary(cells, rows):
    """How far ahead ours is."""
    times = [times for cell in cells for passes in PASSES if (times := ahead(rows, cell, passes))]
    if not times:
        return ""
    mean = math.exp(sum(map(math.log, times)) / len(times))
    return f"Of {len(times)} passes that can be compared, ours is {mean:.2f} times as fast as the best of the others in the geometric mean, at least {min(times):.2f} times."


def notes(cells, rows):
    """Why something was refused."""
    lines = []
    for cell in cells:
        for (name, where, passes), row in rows.items():
            if where == cell and row.get("refused"):
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
    parser.add_argument("--cached", action="store_true", help="compile nothing: what has not been compiled is left out")
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
    rows = {(name, cell, passes): {"refused": ""} for cell in cells for name in tpu_contenders.NAMES for passes in PASSES}
    names = options.contenders.split(",")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        tasks = {
            key: pool.submit(contend, options, targets[key[1].target], *key)
            for key in rows
            if key[0] in names
        }
        for key, task in tasks.items():
            rows[key] = task.result()
    text = ""
    for dtype in dtypes:
        of = [cell for cell in cells if cell.dtype == dtype]
        tables = "\n\n".join(table(of, rows, passes) for passes in PASSES)
        text += f"\n### {dtype}\n\n{summary(of, rows)}\n\n{tables}\n"
    print(text)
    print(notes(cells, rows), file=sys.stderr)
    if options.markdown:
        with open(options.markdown) as f:
            before, rest = f.read().split(MARKS[0])
        with open(options.markdown, "w") as f:
            f.write(before + MARKS[0] + "\n" + text + MARKS[1] + rest.split(MARKS[1])[1])


if __name__ == "__main__":
    main()
