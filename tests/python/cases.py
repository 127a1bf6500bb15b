"""What is compared: problems (the mathematics and the inputs) and the ways the command is asked to solve them.

To add a case, add a `Problem` to `PROBLEMS`, or a `Run` to one that is there. The references take only the problem; the
run must not change the answer.
"""

import dataclasses
import zlib
from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Run:
    """Options that choose how the work is done, not what the answer is."""

    part: str | None = None  # --pass: forward, backward or both
    strategy: str | None = None
    blocks: str | None = None
    backward_blocks: str | None = None
    threads: int | None = None
    grad_dtype: str | None = None
    delta_dtype: str | None = None
    # Both passes in one, where that pays: for these small problems, wherever the gradients are f32, or delta is bf16.
    store_logits: bool = False
    # A backend may refuse these block sizes (exit code 2, with a message); it may not answer wrongly.
    may_refuse: bool = False

    def arguments(self):
        options = {
            "--pass": self.part,
            "--strategy": self.strategy,
            "--blocks": self.blocks,
            "--backward-blocks": self.backward_blocks,
            "--threads": self.threads,
            "--grad-dtype": self.grad_dtype,
            "--delta-dtype": self.delta_dtype,
        }
        given = [text for name, value in options.items() if value is not None for text in (name, str(value))]
        return given + ["--store-logits"] * self.store_logits

    def __str__(self):
        return " ".join(self.arguments()) or "(defaults)"


COMBINED = Run(strategy="combined")
STREAMING = Run(strategy="streaming")
STRATEGIES = (COMBINED, STREAMING)
STORED = Run(store_logits=True)
ALL_WAYS = (*STRATEGIES, STORED)


def each_strategy(**options):
    return tuple(dataclasses.replace(run, **options) for run in STRATEGIES)


@dataclass(frozen=True)
class Problem:
    """One loss on one set of inputs. Defaults are the plain loss per token with the default cotangents."""

    name: str
    tokens: int = 37
    hidden: int = 53
    vocab: int = 301
    dtype: str = "f32"
    labels_dtype: str = "i32"
    logit_deviation: float = 2.0  # the logits x·w are drawn with this standard deviation

    soft_cap: float | None = None
    z_loss: float = 0.0
    label_smoothing: float = 0.0
    ignore_index: int | None = None
    reduction: str = "none"

    ignored: str = "none"  # rows that carry the ignored label: none, some, all
    bias: bool = False
    weight: str | None = None  # None, random (some of them zero), zero
    d_loss: str | None = None  # None (the default of the command), random, zero
    d_lse: bool = False
    poison: str | None = None  # a name in POISONS
    # Factor on the tolerances of f32 arithmetic, with the reason beside it where it is not 1.
    slack: float = 1.0

    runs: tuple[Run, ...] = ALL_WAYS

    def arguments(self):
        options = {
            "--soft-cap": self.soft_cap,
            "--z-loss": self.z_loss or None,
            "--label-smoothing": self.label_smoothing or None,
            "--ignore-index": self.ignore_index,
            "--reduction": None if self.reduction == "none" else self.reduction,
        }
        return [text for name, value in options.items() if value is not None for text in (name, str(value))]

    def inputs(self):
        """The tensors of the input file, in the dtypes of the file."""
        # The name alone is the seed: both dtypes and every run see the same draws.
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        storage = np.float32 if self.dtype == "f32" else ml_dtypes.bfloat16
        x = rng.standard_normal((self.tokens, self.hidden))
        w = rng.standard_normal((self.hidden, self.vocab)) * (self.logit_deviation / np.sqrt(self.hidden))
        labels = rng.integers(0, self.vocab, self.tokens)
        if self.ignored != "none":
            if 0 <= self.ignore_index < self.vocab:
                labels[labels == self.ignore_index] = (self.ignore_index + 1) % self.vocab
            rows = rng.random(self.tokens) < 0.3
            rows[:2] = True, False
            labels[rows | (self.ignored == "all")] = self.ignore_index
        tensors = {"bias": rng.standard_normal(self.vocab)} if self.bias else {}
        if self.weight == "random":
            tensors["weight"] = rng.uniform(0.25, 2.0, self.tokens) * (rng.random(self.tokens) < 0.85)
        elif self.weight == "zero":
            tensors["weight"] = np.zeros(self.tokens)
        shape = (self.tokens,) if self.reduction == "none" else ()
        if self.d_loss == "random":
            tensors["d_loss"] = np.asarray(rng.standard_normal(shape) + 0.5)
        elif self.d_loss == "zero":
            tensors["d_loss"] = np.zeros(shape)
        if self.d_lse:
            tensors["d_lse"] = rng.standard_normal(self.tokens)
        if self.poison is not None:
            POISONS[self.poison](x, w, labels)
        tensors = {name: value.astype(np.float32) for name, value in tensors.items()}
        labels = labels.astype(np.int32 if self.labels_dtype == "i32" else np.int64)
        return {"x": x.astype(storage), "w": w.astype(storage), "labels": labels} | tensors


