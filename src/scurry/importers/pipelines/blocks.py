"""Blocks: which raw columns the steps of a pipeline convert together, and types with which they compute the same.

A step converts the columns that it takes to one type, which their types decide, and computes in that. Nothing later
depends on the types of raw columns but through these. So a forest that was folded for rows of some types is exact for
rows of all types that give each `scurry.forest.Block` the same precision, and can be folded by asking for floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer

from scurry.forest import Block
from scurry.importers.pipelines.traces import ENCODERS, CannotFoldError, positions

_ASKED = frozenset(
    ["bool", "float16", "float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]
)


@dataclass(frozen=True)
class _Table:
    """What decides the types of a table between two steps.

    Attributes
    ----------
    raw : tuple of int or None
        The raw columns that it consists of; None once they were put into one array.
    types : frozenset of int
        The raw columns on whose types those of the table still depend.
    has_floats : bool
        Whether some of its columns are floats whatever the types of raw columns are.
    """

    raw: tuple[int, ...] | None
    types: frozenset[int] = frozenset()
    has_floats: bool = False


_FLOATS, _NOTHING = _Table(None, has_floats=True), _Table(None)


@dataclass
class Blocks:
    """The blocks of a pipeline's steps.

    Attributes
    ----------
    found : list of (str, tuple of int)
        The kind and the raw columns of each block.
    kept : frozenset of int
        The raw columns on whose types the type of the model's rows depends.
    is_joined : bool
        Whether a step computes with what others made of several blocks.
    """

    found: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    kept: frozenset[int] = frozenset()
    is_joined: bool = False

    @classmethod
    def of(cls, transformer: Any, n_columns: int, rounds_integers: bool) -> Blocks:
        """Return the blocks of a fitted transformer, all of whose steps `traces.trace` can follow.

        Parameters
        ----------
        transformer : estimator
        n_columns : int
        rounds_integers : bool
            Whether the model rounds rows that are integers, as LightGBM does.
        """
        blocks = cls()
        everything = tuple(range(n_columns))
        table = blocks._follow(transformer, _Table(everything, frozenset(everything)))
        blocks.kept = table.types
        if rounds_integers and table.types and not table.has_floats:
            blocks.found.append(("integers", tuple(sorted(table.types))))
        return blocks

    @property
    def typed(self) -> frozenset[int]:
        """The raw columns whose types matter."""
        return frozenset(at for _, columns in self.found for at in columns)

    def _add(self, kind: str, table: _Table) -> None:
        if table.raw is not None:
            added = [(kind, (at,)) for at in table.raw] if kind == "alone" else [(kind, table.raw)]
        else:
            # Raw columns next to what other steps made: the common type of all is the same if these types are.
            added = [("alone", (at,)) for at in sorted(table.types)]
            self.is_joined |= bool(added)
        self.found += [one for one in added if one[1] and one not in self.found]

    def _follow(self, step: Any, table: _Table) -> _Table:
        """Note the blocks of a step, and return the table that it makes."""
        if step is None or (isinstance(step, str) and step == "passthrough"):
            return table
        if isinstance(step, str):
            return _NOTHING
        match step:
            case FrozenEstimator():
                return self._follow(step.estimator, table)
            case Pipeline():
                for _, inner in step.steps:
                    table = self._follow(inner, table)
                return table
            case ColumnTransformer():
                names = list(getattr(step, "feature_names_in_", []))
                return _stack(
                    [self._follow(inner, _take(table, columns, names)) for _, inner, columns in step.transformers_]
                )
            case FeatureUnion():
                return _stack([self._follow(inner, table) for _, inner in step.transformer_list])
            case SelectorMixin():
                return _stack([table])
            case FunctionTransformer():
                return self._follow_function(step, table)
            case SimpleImputer():
                return self._follow_imputer(step, table)
            case MissingIndicator():
                if _is_number(step.missing_values):
                    self._add("together", table)
                return _NOTHING
        if isinstance(step, ENCODERS):  # they look numbers up by value, whatever their type
            return _FLOATS if np.dtype(getattr(step, "dtype", np.float64)).kind == "f" else _NOTHING
        self._add("together", table)
        return _stack([table]) if isinstance(step, Binarizer) else _FLOATS

    def _follow_function(self, step: Any, table: _Table) -> _Table:
        if step.func is None:
            return _stack([table]) if step.validate else table
        self._add("joined" if step.validate else "alone", table)
        makes_floats = np.asarray(step.func(np.ones(1, np.int64))).dtype.kind == "f"
        return _FLOATS if makes_floats else _stack([table])

    def _follow_imputer(self, step: Any, table: _Table) -> _Table:
        if step._fit_dtype.kind == "O":  # then all values stay objects
            return _FLOATS
        if step.strategy not in ("most_frequent", "constant"):
            self._add("together", table)
            return _FLOATS
        self._add("exactly" if _is_number(step.missing_values) else "together", table)
        return _stack([table])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and value == value


def _stack(tables: Sequence[_Table]) -> _Table:
    types = {at for table in tables for at in table.types}
    return _Table(None, frozenset(types), any(table.has_floats for table in tables))


def _take(table: _Table, columns: Any, names: list[str]) -> _Table:
    if table.raw is None:
        return table
    at = positions(columns, names, len(table.raw))
    assert at is not None  # which traces refuse
    raw = tuple(table.raw[i] for i in at)
    return _Table(raw, frozenset(raw))


def choose_types(blocks: Blocks, types: Sequence[str], library: str) -> tuple[list[str], list[Block]]:
    """Return types that are asked for instead of those of rows, with which the steps compute the same.

    Parameters
    ----------
    blocks : Blocks
    types : sequence of str
        Of the raw columns of rows to come.
    library : str
        The one whose table they are from.

    Returns
    -------
    list of str
        A type of numpy for each column: float64 where that makes no difference, because rows may then have any;
        float32 where a step computes in it; and the type itself where nothing else gives the same.
    list of Block
        With the precision that rows of these types give each.

    Raises
    ------
    CannotFoldError
        If numpy has no types with which the steps compute the same.
    """
    found = [Block(kind, columns, ("unknown",)) for kind, columns in blocks.found]
    wanted = [block.precision([types[at] for at in block.columns], library) for block in found]
    numeric = blocks.typed | blocks.kept
    if numeric and all(types[at] == "float32" for at in numeric):  # then the forest can read float32 as it is
        found += [Block("alone", (at,), ("unknown",)) for at in sorted(blocks.kept - blocks.typed)]
        wanted += ["float32"] * (len(found) - len(wanted))
    pairs = list(zip(found, wanted, strict=True))
    chosen = ["float64"] * len(types)
    for block, name in pairs:
        for at in block.columns if name == "float32" else ():
            chosen[at] = name
    for _ in range(2):  # a column of several blocks may need its own type, and then those next to it do
        for block, name in pairs:
            if _precision(block, chosen) != name:
                for at in block.columns:
                    chosen[at] = types[at]
    if any(_precision(block, chosen) != name for block, name in pairs) or not set(chosen) <= _ASKED:
        shown = ", ".join(sorted({types[at] for at in blocks.typed} - {"float32", "float64"}))
        raise CannotFoldError(f"a step computes with columns of {shown or library} in a way that no floats do")
    return chosen, [replace(block, accepts=(name,)) for block, name in pairs]


def _precision(block: Block, types: Sequence[str]) -> str:
    return block.precision([types[at] for at in block.columns])


def number_features(blocks: Sequence[Block], columns: Sequence[int]) -> tuple[Block, ...]:
    """Return blocks of features from blocks of raw columns, those for single columns put together.

    Parameters
    ----------
    blocks : sequence of Block
    columns : sequence of int
        The raw column of each feature.
    """
    place = {raw: at for at, raw in enumerate(columns)}
    alone: dict[tuple[str, ...], list[int]] = {}
    others = []
    for block in blocks:
        features = [place[raw] for raw in block.columns if raw in place]
        if block.kind == "alone":
            alone.setdefault(block.accepts, []).extend(features)
        elif features:
            others.append(replace(block, columns=tuple(features)))
    return (*others, *(Block("alone", tuple(sorted(features)), accepts) for accepts, features in alone.items()))
