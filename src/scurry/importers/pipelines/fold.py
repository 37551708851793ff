"""Fold: a forest that reads raw rows, from one that reads what a transformer makes of them.

A node that asks whether an output is at most a threshold becomes a question about the raw column that the output
depends on. Along the floats of that column the answer changes at a few places, found by bisection: at one for a map
that rises, where the node gets another threshold, and at more where it turns, where the node becomes a few nodes. Of a
column of categories, each node gets the set of those that go left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.forest import MISSING_NONE, MISSING_ZERO, Forest
from scurry.forest.front import dense
from scurry.importers.pipelines.cells import Cells, Source, find_cells
from scurry.importers.pipelines.pieces import Questions, Rewriter
from scurry.importers.pipelines.probes import Keys, Probe
from scurry.importers.pipelines.traces import CannotFoldError

_STEPS = np.arange(1, 13)
_SCALES = np.int64(1) << np.arange(0, 42, 2)
_NEAR = np.unique(np.outer(_SCALES, _STEPS).ravel())
"""Distances at which neighbours of a threshold are tried: a map that is flat over many floats changes far away."""
_MAX_CHANGES = 64


def fold_source(source: Source, dtypes: Sequence[str]) -> Forest:
    """Return the forest that reads raw rows whose columns have these dtypes.

    Raises
    ------
    CannotFoldError
        If some node cannot be expressed.
    """
    cells = find_cells(source, dtypes)
    probe = cells.probe
    if len(source.traces) != source.forest.n_features or probe.ask({}).shape[1] != source.forest.n_features:
        raise CannotFoldError("the transformers have other outputs than expected")
    questions = _ask_numeric(source, probe, cells)
    return Rewriter(source, cells, questions).forest()


def _ask_numeric(source: Source, probe: Probe, cells: Cells) -> Questions:
    """Return what the nodes on numeric columns ask of raw values."""
    forest = source.forest
    origin = np.array([one.source for one in source.traces], np.intp)
    inner = np.flatnonzero(~forest.is_leaf)
    nodes = inner[~np.isin(origin[forest.feature[inner]], list(cells.columns))]
    if (forest.category_set[nodes] >= 0).any():
        at = int(nodes[np.argmax(forest.category_set[nodes] >= 0)])
        raise CannotFoldError(
            f"the model takes column {forest.name_of(forest.feature[at])!r}, made of numbers, as categories"
        )
    if (forest.missing[nodes] == MISSING_ZERO).any():
        raise CannotFoldError("the model takes zeros as missing")
    limit = _largest_left(forest, forest.threshold[nodes])
    nan_left = np.where(forest.missing[nodes] == MISSING_NONE, limit >= 0, forest.default_left[nodes])
    asked = np.empty(len(nodes), [("output", np.intp), ("limit", np.float64), ("nan_left", np.bool_)])
    asked["output"], asked["limit"], asked["nan_left"] = forest.feature[nodes], limit, nan_left
    unique, index = np.unique(asked, return_inverse=True)
    question = np.full(forest.n_nodes, -1)
    question[nodes] = index
    column = origin[unique["output"]]
    used = np.unique(column).tolist()
    anchors = _find_anchors(source, probe, used)
    found = _find_changes(source, probe, unique, column, anchors)
    missing = _answer_missing(source, probe, unique, column, used)
    return Questions(question, column, found.starts, found.changes, missing, probe.dtypes)


def _largest_left(forest: Forest, threshold: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest float64 that a numeric split sends left, before the forest rounds it to its precision."""
    if forest.input_dtype == "float64":
        return np.nextafter(threshold, -np.inf) if forest.comparison == "<" else threshold
    with np.errstate(over="ignore"):
        last = threshold.astype(np.float32)
        above = last.astype(np.float64) >= threshold if forest.comparison == "<" else last > threshold
        last = np.where(above, np.nextafter(last, np.float32(-np.inf)), last)
        following = np.nextafter(last, np.float32(np.inf))
        # Halfway to the next float32 numbers are rounded to the one whose last bit is 0.
        largest = np.float64(np.finfo(np.float32).max)
        upper = np.where(np.isinf(following), 2.0**128, following.astype(np.float64))
        lower = np.where(np.isneginf(last), -(2.0**128), last.astype(np.float64))
        middle = (lower + upper) / 2
        is_even = (last.view(np.int32) & 1) == 0
        limit = np.where(is_even & ~np.isneginf(last), middle, np.nextafter(middle, -np.inf))
        limit = np.where(np.isneginf(last), -(largest + 2.0**103), limit)
    return np.where(np.isposinf(last), np.inf, limit)


