"""Values: what nodes add to the sums of a row, as integers, and what the sums then mean.

Whatever the model, an exported one adds whole numbers and compares them. Two classes need a single sum, half the
difference of the two; more have one each. A value ``v`` is stored as the code ``(v - offset) / unit``, rounded;
thresholds and starting sums are moved into these units instead of values back out of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError, UnsupportedModelError
from scurry.forest import Forest
from scurry.plan import NEVER_ABOVE, NEVER_BELOW, ExitRule, LeaderRule, StepRule, leaf_scores, score_threshold

_LARGEST_SUM = 2**31 - 1
_FIXED_POINT_BITS = 29


@dataclass(frozen=True, eq=False, kw_only=True)
class Values:
    """What each node adds to a row's sums.

    Attributes
    ----------
    kind : {"margin", "vector", "own", "vote"}
        One sum for two classes; a number for every class; a number for the one class a tree serves; or the class that
        gets one vote.
    codes : int64 array of shape (n_nodes, n_codes)
        By the forest's node index.
    start : int64 array of shape (n_sums,)
    limit : int
        The second of two classes needs a sum of this much ("margin").
    offset, unit : float
        A code ``c`` stands for ``offset + unit * c``.
    """

    kind: str
    codes: NDArray[np.int64]
    start: NDArray[np.int64]
    limit: int = 0
    offset: float = 0.0
    unit: float = 1.0

    @property
    def n_sums(self) -> int:
        """How many sums a row has."""
        return len(self.start)

    def labels(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class of each row by its sums, shape (n_rows, n_sums): the lowest of equals."""
        if self.kind == "margin":
            return (sums[:, 0] >= self.limit).astype(np.int64)
        return np.asarray(sums.argmax(axis=1), dtype=np.int64)


def step_values(forest: Forest, rule: StepRule | None, bits: int) -> Values:
    """Values of a forest whose trees all count: inner nodes too, where there is a step rule."""
    _check_classes(forest)
    used = forest.is_leaf if rule is None else np.ones(forest.n_nodes, np.bool_)
    weights = np.empty(0) if rule is None else rule.weights(forest)
    if len(weights) and (score_offset := forest.base_score).any():
        raise UnsupportedModelError(
            f'readout="weighted" with base scores ({score_offset}) is not exported; use "plain"'
        )
    if forest.aggregation == "vote" and forest.n_classes > 2 and not len(weights):
        return _votes(forest)
    weight = weights[:, None] if len(weights) else 1.0
    if forest.n_classes == 2 and (forest.n_outputs == 1 or forest.tree_output[0] < 0):
        values, threshold = leaf_scores(forest)[:, None] * weight, score_threshold(forest)
        if len(weights) and threshold != 0:
            raise UnsupportedModelError(
                'readout="weighted" needs a decision threshold of 0 to be exported; use "plain"'
            )
        paired = forest.n_outputs == 2
        codes, offset, unit = _quantised(forest, values, used, bits, symmetric=paired, extra=abs(threshold))
        limit = _limit((threshold - forest.n_trees * offset) / unit, strict=paired)
        return _checked(
            forest, Values(kind="margin", codes=codes, start=_zero(), limit=limit, offset=offset, unit=unit)
        )
    values, base = forest.leaf_values() * weight, forest.base_score
    codes, offset, unit = _quantised(forest, values, used, bits, extra=float(np.abs(base).max()))
    own = forest.tree_output[0] >= 0
    n_counted = np.bincount(forest.tree_output, minlength=len(base)) if own else forest.n_trees
    start = np.rint((base + n_counted * offset) / unit).astype(np.int64)
    start -= start.min()
    kind = "own" if own else "vector"
    return _checked(forest, Values(kind=kind, codes=codes, start=start, offset=offset, unit=unit))


