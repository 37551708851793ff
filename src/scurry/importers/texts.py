"""Texts: models that files write as JSON, whose long lists of numbers native code reads.

Python makes an object of every number; a model of a million nodes has ten million of them.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from scurry import _core

_MARK = "numbers of a list"  # the name of what stands for a list while the rest is read
_LONG = 64  # bytes
_EXACT = 2**53  # whole numbers below it are exact as floats


def read_json(data: bytes) -> Any:
    """Return what `json.loads` does, but long lists of numbers that have a name as arrays of int64 or float64.

    Parameters
    ----------
    data : bytes

    Examples
    --------
    >>> from scurry.importers.texts import read_json
    >>> read_json(b'{"depth":[3,4],"left":[' + 40 * b"1," + b"2]}")["left"].sum()
    np.int64(42)
    """
    pieces: list[bytes] = []
    texts: list[str] = []
    done, at = 0, data.find(b'":[')
    while at >= 0:
        end = data.find(b"]", at)
        # A quote that is not behind a backslash ends a name here, or begins a text, which `json` will notice.
        if end - at > _LONG and data[at + 3] in b"-0123456789" and data[at - 1] != ord("\\"):
            pieces += [data[done : at + 2], b'{"%s":%d}' % (_MARK.encode(), len(texts))]
            texts.append(data[at + 3 : end].decode("latin-1"))
            done = end + 1
        at = data.find(b'":[', at + 1 if done <= at else done)
    if not texts or _MARK.encode() in data:
        return json.loads(data)
    try:
        numbers, lengths = _core.read_numbers(texts)
        arrays = np.split(numbers, np.cumsum(lengths)[:-1])
        return json.loads(
            b"".join([*pieces, data[done:]]), object_hook=lambda entries: _array_of(entries, texts, arrays)
        )
    except ValueError:
        return json.loads(data)  # as it is, or with a message about what is wrong in it


def _array_of(entries: dict[str, Any], texts: list[str], arrays: list[Any]) -> Any:
    if _MARK not in entries:
        return entries
    text, array = texts[entries[_MARK]], arrays[entries[_MARK]]
    if text.count(",") + 1 != len(array):
        raise ValueError("commas between numbers are missing, or too many")
    if any(letter in text for letter in ".eEnN"):
        return array
    if np.abs(array).max() >= _EXACT:
        raise ValueError("whole numbers are too large for floats")
    return array.astype(np.int64)
