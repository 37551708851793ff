"""Replay: what an exported model answers, computed from the same tables in numpy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.export.comparisons import NO_CATEGORY, CellTables, ExitTables, LeadTables, SentinelTables
from scurry.export.lowered import Lowered
from scurry.forest import Forest
from scurry.predictor import Predictor
from scurry.promises import Cost, Labels, Outcomes, Promise, SizeMeasurement


class Outcome(NamedTuple):
    """Class (or a regressor's sum or estimate), sums and number of trees evaluated, of each row."""

    codes: NDArray[np.int64]
    sums: NDArray[np.int64]
    trees: NDArray[np.int64]


def measure_agreement(pred: Predictor, lowered: Lowered, rows: NDArray[Any]) -> NDArray[np.float64]:
    """Return how well the exported model's answers are the source's.

    Parameters
    ----------
    pred : Predictor
        The source.
    lowered : Lowered
        Its exported form.
    rows : array of shape (n_rows, n_features)

    Returns
    -------
    float64 array of shape (n_steps + 1,) or (1,)
        The share of rows with the source's label; for a regressor, the share of the variance of the source's values
        that is left if the differences are taken away from it. After 0, 1, … steps of an anytime model; else a single
        one. Where a plan mixes policies at random, all rows of the export follow the first: the source draws from each
        row's own values, which the C does not do.
    """
    decode, forest = lowered.values.decode, pred.forest
    if not lowered.is_anytime:
        return np.array([_agree(forest, decode(forest, run_trees(lowered, rows).codes), pred.predict(rows))])
    shares = [
        _agree(forest, decode(forest, lowered.values.labels(sums)), pred.predict(rows, max_steps=n_steps))
        for n_steps, (sums, _) in enumerate(walk_steps(lowered, rows))
    ]
    return np.array(shares)


def _agree(forest: Forest, ours: NDArray[Any], source: NDArray[Any]) -> float:
    if forest.is_classifier:
        return float((ours == source).mean())
    # After 0 steps all rows have one value, and what differs is compared with that.
    scale = float(source.var()) or float(np.square(source).mean()) or 1.0
    return max(0.0, 1.0 - float(np.square(ours - source).mean()) / scale)


def measure_error(pred: Predictor, lowered: Lowered, rows: NDArray[Any]) -> float | None:
    """Return the largest difference between a value of the exported regressor and of the source, after all steps.

    Returns
    -------
    float or None
        None for a classifier.
    """
    if pred.forest.is_classifier:
        return None
    return float(np.abs(final_answers(pred, lowered, rows) - pred.predict(rows)).max())


def final_answers(pred: Predictor, lowered: Lowered, rows: NDArray[Any]) -> NDArray[Any]:
    """Return the labels or values that the exported model ends with."""
    if lowered.is_anytime:
        *_, (sums, _) = walk_steps(lowered, rows)
        answers = lowered.values.labels(sums)
    else:
        answers = run_trees(lowered, rows).codes
    return lowered.values.decode(pred.forest, answers)


class Kept(NamedTuple):
    """How well the answers of the C keep the source's promise, by the part of the promise that they keep worst.

    Attributes
    ----------
    what : str
        What breaks it, in words.
    n_rows, n_broken : int
        Rows that this part is about, and those of them that break it.
    source_rate : float
        Share of the same rows that break it with the source's own answers.
    max_rate : float
        The largest share that was promised.
    """

    what: str
    n_rows: int
    n_broken: int
    source_rate: float
    max_rate: float

    @property
    def share(self) -> float:
        """Share of rows that keep the promise."""
        return (self.n_rows - self.n_broken) / self.n_rows

    @property
    def excess(self) -> float:
        """By how much more of the rows break it than may, or than do with the source; 0 if it is kept."""
        return max(0.0, self.n_broken / self.n_rows - max(self.max_rate, self.source_rate))

    @property
    def is_enough(self) -> bool:
        """Whether no more rows break it than were promised, or than do with the source."""
        return self.excess == 0

    def describe(self) -> str:
        """Return what was measured, as a sentence."""
        return (
            f"The C keeps it on {in_percent(self.share)} of the calibration rows; promised are "
            f"{in_percent(1 - self.max_rate)}, and the exported predictor keeps it on "
            f"{in_percent(1 - self.source_rate)} ({self.what} break it)."
        )


def find_promise(pred: Predictor) -> Promise | None:
    """Return the promise about answers that the C may break: none of an anytime plan, and none about what rows cost.

    That of a compressed forest compares it with a model that the predictor does not hold.
    """
    certificate = pred.certificate
    if certificate is None or pred.plan.by_step or isinstance(certificate.measured, SizeMeasurement):
        return None
    return None if isinstance(certificate.promise, Cost) else certificate.promise


def measure_kept(pred: Predictor, lowered: Lowered, rows: NDArray[Any]) -> Kept | None:
    """Return how well the answers of the C keep the predictor's promise.

    Returns
    -------
    Kept or None
        None if there is no promise about answers, or one that labels and values alone cannot test: it is about
        probabilities, which the C does not give, or about true labels, or about classes that no row has.
    """
    promise, forest = find_promise(pred), pred.forest
    if promise is None:
        return None
    wanted = forest.predict(rows)
    if isinstance(promise, Labels) and promise.against == "vote":
        votes = forest.value.argmax(axis=1)[forest.apply(rows)]
        counts = np.stack([(votes == k).sum(axis=1) for k in range(forest.n_classes)], axis=1)
        wanted = np.asarray(forest.classes)[counts.argmax(axis=1)]
    ours, source = (
        promise.count(Outcomes(answers=answers, full=wanted))
        for answers in (final_answers(pred, lowered, rows), pred.predict(rows))
    )
    parts = [
        Kept(part.what, part.n_rows, part.n_broken, of_source.rate, part.max_rate)
        for part, of_source in zip(ours, source, strict=True)
        if part.n_rows
    ]
    return max(parts, key=lambda part: (part.excess, part.n_broken / part.n_rows - part.max_rate), default=None)


def walk_steps(lowered: Lowered, rows: NDArray[Any]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
    """Yield the sums of an anytime model, shape (n_rows, n_sums), before the first step and after each.

    With them comes which rows the step moved: rows at a leaf stay there.
    """
    x = lowered.columns.encode(rows)
    at = np.tile(lowered.root[: lowered.n_trees], (len(x), 1))
    sums = np.tile(lowered.values.start, (len(x), 1))
    for tree in range(lowered.n_trees):
        _add(lowered, sums, tree, at[:, tree])
    yield sums.copy(), np.ones(len(x), np.bool_)
    for tree in lowered.order:
        before, at[:, tree] = at[:, tree].copy(), step(lowered, at[:, tree], x)
        # The C adds all trees anew at each reading. Sums are integers, so replacing one tree's share is the same.
        _add(lowered, sums, tree, before, times=-1)
        _add(lowered, sums, tree, at[:, tree])
        yield sums.copy(), at[:, tree] != before


def run_trees(lowered: Lowered, rows: NDArray[Any], draws: NDArray[np.int64] | None = None) -> Outcome:
    """Return the outcome of a model that is not anytime; `draws` choose among several policies."""
    leaves, stop = find_leaves(lowered, rows), lowered.values.stop
    n_rows = len(leaves)
    # The order of trees, shape (n_trees, n_rows): in cells it is the row's own.
    order = np.tile(lowered.order[:, None], (1, n_rows))
    cells = np.zeros(n_rows, np.int64)
    if isinstance(stop, CellTables):
        cells = find_cells(lowered, rows)
        order = stop.order[cells].T
    running = np.empty((lowered.n_trees + 1, n_rows, lowered.values.n_sums), np.int64)
    running[0] = lowered.values.start
    for i, trees_of_rows in enumerate(order):
        running[i + 1] = running[i]
        _add(lowered, running[i + 1], trees_of_rows, leaves[np.arange(n_rows), trees_of_rows])
    trees, codes = np.full(n_rows, lowered.n_trees), lowered.values.labels(running[-1])
    match stop:
        case ExitTables() | LeadTables():
            trees, codes = stop.find_exits(running, codes, draws)
        case CellTables():
            trees, codes = stop.find_exits(running, codes, cells)
        case SentinelTables():
            in_order = stop.codes[leaves[np.arange(n_rows), order]]
            sums = np.concatenate([np.zeros_like(in_order[:1]), in_order.cumsum(axis=0)])
            _, trees, codes = stop.find_exits(sums, codes)
    return Outcome(codes, running[trees, np.arange(n_rows)], trees)


def find_cells(lowered: Lowered, rows: NDArray[Any]) -> NDArray[np.int64]:
    """Return the cell of each row: the leaf it reaches in the router."""
    x, at = lowered.columns.encode(rows), np.full(len(rows), lowered.root[-1])
    while ((after := step(lowered, at, x)) != at).any():
        at = after
    return at - (lowered.n_nodes - lowered.n_cells)


def find_leaves(lowered: Lowered, rows: NDArray[Any]) -> NDArray[np.int64]:
    """Return the leaf that each row reaches in each tree, shape (n_rows, n_trees)."""
    x = lowered.columns.encode(rows)
    leaves = np.tile(lowered.root[: lowered.n_trees], (len(x), 1))
    for tree in range(lowered.n_trees):
        while ((after := step(lowered, leaves[:, tree], x)) != leaves[:, tree]).any():
            leaves[:, tree] = after
    return leaves


def step(lowered: Lowered, at: NDArray[np.int64], x: NDArray[Any]) -> NDArray[np.int64]:
    """Return the node after each row's node, shape (n_rows,); a leaf stays."""
    after = at.copy()
    walking = np.flatnonzero(at < lowered.n_inner)
    inner = at[walking]
    column, threshold, n_columns = lowered.column[inner], lowered.threshold[inner], len(lowered.columns.feature)
    x = x[walking, column % n_columns]
    over = x > threshold
    if len(in_set := np.flatnonzero(column >= n_columns)):
        category = x[in_set].astype(np.int64)
        if lowered.columns.is_integer:
            category = np.maximum(category, NO_CATEGORY)  # a negative integer is no missing value
        over[in_set] = ~lowered.sets.contain(category, threshold[in_set].astype(np.int64))
    after[walking] = np.where(over, lowered.right[inner], lowered.left[inner])
    return after


def _add(lowered: Lowered, sums: NDArray[np.int64], tree: Any, at: NDArray[np.int64], times: int = 1) -> None:
    """Add the values of the nodes that rows have reached in a tree, or each in a tree of its own, to their sums."""
    codes = lowered.codes[at]
    match lowered.values.kind:
        case "vote":
            sums[np.arange(len(sums)), codes[:, 0]] += times
        case "own":
            sums[np.arange(len(sums)), lowered.output[tree]] += times * codes[:, 0]
        case _:
            sums += times * codes


def in_percent(share: float) -> str:
    """Format a share of rows. It is rounded down, so that 100 % means all of them.

    Examples
    --------
    >>> in_percent(1.0), in_percent(0.9962825), in_percent(0.9999999)
    ('100 %', '99.628 %', '99.999 %')
    """
    return "100 %" if share == 1 else f"{math.floor(1e5 * share) / 1e3:.3f} %"
