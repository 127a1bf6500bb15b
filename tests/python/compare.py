#!/usr/bin/env python3
"""Compares `tilecast run linear-ce --backend cpu` with PyTorch and JAX in f64, and checks that wrong requests are refused.

    python=$(bash tests/python/setup.sh) && "$python" tests/python/compare.py --require

The command computes in f32 from f32 or bf16 inputs; the references compute in f64 from exactly those inputs. Allowed:

* loss, lse: 2e-6 of max(1, |reference|), whatever the dtype of the inputs.
* gradients of f32 inputs, and dbias: 1e-5 of the largest entry of the reference gradient.
* dx, dw of bf16 inputs: per element 2^-8 of |reference|, for the rounding of the result, plus 1e-5 of the largest entry.
* the same and dbias, where delta is held in bf16 (bf16 inputs, neither combined nor --delta-dtype f32): besides four times the root of the sum of the
  squares of 2^-8 |delta w| (dx), |x delta| (dw), |delta| (dbias), since each delta is rounded once or twice.
* rows of ignored tokens in dx: exactly zero, unless their logsumexp has a cotangent.
* inputs with nan or inf: nan or inf in the same places as PyTorch in f32, and the rest as above.

Prints a line per case, then the totals. Exit code 1 if anything failed.
"""

import argparse
import dataclasses
import functools
import math
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
STATISTIC = 2e-6
GRADIENT = 1e-5
BF16_ROUNDING = 2.0**-8
# How far apart the two f64 references may be, of the largest entry: a check on the references themselves.
REFERENCES_AGREE = 1e-10
TIMEOUT_S = 300


@dataclasses.dataclass
class Verdict:
    """One tensor against one reference: the worst error as a share of what is allowed, and a report if it is over."""

    share: float
    report: str | None = None


def describe(np, name, got, want, error, bad, extra=""):
    """The mismatch report: maxima over all finite places, then the first place that is wrong."""
    finite = np.isfinite(error)
    max_abs = error[finite].max(initial=0.0)
    relative = error[finite & (want != 0)] / np.abs(want[finite & (want != 0)])
    first = np.unravel_index(int(np.argmax(bad)), bad.shape)
    index = ", ".join(str(int(i)) for i in first)
    return (
        f"{name}: {int(bad.sum())} of {bad.size} wrong, max abs {max_abs:.3e}, max rel {relative.max(initial=0.0):.3e}, "
        f"first at [{index}]: got {got[first]:.9g}, want {want[first]:.9g}{extra}"
    )


def of_rounded_delta(np, inputs, delta):
    """What may be added to the errors of the gradients if each element of `delta` is rounded to bf16."""
    finite = lambda array: np.where(np.isfinite(array), array, 0.0)
    delta, x, w = finite(delta) ** 2, finite(inputs["x"]) ** 2, finite(inputs["w"]) ** 2
    squares = {"dx": delta @ w.T, "dw": x.T @ delta, "dbias": delta.sum(axis=0)}
    return {name: 4 * BF16_ROUNDING * np.sqrt(sums) for name, sums in squares.items()}


def judge(np, name, got, want, problem, stored, strange=None, more=0.0):
    """`got` against `want` (both f64). `stored` is the dtype it was written in, `strange` where nan and inf belong, `more`
    is allowed besides."""
    magnitude = np.abs(want)
    largest = magnitude[np.isfinite(magnitude)].max(initial=0.0)
    rounded = name in ("dx", "dw") and problem.dtype == "bf16"
    if name in ("loss", "lse"):
        allowed = STATISTIC * problem.slack * np.maximum(1.0, magnitude)
    else:
        allowed = np.full_like(want, GRADIENT * problem.slack * largest)
        if rounded:
            allowed += BF16_ROUNDING * magnitude
        allowed += more
    if strange is None:
        strange = ~np.isfinite(want)

    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        error = np.abs(got - want)
        comparable = np.isfinite(want) & np.isfinite(got) & ~strange
        bad = (np.isfinite(got) == strange) | (comparable & (error > allowed))
        shares = np.where(error == 0, 0.0, error / allowed)[comparable]
    share = float(shares.max(initial=0.0))
    if not bad.any():
        return Verdict(share)
    extra = ""
    if rounded:
        loose = BF16_ROUNDING * largest
        extra = (
            f"; {np.mean(~bad):.4%} within 2^-8·|ref| + 1e-5·max|ref|, "
            f"{np.mean(error <= loose):.4%} within 2^-8·max|ref|; stored as {stored}"
        )
    return Verdict(math.inf if not comparable[bad].all() else share, describe(np, name, got, want, error, bad, extra))


