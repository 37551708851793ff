"""Values: what nodes add to the sums of a row, as integers, and what the sums then mean.

An exported model only adds whole numbers and compares them. Two classes need a single sum, half the difference of the
two; more classes have a sum each. A value ``v`` is stored as the code ``(v - offset) / unit``, rounded. Thresholds and
starting sums are converted to these units, so that the exported model never converts codes back to values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError, UnsupportedModelError
from scurry.forest import Forest, leaf_scores, score_threshold
from scurry.plan import (
    NEVER_ABOVE,
    NEVER_BELOW,
    ExitRule,
    ExitSide,
    LeaderRule,
    Plan,
    StepRule,
)

DRAW_BITS = 16
_LARGEST_SUM = 2**31 - 1
_FIXED_POINT_BITS = 29  # two less than a sum has: room for what rounding adds


@dataclass(frozen=True, eq=False)
class ExitTables:
    """An early exit with two classes.

    Attributes
    ----------
    rule : ExitRule
        Thresholds and pieces, in the units of exported sums.
    """

    rule: ExitRule

    @property
    def n_policies(self) -> int:
        """Number of policies that rows are divided among at random."""
        return len(self.rule.weights)

    @property
    def policy_bounds(self) -> NDArray[np.int64]:
        """Draws from bound p - 1 up to bound p choose policy p, larger ones the last; shape (n_policies - 1,)."""
        shares = np.cumsum(self.rule.weights / self.rule.weights.sum())
        bounds: NDArray[np.int64] = np.rint(shares[:-1] * 2**DRAW_BITS).astype(np.int64)
        return bounds

    def find_exits(
        self, running: NDArray[np.int64], full_codes: NDArray[np.int64], draws: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many trees each row evaluates, and its class.

        Parameters
        ----------
        running : int64 array of shape (n_trees + 1, n_rows, n_sums)
            Sums after 0, 1, … trees.
        full_codes : int64 array of shape (n_rows,)
            Classes by all trees.
        draws : int64 array of shape (n_rows,), optional
            Random numbers that choose among the policies.
        """
        given = np.zeros(len(full_codes), np.int64) if draws is None else draws
        policy = np.searchsorted(self.policy_bounds, given % 2**DRAW_BITS, side="right")
        trees, codes = np.full(len(full_codes), len(running) - 1), full_codes.copy()
        undecided = np.ones(len(full_codes), np.bool_)
        for i, sums in enumerate(running):
            side = self.rule.side_of(policy, i, sums[:, 0])
            exits = undecided & ((side == ExitSide.NEGATIVE) | (side == ExitSide.POSITIVE))
            trees[exits], codes[exits] = i, side[exits] == ExitSide.POSITIVE
            # A row sent to every tree is never tested again, although it has no answer yet.
            undecided &= side == ExitSide.CONTINUE
        return trees, codes