def _nan_in_x(x, w, labels):
    x[3, 5] = np.nan


def _inf_in_x(x, w, labels):
    x[3, 5] = np.inf


def _nan_in_w(x, w, labels):
    w[5, 7] = np.nan


def _inf_in_w(x, w, labels):
    # Rows with a positive x[·, 5] have an infinite logit, the others only a forbidden column.
    w[5, 7] = np.inf
    labels[labels == 7] = 8


def _forbidden_columns(x, w, labels):
    # The first 64 logits of every row are -inf: probability 0, and with small blocks whole tiles without a maximum.
    x[:, 5] = np.abs(x[:, 5]) + 0.1
    w[5, :64] = -np.inf
    labels[labels < 64] += 64


POISONS = {
    "nan in x": _nan_in_x,
    "inf in x": _inf_in_x,
    "nan in w": _nan_in_w,
    "inf in w": _inf_in_w,
    "forbidden columns": _forbidden_columns,
}

EVERYTHING = {
    "soft_cap": 8.0,
    "z_loss": 1e-3,
    "label_smoothing": 0.1,
    "ignore_index": -100,
    "ignored": "some",
    "bias": True,
    "weight": "random",
    "d_loss": "random",
    "d_lse": True,
    "labels_dtype": "i64",
}

SMALL_BLOCKS = (
    *each_strategy(blocks="16,16,32"),
    *each_strategy(blocks="32,32,64", backward_blocks="16,16,32"),
    *each_strategy(blocks="16,16,32", threads=1),
    *each_strategy(blocks="16,16,32", threads=3),
)