class Comparison:
    """The numeric cases: needs numpy, a reference at least, and the command."""

    def __init__(self, tilecast, references):
        import ml_dtypes
        import numpy as np
        import tensors

        self.np, self.tensors, self.bf16 = np, tensors, np.dtype(ml_dtypes.bfloat16)
        self.tilecast, self.references = tilecast, references
        # All runs of a problem follow each other, so one answer is kept.
        self.expected = functools.lru_cache(maxsize=1)(self._expected)

    def _expected(self, problem):
        np = self.np
        inputs = problem.inputs()
        wide = {k: v if k == "labels" else v.astype(np.float64) for k, v in inputs.items()}
        answers = {}
        for name, module in self.references.items():
            answers[name] = module.reference(problem, wide)
        rounded = {}
        if problem.dtype == "bf16" and "torch" in answers:
            rounded = of_rounded_delta(np, wide, answers["torch"].pop("delta"))
        strange = {}
        if problem.poison is not None:
            in_f32 = self.references["torch"].reference(problem, wide, dtype="float32")
            strange = {name: ~np.isfinite(value) for name, value in in_f32.items()}
        disagreements = []
        if len(answers) == 2:
            for name, other in answers["jax"].items():
                one = answers["torch"][name]
                with np.errstate(invalid="ignore"):
                    error = np.abs(one - other)
                bad = np.isfinite(one) != np.isfinite(other)
                bad |= error > REFERENCES_AGREE * max(1e-3, np.abs(one[np.isfinite(one)]).max(initial=0.0))
                if bad.any():
                    disagreements.append("the references disagree: " + describe(np, name, one, other, error, bad))
        return inputs, self.tensors.encode(inputs), answers, rounded, strange, disagreements

    def names(self, problem, run):
        """The tensors the output must hold, and those it may hold."""
        statistics = ["loss", "lse"]
        gradients = ["dx", "dw"] + (["dbias"] if problem.bias else [])
        if run.part == "forward":
            return statistics, []
        return (gradients, statistics) if run.part == "backward" else (statistics + gradients, [])

    def run(self, problem, run, folder):
        """(`ok`, `FAIL` or `skip`, a remark, reports)."""
        np = self.np
        inputs, content, answers, rounded, strange, reports = self.expected(problem)
        if problem.dtype == "f32" or run.delta_dtype == "f32" or run.strategy == "combined":
            rounded = {}
        elif not rounded:
            return "skip", "the gradient of the logits is PyTorch's to say", []
        reports = list(reports)
        source, target = folder / "input.safetensors", folder / "output.safetensors"
        source.write_bytes(content)
        command = [str(self.tilecast), "run", "linear-ce", "--backend", "cpu", "--input", str(source)]
        command += ["--output", str(target), *problem.arguments(), *run.arguments()]
        started = time.monotonic()
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "FAIL", "", [f"no answer after {TIMEOUT_S} s"]
        seconds = time.monotonic() - started
        if run.may_refuse and done.returncode == 2 and done.stderr.strip() and not target.exists():
            return "skip", f"refused: {first_line(done.stderr)}", []
        if done.returncode != 0:
            return "FAIL", "", [f"exit code {done.returncode}", *done.stderr.strip().splitlines()[-20:]]
        try:
            outputs = self.tensors.decode(target.read_bytes())
        except Exception as error:  # whatever the reader says of a file that should be good
            return "FAIL", "", [f"the output cannot be read: {error}"]

        required, optional = self.names(problem, run)
        reports += [f"{name} is missing" for name in required if name not in outputs]
        reports += [f"{name} is not expected" for name in outputs if name not in required + optional]
        worst = {}
        for name in required + optional:
            if name not in outputs:
                continue
            in_bf16 = name in ("dx", "dw") and problem.dtype == "bf16" and run.grad_dtype != "f32"
            dtype = self.bf16 if in_bf16 else np.dtype(np.float32)
            if outputs[name].dtype != dtype:
                reports.append(f"{name} is {outputs[name].dtype}, not {dtype}")
            got = outputs[name].astype(np.float64)
            for reference, answer in answers.items():
                want = answer[name]
                if got.shape != want.shape:
                    reports.append(f"{name} has shape {list(got.shape)}, not {list(want.shape)}")
                    break
                verdict = judge(np, name, got, want, problem, outputs[name].dtype, strange.get(name), rounded.get(name, 0.0))
                worst[reference] = max(worst.get(reference, (0.0, name)), (verdict.share, name))
                if verdict.report:
                    reports.append(f"against {reference}: {verdict.report}")
            # An ignored row has a gradient only through its logsumexp.
            if name == "dx" and problem.ignore_index is not None and "d_lse" not in inputs and got.shape == inputs["x"].shape:
                rows = np.flatnonzero((got != 0).any(axis=1) & (inputs["labels"] == problem.ignore_index))
                if rows.size:
                    reports.append(f"dx: {rows.size} rows of ignored tokens are not zero, the first is row {rows[0]}")
        remark = ", ".join(f"{reference} {share:.2f} ({name})" for reference, (share, name) in worst.items())
        return "FAIL" if reports else "ok", f"{remark}  {seconds:.2f} s", reports


