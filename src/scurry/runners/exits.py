"""Run plans that evaluate every tree, and plans that stop rows early: from native integer sums to labels and scores.

Partial scores of rows that stopped early become estimates of the full model's scores.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from threading import RLock
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.forest import Forest, RowCall, decision_slack, leaf_scores
from scurry.plan import ExitRule, ExitSide, LeaderRule, Plan, ScoreMap, SumRule
from scurry.runners.runner import (
    COMPLETE,
    DECIDED,
    Budget,
    Run,
    count_tests,
    count_tests_in_order,
    make_runner,
    one_column,
)

# How far mapped scores stay from the decision: far above rounding, far below what matters.
MARGIN = 1e-6
# Shares coarser than this say little more than votes do; forests of 8,000 trees and more have them.
_MIN_UNITS = 16
# Log-odds beyond which, on both sides, rounding could make the probabilities of two classes equal.
_FAR = 14.0


OfValues = Callable[[NDArray[np.float64]], NDArray[np.int32]]
_LOWERING = RLock()  # so that two threads do not lower the same copy
if hasattr(os, "register_at_fork"):
    # A process that is forked while a thread lowers would wait for ever: nobody is there to release its lock.
    os.register_at_fork(before=_LOWERING.acquire, after_in_parent=_LOWERING.release, after_in_child=_LOWERING.release)
# Looking up what shared leaves add takes a sixth to a third of the time of exits after few trees (adult, census: 101
# trees of depth 10, half a megabyte), so that forests of this size are copied: memory is no matter there.
_SMALL_BYTES = 1 << 20


class PackedVotes(NamedTuple):
    """Votes and the probabilities behind them in one integer: the vote in its high bits, the share in its low ones.

    A rule on votes tests sums of votes, and the score is better estimated from the shares of the leaves. Packed, both
    are summed at once, and tests of the sum are tests of the votes as long as the shares do not overflow.

    Attributes
    ----------
    n_bits : int
        Of the sum of shares.
    n_units : int
        How many units a share of 1 is.
    """

    n_bits: int
    n_units: int

    @classmethod
    def of(cls, forest: Forest, rule: SumRule) -> PackedVotes | None:
        """Return the packing for a rule on votes of a forest that averages shares; None if votes say all there is."""
        # One bit less than integers have, so that sums and thresholds beyond all of them fit.
        n_bits = 30 - forest.n_trees.bit_length()
        n_units = (2 ** max(n_bits, 0) - 1) // forest.n_trees
        is_useful = rule.kind == "votes" and forest.aggregation == "mean" and n_units >= _MIN_UNITS
        return cls(n_bits, n_units) if is_useful else None

    def increments(self, votes: NDArray[np.int32], shares: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return what leaves with these votes, 0 or 1, and these shares of the second class add."""
        units = np.rint(shares.clip(0.0, 1.0) * self.n_units).astype(np.int64)
        return np.asarray((votes.astype(np.int64) << self.n_bits) + units, np.int32)

    def lower(self, votes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the largest sums with at most so many votes."""
        beyond = votes.astype(np.int64).clip(-1, 2 ** (30 - self.n_bits) - 1) + 1
        return np.asarray((beyond << self.n_bits) - 1, np.int32)

    def upper(self, votes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the smallest sums with at least so many votes."""
        return np.asarray(votes.astype(np.int64).clip(0, 2 ** (30 - self.n_bits)) << self.n_bits, np.int32)

    def votes(self, sums: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the votes in sums."""
        return np.asarray(sums >> self.n_bits)

    def shares(self, sums: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the shares in sums, in units."""
        return np.asarray(sums & (2**self.n_bits - 1))


class Stops(NamedTuple):
    """Where rows stopped, as a score map is fitted to it.

    Attributes
    ----------
    positions : int32 array of shape (n_rows,)
    groups : int64 array of shape (n_rows, n_scores)
        Which of the map's two groups each score belongs to.
    partial, full : float64 arrays of shape (n_rows, n_scores)
        Scores over the trees evaluated, and over all.
    complete : bool array of shape (n_rows,)
        Rows that evaluated every tree, which need no map.
    """

    positions: NDArray[np.int32]
    groups: NDArray[np.int64]
    partial: NDArray[np.float64]
    full: NDArray[np.float64]
    complete: NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreScale:
    """What integer sums are worth: a partial score is ``unit * sum + offset`` after each number of trees or rounds.

    Attributes
    ----------
    unit, offset : float64 arrays of shape (n_positions,)
    centre : float
        The score that divides two classes.
    """

    unit: NDArray[np.float64]
    offset: NDArray[np.float64]
    centre: float = 0.0

    @classmethod
    def of_two_classes(cls, forest: Forest, rule: SumRule, packed: PackedVotes | None) -> ScoreScale:
        """Return the scale of one sum for two classes, of votes or scores, or of the shares packed with votes."""
        rounds = np.maximum(np.arange(rule.n_positions), 1) / forest.trees_per_round
        none, step, base = np.zeros(rule.n_positions), rule.step, forest.base_score
        if rule.kind == "votes":
            return cls(unit=1.0 / (rounds * (1 if packed is None else packed.n_units)), offset=none, centre=0.5)
        if scores_are_leads(forest, rule):
            return cls(unit=none + 2 * step, offset=none + float(base[1] - base[0]))
        if forest.n_outputs == 2:
            return cls(unit=step / rounds, offset=none + 0.5, centre=0.5)
        rounds = none + 1.0 if forest.aggregation == "sum" else rounds
        return cls(unit=step / rounds, offset=float(base[0]) / rounds, centre=forest.decision_threshold)

    @classmethod
    def of_classes(cls, forest: Forest, rule: SumRule) -> ScoreScale:
        """Return the scale of a sum for each of several classes."""
        none = np.zeros(rule.n_positions)
        is_mean = forest.aggregation != "sum" or rule.kind == "votes"
        rounds = np.maximum(np.arange(rule.n_positions), 1) if is_mean else none + 1.0
        return cls(unit=rule.step / rounds, offset=none)


def scores_are_leads(forest: Forest, rule: SumRule) -> bool:
    """Return whether the score of two classes is the lead of the second: boosted models with one score per class."""
    return rule.kind == "scores" and forest.n_classes == 2 and forest.n_outputs == 2 and forest.aggregation == "sum"


def expected_map(forest: Forest, order: NDArray[np.int32], rule: SumRule) -> ScoreMap:
    """Return the map that needs no rows: trees not evaluated add what they give on average.

    A boosted tree gives its mean over the training rows. In an average, the trees evaluated say more about the others
    than that: each of those is expected to give the mean of the trees evaluated and of two more that give the base rate
    (for votes, and a base rate of 1/2, this is the rule of succession).
    """
    n = rule.n_positions - 1
    done = np.arange(n + 1, dtype=np.float64)
    if forest.aggregation == "sum" and rule.kind == "scores":
        slope, rest = np.ones(n + 1), np.zeros(n + 1)
        if forest.n_classes == 2:
            size = 2.0 if scores_are_leads(forest, rule) else 1.0
            rest[:-1] = size * mean_scores(forest)[order][::-1].cumsum()[::-1]
    else:
        rate = 1.0 / forest.n_classes if forest.n_classes > 2 else _base_rate(forest)
        slope, rest = done * (n + 2) / (n * (done + 2)), 2 * rate * (n - done) / (n * (done + 2))
    return ScoreMap(slope=np.stack([slope, slope]), intercept=np.stack([rest, rest]))


def label_sides(forest: Forest, scale: ScoreScale) -> tuple[float, float]:
    """Return the highest score of a row of the first of two classes, and the lowest of one of the second."""
    margin = _margin(forest)
    if _is_share(forest):
        margin = min(margin, scale.centre / 2, (1 - scale.centre) / 2)
    return scale.centre - margin, scale.centre + margin


def native_map(forest: Forest, scale: ScoreScale, score_map: ScoreMap) -> _core.ScoreMap:
    """Return the map of integer sums, which holds scores on the side of the label."""
    least, most = (0.0, 1.0) if _is_share(forest) else (-np.inf, np.inf)
    lowest, highest = (least, least), (most, most)
    if forest.n_classes == 2:
        negative, positive = label_sides(forest, scale)
        lowest, highest = (least, positive), (negative, most)
    elif _is_share(forest):
        lowest = least, 1.0 / forest.n_classes
    elif forest.link == "logistic-each":
        far = _FAR / forest.link_scale
        lowest, highest = (least, -far), (far, most)
    # A partial score is an affine function of the sum.
    slope, intercept = score_map.slope * scale.unit, score_map.slope * scale.offset + score_map.intercept
    sums_to_one = _is_share(forest) and forest.n_classes > 2
    return _core.ScoreMap(
        slope, intercept, lowest=lowest, highest=highest, margin=_margin(forest), sums_to_one=sums_to_one
    )


def _is_share(forest: Forest) -> bool:
    """Return whether scores are probabilities already."""
    return forest.link == "identity" and forest.aggregation != "sum"


def _margin(forest: Forest) -> float:
    # A link multiplies scores by its scale before probabilities are compared.
    return MARGIN / (1.0 if forest.link == "identity" else forest.link_scale)


def mean_scores(forest: Forest) -> NDArray[np.float64]:
    """Return what each tree adds to the score of two classes on average, over the rows that it covers.

    Where they are not known it is the root's value, within those of the leaves: nothing else in an early exit reads the
    values of inner nodes, so that they may be anything.
    """
    scores, first = leaf_scores(forest), forest.tree_offset[:-1]
    least = np.minimum.reduceat(np.where(forest.is_leaf, scores, np.inf), first)
    most = np.maximum.reduceat(np.where(forest.is_leaf, scores, -np.inf), first)
    cover = np.where(forest.is_leaf, np.nan_to_num(forest.cover), 0.0)
    covered = np.add.reduceat(cover, first)
    mean = np.add.reduceat(cover * np.where(forest.is_leaf, scores, 0.0), first) / np.where(covered > 0, covered, 1.0)
    return np.clip(np.where(covered > 0, mean, scores[first]), least, most)


def _base_rate(forest: Forest) -> float:
    """Return the mean share of the second class at the roots of a forest that averages."""
    shares = forest.value[forest.tree_offset[:-1]].mean(axis=0)
    return float(np.clip(shares[-1], 0.0, 1.0))


def nodes_of(forest: Forest, of_values: OfValues, of_nodes: Callable[[], NDArray[np.int32]]) -> _core.Nodes:
    """Return the lowered trees of a forest with an integer at each leaf.

    They are the trees of its engine, unless trees are much smaller, or have a faster loop, once leaves with the same
    integer are one, or there are few nodes that no file holds: then they are a copy that all runners of the forest with
    these integers share.

    Parameters
    ----------
    forest : Forest
    of_values : callable
        Makes the integers of leaves with values of shape (n, n_columns).
    of_nodes : callable
        Returns the integer of each node, of which those of leaves are read.
    """
    values = forest.engine_values if _should_share(forest) else None
    # A tree that adds to one of several outputs may turn the sign of what it adds.
    if values is not None and (forest.n_outputs == 1 or forest.n_columns > 1):
        shared = _core.Nodes(forest.engine, of_values(values))
        if not shared.should_merge:
            return shared
    import hashlib  # most forests need no copy, and it takes long

    integers = np.where(forest.is_leaf, of_nodes(), 0).astype(np.int32)
    key = hashlib.sha256(integers.data).digest()
    with _LOWERING:
        copies: WeakValueDictionary[bytes, _core.Nodes] = forest.__dict__.setdefault("_copies", WeakValueDictionary())
        nodes = copies.get(key)
        if nodes is None:
            nodes = copies[key] = _core.Nodes(forest.arrays, integers)
    forest.release()
    return nodes


def _should_share(forest: Forest) -> bool:
    # Ranks of small trees look up their leaves anyway, and engines in files are there to be used as they are.
    engine = forest.engine
    in_file = isinstance(engine, _core.MappedEngine)
    return in_file or engine.loop != "walked" or engine.node_bytes > _SMALL_BYTES


def shared_vectors(forest: Forest, of_values: OfValues) -> NDArray[np.int32] | None:
    """Return the rows of integers that leaves add, by the values of the engine, if its trees are to be shared.

    None where trees of their own are much smaller, or have a faster loop, as in `nodes_of`.
    """
    values = forest.engine_values
    if values is None:
        return None
    integers = np.ascontiguousarray(of_values(values))
    numbers, _ = _core.distinct_rows(integers.view(np.uint8).reshape(len(integers), -1))
    return None if _core.Nodes(forest.engine, numbers.astype(np.int32)).should_merge else integers


_REASON_CODES = np.array([DECIDED, COMPLETE], np.uint8)  # of rows that stopped early, and of those that did not


class ExitRunner:
    """Runs the native early exit of a two-class forest."""

    def __init__(self, forest: Forest, order: NDArray[np.int32], rule: ExitRule, score_map: ScoreMap | None) -> None:
        self.forest, self.order, self.rule = forest, order, rule
        # Full sums that are so close to the threshold that rounding may decide are decided by the exact engine. Votes
        # are whole numbers already.
        tolerance = -1 if rule.kind == "votes" else decision_slack(forest, rule.step)
        negative, positive = map(int, forest.engine_labels)
        self._decision = negative, positive, rule.threshold(forest), tolerance
        self._packed = PackedVotes.of(forest, rule)
        self.scale = ScoreScale.of_two_classes(forest, rule, self._packed)
        self._score_map = score_map
        self.reads_bytes = len(rule.weights) == 1 and not rule.shuffles_rows  # rows draw nothing by their values

    def _lower(self, nodes: _core.Nodes, lower: NDArray[np.int32], upper: NDArray[np.int32]) -> _core.EarlyExit:
        return _core.EarlyExit(
            nodes,
            order=self.order,
            weights=self.rule.weights,
            lower=lower,
            upper=upper,
            piece_offset=self.rule.piece_offset,
            piece_edges=self.rule.piece_edges,
            piece_sides=self.rule.piece_sides,
            seed=self.rule.seed,
            shuffle_rows=self.rule.shuffles_rows,
        )

    @cached_property
    def _native(self) -> _core.EarlyExit:
        forest, rule = self.forest, self.rule
        nodes = nodes_of(forest, partial(rule.increments_of, forest), partial(rule.increments, forest))
        return self._lower(nodes, rule.lower, rule.upper)

    @cached_property
    def _map(self) -> _core.ScoreMap:
        score_map = self._score_map or expected_map(self.forest, self.order, self.rule)
        return native_map(self.forest, self.scale, score_map)

    @cached_property
    def _scoring(self) -> _core.EarlyExit:
        """The native early exit whose sums tell scores. Labels alone are faster without the shares behind votes."""
        packed, rule = self._packed, self.rule
        if packed is None:
            return self._native

        def add(values: NDArray[np.float64]) -> NDArray[np.int32]:
            return packed.increments(rule.increments_of(self.forest, values), values[:, 1])

        nodes = nodes_of(self.forest, add, lambda: add(self.forest.value))
        return self._lower(nodes, packed.lower(rule.lower), packed.upper(rule.upper))

    def labels(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[Any]:
        """Return the label of each row."""
        if decides_by_members(self.forest):
            return self._label(self._stop(rows, n_threads)[2])
        codes = np.empty(len(rows), np.int64)
        self._native.labels(rows, codes, self.forest.engine, *self._decision, n_threads)
        return self.forest.decode(codes)

    def run(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> Run:
        """Return labels, and how much work they took."""
        sums, trees, is_positive = self._stop(rows, n_threads)
        complete = trees == self.forest.n_trees
        scored_in_full = rows[complete]

        def find_scores() -> NDArray[np.float64]:
            scores = self._map_scores(sums, trees, is_positive)
            if len(scored_in_full):
                scores[complete] = self._own_scores(scored_in_full, is_positive[complete], n_threads)
            return scores

        return Run(
            labels=self._label(is_positive),
            trees=trees,
            reason_codes=_REASON_CODES[complete.view(np.uint8)],
            find_scores=find_scores,
            count_steps=lambda: self._count_tests(rows, trees, n_threads),
        )

    def probabilities(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[np.float64]:
        """Return class probabilities, shape (n_rows, 2): those of mapped scores, or of the model if all trees ran."""
        sums, trees, is_positive = self._stop(rows, n_threads)
        scores, complete = self._map_scores(sums, trees, is_positive), trees == self.forest.n_trees
        by_vote = self.rule.kind == "votes"
        if by_vote and complete.any():
            scores[complete] = self._own_scores(rows[complete], is_positive[complete], n_threads)
        if scores_are_leads(self.forest, self.rule):
            probabilities = self.forest.link_scores(np.column_stack([-scores, scores]) / 2)
        else:
            if self.forest.n_outputs == 1:
                scores = self.forest.link_scores(scores[:, None])[:, 0]
            probabilities = np.column_stack([1 - scores, scores])
        if not by_vote and complete.any():
            probabilities[complete] = self.forest.predict_proba(rows[complete], n_threads)
        return probabilities

    def one_row(self, call: RowCall) -> Callable[[Any], Any]:
        """Return a function that answers for one row."""
        if call.answer != "label":
            return call.otherwise
        return self._native.one_row(self.forest.engine, *self._decision, **call.options)

    def stops(self, rows: NDArray[Any], n_threads: int = 1) -> Stops:
        """Return where rows stop, and their partial and full scores."""
        sums, trees, is_positive = self._stop(rows, n_threads)
        partial = self.scale.unit[trees] * self._summed_scores(sums) + self.scale.offset[trees]
        return Stops(
            positions=trees,
            groups=is_positive.astype(np.int64)[:, None],
            partial=partial[:, None],
            full=self._full_scores(rows, n_threads)[:, None],
            complete=np.asarray(trees == self.forest.n_trees),
        )

    def _stop(
        self, rows: NDArray[Any], n_threads: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
        """Return the sum at which each row stopped, its number of trees, and whether its label is the second class."""
        n = len(rows)
        sums, trees, sides = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.uint8)
        self._scoring.run(rows, sums, trees, sides, n_threads)
        _, positive, threshold, tolerance = self._decision
        undecided = sides == ExitSide.CONTINUE
        decided_by = sums if self._packed is None else self._packed.votes(sums)
        is_positive: NDArray[np.bool_] = np.where(undecided, decided_by >= threshold, sides == ExitSide.POSITIVE)
        if tolerance >= 0:
            close = np.flatnonzero(undecided)  # few of all rows
            close = close[np.abs(sums[close].astype(np.int64) - threshold) <= tolerance]
            if decides_by_members(self.forest):
                is_positive[close] = self.forest.codes_of(self.forest.predict(rows[close], n_threads)) == 1
            else:
                exact = np.empty(len(close), np.int64)
                self.forest.engine.labels(rows[close], exact, n_threads)
                is_positive[close] = exact == positive
        return sums, trees, is_positive

    def _label(self, is_positive: NDArray[np.bool_]) -> NDArray[Any]:
        return self.forest.decode(self.forest.engine_labels[is_positive.view(np.uint8)])

    def _summed_scores(self, sums: NDArray[np.int32]) -> NDArray[np.int32]:
        return sums if self._packed is None else self._packed.shares(sums)

    def _map_scores(
        self, sums: NDArray[np.int32], trees: NDArray[np.int32], is_positive: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Return the scores that the plan's map makes of sums, as `Run.scores` defines them."""
        scores = np.empty(len(sums))
        self._map.two_classes(self._summed_scores(sums), trees, is_positive.view(np.uint8), scores)
        return scores

    def _own_scores(self, rows: NDArray[Any], is_positive: NDArray[np.bool_], n_threads: int) -> NDArray[np.float64]:
        """Return the full model's scores; where the full vote contradicts one, the nearest score that agrees."""
        own = self._full_scores(rows, n_threads)
        if self.rule.kind == "scores":
            return own
        negative, positive = label_sides(self.forest, self.scale)
        return np.where(is_positive, np.maximum(own, positive), np.minimum(own, negative))

    def _full_scores(self, rows: NDArray[Any], n_threads: int) -> NDArray[np.float64]:
        own = self.forest.scores(rows, n_threads)
        return own[:, 1] - own[:, 0] if scores_are_leads(self.forest, self.rule) else own[:, -1]

    def _count_tests(self, rows: NDArray[Any], trees: NDArray[np.int32], n_threads: int) -> NDArray[np.int64]:
        if self.rule.shuffles_rows:
            # The core does not report the order that each row drew, so this is the expectation over orders.
            return count_tests(
                self.forest, rows, n_threads, lambda depth, some: np.rint(depth.mean(axis=1) * trees[some])
            )
        return count_tests_in_order(self.forest, rows, n_threads, self.order, trees)


@make_runner.register
def _(rule: ExitRule, forest: Forest, plan: Plan) -> ExitRunner:
    return ExitRunner(forest, plan.order, rule, plan.score_map)


class LeaderRunner:
    """Runs the native early exit of a forest with a score per class."""

    reads_bytes = True

    def __init__(self, forest: Forest, order: NDArray[np.int32], rule: LeaderRule, score_map: ScoreMap | None) -> None:
        self.forest, self.order, self.rule = forest, order, rule
        source, increments = self._leaves()
        self._native = _core.LeaderExit(
            source,
            order=order,
            trees_per_round=forest.trees_per_round,
            increments=increments,
            start=rule.start(forest),
            lead=rule.lead,
            need=rule.need,
        )
        self._tolerance = -1 if rule.kind == "votes" else decision_slack(forest, rule.step)  # as in ExitRunner
        self.scale = ScoreScale.of_classes(forest, rule)
        self._score_map = score_map
        forest.release()

    def _leaves(self) -> tuple[_core.Engine | _core.ForestArrays, NDArray[np.int32]]:
        """Return the engine, whose trees are shared where that is as fast, or arrays; and what values or nodes add."""
        forest, rule = self.forest, self.rule
        shared = shared_vectors(forest, partial(rule.increments_of, forest))
        return (forest.arrays, rule.increments(forest)) if shared is None else (forest.engine, shared)

    @cached_property
    def _map(self) -> _core.ScoreMap:
        score_map = self._score_map or expected_map(self.forest, self.order, self.rule)
        return native_map(self.forest, self.scale, score_map)

    def labels(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[Any]:
        """Return the label of each row."""
        if decides_by_members(self.forest):
            return self.run(rows, n_threads, budget).labels
        codes = np.empty(len(rows), np.int64)
        self._native.labels(rows, codes, self.forest.engine, self.forest.engine_labels, self._tolerance, n_threads)
        return self.forest.decode(codes)

    def run(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> Run:
        """Return labels, and how much work they took."""
        sums, trees, leaders, decided = self._stop(rows, n_threads)
        labels = self.forest.decode(self.forest.engine_labels[leaders])
        scored_in_full = rows[~decided]
        if len(scored_in_full) and self.rule.kind == "scores":
            labels[~decided] = self.forest.predict(scored_in_full, n_threads)

        def find_scores() -> NDArray[np.float64]:
            scores = self._map_scores(sums, trees, leaders)
            if len(scored_in_full):
                scores[~decided] = self._own_scores(scored_in_full, leaders[~decided], n_threads)
            return one_column(scores)

        return Run(
            labels=labels,
            trees=trees,
            reason_codes=_REASON_CODES[1 - decided.view(np.uint8)],
            find_scores=find_scores,
            count_steps=lambda: count_tests_in_order(self.forest, rows, n_threads, self.order, trees),
        )

    def probabilities(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[np.float64]:
        """Return class probabilities, shape (n_rows, n_classes): of mapped scores, or of the model if all trees ran."""
        sums, trees, leaders, decided = self._stop(rows, n_threads)
        scores, in_full = self._map_scores(sums, trees, leaders), rows[~decided]
        if len(in_full) and self.rule.kind == "votes":
            scores[~decided] = self._own_scores(in_full, leaders[~decided], n_threads)
        probabilities = self.forest.link_scores(scores)
        if len(in_full) and self.rule.kind == "scores":
            probabilities[~decided] = self.forest.predict_proba(in_full, n_threads)
        return probabilities

    def one_row(self, call: RowCall) -> Callable[[Any], Any]:
        """Return a function that answers for one row."""
        if call.answer != "label":
            return call.otherwise
        return self._native.one_row(self.forest.engine, self.forest.engine_labels, self._tolerance, **call.options)

    def stops(self, rows: NDArray[Any], n_threads: int = 1) -> Stops:
        """Return where rows stop, and their partial and full scores."""
        sums, trees, leaders, decided = self._stop(rows, n_threads)
        rounds = trees // self.forest.trees_per_round
        return Stops(
            positions=rounds,
            groups=(np.arange(self.forest.n_classes) == leaders[:, None]).astype(np.int64),
            partial=self.scale.unit[rounds][:, None] * sums,
            full=self.forest.scores(rows, n_threads),
            complete=~decided,
        )

    def _own_scores(self, rows: NDArray[Any], leaders: NDArray[np.int32], n_threads: int) -> NDArray[np.float64]:
        """Return the full model's scores; where the full vote contradicts them, with the winner's just above."""
        own = self.forest.scores(rows, n_threads)
        if self.rule.kind == "votes":
            other = np.flatnonzero(own.argmax(axis=1) != leaders)
            own[other, leaders[other]] = own[other].max(axis=1) + MARGIN
            own[other] /= own[other].sum(axis=1, keepdims=True)
        return own

    def _map_scores(
        self, sums: NDArray[np.int32], trees: NDArray[np.int32], leaders: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        """Return the scores that the plan's map makes of sums, shape (n_rows, n_classes)."""
        scores = np.empty(sums.shape)
        self._map.classes(sums, trees // np.int32(self.forest.trees_per_round), leaders, scores)
        return scores

    def _stop(
        self, rows: NDArray[Any], n_threads: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
        """Return sums over the trees evaluated, their number, the leading class, and whether rows stopped early."""
        n, n_classes = len(rows), self.forest.n_classes
        sums, trees, leaders = np.empty((n, n_classes), np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
        decided = np.empty(n, np.uint8)
        self._native.run(rows, sums, trees, leaders, decided, n_threads)
        return sums, trees, leaders, decided.astype(np.bool_)


@make_runner.register
def _(rule: LeaderRule, forest: Forest, plan: Plan) -> LeaderRunner:
    return LeaderRunner(forest, plan.order, rule, plan.score_map)


def decides_by_members(forest: Forest) -> bool:
    """Return whether the labels of a forest come from the members of its wrapper."""
    return forest.wrapper is not None and forest.wrapper.decides


def stops_of(forest: Forest, plan: Plan, rows: NDArray[Any]) -> Stops | None:
    """Return where rows exit early, with partial and full scores; None if the plan has no early exit by tree."""
    runner = make_runner(plan.stop, forest, plan)
    return runner.stops(rows) if isinstance(runner, ExitRunner | LeaderRunner) else None
