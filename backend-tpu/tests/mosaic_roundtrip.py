"""Compiles kernels twice for TPU, as lowered and as read and written by this project, and compares.

    mosaic_roundtrip.py --tilecast TILECAST --libtpu FILE --binary MOSAIC_ROUNDTRIP [--targets v5e,v6e] [--jobs N] [NAME..]

TILECAST is the command, MOSAIC_ROUNDTRIP the example of that name.
Prints a table in Markdown, the one in docs/round-trip.md.

A kernel comes through if the pretty text does to the byte and if the compiler makes the same of
both sides: VMEM of each kernel, size of the machine code, and the kernels' final bundles, which are
every instruction with its registers in the order it is issued. Equal bundles are equal cycles.
Where the compiler refuses a kernel, it must be known to and refuse both sides with the same words.
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mosaic_tool  # noqa: E402
import own_kernels  # noqa: E402
import public_kernels  # noqa: E402

TOPOLOGIES = {"v4": "v4:2x2x1", "v5e": "v5e:2x2", "v5p": "v5p:2x2x1", "v6e": "v6e:2x2", "v7x": "tpu7x:2x2x1"}
SUBLANE_GATHER = "v4 has no sublane gather"
TOO_LARGE = "does not fit the VMEM of v4"
REFUSED = {
    ("shapes", "v4"): SUBLANE_GATHER,
    ("batched", "v4"): "v4 has no product with an 8-bit right-hand side",
    ("tokamax_cross_entropy", "v4"): SUBLANE_GATHER,
    ("tokamax_cross_entropy_ragged", "v4"): SUBLANE_GATHER,
    ("tokamax_cross_entropy_backward", "v4"): TOO_LARGE,
    ("tokamax_cross_entropy_backward_ragged", "v4"): TOO_LARGE,
}
COLUMNS = ["kernel", "target", "kernels", "compiles", "used bytes", "code bytes", "bundles"]


class Mismatch(Exception):
    """What a kernel lost on the way."""


def read_and_write(binary, text, form, folder):
    path = os.path.join(folder, "in.mlir")
    with open(path, "w") as f:
        f.write(text)
    p = subprocess.run([binary, path, form], capture_output=True, text=True)
    if p.returncode != 0:
        raise Mismatch(f"cannot be read or written as {form}: {p.stderr.strip()[-300:]}")
    return p.stdout


def sides(kernel, target, binary, folder):
    """Number of kernels, and the StableHLO as lowered and with every kernel read and written."""
    stablehlo, texts = mosaic_tool.lower(*kernel(), TOPOLOGIES[target])
    bodies = []
    for pretty, _ in texts:
        again = read_and_write(binary, pretty, "pretty", folder)
        if again != pretty:
            raise Mismatch("the pretty text changed")
        bodies.append(read_and_write(binary, again, "stable", folder))
    if not bodies:
        raise Mismatch("there is no kernel in it")
    return len(bodies), (stablehlo, mosaic_tool.rewrap(stablehlo, bodies))


def bundles(folder):
    """The final bundles of each kernel of a program, without comments. Sorted by text, because names come from debug
    locations, which only one side has. What XLA puts around the kernels is left out: its order hangs on those names."""
    texts = []
    for name in os.listdir(folder):
        # <time>-<part of the program>-<number of the dump>-final_bundles.txt
        if re.search(r"-\d+-final_bundles\.txt$", name):
            with open(os.path.join(folder, name)) as f:
                text = f.read()
            if re.search(r"/\* exit bundle: [^*]*custom-call\(", text):
                texts.append(re.sub(r"/\*.*?\*/", "", text, flags=re.S))
    return sorted(texts)


def compile_module(text, target, args):
    """What the compiler says, and the bundles it made."""
    with tempfile.TemporaryDirectory(prefix="tilecast-roundtrip-") as folder:
        path = os.path.join(folder, "module.mlir")
        with open(path, "w") as f:
            f.write(text)
        flags = [f"--xla_jf_dump_to={folder}", "--xla_jf_dump_llo_text=true",
                 "--xla_jf_dump_llo_pass_label_regex=final_bundles"]
        command = [args.tilecast, "compile", "--stablehlo", path, "--target", target, "--libtpu", args.libtpu, "--json"]
        p = subprocess.run(command, capture_output=True, text=True, timeout=1200,
                           env=dict(os.environ, LIBTPU_INIT_ARGS=" ".join(flags)))
        try:
            return json.loads(p.stdout), bundles(folder)
        except json.JSONDecodeError:
            raise Mismatch(f"the compiler ended: {p.stderr.strip()[-300:]}") from None


def compare(name, target, count, texts, args):
    """The cells of a row after the target."""
    (before, before_bundles), (after, after_bundles) = [compile_module(text, target, args) for text in texts]
    # What follows the first line of a message are locations.
    said = [[side["status"], *str(side["message"] or "").splitlines()[:1]] for side in (before, after)]
    if said[0] != said[1]:
        raise Mismatch(f"{said[0]} -> {said[1]}")
    reason = REFUSED.get((name, target))
    if before["status"] != "ok":
        if reason is None:
            raise Mismatch(f"the compiler refuses both sides: {said[0]}")
        return [count, f"refused: {reason}", "", "", ""]
    if reason is not None:
        raise Mismatch(f"compiles, and is listed as refused: {reason}")
    used = [[kernel["used_bytes"] for kernel in side["kernels"]] for side in (before, after)]
    # XLA makes custom calls of its own in some programs; they are compared as well.
    if len(before_bundles) < count:
        raise Mismatch(f"the compiler dumped {len(before_bundles)} of {count} kernels")
    sizes = [[before["code_bytes"]], [after["code_bytes"]]]
    for what, (x, y) in (("used bytes", used), ("code bytes", sizes)):
        if x != y:
            raise Mismatch(f"{what}: {x} != {y}")
    if before_bundles != after_bundles:
        raise Mismatch("the final bundles differ")
    number = sum(len(re.findall(r"^ *(?:0x[0-9a-f]+|0) ", text, re.M)) for text in before_bundles)
    return [count, "ok", f"= {used[0]}", f"= {before['code_bytes']}", f"= {number}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilecast", required=True)
    parser.add_argument("--libtpu", required=True)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--targets", default=",".join(TOPOLOGIES))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    kernels = {kernel.__name__: kernel for kernel in own_kernels.KERNELS + public_kernels.KERNELS}
    targets = args.targets.split(",")
    for unknown in set(args.names) - set(kernels) | set(targets) - set(TOPOLOGIES):
        parser.error(f"there is no {unknown}; kernels: {', '.join(kernels)}; targets: {', '.join(TOPOLOGIES)}")
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|", flush=True)
    failed, rows = 0, []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool, tempfile.TemporaryDirectory() as folder:
        for name in args.names or kernels:
            for target in targets:
                try:
                    count, texts = sides(kernels[name], target, args.binary, folder)
                    outcome = pool.submit(compare, name, target, count, texts, args)
                except Exception as error:  # of jax, or of ours: the row says it
                    outcome = concurrent.futures.Future()
                    outcome.set_exception(error)
                rows.append((name, target, outcome))
        for name, target, outcome in rows:
            try:
                cells = outcome.result()
            except Exception as error:
                failed += 1
                cells = [f"FAIL {type(error).__name__}: {str(error)[:500]}"]
            print("| " + " | ".join(map(str, [name, target, *cells])) + " |", flush=True)
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
