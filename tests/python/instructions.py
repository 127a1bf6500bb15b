#!/usr/bin/env python3
"""Counts the instructions of the CPU's inner loops, and fails where there are more than there were.

    cargo build --release -p tilecast-benches --examples
    instructions.py --examples target/release/examples [--print]

Seconds on a shared machine say little. Instructions say at least whether a loop still works on vectors: one that falls back to
single numbers takes several times as many. valgrind counts them, on a machine that it emulates and that has AVX2 but neither
AVX-512 nor tiles: so this sees the loops of AVX2, and with them packing, softmax and walking, which all levels share.

Each case runs once and three times, and half of the difference is one run, without what comes before it. LIMITS are a
twentieth above what rustc 1.95 makes; counts repeat to a thousandth, and to a hundredth with other sizes of the caches. More is
a reason to look, and only then to raise one. --print prints the counts and compares nothing. Exit code 1 if a count is too high.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

TOKENS, HIDDEN, VOCAB = 128, 256, 2048
MULTIPLY_ADDS = TOKENS * HIDDEN * VOCAB
LOGITS = TOKENS * VOCAB
# Example, type, what to run: instructions for each multiply-add of the products that the op needs (one forward, three with
# backward), or for each logit.
LIMITS = {
    ("linear_peer", "f32", "forward"): 0.341,
    ("linear_peer", "f32", "both"): 0.366,
    ("linear_peer", "bf16", "forward"): 0.344,
    ("linear_peer", "bf16", "both"): 0.390,
    ("logits_peer", "f32", "logits-ce forward"): 6.89,
    ("logits_peer", "f32", "logits-ce given"): 13.1,
    ("logits_peer", "bf16", "logits-ce forward"): 6.63,
    ("logits_peer", "bf16", "logits-ce given"): 14.8,
    ("logits_peer", "bf16", "grpo given"): 16.1,
}


def units(example, what):
    if example == "logits_peer":
        return LOGITS
    return MULTIPLY_ADDS * (1 if what == "forward" else 3)


def instructions(binary, arguments, lines):
    """Of a run of the example with these lines as its input."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", binary, *arguments]
    done = subprocess.run(command, input=lines, capture_output=True, text=True)
    found = re.search(r"I +refs: +([\d,]+)", done.stderr)
    if done.returncode != 0 or not found:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    return int(found[1].replace(",", ""))


def count(examples, example, dtype, what):
    """Instructions for each unit of one run."""
    shape = [TOKENS, HIDDEN, VOCAB] if example == "linear_peer" else [TOKENS, VOCAB]
    arguments = [*map(str, shape), dtype, "1"]
    once, thrice = (instructions(os.path.join(examples, example), arguments, f"{what}\n" * times) for times in (1, 3))
    return (thrice - once) / 2 / units(example, what)


def cannot_count():
    """Why this machine cannot, if so."""
    if not shutil.which("valgrind"):
        return "valgrind is not installed"
    try:
        with open("/proc/cpuinfo") as f:
            has_avx2 = "avx2" in f.read().split()
    except OSError:
        has_avx2 = False
    return None if has_avx2 else "the limits are those of AVX2, which this machine does not have"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", default="target/release/examples", help="folder of the built examples")
    parser.add_argument("--print", action="store_true", help="print the counts, whatever the limits")
    options = parser.parse_args()
    if reason := cannot_count():
        print(f"skipped: {reason}\n0 passed, 0 failed, 1 skipped")
        return 0
    passed = failed = 0
    for case, limit in LIMITS.items():
        found = count(options.examples, *case)
        is_good = options.print or found <= limit
        passed, failed = passed + is_good, failed + (not is_good)
        verdict = "" if is_good else f", more than {limit}: see the top of {os.path.basename(__file__)}"
        unit = "logit" if case[0] == "logits_peer" else "multiply-add"
        print(f"{' '.join(case)}: {found:.3f} instructions a {unit}{verdict}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