def first_line(text):
    return text.strip().splitlines()[0]


def refuse(tilecast, case, folder):
    """(`ok` or `FAIL`, a remark, reports) of a request that must be refused."""
    source, written = folder / "input.safetensors", folder / "written"
    written.mkdir()
    if case.content is not None:
        source.write_bytes(case.content)
    options = {"--backend": case.backend, "--input": str(source), "--output": str(written / case.output)}
    options.pop(case.without, None)
    # 8 GiB of addresses, so that a file that lies about its size cannot take the machine along.
    command = ["sh", "-c", 'ulimit -v 8388608 && exec "$@"', "sh"]
    command += [str(tilecast), "run", case.op, *(text for pair in options.items() for text in pair), *case.arguments]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
        )
    except subprocess.TimeoutExpired:
        return "FAIL", "", ["no answer after 60 s"]
    reports = []
    if done.returncode != 2:
        reports.append(f"exit code {done.returncode}, not 2")
    if not done.stderr.strip():
        reports.append("no message on stderr")
    if "panicked" in done.stderr + done.stdout:
        reports.append("it panicked")
    leftovers = [path.name for path in written.rglob("*")]
    if leftovers:
        reports.append(f"left behind: {', '.join(leftovers)}")
    if reports:
        return "FAIL", "", reports + done.stderr.strip().splitlines()[:5]
    return "ok", first_line(done.stderr), []


def load_references():
    """The references that can be imported here, and why the others cannot."""
    found, missing = {}, {}
    for name in ("torch", "jax"):
        try:
            found[name] = __import__(f"reference_{name}")
        except Exception as error:  # a broken install raises more than ImportError
            missing[name] = f"{type(error).__name__}: {error}"
    return found, missing


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = HERE.parent.parent / "target" / "release" / "tilecast"
    parser.add_argument("--tilecast", type=pathlib.Path, default=default, help="the command (default: %(default)s)")
    parser.add_argument("--require", action="store_true", help="fail if torch or jax cannot be imported")
    parser.add_argument("--filter", default="", help="only the cases whose name contains this text")
    parser.add_argument("--quick", action="store_true", help="leave out the large acceptance problem")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and stop")
    return parser.parse_args()


def main():
    options = parse_arguments()
    try:
        import cases
        import hostile
    except ImportError as error:
        print(f"skip  everything: {error} (tests/python/setup.sh makes an environment)")
        print(f"0 passed, {int(options.require)} failed, {int(not options.require)} skipped")
        return int(options.require)

    numeric = [
        (f"{problem.dtype} {problem.name}: {run}", problem, run) for problem in cases.PROBLEMS for run in problem.runs
    ]
    wrong = [(f"refuse {case.name}", case) for case in hostile.HOSTILE]
    numeric = [case for case in numeric if options.filter in case[0]]
    if options.quick:
        numeric = [case for case in numeric if case[1].name != "acceptance"]
    wrong = [case for case in wrong if options.filter in case[0]]
    if options.list:
        print("\n".join(case[0] for case in [*numeric, *wrong]))
        return 0
    if not options.tilecast.is_file():
        print(f"compare: no command at {options.tilecast}: build it (cargo build --release) or give --tilecast", file=sys.stderr)
        return 2

    counts = {"ok": 0, "FAIL": 0, "skip": 0}

    def tell(name, status, remark, reports=()):
        counts[status] += 1
        print(f"{status:4}  {name:72}  {remark}".rstrip())
        for report in reports:
            print(f"          {report}")
        sys.stdout.flush()

    references, missing = load_references()
    for name, reason in missing.items():
        tell(f"reference {name}", "FAIL" if options.require else "skip", reason)
    comparison = Comparison(options.tilecast.resolve(), references)
    print("worst error as a share of the allowed one, against each reference (and in which tensor), then the time:")
    with tempfile.TemporaryDirectory(prefix="tilecast-compare-") as root:
        for index, (name, *case) in enumerate([*numeric, *wrong]):
            folder = pathlib.Path(root, str(index))
            folder.mkdir()
            if len(case) == 1:
                tell(name, *refuse(options.tilecast.resolve(), case[0], folder))
            elif not references or (case[0].poison and "torch" not in references):
                tell(name, "skip", "its reference cannot be imported")
            else:
                tell(name, *comparison.run(*case, folder))
            for path in sorted(folder.rglob("*"), reverse=True):
                path.unlink() if path.is_file() else path.rmdir()
    print(f"{counts['ok']} passed, {counts['FAIL']} failed, {counts['skip']} skipped")
    return int(counts["FAIL"] > 0)


if __name__ == "__main__":
    sys.exit(main())
