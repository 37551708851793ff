"""Run plans whose rows stop once their label is certain: bounds of cells, and from native integer sums to labels."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.checks import Progress
from scurry.forest import ARRAYS, NODE_ARRAYS, Forest, RowCall, decision_slack, score_step
from scurry.plan import NEVER_ABOVE, CellRule, ExitRule, ExitSide, LeaderRule, Plan, to_int32
from scurry.runners.exits import ScoreScale, label_sides, mean_scores
from scurry.runners.runner import COMPLETE, DECIDED, Budget, Run, count_tests, make_runner

N_CELLS = 1024  # more save little, and groups of rows become too small to be fast
_MAX_ROWS = 1 << 14  # that shape the router


class CellPlans(NamedTuple):
    """In which order the trees of each cell are evaluated, and which sums stop a row.

    Attributes
    ----------
    least, most : int32 arrays of shape (n_cells, n_trees)
        What each tree adds to the sum of a row of the cell, in grid units.
    order : int32 array of shape (n_cells, n_trees)
        Trees by falling range; of equal ones, the first.
    lower, upper : int32 arrays of shape (n_cells, n_trees + 1)
        After each number of trees, a row stops as negative at or below `lower`, as positive at or above `upper`.
    first_open : int32 array of shape (n_cells,)
        The fewest trees after which some sum can stop a row.
    """

    least: NDArray[np.int32]
    most: NDArray[np.int32]
    order: NDArray[np.int32]
    lower: NDArray[np.int32]
    upper: NDArray[np.int32]
    first_open: NDArray[np.int32]

    @classmethod
    def of(cls, least: NDArray[np.int32], most: NDArray[np.int32], threshold: int, slack: int) -> CellPlans:
        """Return the plans that follow from bounds.

        Why labels are the model's: let a row of a cell have the sum ``g`` after some trees. Its full sum is ``g`` plus
        one value within bounds for each other tree, so it is at least ``g`` plus the sum of their least values. If that
        is ``threshold + slack + 1`` or more, the model says positive, by the definition of
        `scurry.forest.decision_slack`; likewise on the other side. After the last tree nothing is left to bound, so
        that exactly the rows within `slack` of the threshold are open, and the exact engine answers them.
        """
        order = np.argsort(least.astype(np.int64) - most, axis=1, kind="stable").astype(np.int32)
        rest_least, rest_most = (_rests(np.take_along_axis(bounds, order, axis=1)) for bounds in (least, most))
        upper, lower = threshold + slack + 1 - rest_least, threshold - slack - 1 - rest_most
        # What the trees evaluated can add up to.
        done_least, done_most = rest_least[:, :1] - rest_least, rest_most[:, :1] - rest_most
        is_open = (lower >= done_least) | (upper <= done_most)
        is_open[:, -1] = True
        return cls(
            least,
            most,
            order,
            to_int32(lower.astype(np.float64)),
            to_int32(upper.astype(np.float64)),
            np.argmax(is_open, axis=1).astype(np.int32),
        )


def _rests(values: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the sum of the values from each place on, and 0 behind the last; shape (n_cells, n_trees + 1)."""
    rests = np.zeros((len(values), values.shape[1] + 1), np.int64)
    rests[:, :-1] = values[:, ::-1].cumsum(axis=1, dtype=np.int64)[:, ::-1]
    return rests


def bound_sums(forest: Forest) -> Plan:
    """Return the plan of two classes with bounds over all inputs, trees by falling range."""
    step = score_step(forest)
    never = np.zeros((1, forest.n_trees + 1), np.int32)
    rule = ExitRule(kind="scores", step=step, weights=np.ones(1), lower=never - 1, upper=never + 1)
    increments, first = rule.increments(forest), forest.tree_offset[:-1]
    least = np.minimum.reduceat(np.where(forest.is_leaf, increments, NEVER_ABOVE), first)
    most = np.maximum.reduceat(np.where(forest.is_leaf, increments, -NEVER_ABOVE), first)
    plans = CellPlans.of(least[None], most[None], rule.threshold(forest), decision_slack(forest, step))
    stop = ExitRule(kind="scores", step=step, weights=np.ones(1), lower=plans.lower, upper=plans.upper)
    return Plan(order=plans.order[0], stop=stop)


