"""Lowered forests in files: the engine's own arrays, so that loading makes nothing and processes share one copy.

A lowered forest is only ever a shortcut. Where it is that of other trees or of another layout, or is not sound, the
engine is lowered from the packed forest, as without it; answers are the same. The native core checks every number that
it uses as an index.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from scurry import _core
from scurry.errors import FormatError
from scurry.forest.files.storage import Container, checksum

LAYOUT = 1
"""What the arrays mean. It changes with every change of the engine that gives any of them another meaning."""
_PREFIX = "lowered_"
_DTYPES = {
    "nodes": "<u8", "wide_nodes": "<u4", "trees": "<u4", "marks": "<u4", "category_tests": "<u4",
    "category_bits": "<u4", "shape": "<u4", "columns": "<u4", "thresholds": "<f8", "filters": "<u4", "sets": "<u4",
    "set_keys": "<u4", "byte_keys": "<u4", "values": "<f8", "label_start": "<i8", "label_words": "<u2",
}  # fmt: skip
Arrays = dict[str, NDArray[Any]]


def pack_lowered(
    engine: _core.Engine, fields: Mapping[str, Any], header: dict[str, Any], arrays: Arrays
) -> tuple[dict[str, Any], Arrays]:
    """Return the header and arrays of a packed forest with those of its engine, which has to be one that can be stored.

    Parameters
    ----------
    engine : Engine
    fields : mapping
        What the native core knows of the forest besides arrays.
    header, arrays : dict
        The packed forest.
    """
    about = {"layout": LAYOUT, "digest": _digest(fields, ((name, checksum(array)) for name, array in arrays.items()))}
    parts = {_PREFIX + name: part for name, part in engine.store().items()}
    return header | {"lowered": about}, arrays | parts


def has_lowered(container: Container) -> bool:
    """Return whether a file says that it has an engine of this layout."""
    about = container.header.get("lowered")
    return isinstance(about, dict) and about.get("layout") == LAYOUT


def read_lowered(container: Container, fields: Mapping[str, Any], names: Iterable[str]) -> Arrays | None:
    """Return the parts of the engine in a file; None if there are none, or if they belong to another forest or layout.

    Parameters
    ----------
    container : Container
    fields : mapping
        What the native core knows of the forest besides arrays.
    names : iterable of str
        The arrays of the packed forest.
    """
    if not has_lowered(container):
        return None
    if container.header["lowered"].get("digest") != _digest(
        fields, ((name, container.checksum(name)) for name in names)
    ):
        return None
    try:
        return {
            name: container.packed_array(_PREFIX + name, (dtype,), 1)
            for name, dtype in _DTYPES.items()
            if _PREFIX + name in container
        }
    except FormatError:
        return None


def _digest(fields: Mapping[str, Any], checksums: Iterable[tuple[str, int]]) -> str:
    """Return the SHA-256 of what the engine was lowered from: fields, and checksums of arrays."""
    import hashlib  # files without an engine need none, and it takes long

    text = json.dumps([dict(fields), sorted(checksums)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
