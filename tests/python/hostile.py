"""Requests that are wrong: the command must refuse each with exit code 2 and a message, and write nothing."""

from dataclasses import dataclass, field

import numpy as np

from tensors import encode, with_header

B, H, V = 4, 8, 16


@dataclass(frozen=True)
class Hostile:
    name: str
    content: bytes | None = None  # of the input file; None: there is no such file
    arguments: list[str] = field(default_factory=list)
    op: str = "linear-ce"
    # For the rare case that the standard options (--backend, --input, --output) are part of what is wrong.
    without: str | None = None
    backend: str = "cpu"
    output: str = "output.safetensors"


def tensors(**changes):
    """A good set of tensors with some replaced, or left out where the replacement is None."""
    rng = np.random.default_rng(1)
    good = {
        "x": rng.standard_normal((B, H)).astype(np.float32),
        "w": rng.standard_normal((H, V)).astype(np.float32),
        "labels": np.arange(B, dtype=np.int32),
    }
    return {name: value for name, value in (good | changes).items() if value is not None}


def _file(**changes):
    return encode(tensors(**changes))


def _zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def _entry(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def _cases():
    good = _file()
    bad_label = {name: np.array([0, label, 1, 2], np.int64) for name, label in
                 {"V": V, "far": 2**40, "negative": -7, "lowest": -(2**63)}.items()}

    yield Hostile("no input file")
    yield Hostile("empty file", b"")
    yield Hostile("shorter than its length field", good[:5])
    yield Hostile("truncated in the header", good[:60])
    yield Hostile("truncated in the data", good[:-7])
    yield Hostile("bytes after the data", good + b"\0" * 8)
    yield Hostile("not a tensor file", b"PK\x03\x04" + bytes(range(256)))
    for length in (2**63, 2**64 - 1, 10**12, len(good) + 1):
        yield Hostile(f"header length {length}", with_header("{}", good, header_bytes=length))
    yield Hostile("header is not JSON", with_header("{x", b""))
    yield Hostile("header is a list", with_header("[]", b""))
    yield Hostile("offsets past the end", with_header({"x": _entry([B, H], 0, 128)}, b"\0" * 64))
    yield Hostile("offsets backwards", with_header({"x": _entry([B, H], 128, 0)}, b"\0" * 128))
    yield Hostile("shape larger than its data", with_header({"x": _entry([2**20, 2**20], 0, 128)}, b"\0" * 128))
    yield Hostile("shape that overflows", with_header({"x": _entry([2**40, 2**40], 0, 0)}, b""))
    yield Hostile("negative dimension", with_header({"x": _entry([-1, H], 0, 128)}, b"\0" * 128))
    yield Hostile("unknown dtype in the file", with_header({"x": _entry([B, H], 0, 128, "F33")}, b"\0" * 128))
    yield Hostile("no tensors", with_header("{}", b""))

    for name in ("x", "w", "labels"):
        yield Hostile(f"{name} is missing", _file(**{name: None}))
    yield Hostile("hidden of x and w differ", _file(w=_zeros(H + 1, V)))
    yield Hostile("w is transposed", _file(w=_zeros(V, H)))
    yield Hostile("x of rank 1", _file(x=_zeros(H)))
    yield Hostile("x of rank 3", _file(x=_zeros(1, B, H)))
    yield Hostile("w of rank 1", _file(w=_zeros(H)))
    yield Hostile("w is a scalar", _file(w=_zeros()))
    yield Hostile("too few labels", _file(labels=_zeros(B - 1, dtype=np.int32)))
    yield Hostile("too many labels", _file(labels=_zeros(B + 1, dtype=np.int32)))
    yield Hostile("labels of rank 2", _file(labels=_zeros(B, 1, dtype=np.int32)))
    yield Hostile("labels in F32", _file(labels=_zeros(B)))
    yield Hostile("x in F64", _file(x=_zeros(B, H, dtype=np.float64)))
    yield Hostile("x and w in F16", _file(x=_zeros(B, H, dtype=np.float16), w=_zeros(H, V, dtype=np.float16)))
    yield Hostile("x in I32", _file(x=_zeros(B, H, dtype=np.int32)))
    yield Hostile("w in U8", _file(w=_zeros(H, V, dtype=np.uint8)))
    yield Hostile("V=0", _file(w=_zeros(H, 0)))
    for name, labels in bad_label.items():
        yield Hostile(f"label out of range: {name}", _file(labels=labels))
        yield Hostile(f"label out of range, not the ignored one: {name}", _file(labels=labels), ["--ignore-index", "-100"])

    yield Hostile("weight too short", _file(weight=_zeros(B - 1)))
    yield Hostile("weight in I32", _file(weight=_zeros(B, dtype=np.int32)))
    yield Hostile("bias too long", _file(bias=_zeros(V + 1)))
    yield Hostile("d_loss of the wrong length", _file(d_loss=_zeros(B + 1)))
    yield Hostile("d_loss per token under a mean", _file(d_loss=_zeros(B)), ["--reduction", "mean"])
    yield Hostile("scalar d_loss without a reduction", _file(d_loss=_zeros()))
    yield Hostile("d_lse of the wrong length", _file(d_lse=_zeros(B - 1)))
    yield Hostile("d_lse in F64", _file(d_lse=_zeros(B, dtype=np.float64)))

    yield Hostile("unknown option", good, ["--no-such-option"])
    yield Hostile("unknown op", good, op="no-such-op")
    yield Hostile("unknown backend", good, backend="abacus")
    yield Hostile("no --input", good, without="--input")
    yield Hostile("no --output", good, without="--output")
    yield Hostile("output into a folder that is not there", good, output="missing/output.safetensors")
    for option, value in [
        ("--reduction", "median"),
        ("--pass", "sideways"),
        ("--strategy", "wishful"),
        ("--dtype", "f8"),
        ("--grad-dtype", "i4"),
        ("--blocks", "16,16"),
        ("--blocks", "0,16,32"),
        ("--blocks", "-1,16,32"),
        ("--blocks", "a,b,c"),
        ("--blocks", "16,16,99999999999999999999"),
        ("--backward-blocks", "16,0,32"),
        ("--soft-cap", "-1"),
        ("--soft-cap", "nan"),
        ("--soft-cap", "wide"),
        ("--z-loss", "nan"),
        ("--label-smoothing", "1.5"),
        ("--label-smoothing", "-0.1"),
        ("--ignore-index", "1.5"),
        ("--threads", "-1"),
        ("--threads", "many"),
    ]:
        yield Hostile(f"{option} {value}", good, [option, value])


HOSTILE = list(_cases())