def bound_leads(forest: Forest) -> Plan:
    """Return the plan of several classes: a row stops once no other class can catch up with its leading one.

    The bounds are on differences of two classes, over all inputs. A row that leads every other class by more than the
    rest of the trees can give to any class over another one keeps its label.
    """
    step, n_rounds, size = score_step(forest), forest.n_rounds, forest.trees_per_round
    rule = LeaderRule(kind="scores", step=step, lead=np.full(n_rounds + 1, NEVER_ABOVE, np.int32))
    gains = _largest_gains(forest, rule.increments(forest).astype(np.int64))
    rounds = np.argsort(-(gains + gains.transpose(0, 2, 1)).mean(axis=(1, 2)), kind="stable")
    rest = gains[rounds][::-1].cumsum(axis=0)[::-1].max(axis=(1, 2))  # from each round on
    lead = rule.lead.copy()
    lead[1:-1] = to_int32((rest[1:] + decision_slack(forest, step) + 1).astype(np.float64))
    order = (rounds[:, None] * size + np.arange(size)).ravel().astype(np.int32)
    return Plan(order=order, stop=LeaderRule(kind="scores", step=step, lead=lead))


def find_cells(
    forest: Forest,
    rows: NDArray[np.float64] | None = None,
    *,
    n_cells: int = N_CELLS,
    progress: Progress | None = None,
) -> CellRule:
    """Return the rule of a router that makes the bounds of trees narrow where rows are.

    Parameters
    ----------
    forest : Forest
        Of two classes, whose trees are added up.
    rows : array of shape (n_rows, n_features), optional
        Rows like those to come. Without them, rows are drawn as the covers of nodes describe the training rows, and
        where a forest has none, as if both children of a node were as probable.
    n_cells : int, default 1024
        The largest number of cells.
    progress : callable, optional
        Called as ``progress(n_cells_found, n_cells)``.

    Returns
    -------
    CellRule
    """
    single = np.zeros(1, np.int32)
    whole = CellRule.of_splits(forest, score_step(forest), single - 1, single - 1, single - 1)
    if rows is None:
        shaping = _core.draw_rows(forest.arrays, cover=forest.cover, n_rows=_MAX_ROWS, seed=0)
    else:
        chosen = np.linspace(0, len(rows) - 1, min(len(rows), _MAX_ROWS)).astype(np.intp)
        # As the forest reads them: what float32 does not hold becomes infinite.
        with np.errstate(over="ignore"):
            shaping = np.asarray(rows)[chosen].astype(forest.input_dtype).astype(np.float64)
    source, left, right = _core.find_router(
        forest.arrays,
        increments=whole.increments(forest),
        rows=np.ascontiguousarray(shaping),
        n_cells=n_cells,
        progress=progress,
    )
    return CellRule.of_splits(forest, whole.step, source, left, right)


