"""Members of a wrapped forest in files: only what they do not share with the whole forest is written.

The trees of members are those of the whole forest, in their order. Each member, and each member of a member, adds its
own header, values, base score and outputs of trees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry import _core
from scurry.errors import FormatError
from scurry.forest.files.storage import Container, id_bits
from scurry.forest.structure import HEADER, NODE_ARRAYS
from scurry.forest.wrappers import Wrapper

_READS: dict[str, Any] = {
    "feature_names": None,
    "categories": None,
    "raw_rows": None,
    "front": None,
    "encode_numbers": False,
}
_OWN: dict[str, type] = {"value": np.float64, "base_score": np.float64, "tree_output": np.int32}
"""Arrays that members do not share with the whole forest."""


def as_member(forest: Any, classes: ArrayLike | None) -> Any:
    """Return a forest as a member: its rows are a matrix already, and its classes are numbers."""
    return forest.replace(**_READS, classes=None if classes is None else np.asarray(classes, np.int64))


def pack_members(wrapper: Wrapper, packed: bool = False) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return a wrapper as JSON, and the arrays of its members; packed, their values are numbers in a table."""
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in _OWN}
    header = _pack(wrapper, parts)
    if not wrapper.members:
        return header, {}
    arrays = {f"member_{name}": np.concatenate([np.empty(0, _OWN[name]), *parts[name]]) for name in _OWN}
    if packed:
        values = arrays.pop("member_value")
        ids, first = _core.distinct_rows(values.view(np.uint8).reshape(len(values), values.itemsize))
        arrays["member_value_table"] = values[first]
        arrays["member_value_id"] = _core.pack_bits(ids, id_bits(len(first)))
        header["n_values"] = len(values)
    return header, arrays


def _pack(wrapper: Wrapper, parts: dict[str, list[NDArray[Any]]]) -> dict[str, Any]:
    members = []
    for member in wrapper.members:
        header = {name: getattr(member, name) for name in HEADER}
        header |= {"n_trees": member.n_trees, "n_columns": member.value.shape[1], "n_outputs": member.n_outputs}
        header["classes"] = None if member.classes is None else member.classes.tolist()
        for name, part in parts.items():
            part.append(getattr(member, name).ravel())
        if member.wrapper is not None:
            header["wrapper"] = _pack(member.wrapper, parts)
        members.append(header)
    return wrapper.to_json() | {"members": members}


def unpack_members(
    container: Container, arrays: Mapping[str, NDArray[Any]], build: Callable[..., Any]
) -> Wrapper | None:
    """Return the wrapper of a file, whose forest has these arrays; None if it has none."""
    if "wrapper" not in container.header:
        return None
    stored = container.field("wrapper", dict)
    has_members = isinstance(stored.get("members"), list) and len(stored["members"]) > 0
    parts = {name: container.array(f"member_{name}", _OWN[name]) for name in _own(container)} if has_members else {}
    try:
        if has_members and "member_value_table" in container:
            parts["value"] = _values(container, int(stored.pop("n_values")))
        return _Reader(parts, build).wrapper(stored, arrays)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise FormatError(f"its wrapper is not one that scurry writes: {error}") from error


def _own(container: Container) -> list[str]:
    return [name for name in _OWN if name != "value" or "member_value_table" not in container]


def _values(container: Container, n: int) -> NDArray[np.float64]:
    table, packed = (
        container.packed_array(f"member_value_{n}", t, 1) for n, t in (("table", ("<f8",)), ("id", ("|u1",)))
    )
    ids = _core.unpack_bits(packed, n, id_bits(len(table)))
    if len(ids) and ids.max() >= len(table):
        raise FormatError("its members have values that are not in their table")
    return np.asarray(table[ids])


class _Reader:
    """Reads members one after the other from the arrays that all of them share."""

    def __init__(self, parts: Mapping[str, NDArray[Any]], build: Callable[..., Any]) -> None:
        self._parts, self._build = parts, build
        self._at = dict.fromkeys(parts, 0)

    def wrapper(self, stored: Any, arrays: Mapping[str, NDArray[Any]]) -> Wrapper:
        """Return a wrapper around the trees of `arrays`."""
        members, first = [], 0
        for header in stored["members"]:
            n_trees = int(header["n_trees"])
            members.append(self._member(header, _trees(arrays, first, n_trees)))
            first += n_trees
        fields = {name: value for name, value in stored.items() if name != "members"}
        return Wrapper.from_json(fields, tuple(members))

    def _member(self, header: Any, arrays: dict[str, NDArray[Any]]) -> Any:
        n_nodes, n_columns = len(arrays["feature"]), int(header["n_columns"])
        own = {
            "value": self._take("value", n_nodes * n_columns).reshape(n_nodes, n_columns),
            "base_score": self._take("base_score", int(header["n_outputs"])),
            "tree_output": self._take("tree_output", int(header["n_trees"])),
        }
        classes = None if header["classes"] is None else np.array(header["classes"], np.int64)
        inner = self.wrapper(header["wrapper"], arrays) if "wrapper" in header else None
        return self._build(**arrays, **own, **{name: header[name] for name in HEADER}, classes=classes, wrapper=inner)

    def _take(self, name: str, n: int) -> NDArray[Any]:
        first = self._at[name]
        if n < 0 or first + n > len(self._parts[name]):
            raise FormatError(f"its members have too few of {name!r}")
        self._at[name] = first + n
        return self._parts[name][first : first + n]


def _trees(arrays: Mapping[str, NDArray[Any]], first: int, n_trees: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of some of the trees, as a forest of their own has them."""
    offset = arrays["tree_offset"][first : first + n_trees + 1]
    if n_trees < 1 or len(offset) != n_trees + 1:
        raise FormatError("its members have other trees than the forest")
    start, stop = int(offset[0]), int(offset[-1])
    part: dict[str, NDArray[Any]] = {name: arrays[name][start:stop] for name in NODE_ARRAYS}
    for side in ("left", "right"):
        part[side] = np.where(part[side] < 0, -1, part[side] - start).astype(np.int32)
    shared = {name: arrays[name] for name in ("category_offset", "category_bits")}
    return part | shared | {"tree_offset": offset - start}
