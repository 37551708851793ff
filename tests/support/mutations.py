"""Damaged files: bytes changed anywhere, members of archives replaced, and documents with nonsense at one place."""

import copy
import io
import zipfile
from typing import Any

import numpy as np

# What a number, a text or a list in a document may be replaced by.
NONSENSE = (
    None, True, False, 0, 1, -1, 2, 7, 31, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, -(2**63), 0.5, -0.5, 1e-320,
    1e39, 1e308, -1e308, float("nan"), float("inf"), "", "x", "-1", "1e400", "nan", "[0.5]", "a\0b", "\ud7ff", [], {},
    [[]], [None], [-1], [2**31], ["x"], {"x": 1},
)  # fmt: skip


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(data: bytes, compression=zipfile.ZIP_STORED, **changes: bytes | None) -> bytes:
    parts = members(data)
    for name, content in changes.items():
        name = name.replace("__", ".")
        if content is None:
            del parts[name]
        else:
            parts[name] = content
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def mutated(data: bytes, seed: int) -> bytes:
    """`data` with a few bytes changed, cut out, repeated or inserted."""
    rng = np.random.default_rng(seed)
    out = bytearray(data)
    for _ in range(rng.integers(1, 6)):
        at, length = int(rng.integers(len(out))), int(rng.integers(1, 16))
        match rng.integers(5):
            case 0:
                out[at] ^= 1 << int(rng.integers(8))
            case 1:
                out[at : at + length] = rng.bytes(length)
            case 2:
                del out[at : at + length]
            case 3:
                out[at:at] = out[at : at + length]
            case _:
                out[at : at + 4] = int(rng.choice([0, 1, 0x7FFFFFFF, 0xFFFFFFFF])).to_bytes(4, "little")
        if not out:
            break
    return bytes(out)


def changed_document(document: Any, seed: int) -> Any:
    """A copy of a JSON document in which one or two places are replaced, removed, repeated or exchanged."""
    rng = np.random.default_rng(seed)
    document = copy.deepcopy(document)
    for _ in range(rng.integers(1, 3)):
        _change_one_place(document, rng)
    return document


def _change_one_place(at: Any, rng: np.random.Generator) -> None:
    while at:
        keys = list(at) if isinstance(at, dict) else range(len(at))
        key = keys[int(rng.integers(len(keys)))]
        inside = at[key]
        # Short lists and objects near the top are as likely as the numbers of long arrays.
        if isinstance(inside, dict | list) and inside and rng.random() < 0.85:
            at = inside
            continue
        match int(rng.integers(6)):
            case 0:
                del at[key]
            case 1:
                at[key] = copy.deepcopy(at[keys[int(rng.integers(len(keys)))]])
            case 2 if isinstance(inside, list):
                at[key] = inside[: int(rng.integers(len(inside) + 1))] if rng.random() < 0.5 else inside * 2
            case _:
                at[key] = copy.deepcopy(NONSENSE[int(rng.integers(len(NONSENSE)))])
        return


def changed_lines(text: bytes, seed: int) -> bytes:
    """A text of lines ``key=value value …`` with one or two lines or values replaced, removed or repeated."""
    rng = np.random.default_rng(seed)
    lines = text.split(b"\n")
    for _ in range(rng.integers(1, 3)):
        at = int(rng.integers(len(lines)))
        key, equals, value = lines[at].partition(b"=")
        values = value.split(b" ")
        one = int(rng.integers(len(values)))
        match int(rng.integers(6)):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[int(rng.integers(len(lines)))])
            case 2:
                del values[one]
            case 3:
                values.insert(one, values[int(rng.integers(len(values)))])
            case _:
                values[one] = str(NONSENSE[int(rng.integers(len(NONSENSE)))]).encode()
        if equals and at < len(lines) and lines[at].startswith(key + equals):
            lines[at] = key + equals + b" ".join(values)
    return b"\n".join(lines)