@dataclass(frozen=True, eq=False, kw_only=True)
class LeadTables:
    """Leads of a `LeaderRule`, in the units of exported sums.

    Attributes
    ----------
    trees_per_round : int
    lead : int64 array of shape (n_rounds + 1,)
    need : list of int64 arrays, or empty
        Where it is not empty it replaces `lead`: after round r, ``need[r][second]`` is the number of votes the leader
        needs.
    """

    trees_per_round: int
    lead: NDArray[np.int64]
    need: list[NDArray[np.int64]]

    n_policies: ClassVar[int] = 1

    def find_exits(
        self, running: NDArray[np.int64], full_codes: NDArray[np.int64], draws: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many trees each row evaluates, and its class; arguments as in `ExitTables`."""
        trees, codes = np.full(len(full_codes), len(running) - 1), full_codes.copy()
        undecided = np.ones(len(full_codes), np.bool_)
        for r in range(len(self.lead)):
            i = r * self.trees_per_round
            second, first = np.sort(running[i], axis=1)[:, -2:].T
            stops = first >= self.need[r][second] if self.need else first - second >= self.lead[r]
            exits = undecided & stops
            trees[exits], codes[exits] = i, running[i][exits].argmax(axis=1)
            undecided &= ~stops
        return trees, codes


StopTables: TypeAlias = ExitTables | LeadTables


@dataclass(frozen=True, eq=False, kw_only=True)
class Values:
    """What each node adds to a row's sums, and how the sums are read.

    Attributes
    ----------
    kind : {"margin", "vector", "own", "vote"}
        One sum for two classes; a number for every class; a number for the one class a tree serves; or the class that
        gets one vote.
    codes : int64 array of shape (n_nodes, n_codes)
        By the forest's node index.
    start : int64 array of shape (n_sums,)
    limit : int
        The smallest sum that means the second of two classes ("margin").
    offset, unit : float
        A code ``c`` stands for ``offset + unit * c``.
    is_anytime : bool
        Whether inner nodes have values too, because a row may be answered after any step.
    stop : ExitTables, LeadTables or None
        When a row stops by itself.
    """

    kind: str
    codes: NDArray[np.int64]
    start: NDArray[np.int64]
    limit: int = 0
    offset: float = 0.0
    unit: float = 1.0
    is_anytime: bool = False
    stop: StopTables | None = None

    @property
    def n_sums(self) -> int:
        """Number of sums of a row."""
        return len(self.start)

    def labels(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the class of each row by its sums of shape (n_rows, n_sums); the lowest class wins a tie."""
        if self.kind == "margin":
            return (sums[:, 0] >= self.limit).astype(np.int64)
        return np.asarray(sums.argmax(axis=1), dtype=np.int64)


def lower_plan(forest: Forest, plan: Plan, bits: int) -> Values:
    """Return what the nodes of `forest` add under `plan`, in codes of `bits` bits.

    This is the only place of the export that knows the classes of stop rules.
    """
    match plan.stop:
        case ExitRule() as rule:
            values = _lower_exits(forest, rule, bits)
        case LeaderRule() as rule:
            values = _lower_leads(forest, rule, bits)
        case StepRule() as rule:
            values = _lower_scores(forest, rule.weights(forest), bits, is_anytime=True)
        case None:
            values = _lower_scores(forest, np.empty(0), bits, is_anytime=False)
        case other:
            raise UnsupportedModelError(
                f"plans with a {other.TAG} are not exported as C; export an early exit made with "
                'method="qwyc", or all trees with Predictor.full(forest)'
            )
    # The code of a vote is a class, not an amount: each tree adds 1.
    largest = np.maximum.reduceat(np.abs(values.codes).max(axis=1), forest.tree_offset[:-1]).sum()
    if values.kind != "vote" and max(int(largest) + int(np.abs(values.start).max()), abs(values.limit)) > _LARGEST_SUM:
        raise InputError(
            f"sums of {forest.n_trees} trees do not fit 32 bits in this layout; choose one with smaller values"
        )
    return values


def _lower_scores(forest: Forest, weights: NDArray[np.float64], bits: int, *, is_anytime: bool) -> Values:
    """Return the values of a forest all of whose trees count; each node counts `weights` times, once if it is empty."""
    if forest.n_classes < 2:
        kind = "a regressor" if forest.classes is None else "a model of a single class"
        raise UnsupportedModelError(f"only classifiers of two or more classes are exported as C, this is {kind}")
    is_weighted, base = len(weights) > 0, forest.base_score
    if is_weighted and base.any():
        raise UnsupportedModelError(f'readout="weighted" with base scores ({base}) is not exported; use "plain"')
    if forest.aggregation == "vote" and forest.n_classes > 2 and not is_weighted:
        return replace(_count_votes(forest), is_anytime=is_anytime)
    used = np.ones(forest.n_nodes, np.bool_) if is_anytime else forest.is_leaf
    weight = weights[:, None] if is_weighted else 1.0
    serves_one_class = bool(forest.tree_output[0] >= 0)
    if forest.n_classes == 2 and (forest.n_outputs == 1 or not serves_one_class):
        margins, threshold = leaf_scores(forest)[:, None] * weight, score_threshold(forest)
        # Weights scale the sum of a row that has not reached its leaves, so only the sign of it keeps its meaning.
        if is_weighted and threshold != 0:
            raise UnsupportedModelError(
                'readout="weighted" needs a decision threshold of 0 to be exported; use "plain"'
            )
        is_paired = forest.n_outputs == 2
        codes, offset, unit = _quantise(forest, margins, used, bits, symmetric=is_paired, extra=abs(threshold))
        # A tie of two probabilities is the first class, a score that equals the threshold is the second.
        limit = _smallest_above((threshold - forest.n_trees * offset) / unit, strict=is_paired)
        start, kind = np.zeros(1, np.int64), "margin"
    else:
        numbers = forest.leaf_values() * weight
        codes, offset, unit = _quantise(forest, numbers, used, bits, extra=float(np.abs(base).max()))
        if not serves_one_class:
            codes[used] = _balance((numbers[used] - offset) / unit, codes[used])
        n_counted = np.bincount(forest.tree_output, minlength=len(base)) if serves_one_class else forest.n_trees
        start = np.rint((base + n_counted * offset) / unit).astype(np.int64)
        start -= start.min()  # only differences decide, and small numbers make small tables
        limit, kind = 0, "own" if serves_one_class else "vector"
    return Values(kind=kind, codes=codes, start=start, limit=limit, offset=offset, unit=unit, is_anytime=is_anytime)


def _lower_exits(forest: Forest, rule: ExitRule, bits: int) -> Values:
    """Return the values and thresholds of an early exit with two classes."""
    if rule.shuffles_rows:
        raise InputError('a plan that shuffles the trees for every row is not exported; make it with shuffle="fixed"')
    increments = rule.increments(forest).astype(np.float64)[:, None]
    codes, offset, unit = _quantise(forest, increments, forest.is_leaf, bits, integral=True)
    strict = rule.kind == "scores" and forest.n_outputs == 2
    limit = _smallest_above((rule.threshold(forest) - forest.n_trees * offset) / unit, strict=strict)

    def convert(sums: NDArray[np.int32], n_trees: NDArray[np.int64], rounding: np.ufunc) -> NDArray[np.int32]:
        # A sum of codes lacks one offset per tree.
        codes = np.clip(rounding((sums - n_trees * offset) / unit), NEVER_BELOW, NEVER_ABOVE)
        return np.where(np.isin(sums, (NEVER_BELOW, NEVER_ABOVE)), sums, codes).astype(np.int32)

    # Thresholds are rounded away from each other: where codes are coarser than the rule's units, a row continues
    # rather than stop at a sum the rule would not stop it at.
    n_trees = np.arange(forest.n_trees + 1)
    offsets = rule.piece_offset.astype(np.int64)
    n_edges = offsets[1:] - offsets[:-1]
    stop = ExitTables(
        replace(
            rule,
            lower=convert(rule.lower, n_trees, np.floor),
            upper=convert(rule.upper, n_trees, np.ceil),
            piece_edges=convert(rule.piece_edges, np.repeat(n_trees[: len(n_edges)], n_edges), np.ceil),
        )
    )
    start = np.zeros(1, np.int64)
    return Values(kind="margin", codes=codes, start=start, limit=limit, offset=offset, unit=unit, stop=stop)


def _lower_leads(forest: Forest, rule: LeaderRule, bits: int) -> Values:
    """Return the values and leads of an early exit with a score per class."""
    if rule.kind == "votes":
        values = _count_votes(forest)
    else:
        increments = rule.increments(forest).astype(np.float64)
        codes, offset, unit = _quantise(forest, increments, forest.is_leaf, bits, integral=True)
        start = rule.start(forest)
        values = Values(
            kind="own" if forest.tree_output[0] >= 0 else "vector",
            codes=codes,
            start=np.rint((start - start.min()) / unit).astype(np.int64),
            offset=offset,
            unit=unit,
        )
    lead = np.clip(np.ceil(rule.lead / values.unit), NEVER_BELOW, NEVER_ABOVE)
    stop = LeadTables(
        trees_per_round=forest.trees_per_round,
        lead=np.where(rule.lead == NEVER_ABOVE, NEVER_ABOVE, lead).astype(np.int64),
        # The second class never has more than half of the r votes.
        need=[row[: r // 2 + 1].astype(np.int64) for r, row in enumerate(rule.need)],
    )
    return replace(values, stop=stop)


def _count_votes(forest: Forest) -> Values:
    codes = forest.value.argmax(axis=1)[:, None].astype(np.int64)
    return Values(kind="vote", codes=codes, start=np.zeros(forest.n_classes, np.int64))


def _quantise(
    forest: Forest,
    values: NDArray[np.float64],
    used: NDArray[np.bool_],
    bits: int,
    *,
    symmetric: bool = False,
    integral: bool = False,
    extra: float = 0.0,
) -> tuple[NDArray[np.int64], float, float]:
    """Return codes of `bits` bits for the values of `used` nodes, with their offset and unit.

    `symmetric` codes represent 0 exactly, `integral` values are left as they are where they fit, and `extra` is what
    sums must hold in addition to the values.
    """
    low, high = float(values[used].min()), float(values[used].max())
    largest = max(-low, high)
    if bits == 32:
        # Fixed point: a power of two keeps values that are short binary fractions exact.
        bound = forest.n_trees * largest + extra
        exponent = 0 if integral else _FIXED_POINT_BITS - int(np.ceil(np.log2(bound or 1.0)))
        offset, unit = 0.0, 2.0**-exponent
    elif integral and high - low <= 2**bits - 1:
        offset, unit = low, 1.0
    elif symmetric:
        # An odd number of codes, so that one of them is the middle.
        offset, unit = -largest, 2 * largest / (2**bits - 2)
    else:
        offset, unit = low, (high - low) / (2**bits - 1)
    unit = unit or 1.0  # all values are equal, and all codes 0
    codes = np.rint((values - offset) / unit).astype(np.int64)
    return np.where(used[:, None], codes, 0), offset, unit


def _balance(exact: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return codes whose sum over classes is the same in every row, if that of the exact numbers is.

    Parameters
    ----------
    exact : float64 array of shape (n_nodes, n_classes)
        Codes before rounding.
    codes : int64 array of shape (n_nodes, n_classes)
        The same rounded one by one, which is returned where the sums differ.
    """
    sums = exact.sum(axis=1)
    if exact.shape[1] < 3 or np.ptp(sums) > 1e-6 * max(abs(float(sums[0])), 1.0):
        return codes
    whole = np.floor(exact + 1e-9)
    # The classes that were rounded down most are rounded up instead, as many as are needed.
    rank = np.argsort(np.argsort(whole - exact, axis=1, kind="stable"), axis=1)
    up = rank < (np.rint(sums) - whole.sum(axis=1))[:, None]
    return np.asarray(whole + up, np.int64)


def _smallest_above(threshold: float, *, strict: bool) -> int:
    """Return the smallest whole number at (or, if strict, above) a threshold that may have been rounded."""
    nearest = np.rint(threshold)
    exact = nearest if abs(threshold - nearest) < 1e-6 else threshold
    return int(np.floor(exact)) + 1 if strict else int(np.ceil(exact))