def _largest_gains(forest: Forest, increments: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the most that each round can give to a class over another, shape (n_rounds, n_classes, n_classes)."""
    first, leaf = forest.tree_offset[:-1], forest.is_leaf[:, None]
    if forest.tree_output[0] >= 0:
        most = np.maximum.reduceat(np.where(leaf, increments, -NEVER_ABOVE), first)[:, 0]
        least = np.minimum.reduceat(np.where(leaf, increments, NEVER_ABOVE), first)[:, 0]
        gains = np.zeros((forest.n_rounds, forest.n_classes, forest.n_classes), np.int64)
        for tree, output in enumerate(forest.tree_output):
            at = tree // forest.trees_per_round
            gains[at, :, output] += most[tree]
            gains[at, output, :] -= least[tree]
    else:
        columns = [np.where(leaf, increments - increments[:, [k]], -NEVER_ABOVE) for k in range(forest.n_classes)]
        gains = np.stack([np.maximum.reduceat(column, first) for column in columns], axis=1)
    diagonal = np.arange(forest.n_classes)
    gains[:, diagonal, diagonal] = 0  # a class gains nothing over itself
    return gains


def join_router(forest: Forest, rule: CellRule) -> Forest:
    """Return the forest with the router as one more tree, whose leaves are worth nothing."""
    n = len(rule.left)
    splits = {name: getattr(rule, name) for name in rule.ARRAYS}
    splits |= {name: np.where(splits[name] >= 0, splits[name] + forest.n_nodes, -1) for name in ("left", "right")}
    splits |= {"cover": np.full(n, np.nan), "category_set": np.full(n, -1)}
    more = {name: splits[name] for name in NODE_ARRAYS} | {
        "tree_offset": forest.tree_offset[-1:] + n,
        "value": np.zeros((n, forest.value.shape[1])),
        "tree_output": forest.tree_output[:1],
    }
    return forest.replace(
        **{name: np.concatenate([getattr(forest, name), more[name]]).astype(ARRAYS[name]) for name in more}
    )


class CellRunner:
    """Runs the native early exit by cell of a two-class forest."""

    reads_bytes = False

    def __init__(self, forest: Forest, rule: CellRule) -> None:
        self.forest, self.rule = forest, rule
        self._threshold, self._slack = rule.sum_threshold(forest), decision_slack(forest, rule.step)
        negative, positive = map(int, forest.engine_labels)
        self._decision = negative, positive, self._threshold, self._slack

    @cached_property
    def _arrays(self) -> _core.ForestArrays:
        return join_router(self.forest, self.rule).arrays

    @cached_property
    def _increments(self) -> NDArray[np.int32]:
        """What leaves add, and behind them which cell a leaf of the router is."""
        cells = np.where(self.rule.left < 0, np.cumsum(self.rule.left < 0) - 1, 0)
        return np.concatenate([self.rule.increments(self.forest), cells]).astype(np.int32)

    @cached_property
    def plans(self) -> CellPlans:
        """The order and the thresholds of each cell."""
        least, most = _core.bound_cells(self._arrays, increments=self._increments)
        return CellPlans.of(least, most, self._threshold, self._slack)

    @cached_property
    def _native(self) -> _core.CellExit:
        _, _, order, lower, upper, first_open = self.plans
        lowered = _core.CellExit(
            self._arrays, increments=self._increments, order=order, lower=lower, upper=upper, first_open=first_open
        )
        self.forest.release()
        return lowered

    @property
    def n_bytes(self) -> int:
        """Memory of the native tables: nodes, and 10 bytes for each cell and tree."""
        return self._native.bytes

    def labels(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[Any]:
        """Return the label of each row."""
        codes = np.empty(len(rows), np.int64)
        self._native.labels(rows, codes, self.forest.engine, *self._decision, n_threads)
        return self.forest.decode(codes)

    def one_row(self, call: RowCall) -> Callable[[Any], Any]:
        """Return a function that answers for one row."""
        if call.answer != "label":
            return call.otherwise
        return self._native.one_row(self.forest.engine, *self._decision, **call.options)

    def run(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> Run:
        """Return labels, and how much work they took."""
        sums, trees, cells, is_positive = self._stop(rows, n_threads)
        complete = trees == self.forest.n_trees
        scored_in_full = rows[complete]

        def find_scores() -> NDArray[np.float64]:
            scores = self._estimate(sums, trees, cells, is_positive)
            if len(scored_in_full):
                scores[complete] = self._full_scores(scored_in_full, n_threads)
            return scores

        return Run(
            labels=self.forest.decode(self.forest.engine_labels[is_positive.view(np.uint8)]),
            trees=trees,
            reason_codes=np.where(complete, COMPLETE, DECIDED).astype(np.uint8),
            find_scores=find_scores,
            count_steps=lambda: self._count_tests(rows, trees, cells, n_threads),
        )

    def probabilities(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[np.float64]:
        """Return class probabilities, shape (n_rows, 2): of estimated scores, or of the model if all trees ran."""
        sums, trees, cells, is_positive = self._stop(rows, n_threads)
        scores, complete = self._estimate(sums, trees, cells, is_positive), trees == self.forest.n_trees
        if self.forest.n_outputs == 2:
            probabilities = self.forest.link_scores(np.column_stack([-scores, scores]) / 2)
        else:
            positive = self.forest.link_scores(scores[:, None])[:, 0]
            probabilities = np.column_stack([1 - positive, positive])
        if complete.any():
            probabilities[complete] = self.forest.predict_proba(rows[complete], n_threads)
        return probabilities

    def trees_evaluated(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which trees each row evaluates, shape (n_rows, n_trees)."""
        _, trees, cells, _ = self._stop(rows, 1)
        return np.asarray(self._ranks[cells] < trees[:, None])

    @cached_property
    def _ranks(self) -> NDArray[np.int32]:
        """The place of each tree in the order of each cell, shape (n_cells, n_trees)."""
        return np.argsort(self.plans.order, axis=1).astype(np.int32)

    def _stop(
        self, rows: NDArray[Any], n_threads: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
        """Return sums, numbers of trees evaluated, cells, and whether labels are the second class."""
        n = len(rows)
        sums, trees, cells, sides = *(np.empty(n, np.int32) for _ in range(3)), np.empty(n, np.uint8)
        self._native.run(rows, sums, trees, sides, cells, n_threads)
        is_positive = np.asarray(sides == ExitSide.POSITIVE)
        undecided = np.flatnonzero(sides == ExitSide.CONTINUE)
        exact = np.empty(len(undecided), np.int64)
        self.forest.engine.labels(rows[undecided], exact, n_threads)
        is_positive[undecided] = exact == int(self.forest.engine_labels[1])
        return sums, trees, cells, is_positive

    @cached_property
    def _expected(self) -> NDArray[np.float64]:
        """What the trees not evaluated are expected to add, shape (n_cells, n_trees + 1).

        That is their mean over the training rows, within the bounds of the cell.
        """
        _, _, order, *_ = self.plans
        mean = mean_scores(self.forest) / self.rule.step
        within = np.take_along_axis(np.clip(mean, self.plans.least, self.plans.most), order, axis=1)
        rest = np.zeros((len(order), order.shape[1] + 1))
        rest[:, :-1] = within[:, ::-1].cumsum(axis=1)[:, ::-1]
        return rest * self.rule.step

    def _estimate(
        self,
        sums: NDArray[np.int32],
        trees: NDArray[np.int32],
        cells: NDArray[np.int32],
        is_positive: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """Return estimates of full scores, as `Run.scores` defines them, on the side of the label."""
        halves = sums * self.rule.step + self._expected[cells, trees]
        base = self.forest.base_score
        if self.forest.n_outputs == 2:
            scores, centre = 2 * halves + float(base[1] - base[0]), 0.0
        else:
            scores, centre = halves + float(base[0]), self.forest.decision_threshold
        negative, positive = label_sides(self.forest, ScoreScale(unit=np.ones(1), offset=np.zeros(1), centre=centre))
        return np.where(is_positive, np.maximum(scores, positive), np.minimum(scores, negative))

    def _full_scores(self, rows: NDArray[Any], n_threads: int) -> NDArray[np.float64]:
        own = self.forest.scores(rows, n_threads)
        return own[:, 1] - own[:, 0] if self.forest.n_outputs == 2 else own[:, 0]

    def _count_tests(
        self, rows: NDArray[Any], trees: NDArray[np.int32], cells: NDArray[np.int32], n_threads: int
    ) -> NDArray[np.int64]:
        """Return the node tests of each row in the trees it evaluated, and those of the router."""

        def count(depth: NDArray[np.int32], some: slice) -> NDArray[np.int64]:
            evaluated = self._ranks[cells[some]] < trees[some, None]
            return np.asarray((depth * evaluated).sum(axis=1)) + self._router_depth[cells[some]]

        return count_tests(self.forest, rows, n_threads, count)

    @cached_property
    def _router_depth(self) -> NDArray[np.int64]:
        """Node tests of the router on the way to each cell."""
        rule, depth = self.rule, np.zeros(len(self.rule.left), np.int64)
        for node in np.flatnonzero(rule.left >= 0):
            depth[[rule.left[node], rule.right[node]]] = depth[node] + 1
        return depth[rule.left < 0]


@make_runner.register
def _(rule: CellRule, forest: Forest, plan: Plan) -> CellRunner:
    return CellRunner(forest, rule)