def _find_anchors(source: Source, probe: Probe, used: Sequence[int]) -> dict[int, Keys]:
    """Return keys between which the outputs of each column rise or fall."""
    anchors = {column: np.array(probe.limits(column), np.int64) for column in used}
    of_column: dict[int, list[Any]] = {column: [] for column in used}
    for one in source.traces:
        if one.source in of_column:
            held = of_column[one.source]
            held += [knots for knots in one.knots if knots not in held]
    for turn in range(max(map(len, of_column.values()), default=0)):
        for column in used:
            if turn < len(of_column[column]):
                knots = of_column[column][turn]
                anchors[column] = _add_knots(probe, column, anchors[column], knots)
    return anchors


def _add_knots(probe: Probe, column: int, anchors: Keys, knots: Any) -> Keys:
    """Return the anchors with those places where a stage of the pipeline passes its knots."""

    def stage(X: Any) -> NDArray[Any]:
        return _numbers(knots.stage(X), knots.position)

    reached = probe.ask({column: probe.values(column, anchors)}, stage)[:, 0]
    at, value = np.nonzero((reached[:-1, None] <= knots.values) != (reached[1:, None] <= knots.values))

    def decide(outputs: NDArray[Any], rows: NDArray[np.intp], searches: NDArray[np.intp]) -> NDArray[np.bool_]:
        answers: NDArray[np.bool_] = outputs[rows, 0] <= knots.values[value[searches]]
        return answers

    first = reached[at] <= knots.values[value]
    columns = np.full(len(at), column)
    high = probe.skip_refused(columns, anchors[at], anchors[at + 1])
    last = probe.bisect(columns, anchors[at], high, first, decide, stage)
    return probe.usable(column, np.unique(np.concatenate([anchors, last, last + 1])))


def _numbers(table: Any, position: int) -> NDArray[np.float64]:
    column = table.iloc[:, position] if hasattr(table, "iloc") else dense(table, 0.0)[:, position]
    return np.asarray(column, np.float64).reshape(-1, 1)


@dataclass(frozen=True, eq=False)
class _Changes:
    """For each question the answer before the first change, and the keys after which it changes."""

    starts: NDArray[np.bool_]
    changes: list[Keys]


def _find_changes(
    source: Source, probe: Probe, asked: NDArray[Any], column: NDArray[np.intp], anchors: dict[int, Keys]
) -> _Changes:
    outputs = probe.ask({at: probe.values(at, keys) for at, keys in anchors.items()})
    starts, pairs = np.zeros(len(asked), np.bool_), []

    def answer(values: NDArray[Any], which: NDArray[np.intp]) -> NDArray[np.bool_]:
        left: NDArray[np.bool_] = np.where(np.isnan(values), asked["nan_left"][which], values <= asked["limit"][which])
        return left

    for output in np.unique(asked["output"]).tolist():
        which = np.flatnonzero(asked["output"] == output)
        keys = anchors[source.traces[output].source]
        values = outputs[: len(keys), output]
        if source.refuses_nan:  # such rows have no answer, so any will do: the one that adds no change
            values = _fill(values)
        answers = answer(values[:, None], which)
        starts[which] = answers[0]
        at, one = np.nonzero(answers[:-1] != answers[1:])
        pairs.append((which[one], keys[at], keys[at + 1], answers[at, one]))
    which, low, high, first = (np.concatenate(part) for part in zip(*pairs, strict=True)) if pairs else _no_pairs()
    high = probe.skip_refused(column[which], low, high)

    def decide(outputs: NDArray[Any], rows: NDArray[np.intp], searches: NDArray[np.intp]) -> NDArray[np.bool_]:
        at = which[searches]
        return answer(outputs[rows, asked["output"][at]], at)

    last = probe.bisect(column[which], low, high, first, decide)
    order = np.lexsort([last, which])
    begin = np.searchsorted(which[order], np.arange(len(asked) + 1)).tolist()
    changes: list[Keys] = [last[order[begin[one] : begin[one + 1]]] for one in range(len(asked))]
    unsure = np.array([not one.is_proven for one in source.traces], np.bool_)[asked["output"][which]]
    unsure &= high.view(np.uint64) - low.view(np.uint64) > 1  # between two adjacent anchors nothing is left to try
    near = _try_neighbours(probe, asked, column, which[unsure], low[unsure], high[unsure], last[unsure], answer)
    for question, (lowest, highest), more in near:
        kept = changes[question][(changes[question] < lowest) | (changes[question] > highest)]
        changes[question] = np.sort(np.concatenate([kept, more]))
    if max(map(len, changes), default=0) > _MAX_CHANGES:
        raise CannotFoldError("an output turns too often for nodes to follow it")
    return _Changes(starts, changes)


def _no_pairs() -> tuple[NDArray[Any], ...]:
    none = np.empty(0, np.int64)
    return none.astype(np.intp), none, none, none.astype(np.bool_)


