"""Documents as UBJSON, to test its reader."""

import struct

import numpy as np

TYPES = {"i": "i1", "U": "u1", "I": "i2", "l": "i4", "L": "i8", "d": "f4", "D": "f8"}


def write(value) -> bytes:
    """A document as XGBoost would write it: arrays typed if they are numpy's, objects open, lengths of 8 bytes."""
    match value:
        case None:
            return b"Z"
        case bool():
            return b"T" if value else b"F"
        case int():
            return b"L" + struct.pack(">q", value)
        case float():
            return b"D" + struct.pack(">d", value)
        case str():
            text = value.encode()
            return b"SL" + struct.pack(">q", len(text)) + text
        case list():
            return b"[#L" + struct.pack(">q", len(value)) + b"".join(map(write, value))
        case dict():
            return b"{" + b"".join(write(key)[1:] + write(item) for key, item in value.items()) + b"}"
        case np.ndarray():
            marker = next(marker for marker, code in TYPES.items() if np.dtype(code) == value.dtype)
            count = b"#L" + struct.pack(">q", len(value))
            return b"[$" + marker.encode() + count + value.astype(value.dtype.newbyteorder(">")).tobytes()
    raise TypeError(type(value))
