"""Tensor files: a writer plain enough to also write wrong files, and a reader that is the official one."""

import json
import struct

import ml_dtypes
import numpy as np
import safetensors

DTYPES = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
    "U8": np.dtype(np.uint8),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def encode(tensors):
    """The bytes of a safetensors file that holds `tensors`, a mapping of name to array."""
    header, offset = {}, 0
    for name, array in tensors.items():
        header[name] = {
            "dtype": NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    return with_header(header, b"".join(array.tobytes() for array in tensors.values()))


def with_header(header, data, header_bytes=None):
    """A file with this header (a mapping or text), whether or not it is true of `data`.

    `header_bytes` is the length the file claims for its header, by default the right one.
    """
    text = header if isinstance(header, str) else json.dumps(header)
    text = text.encode() + b" " * (-len(text.encode()) % 8)
    return struct.pack("<Q", len(text) if header_bytes is None else header_bytes) + text + data


def decode(content):
    """A mapping of name to array, read by the safetensors package."""
    tensors = {}
    for name, view in safetensors.deserialize(content):
        array = np.frombuffer(view["data"], dtype=DTYPES[view["dtype"]])
        tensors[name] = array.reshape(view["shape"])
    return tensors
