"""Pieces: nodes that ask where along a raw column an answer changes, written as the nodes of a forest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError
from scurry.forest import NODE_ARRAYS, Forest, RawRows
from scurry.importers.pipelines.cells import Cells, Column, Source, goes_left
from scurry.importers.pipelines.probes import Keys, keys_of, values_of
from scurry.importers.pipelines.traces import CannotFoldError

_MAX_GROWTH = 8.0
"""How many times its size a forest may grow before the transformers are rather kept in front of it."""


@dataclass(frozen=True, eq=False)
class Questions:
    """What nodes ask of numeric raw columns, each question once.

    Attributes
    ----------
    of_node : int array of shape (n_nodes,)
        -1 at leaves and at nodes that read categories.
    column : int array of shape (n_questions,)
    starts : bool array of shape (n_questions,)
        The answers for the smallest numbers.
    changes : list of int64 arrays
        The keys after which each answer changes, rising.
    missing : bool array of shape (n_questions,)
        The answers for a missing value.
    dtypes : sequence of str
        The type of each column whose values the keys count.
    """

    of_node: NDArray[np.intp]
    column: NDArray[np.intp]
    starts: NDArray[np.bool_]
    changes: list[Keys]
    missing: NDArray[np.bool_]
    dtypes: Sequence[str]

    def number(self, column: int, key: int) -> float:
        """Return the number of a column that a key counts."""
        return float(values_of(np.array([key], np.int64), self.dtypes[column])[0])

    def blank_low_numbers(self) -> tuple[Questions, dict[int, float]]:
        """Return simpler questions, and for some columns a number: those up to it are then missing values.

        A logarithm makes missing values of negative numbers. Each question about it has the same answer for these and
        for missing values, and may have another one for the numbers that follow. If rows have missing values instead,
        it changes once less.
        """
        starts, changes, limits = self.starts.copy(), list(self.changes), dict[int, float]()
        for column in np.unique(self.column).tolist():
            asked = np.flatnonzero(self.column == column).tolist()
            several = [int(changes[one][0]) for one in asked if len(changes[one]) > 1]
            if not several or (starts[asked] != self.missing[asked]).any():
                continue
            limit = min(several)
            value = self.number(column, limit)
            if np.isinf(value) or any(len(changes[one]) and changes[one][0] < limit for one in asked):
                continue
            limits[column] = value
            for one in asked:
                if len(changes[one]) and changes[one][0] == limit:
                    starts[one], changes[one] = ~starts[one], changes[one][1:]
        return replace(self, starts=starts, changes=changes), limits


@dataclass(frozen=True)
class _Known:
    """What a path of nodes says about a raw column: a number of key above `low` and up to `high`, or missing."""

    low: int | None = None
    high: int | None = None
    has_numbers: bool = True
    may_miss: bool = True


_ANYTHING = _Known()


class Rewriter:
    """Writes the nodes of a forest anew, for raw rows.

    Parameters
    ----------
    source : Source
    cells : Cells
    questions : Questions
    """

    def __init__(self, source: Source, cells: Cells, questions: Questions) -> None:
        self._source, self._cells = source, cells
        self._questions, self._limits = questions.blank_low_numbers()
        forest = source.forest
        n = forest.n_nodes
        self._fields: dict[str, NDArray[Any]] = {
            "feature": np.full(n, -1, np.int32),
            "threshold": np.zeros(n),
            "left": forest.left.copy(),
            "right": forest.right.copy(),
            "default_left": np.zeros(n, np.bool_),
            "category_set": np.full(n, -1, np.int32),
            "value": forest.value,
            "cover": forest.cover,
        }
        self._sets: dict[bytes, int] = {}
        self.columns = source.columns
        self._place = {column: at for at, column in enumerate(self.columns)}

    def forest(self) -> Forest:
        """Return the forest that reads raw rows."""
        forest, columns = self._source.forest, self._cells.columns
        self._write_categories()
        self._write_thresholds()
        many = np.array([len(changes) > 1 for changes in self._questions.changes] + [False])
        rewritten = np.flatnonzero(np.add.reduceat(many[self._questions.of_node], forest.tree_offset[:-1]))
        offset = forest.tree_offset
        if len(rewritten):
            offset = self._rewrite(rewritten.tolist())
        names = self._source.names
        place = self._place
        missing = {place[at]: column.missing_code for at, column in columns.items() if column.missing_code is not None}
        return forest.replace(
            **self._fields,
            tree_offset=offset,
            missing=None,
            category_offset=np.concatenate([[0], np.cumsum([len(bits) // 4 for bits in self._sets])]),
            category_bits=np.frombuffer(b"".join(self._sets), np.uint32),
            category_rounding="floor",
            n_features=len(self.columns),
            feature_names=None if names is None else [names[at] for at in self.columns],
            categories={place[at]: _as_array(column.values) for at, column in columns.items()},
            encode_numbers=bool(columns),
            input_dtype=self._input_dtype(),
            integer_dtype=None,
            comparison="<=",
            raw_rows=RawRows(
                None,
                missing,
                tuple(place[at] for at, column in columns.items() if column.unknown is None),
                missing_upto={place[at]: limit for at, limit in self._limits.items()},
                na_codes={place[at]: column.na_code for at, column in columns.items() if column.na_code is not None},
                unread=self._unread(),
                both_missing=tuple(place[at] for at, column in columns.items() if column.tells_none),
            ),
        )

    def _input_dtype(self) -> str:
        """Return the type that holds the numbers of all columns; codes of categories fit into both."""
        used = {self._questions.dtypes[at] for at in self.columns if at not in self._cells.columns}
        return "float32" if used == {"float32"} else "float64"

    def _unread(self) -> tuple[int, ...]:
        """Return the columns between others, in an array with texts, that no step passes on."""
        if self._source.names is not None or not any(column.has_texts for column in self._cells.columns.values()):
            return ()
        read = {one.source for one in self._source.traces} | self._cells.columns.keys()
        return tuple(at for at in self.columns if at not in read)

    def _write_categories(self) -> None:
        forest, fields = self._source.forest, self._fields
        source = np.array([one.source for one in self._source.traces], np.intp)
        inner = np.flatnonzero(~forest.is_leaf)
        for at, column in self._cells.columns.items():
            nodes = inner[source[forest.feature[inner]] == at]
            left = goes_left(forest, nodes, column.outputs)
            fields["feature"][nodes] = self._place[at]
            fields["category_set"][nodes] = [self._set_of(one) for one in left.T]
            fields["default_left"][nodes] = self._unknown_left(column, nodes)

    def _unknown_left(self, column: Column, nodes: NDArray[np.intp]) -> NDArray[np.bool_]:
        if column.unknown is None:
            return np.zeros(len(nodes), np.bool_)
        left: NDArray[np.bool_] = goes_left(self._source.forest, nodes, column.unknown[None])[0]
        return left

    def _set_of(self, left: NDArray[np.bool_]) -> int:
        bits = np.packbits(np.append(left, np.zeros(-len(left) % 32, np.bool_)), bitorder="little").tobytes()
        return self._sets.setdefault(bits, len(self._sets))

    def _write_thresholds(self) -> None:
        """Write the nodes whose answer changes at most once; the others get a threshold that `_rewrite` replaces."""
        asked, fields = self._questions, self._fields
        nodes = np.flatnonzero(asked.of_node >= 0)
        which = asked.of_node[nodes]
        pairs = zip(asked.column.tolist(), asked.changes, strict=True)
        first = np.array([asked.number(at, changes[0]) if len(changes) else np.inf for at, changes in pairs])
        fields["feature"][nodes] = [self._place[int(at)] for at in asked.column[which]]
        fields["threshold"][nodes] = first[which]
        swap = nodes[~asked.starts[which]]
        fields["left"][swap], fields["right"][swap] = fields["right"][swap], fields["left"][swap]
        fields["default_left"][nodes] = asked.missing[which] == asked.starts[which]

    def _rewrite(self, trees: Sequence[int]) -> NDArray[np.int64]:
        """Write some trees anew, with several nodes for an answer that changes more than once; return the offsets."""
        self._fields, offset = _copy_trees(self._source.forest, self._fields, self._questions, trees)
        return offset


def spell_out(forest: Forest) -> Forest:
    """Return a forest whose nodes know which numbers are missing values (`RawRows.missing_upto`), for other programs.

    It is larger, because a node that sends missing values right needs another one for low numbers.

    Parameters
    ----------
    forest : Forest

    Returns
    -------
    Forest
        The same one if it needs nothing.

    Raises
    ------
    InputError
        If it would be too large.
    """
    raw = forest.raw_rows
    if raw is None or not raw.missing_upto:
        return forest
    nodes = np.flatnonzero(np.isin(forest.feature, list(raw.missing_upto)) & (forest.left >= 0))
    of_node = np.full(forest.n_nodes, -1)
    of_node[nodes] = np.arange(len(nodes))
    column, missing = forest.feature[nodes].astype(np.intp), forest.default_left[nodes]
    limit = keys_of(np.array([raw.missing_upto[at] for at in column.tolist()], forest.input_dtype))
    last = keys_of(forest.threshold[nodes].astype(forest.input_dtype))
    # Up to the limit as missing values, then left up to the threshold.
    changes = [
        np.array([*([] if is_left == (low < key) else [low]), *([key] if low < key else [])], np.int64)
        for is_left, low, key in zip(missing.tolist(), limit.tolist(), last.tolist(), strict=True)
    ]
    fields = {name: getattr(forest, name).copy() for name in (*NODE_ARRAYS, "value")}
    swap = nodes[~missing]
    fields["left"][swap], fields["right"][swap] = fields["right"][swap], fields["left"][swap]
    questions = Questions(of_node, column, missing, changes, missing, [forest.input_dtype] * forest.n_features)
    try:
        fields, offset = _copy_trees(forest, fields, questions, range(forest.n_trees))
    except CannotFoldError as error:
        raise InputError(f"this forest cannot be written for other programs: {error}") from error
    return forest.replace(**fields, tree_offset=offset, raw_rows=replace(raw, missing_upto={}))


def _copy_trees(
    forest: Forest, fields: dict[str, NDArray[Any]], questions: Questions, trees: Sequence[int]
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """Return the fields with some trees written anew, and the offsets of all."""
    parts: list[dict[str, NDArray[Any]]] = []
    limit = _MAX_GROWTH * forest.n_nodes + 1024
    chosen, size = set(trees), 0
    for tree in range(forest.n_trees):
        first, last = forest.tree_offset[tree : tree + 2].tolist()
        if tree in chosen:
            copied = _Copier(questions, fields, first, int(limit) - size).arrays()
        else:
            copied = {name: values[first:last] for name, values in fields.items()}
            for side in ("left", "right"):
                copied[side] = np.where(copied[side] < 0, -1, copied[side] - first).astype(np.int32)
        for side in ("left", "right"):
            copied[side] = np.where(copied[side] < 0, -1, copied[side] + size).astype(np.int32)
        size += len(copied["left"])
        parts.append(copied)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in fields}
    return joined, np.concatenate([[0], np.cumsum([len(part["left"]) for part in parts])]).astype(np.int64)


class _Copier:
    """Copies a tree, splitting nodes where an answer changes several times, and leaving out what is known by then."""

    def __init__(self, questions: Questions, fields: dict[str, NDArray[Any]], root: int, max_nodes: int) -> None:
        self._questions, self._fields, self._max_nodes = questions, fields, max_nodes
        self._origin: list[int] = []
        self._new: dict[str, list[Any]] = {name: [] for name in ("threshold", "left", "right", "default_left")}
        # Not by recursion: chains of nodes may be longer than Python's stack.
        self._waiting: list[tuple[int, dict[int, _Known], int, str]] = [(root, {}, -1, "")]
        while self._waiting:
            node, known, parent, side = self._waiting.pop()
            at = self._copy(node, known)
            if parent >= 0:
                self._new[side][parent] = at

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the copy, children as indices inside it."""
        origin = np.array(self._origin, np.intp)
        arrays = {name: values[origin] for name, values in self._fields.items()}
        arrays |= {name: np.array(values, arrays[name].dtype) for name, values in self._new.items()}
        arrays["cover"] = np.full(len(origin), np.nan)  # how many training rows went each way is not known
        return arrays

    def _add(self, node: int, threshold: float, default_left: bool) -> int:
        if len(self._origin) >= self._max_nodes:
            raise CannotFoldError(
                "the trees would grow too large; bins and categories of numbers need several nodes each"
            )
        self._origin.append(node)
        for name, value in (("threshold", threshold), ("left", -1), ("right", -1), ("default_left", default_left)):
            self._new[name].append(value)
        return len(self._origin) - 1

    def _copy(self, node: int, known: dict[int, _Known]) -> int:
        """Copy a node, put what follows on the list, and return its new index."""
        fields, asked = self._fields, self._questions
        while (question := int(asked.of_node[node])) >= 0:
            column = int(asked.column[question])
            at = known.get(column, _ANYTHING)
            changes = [int(key) for key in asked.changes[question] if _is_inside(int(key), at)]
            answer = self._answer(question, at)
            agrees = not at.may_miss or bool(asked.missing[question]) == answer
            if changes or not (agrees or not at.has_numbers):
                return self._split(node, question, known, at, changes, answer)
            goes = answer if at.has_numbers else bool(asked.missing[question])
            node = self._child(node, question, goes)
        new = self._add(node, float(fields["threshold"][node]), bool(fields["default_left"][node]))
        if fields["left"][node] >= 0:
            for side in ("left", "right"):
                self._waiting.append((int(fields[side][node]), known, new, side))
        return new

    def _answer(self, question: int, at: _Known) -> bool:
        """Return the answer for the smallest numbers that are possible."""
        changes = self._questions.changes[question]
        passed = 0 if at.low is None else int(np.searchsorted(changes, at.low, side="right"))
        return bool(self._questions.starts[question]) ^ bool(passed % 2)

    def _child(self, node: int, question: int, answer: bool) -> int:
        # `_write_thresholds` swapped the children of questions that start with the right one.
        is_left = answer == bool(self._questions.starts[question])
        return int(self._fields["left" if is_left else "right"][node])

    def _split(
        self, node: int, question: int, known: dict[int, _Known], at: _Known, changes: list[int], answer: bool
    ) -> int:
        column, missing = int(self._questions.column[question]), bool(self._questions.missing[question])
        if changes:
            middle = changes[len(changes) // 2]
            threshold = self._questions.number(column, middle)
            # Missing values go to a side that needs no more nodes for them, if there is one.
            miss_left = len(changes) > 1 or missing == answer
            low = _Known(at.low, middle, True, at.may_miss and miss_left)
            high = _Known(middle, at.high, True, at.may_miss and not miss_left)
        else:  # numbers one way, missing values the other
            threshold, miss_left = np.inf, False
            low, high = _Known(at.low, at.high, True, False), _Known(has_numbers=False)
        new = self._add(node, threshold, miss_left)
        self._waiting.append((node, known | {column: low}, new, "left"))
        self._waiting.append((node, known | {column: high}, new, "right"))
        return new


def _is_inside(key: int, at: _Known) -> bool:
    """Return whether numbers on both sides of a change are possible."""
    return at.has_numbers and (at.low is None or key > at.low) and (at.high is None or key < at.high)


def _as_array(values: list[Any]) -> NDArray[Any]:
    kinds = {type(value) for value in values}
    if len(kinds) == 1:
        return np.array(values)
    array = np.empty(len(values), object)
    array[:] = values
    return array
