"""UBJSON, the binary JSON in which XGBoost keeps models: `loads` reads it, trusting nothing in it.

Every size is checked against the bytes that are left before anything is allocated, and nesting is bounded.
The subset is the one XGBoost writes: no high-precision numbers, no counted objects, typed arrays of numbers only.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import FormatError

_SCALARS = {ord(marker): struct.Struct(">" + code) for marker, code in zip("iUIlLdD", "bBhiqfd", strict=True)}
_INTEGERS = frozenset(b"iUIlL")
_CONSTANTS = {ord("T"): True, ord("F"): False, ord("Z"): None}
_MAX_NESTING = 64  # far beyond any model, and far below the depth at which Python's own stack ends


def loads(data: bytes) -> Any:
    r"""Return what a UBJSON document holds.

    Parameters
    ----------
    data : bytes

    Returns
    -------
    dict, list, str, int, float, bool, None or numpy array
        Typed arrays are numpy arrays of the type the file gives them.

    Raises
    ------
    FormatError
        If the document is truncated, has bytes left over, or uses what XGBoost never writes.

    Examples
    --------
    >>> from scurry.importers.xgboost import ubjson
    >>> ubjson.loads(b"{U\x05depth[#U\x02U\x03U\x04U\x04nameSU\x06gbtree}")
    {'depth': [3, 4], 'name': 'gbtree'}
    """
    reader = _Reader(data)
    value = reader.value(reader.byte(), 0)
    if reader.position != len(data):
        raise FormatError(f"{len(data) - reader.position} bytes follow the end of the UBJSON document")
    return value


class _Reader:
    """A position in a UBJSON document."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def skip(self, n_bytes: int) -> int:
        """Move past `n_bytes` that must be there; return where they start."""
        start = self.position
        if not 0 <= n_bytes <= len(self.data) - start:
            raise FormatError(
                f"the UBJSON document ends at byte {len(self.data)} but claims {n_bytes} bytes at {start}"
            )
        self.position = start + n_bytes
        return start

    def byte(self) -> int:
        return self.data[self.skip(1)]

    def value(self, marker: int, nesting: int) -> Any:
        if marker in _SCALARS:
            return self.scalar(marker)
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        if nesting == _MAX_NESTING:
            raise FormatError(f"the UBJSON document is nested deeper than {_MAX_NESTING} levels")
        match chr(marker):
            case "S":
                return self.string(self.byte())
            case "{":
                return self.object(nesting + 1)
            case "[":
                return self.array(nesting + 1)
        raise FormatError(f"the UBJSON document has an unknown marker {bytes([marker])!r} at byte {self.position - 1}")

    def scalar(self, marker: int) -> int | float:
        layout = _SCALARS[marker]
        number: int | float = layout.unpack_from(self.data, self.skip(layout.size))[0]
        return number

    def count(self, marker: int) -> int:
        if marker not in _INTEGERS:
            raise FormatError(f"the UBJSON document has no length at byte {self.position - 1}")
        return int(self.scalar(marker))

    def string(self, length_marker: int) -> str:
        start = self.skip(self.count(length_marker))
        try:
            return self.data[start : self.position].decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"the UBJSON document has text at byte {start} that is not UTF-8") from error

    def object(self, nesting: int) -> dict[str, Any]:
        members = {}
        while (marker := self.byte()) != ord("}"):
            key = self.string(marker)
            members[key] = self.value(self.byte(), nesting)
        return members

    def array(self, nesting: int) -> list[Any] | NDArray[Any]:
        marker = self.byte()
        if marker == ord("$"):
            return self.typed_array()
        if marker == ord("#"):
            # Each item takes at least a byte, so a count that lies runs out of bytes before it runs out of memory.
            return [self.value(self.byte(), nesting) for _ in range(self.count(self.byte()))]
        items = []
        while marker != ord("]"):
            items.append(self.value(marker, nesting))
            marker = self.byte()
        return items

    def typed_array(self) -> NDArray[Any]:
        item = self.byte()
        if item not in _SCALARS or self.byte() != ord("#"):
            raise FormatError(
                f"the UBJSON document has an array at byte {self.position} that is not of counted numbers"
            )
        # UBJSON is big-endian; the copy is in the order of this machine.
        dtype = np.dtype(_SCALARS[item].format)
        count = self.count(self.byte())
        start = self.skip(count * dtype.itemsize)
        return np.frombuffer(self.data, dtype, count, start).astype(dtype.newbyteorder("="))
