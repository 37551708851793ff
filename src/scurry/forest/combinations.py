"""Combinations: numbers that a model keeps for several features at once, computed of every row before the trees.

Trees ask about one column at a time. A number that depends on several columns, such as CatBoost's target statistics of
combinations of features, therefore becomes a column of its own, behind the columns that rows have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.errors import InputError
from scurry.forest.files.storage import Container

CATEGORY, ABOVE, ABOVE_OR_MISSING, EQUALS = range(4)
"""Kinds of elements: the category of a column, whether a column is above a border (and whether missing values count as
that), whether the category of a column is a certain one."""
_PREFIX = "combination_"
_DTYPES: dict[str, type] = {
    "code_offset": np.int64,
    "code_hash": np.int64,
    "element_offset": np.int64,
    "column": np.int32,
    "kind": np.uint8,
    "border": np.float32,
    "wanted": np.int64,
    "key_offset": np.int64,
    "key": np.uint64,
    "output_offset": np.int64,
    "value": np.float32,
}


@dataclass(frozen=True, eq=False)
class Combinations:
    """Columns that are computed of several others, as CatBoost does it for statistics of combinations of features.

    The hashes of the elements of a combination are mixed into a key. For each key the combination has some numbers, and
    one more of each for all other keys; each becomes a column. Entries of combinations lie one after another, with
    offsets that say where those of each begin.

    Attributes
    ----------
    code_offset, code_hash : int64 arrays
        The hashes of the categories of each column of a row, in the order of their codes.
    element_offset : int64 array
    column : int32 array
        Of each element.
    kind : uint8 array
        `CATEGORY`, `ABOVE`, `ABOVE_OR_MISSING` or `EQUALS`.
    border : float32 array
        For elements that compare a number.
    wanted : int64 array
        For elements that compare a category: its hash.
    key_offset : int64 array
    key : uint64 array
    output_offset : int64 array
        Of the columns that each combination makes.
    value : float32 array
        For each of these columns the numbers of all keys, and last that of other keys.
    """

    code_offset: NDArray[np.int64]
    code_hash: NDArray[np.int64]
    element_offset: NDArray[np.int64]
    column: NDArray[np.int32]
    kind: NDArray[np.uint8]
    border: NDArray[np.float32]
    wanted: NDArray[np.int64]
    key_offset: NDArray[np.int64]
    key: NDArray[np.uint64]
    output_offset: NDArray[np.int64]
    value: NDArray[np.float32]

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype).reshape(-1))
        try:
            _ = self._native
        except ValueError as error:
            raise InputError(f"these are no combinations: {error}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    @cached_property
    def _native(self) -> _core.Combinations:
        return _core.Combinations(**{name: getattr(self, name) for name in _DTYPES})

    @property
    def n_inputs(self) -> int:
        """Number of columns that rows have."""
        return len(self.code_offset) - 1

    @property
    def n_outputs(self) -> int:
        """Number of columns that are computed."""
        return int(self.output_offset[-1])

    def rows(self, X: Any, read: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        """Return rows as the trees read them; `read` makes a matrix of what a user gives."""
        return self.extend(read(X))

    def extend(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Return rows, of which categories are codes, with the computed columns behind their own."""
        whole = np.empty((len(rows), self.n_inputs + self.n_outputs), np.float32, order="F")
        with np.errstate(over="ignore"):
            whole[:, : self.n_inputs] = rows
        whole[:, self.n_inputs :] = self._native.compute(np.asarray(rows)).reshape(self.n_outputs, len(rows)).T
        return whole

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the fields for the header of a file, and arrays."""
        return {"combinations": len(self.element_offset) - 1}, {_PREFIX + name: getattr(self, name) for name in _DTYPES}

    @classmethod
    def from_container(cls, container: Container) -> Combinations:
        """Return what `to_parts` wrote."""
        return cls(**{name: container.array(_PREFIX + name, dtype) for name, dtype in _DTYPES.items()})

    def describe(self) -> str:
        """Return what happens to rows, as a summary says it."""
        n = len(self.element_offset) - 1
        return (
            f"{self.n_outputs} columns are computed of every row first: statistics of {n} combinations of features, "
            "which no single column tells; that takes its time however few trees follow"
        )

    @property
    def way_out(self) -> str:
        """What to do where rows cannot be computed with first."""
        return "Train the model with max_ctr_complexity=1: statistics of single features become sets of categories"