_PROBLEMS = [
    Problem("plain", tokens=64, hidden=128, vocab=512, runs=(Run(), *ALL_WAYS)),
    Problem("i64 labels", tokens=64, hidden=128, vocab=512, labels_dtype="i64", runs=(Run(),)),
    # Shapes that fit no block and no vector.
    Problem(
        "ragged",
        runs=(
            *ALL_WAYS,
            *SMALL_BLOCKS,
            Run(blocks="8,128,64"),
            Run(blocks="128,128,128"),
            *each_strategy(blocks="5,7,11", may_refuse=True),
            *each_strategy(blocks="1024,512,2048", may_refuse=True),
            Run(part="forward"),
            Run(part="both"),
            *each_strategy(part="backward"),
            Run(threads=1),
        ),
    ),
    Problem("one more than a block", tokens=129, hidden=257, vocab=1025),
    Problem("one less than a block", tokens=127, hidden=255, vocab=1023),
    Problem("long and thin", tokens=515, hidden=8, vocab=40),
    Problem("wide vocabulary", tokens=5, hidden=16, vocab=5003),
    Problem("wide hidden", tokens=9, hidden=3001, vocab=50),
    # A vocabulary of one has p = 1 and no gradient through the loss, hence d_lse.
    Problem("V=1", vocab=1, d_lse=True),
    Problem("V=2", vocab=2, d_lse=True),
    Problem("B=1", tokens=1, d_lse=True),
    Problem("H=1", hidden=1, d_lse=True),
    Problem("B=H=V=1", tokens=1, hidden=1, vocab=1, d_lse=True),
    # Logits of ±150: exp overflows unless the maximum is subtracted; in bf16 they would be off by up to 0.5.
    # The f32 error of a logit is proportional to its size and goes into p as it is: 40 is 20 times the usual deviation.
    Problem("large logits", logit_deviation=40.0, d_lse=True, slack=20.0),
    # One option at a time.
    Problem("soft cap", soft_cap=5.0),
    Problem("soft cap, hardly bent", soft_cap=30.0, d_lse=True),
    Problem("z-loss", z_loss=1e-2),
    Problem("label smoothing", label_smoothing=0.1),
    Problem("bias", bias=True),
    Problem("weight", weight="random"),
    Problem("ignore index", ignore_index=-100, ignored="some", d_lse=True),
    Problem("ignore index in the vocabulary", ignore_index=0, ignored="some", d_lse=True),
    Problem("ignore index never met", ignore_index=-1),
    Problem("all ignored", ignore_index=-100, ignored="all"),
    Problem("all ignored, mean", ignore_index=-100, ignored="all", reduction="mean"),
    Problem("all ignored, sum", ignore_index=-100, ignored="all", reduction="sum", z_loss=1e-2),
    Problem("all weights zero, mean", weight="zero", reduction="mean"),
    # Cotangents.
    Problem("d_loss", d_loss="random"),
    Problem("d_lse alone", d_loss="zero", d_lse=True),
    Problem("d_lse beside the default d_loss", d_lse=True),
    Problem("d_lse under a soft cap", soft_cap=5.0, d_loss="zero", d_lse=True),
    Problem("d_lse of an ignored row", ignore_index=-100, ignored="some", d_loss="zero", d_lse=True),
    # Reductions.
    Problem("sum", reduction="sum"),
    Problem("mean", reduction="mean"),
    Problem("sum with d_loss", reduction="sum", d_loss="random", d_lse=True),
    Problem("mean with d_loss", reduction="mean", d_loss="random", d_lse=True),
    Problem("mean of weights", reduction="mean", weight="random"),
    Problem("mean of what is not ignored", reduction="mean", ignore_index=-100, ignored="some"),
    Problem("sum with everything", **EVERYTHING, reduction="sum"),
    Problem("mean with everything", **EVERYTHING, reduction="mean", runs=(*ALL_WAYS, *SMALL_BLOCKS)),
    Problem("everything", **EVERYTHING, runs=(*ALL_WAYS, *SMALL_BLOCKS)),
    Problem("everything, larger", tokens=200, hidden=300, vocab=4001, **EVERYTHING),
    # Values that are not numbers must come out where they come out of PyTorch.
    Problem("nan in x", poison="nan in x"),
    Problem("inf in x", poison="inf in x"),
    Problem("inf in x under a soft cap", poison="inf in x", soft_cap=5.0),
    Problem("nan in w", poison="nan in w"),
    Problem("inf in w", poison="inf in w"),
    Problem("forbidden columns", poison="forbidden columns", runs=(*ALL_WAYS, *SMALL_BLOCKS)),
    # The size the project is accepted by.
    Problem("acceptance", tokens=512, hidden=1024, vocab=32768, logit_deviation=2.0, runs=(Run(), *ALL_WAYS)),
]


def _in_bf16(problem):
    """The same problem with bf16 inputs: all runs with delta in f32, which is compared closely, and those that hold it with delta
    in bf16 as well. A few also ask for their gradients in f32."""
    in_f32 = (*each_strategy(grad_dtype="f32"), dataclasses.replace(STORED, grad_dtype="f32"))
    extra = in_f32 if problem.name in ("ragged", "everything", "plain") else ()
    runs = problem.runs + extra
    closely = tuple(dataclasses.replace(run, delta_dtype="f32") for run in runs)
    rounded = tuple(run for run in runs if run.strategy != "combined" and run.part != "forward")
    return dataclasses.replace(problem, dtype="bf16", runs=closely + rounded)


PROBLEMS = [variant for problem in _PROBLEMS for variant in (problem, _in_bf16(problem))]
