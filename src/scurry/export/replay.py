"""Replay: what an exported model answers, computed from the same tables in numpy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.export.lowered import Lowered
from scurry.predictor import Predictor
from scurry.promises import Labels


class Outcome(NamedTuple):
    """Class, sums and number of trees evaluated, of each row."""

    codes: NDArray[np.int64]
    sums: NDArray[np.int64]
    trees: NDArray[np.int64]


def measure_agreement(pred: Predictor, lowered: Lowered, rows: NDArray[Any]) -> NDArray[np.float64]:
    """Return the share of rows that get the source's label.

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
        After 0, 1, … steps of an anytime model; else a single one. Where a plan mixes policies at random, all rows of
        the export follow the first: the source draws from each row's own values, which the C does not do.
    """
    classes = np.asarray(pred.forest.classes)
    if not lowered.is_anytime:
        return np.array([(classes[run_trees(lowered, rows).codes] == pred.predict(rows)).mean()])
    shares = [
        (classes[lowered.values.labels(sums)] == pred.predict(rows, max_steps=n_steps)).mean()
        for n_steps, (sums, _) in enumerate(walk_steps(lowered, rows))
    ]
    return np.array(shares)


def measure_kept(pred: Predictor, lowered: Lowered, rows: NDArray[Any]) -> float | None:
    """Return the share of rows that get the label which the predictor's promise compares with.

    Returns
    -------
    float or None
        None if the predictor makes no promise about labels.
    """
    promise = None if pred.certificate is None else pred.certificate.promise
    if lowered.is_anytime or not isinstance(promise, Labels):
        return None
    forest = pred.forest
    wanted = forest.predict(rows)
    if promise.against == "vote":
        votes = forest.value.argmax(axis=1)[forest.apply(rows)]
        counts = np.stack([(votes == k).sum(axis=1) for k in range(forest.n_classes)], axis=1)
        wanted = np.asarray(forest.classes)[counts.argmax(axis=1)]
    return float((np.asarray(forest.classes)[run_trees(lowered, rows).codes] == wanted).mean())


def walk_steps(lowered: Lowered, rows: NDArray[Any]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
    """Yield the sums of an anytime model, shape (n_rows, n_sums), before the first step and after each.

    With them comes which rows the step moved: rows at a leaf stay there.
    """
    x = lowered.columns.encode(rows)
    at = np.tile(lowered.root, (len(x), 1))
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
    leaves = find_leaves(lowered, rows)
    running = np.empty((lowered.n_trees + 1, len(leaves), lowered.values.n_sums), np.int64)
    running[0] = lowered.values.start
    for i, tree in enumerate(lowered.order):
        running[i + 1] = running[i]
        _add(lowered, running[i + 1], tree, leaves[:, tree])
    trees, codes = np.full(len(leaves), lowered.n_trees), lowered.values.labels(running[-1])
    if lowered.values.stop is not None:
        trees, codes = lowered.values.stop.find_exits(running, codes, draws)
    return Outcome(codes, running[trees, np.arange(len(leaves))], trees)


def find_leaves(lowered: Lowered, rows: NDArray[Any]) -> NDArray[np.int64]:
    """Return the leaf that each row reaches in each tree, shape (n_rows, n_trees)."""
    x = lowered.columns.encode(rows)
    leaves = np.tile(lowered.root, (len(x), 1))
    for tree in range(lowered.n_trees):
        while ((after := step(lowered, leaves[:, tree], x)) != leaves[:, tree]).any():
            leaves[:, tree] = after
    return leaves


def step(lowered: Lowered, at: NDArray[np.int64], x: NDArray[Any]) -> NDArray[np.int64]:
    """Return the node after each row's node, shape (n_rows,); a leaf stays."""
    after = at.copy()
    walking = np.flatnonzero(at < lowered.n_inner)
    inner = at[walking]
    over = x[walking, lowered.column[inner]] > lowered.threshold[inner]
    after[walking] = np.where(over, lowered.right[inner], lowered.left[inner])
    return after


def _add(lowered: Lowered, sums: NDArray[np.int64], tree: int, at: NDArray[np.int64], times: int = 1) -> None:
    """Add the values of the nodes that rows have reached in a tree to their sums."""
    codes = lowered.codes[at]
    match lowered.values.kind:
        case "vote":
            sums[np.arange(len(sums)), codes[:, 0]] += times
        case "own":
            sums[:, lowered.output[tree]] += times * codes[:, 0]
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