def _fill(values: NDArray[Any]) -> NDArray[Any]:
    """Return values with each NaN replaced by the nearest other above, or below where there is none."""
    known = np.flatnonzero(~np.isnan(values))
    if len(known) == 0:
        return values
    return values[known[np.minimum(np.searchsorted(known, np.arange(len(values))), len(known) - 1)]]


def _try_neighbours(
    probe: Probe,
    asked: NDArray[Any],
    column: NDArray[np.intp],
    which: NDArray[np.intp],
    low: Keys,
    high: Keys,
    last: Keys,
    answer: Any,
) -> list[tuple[int, tuple[int, int], Keys]]:
    """Return, for each question whose answer changes several times near one place, the segment and all its changes."""
    found = []
    size = max(1, (1 << 20) // (2 * len(_NEAR)))
    steps = np.concatenate([-_NEAR[::-1], [0], _NEAR])
    for first in range(0, len(which), size):
        part = np.arange(first, min(first + size, len(which)))
        keys = np.clip(last[part, None] + steps, low[part, None], high[part, None])
        answers = _ask_each(probe, asked, column, which[part], keys, answer)
        middle = len(_NEAR)
        expected = np.where(keys <= last[part, None], answers[:, middle, None], ~answers[:, middle, None])
        for at in np.flatnonzero((answers != expected).any(axis=1)):
            question = int(which[part[at]])
            found.append((question, *_all_changes(probe, asked, column, question, keys[at], answers[at], answer)))
    return found


def _ask_each(
    probe: Probe, asked: NDArray[Any], column: NDArray[np.intp], which: NDArray[np.intp], keys: Keys, answer: Any
) -> NDArray[np.bool_]:
    """Return the answers of questions at several keys each, of shape `keys.shape`."""
    answers = np.empty(keys.shape, np.bool_)
    given = {at: probe.values(at, keys[column[which] == at].ravel()) for at in np.unique(column[which]).tolist()}
    outputs = probe.ask(given)
    for at in given:
        of_column = np.flatnonzero(column[which] == at)
        rows = np.arange(len(of_column) * keys.shape[1]).reshape(len(of_column), -1)
        questions = which[of_column][:, None]
        answers[of_column] = answer(outputs[rows, asked["output"][questions]], questions)
    return answers


def _all_changes(
    probe: Probe, asked: NDArray[Any], column: NDArray[np.intp], question: int, keys: Keys, answers: Any, answer: Any
) -> tuple[tuple[int, int], Keys]:
    keys, first = np.unique(keys, return_index=True)
    answers = answers[first]
    at = np.flatnonzero(answers[:-1] != answers[1:])

    def decide(outputs: NDArray[Any], rows: NDArray[np.intp], searches: NDArray[np.intp]) -> NDArray[np.bool_]:
        which = np.full(len(searches), question)
        left: NDArray[np.bool_] = answer(outputs[rows, asked["output"][question]], which)
        return left

    last = probe.bisect(np.full(len(at), column[question]), keys[at], keys[at + 1], answers[at], decide)
    return (int(keys[0]), int(keys[-1])), last


def _answer_missing(
    source: Source, probe: Probe, asked: NDArray[Any], column: NDArray[np.intp], used: Sequence[int]
) -> NDArray[np.bool_]:
    """Return the answer of each question for a missing value; False where the pipeline refuses them."""
    nothing = {at: np.array([np.nan], probe.dtypes[at]) for at in used if np.dtype(probe.dtypes[at]).kind == "f"}
    taken = [at for at in nothing if probe.works(at, nothing[at])]
    outputs = probe.ask({at: nothing[at] for at in taken})[0] if taken else np.zeros(source.forest.n_features)
    values = outputs[asked["output"]]
    left = np.where(np.isnan(values), asked["nan_left"], values <= asked["limit"])
    return left & np.isin(column, taken)


def same_answers(one: Forest, other: Forest, narrow: Collection[int]) -> bool:
    """Return whether two folded forests treat rows alike, one of which was folded for float32 in some features.

    Parameters
    ----------
    one : Forest
        Folded for float64 throughout.
    other : Forest
    narrow : collection of int
        The features for whose float32 numbers `other` was folded.
    """
    names = ("feature", "left", "right", "default_left", "category_set", "category_bits")
    if one.n_nodes != other.n_nodes or not all(np.array_equal(getattr(one, n), getattr(other, n)) for n in names):
        return False
    limits, others = ({} if f.raw_rows is None else f.raw_rows.missing_upto for f in (one, other))
    if limits.keys() != others.keys():
        return False
    wide = np.append(one.threshold, [limits[at] for at in limits])
    is_narrow = np.isin(np.append(one.feature, [*limits]), list(narrow))
    with np.errstate(over="ignore"):
        rounded = wide.astype(np.float32)
    rounded = np.where(rounded > wide, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    held = np.append(other.threshold, [others[at] for at in limits])
    return bool((np.where(is_narrow, rounded.astype(np.float64), wide) == held).all())