@dataclass(frozen=True, eq=False, kw_only=True)
class ExitTables:
    """An ExitRule in the units of exported sums; ``pieces`` has, after each number of trees, edges and sides."""

    weights: NDArray[np.float64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    pieces: list[tuple[NDArray[np.int64], NDArray[np.uint8]]]


def exit_values(forest: Forest, rule: ExitRule, bits: int) -> tuple[Values, ExitTables]:
    """Values and thresholds of an early exit with two classes."""
    if rule.shuffle == "row":
        raise InputError('a plan that shuffles the trees for every row is not exported; make it with shuffle="fixed"')
    increments = rule.increments(forest).astype(np.float64)[:, None]
    codes, offset, unit = _quantised(forest, increments, forest.is_leaf, bits, integral=True)
    strict = rule.kind == "scores" and forest.n_outputs == 2
    limit = _limit((rule.threshold(forest) - forest.n_trees * offset) / unit, strict=strict)
    values = Values(kind="margin", codes=codes, start=_zero(), limit=limit, offset=offset, unit=unit)

    shift = offset * np.arange(forest.n_trees + 1)
    lower = np.clip(np.floor((rule.lower - shift) / unit), NEVER_BELOW, NEVER_ABOVE)
    upper = np.clip(np.ceil((rule.upper - shift) / unit), NEVER_BELOW, NEVER_ABOVE)
    pieces = []
    for i in range(forest.n_trees + 1 if len(rule.piece_offset) else 0):
        first, last = (int(at) for at in rule.piece_offset[i : i + 2])
        edges = np.clip(np.ceil((rule.piece_edges[first:last] - shift[i]) / unit), NEVER_BELOW, NEVER_ABOVE)
        pieces.append((edges.astype(np.int64), rule.piece_sides[first + i : last + i + 1]))
    tables = ExitTables(
        weights=rule.weights / rule.weights.sum(),
        lower=np.where(rule.lower == NEVER_BELOW, NEVER_BELOW, lower).astype(np.int64),
        upper=np.where(rule.upper == NEVER_ABOVE, NEVER_ABOVE, upper).astype(np.int64),
        pieces=pieces,
    )
    return _checked(forest, values), tables


@dataclass(frozen=True, eq=False, kw_only=True)
class LeadTables:
    """A LeaderRule in the units of exported sums; ``need`` has, after each round, the votes asked of the leader."""

    trees_per_round: int
    lead: NDArray[np.int64]
    need: list[NDArray[np.int64]]


def leader_values(forest: Forest, rule: LeaderRule, trees_per_round: int, bits: int) -> tuple[Values, LeadTables]:
    """Values and leads of an early exit with a score per class."""
    if rule.kind == "votes":
        values = _votes(forest)
    else:
        increments = rule.increments(forest).astype(np.float64)
        codes, offset, unit = _quantised(forest, increments, forest.is_leaf, bits, integral=True)
        start = np.rint((rule.start(forest) - rule.start(forest).min()) / unit).astype(np.int64)
        kind = "own" if forest.tree_output[0] >= 0 else "vector"
        values = _checked(forest, Values(kind=kind, codes=codes, start=start, offset=offset, unit=unit))
    lead = np.clip(np.ceil(rule.lead / values.unit), NEVER_BELOW, NEVER_ABOVE)
    tables = LeadTables(
        trees_per_round=trees_per_round,
        lead=np.where(rule.lead == NEVER_ABOVE, NEVER_ABOVE, lead).astype(np.int64),
        need=[row[: r // 2 + 1].astype(np.int64) for r, row in enumerate(rule.need)],
    )
    return values, tables


def _check_classes(forest: Forest) -> None:
    if forest.n_classes < 2:
        kind = "a regressor" if forest.classes is None else "a model of a single class"
        raise UnsupportedModelError(f"only classifiers of two or more classes are exported as C, this is {kind}")


def _votes(forest: Forest) -> Values:
    codes = forest.value.argmax(axis=1)[:, None].astype(np.int64)
    return Values(kind="vote", codes=codes, start=np.zeros(forest.n_classes, np.int64))


def _zero() -> NDArray[np.int64]:
    return np.zeros(1, np.int64)


def _quantised(
    forest: Forest,
    values: NDArray[np.float64],
    used: NDArray[np.bool_],
    bits: int,
    *,
    symmetric: bool = False,
    integral: bool = False,
    extra: float = 0.0,
) -> tuple[NDArray[np.int64], float, float]:
    """Codes of `bits` bits for the values of `used` nodes, with their offset and unit.

    `symmetric` codes represent 0 exactly, `integral` values are left as they are where they fit, and `extra` is what
    sums must hold besides the values.
    """
    low, high = float(values[used].min()), float(values[used].max())
    largest = max(-low, high)
    if bits == 32:
        bound = forest.n_trees * largest + extra
        exponent = 0 if integral else _FIXED_POINT_BITS - int(np.ceil(np.log2(bound or 1.0)))
        offset, unit = 0.0, 2.0**-exponent
    elif integral and high - low <= 2**bits - 1:
        offset, unit = low, 1.0
    elif symmetric:
        offset, unit = -largest, 2 * largest / (2**bits - 2)
    else:
        offset, unit = low, (high - low) / (2**bits - 1)
    codes = np.rint((values - offset) / (unit or 1.0)).astype(np.int64)
    return np.where(used[:, None], codes, 0), offset, unit or 1.0


def _limit(threshold: float, *, strict: bool) -> int:
    """The smallest whole number at (or, if strict, above) a threshold that may have been rounded."""
    nearest = np.rint(threshold)
    exact = nearest if abs(threshold - nearest) < 1e-6 else threshold
    return int(np.floor(exact)) + 1 if strict else int(np.ceil(exact))


def _checked(forest: Forest, values: Values) -> Values:
    largest = np.maximum.reduceat(np.abs(values.codes).max(axis=1), forest.tree_offset[:-1]).sum()
    if max(int(largest) + int(np.abs(values.start).max()), abs(values.limit)) > _LARGEST_SUM:
        raise InputError(
            f"sums of {forest.n_trees} trees do not fit 32 bits in this layout; choose one with smaller values"
        )
    return values
