"""Replay: what an exported model answers, computed from the same tables in numpy.

Agreement: how often an exported model answers as its source does, step by step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.export.lowered import Lowered
from scurry.export.values import ExitTables, LeadTables
from scurry.forest import Forest
from scurry.forest.rows import as_rows
from scurry.predictor import Predictor

DRAW_BITS = 16
NEGATIVE, POSITIVE, EVERY_TREE = 1, 2, 3


class Outcome(NamedTuple):
    """What a model that asks tree after tree makes of each row."""

    codes: NDArray[np.int64]
    sums: NDArray[np.int64]
    trees: NDArray[np.int64]


def step(lowered: Lowered, at: NDArray[np.int64], x: NDArray[Any]) -> NDArray[np.int64]:
    """The node after each row's node, shape (n_rows,)."""
    after = at.copy()
    walking = np.flatnonzero(at < lowered.n_inner)
    inner = at[walking]
    over = x[walking, lowered.column[inner]] > lowered.threshold[inner]
    after[walking] = np.where(over, lowered.right[inner], lowered.left[inner])
    return after


def add(lowered: Lowered, sums: NDArray[np.int64], tree: int, at: NDArray[np.int64], times: int = 1) -> None:
    """Add the values of the nodes rows have reached in a tree to their sums."""
    codes = lowered.codes[at]
    match lowered.values.kind:
        case "vote":
            sums[np.arange(len(sums)), codes[:, 0]] += times
        case "own":
            sums[:, lowered.output[tree]] += times * codes[:, 0]
        case _:
            sums += times * codes


def states(lowered: Lowered, rows: NDArray[Any]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
    """Sums of shape (n_rows, n_sums) before the first step and after each, and which rows that step moved."""
    x = lowered.columns.encode(rows)
    at = np.tile(lowered.root, (len(x), 1))
    sums = np.tile(lowered.values.start, (len(x), 1))
    for tree in range(lowered.n_trees):
        add(lowered, sums, tree, at[:, tree])
    yield sums.copy(), np.ones(len(x), np.bool_)
    for tree in lowered.order:
        before, at[:, tree] = at[:, tree].copy(), step(lowered, at[:, tree], x)
        add(lowered, sums, tree, before, times=-1)
        add(lowered, sums, tree, at[:, tree])
        yield sums.copy(), at[:, tree] != before


def outcomes(lowered: Lowered, rows: NDArray[Any], draws: NDArray[np.int64] | None = None) -> Outcome:
    """What a model that is no anytime one makes of rows; `draws` choose among several policies."""
    x = lowered.columns.encode(rows)
    running = np.empty((lowered.n_trees + 1, len(x), lowered.values.n_sums), np.int64)
    running[0] = lowered.values.start
    for i, tree in enumerate(lowered.order):
        at = np.full(len(x), lowered.root[tree])
        while ((after := step(lowered, at, x)) != at).any():
            at = after
        running[i + 1] = running[i]
        add(lowered, running[i + 1], tree, at)
    match lowered.stop:
        case ExitTables() as tables:
            trees, codes = _exits(lowered, tables, running[:, :, 0], policies(tables, len(x), draws))
        case LeadTables() as tables:
            trees, codes = _leads(lowered, tables, running)
        case None:
            trees, codes = np.full(len(x), lowered.n_trees), lowered.values.labels(running[-1])
    return Outcome(codes, running[trees, np.arange(len(x))], trees)


def policies(tables: ExitTables, n_rows: int, draws: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """The policy each row's draw of 16 bits chooses."""
    given = np.zeros(n_rows, np.int64) if draws is None else draws
    chosen: NDArray[np.int64] = np.searchsorted(policy_bounds(tables), given % 2**DRAW_BITS, side="right")
    return chosen


def policy_bounds(tables: ExitTables) -> NDArray[np.int64]:
    """Draws from bound p - 1 up to bound p choose policy p, the rest the last one; shape (n_policies - 1,)."""
    bounds: NDArray[np.int64] = np.rint(np.cumsum(tables.weights)[:-1] * 2**DRAW_BITS).astype(np.int64)
    return bounds


def _exits(
    lowered: Lowered, tables: ExitTables, running: NDArray[np.int64], policy: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    n_rows = len(policy)
    trees, codes = np.full(n_rows, lowered.n_trees), lowered.values.labels(running[-1][:, None])
    alive = np.ones(n_rows, np.bool_)
    for i, sums in enumerate(running):
        if tables.pieces:
            edges, sides = tables.pieces[i]
            side = sides[np.searchsorted(edges, sums, side="right")]
        else:
            side = np.where(sums >= tables.upper[policy, i], POSITIVE, 0)
            side = np.where(sums <= tables.lower[policy, i], NEGATIVE, side)
        exits = alive & np.isin(side, (NEGATIVE, POSITIVE))
        trees[exits], codes[exits] = i, side[exits] - 1
        alive &= side == 0
    return trees, codes


def _leads(
    lowered: Lowered, tables: LeadTables, running: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    n_rows = running.shape[1]
    trees, codes = np.full(n_rows, lowered.n_trees), running[-1].argmax(axis=1)
    alive = np.ones(n_rows, np.bool_)
    for r in range(len(tables.lead)):
        i = r * tables.trees_per_round
        second, first = np.sort(running[i], axis=1)[:, -2:].T
        stops = first >= tables.need[r][second] if tables.need else first - second >= tables.lead[r]
        exits = alive & stops
        trees[exits], codes[exits] = i, running[i][exits].argmax(axis=1)
        alive &= ~stops
    return trees, codes


def agreement(pred: Predictor | Forest, lowered: Lowered, X: Any) -> NDArray[np.float64]:
    """The share of rows with the source's label: after 0, 1, … steps, or once for a plan that stops by itself.

    Parameters
    ----------
    pred : Predictor or Forest
        The source.
    lowered : Lowered
        What is exported.
    X : array or DataFrame of shape (n_rows, n_features)

    Returns
    -------
    float64 array of shape (n_steps + 1,) or (1,)
        Where a plan mixes policies at random, all rows of the export follow the first.
    """
    forest = pred.forest if isinstance(pred, Predictor) else pred
    rows = as_rows(forest, X)
    classes = np.asarray(forest.classes)
    if not lowered.is_anytime or isinstance(pred, Forest):
        same = classes[outcomes(lowered, rows).codes] == pred.predict(rows)
        return np.array([same.mean()])
    shares = [
        (classes[lowered.values.labels(sums)] == pred.predict(rows, max_steps=n_steps)).mean()
        for n_steps, (sums, _) in enumerate(states(lowered, rows))
    ]
    return np.array(shares)


def in_percent(share: float) -> str:
    """A share of rows, rounded down: 100 % is all of them.

    Examples
    --------
    >>> in_percent(1.0), in_percent(0.9962825), in_percent(0.9999999)
    ('100 %', '99.628 %', '99.999 %')
    """
    return "100 %" if share == 1 else f"{math.floor(1e5 * share) / 1e3:.3f} %"
