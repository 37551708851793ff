"""Run plans whose rows stop at sentinels: each by itself, or as the documents of queries of which the k best count."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.errors import InputError
from scurry.forest import Forest, RowCall
from scurry.plan import Plan, SentinelRule, TopKRule, to_int32
from scurry.runners.runner import COMPLETE, DECIDED, Budget, Run, count_tests_in_order, make_runner

if TYPE_CHECKING:
    from scurry.promises import Certificate, TopK
    from scurry.stopping.sentinels.lanes import SentinelFit  # needs scipy, and predictions do not


class SentinelRunner:
    """Runs the native sentinel exit of a regressor, or of a forest with two classes."""

    reads_bytes = True

    def __init__(self, forest: Forest, order: NDArray[np.int32], rule: SentinelRule) -> None:
        self.forest, self.order, self.rule = forest, order, rule
        self._native = _lower(
            forest,
            order,
            rule,
            spread_lane=rule.spread_lane,
            square=rule.square,
            edge_offset=rule.edge_offset,
            edges=rule.edges,
        )

    def labels(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[Any]:
        """Return the label of each row, or a regressor's value."""
        if self.forest.classes is None:
            values = np.empty(len(rows))
            self._native.run(rows, n_threads, probabilities=values)
            return values
        codes = np.empty(len(rows), np.int64)
        self._native.run(rows, n_threads, labels=codes)
        return self.forest.decode(codes)

    def probabilities(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[np.float64]:
        """Return class probabilities, shape (n_rows, 2): of the estimated score, or of the model if all trees ran."""
        if self.forest.classes is None:
            raise InputError("this forest is a regressor and has no probabilities; use predict")
        probabilities = np.empty((len(rows), self.forest.n_classes))
        self._native.run(rows, n_threads, probabilities=probabilities)
        return probabilities

    def run(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> Run:
        """Return labels or values, and how much work they took."""
        n = len(rows)
        stops, scores = np.empty(n, np.int32), np.empty(n)
        if self.forest.classes is None:
            labels: NDArray[Any] = np.empty(n)
            self._native.run(rows, n_threads, stops=stops, scores=scores, probabilities=labels)
        else:
            codes = np.empty(n, np.int64)
            self._native.run(rows, n_threads, stops=stops, scores=scores, labels=codes)
            labels = self.forest.decode(codes)
        return _report(self, rows, n_threads, labels, stops, scores)

    def one_row(self, call: RowCall) -> Callable[[Any], Any]:
        """Return a function that answers for one row."""
        return self._native.one_row(call.answer, **call.options)


@make_runner.register
def _(rule: SentinelRule, forest: Forest, plan: Plan) -> SentinelRunner:
    return SentinelRunner(forest, plan.order, rule)


class TopKRunner:
    """Ranks the documents of queries with native sentinels. Rows alone have no answer: it depends on their query."""

    reads_bytes = False

    def __init__(self, forest: Forest, order: NDArray[np.int32], rule: TopKRule) -> None:
        self.forest, self.order, self.rule = forest, order, rule
        n = len(rule.sentinels)
        self._native = _lower(
            forest,
            order,
            rule,
            spread_lane=rule.spread_lane,
            square=np.zeros(n),
            edge_offset=np.zeros(n + 1, np.uint32),
            edges=np.empty(0, np.int32),
        )

    def labels(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[Any]:
        """Raise an error: rows are ranked within their queries."""
        raise self._lacks_groups()

    def probabilities(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[np.float64]:
        """Raise an error: a ranker has no probabilities."""
        raise InputError("this forest is a regressor and has no probabilities; use predict with groups=")

    def run(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> Run:
        """Raise an error: rows are ranked within their queries."""
        raise self._lacks_groups()

    def one_row(self, call: RowCall) -> Callable[[Any], Any]:
        """Raise an error: rows are ranked within their queries."""
        raise self._lacks_groups()

    def score_in_groups(self, rows: NDArray[Any], groups: Any, n_threads: int) -> NDArray[np.float64]:
        """Return scores that rank the rows of each query."""
        names = _check_groups(groups, len(rows))
        if len(self.rule.sentinels) == 0:
            return self._rank_in_full(rows, n_threads).labels
        return self._score(rows, names, n_threads)

    def rank(self, rows: NDArray[Any], groups: Any, n_threads: int) -> Run:
        """Return scores that rank the rows of each query, as labels and scores, and how much work they took."""
        names = _check_groups(groups, len(rows))
        if len(self.rule.sentinels) == 0:
            return self._rank_in_full(rows, n_threads)
        stops = np.empty(len(rows), np.int32)
        scores = self._score(rows, names, n_threads, stops)
        return _report(self, rows, n_threads, scores, stops, scores)

    def _score(
        self, rows: NDArray[Any], names: NDArray[Any], n_threads: int, stops: NDArray[np.int32] | None = None
    ) -> NDArray[np.float64]:
        """Return scores that rank the rows of each query, and write at which sentinel they stopped."""
        place, offset = _sort_by_query(names)
        # Rows that lie by query already, as they mostly do, are not copied.
        sorted_rows = rows if place is None else rows[place]
        scores = np.empty(len(rows))
        self._native.rank(
            sorted_rows,
            offset,
            k=self.rule.k,
            as_set=self.rule.keep == "set",
            scores=scores,
            n_threads=n_threads,
            stops=stops,
        )
        if place is not None:
            scores[place] = scores.copy()
            if stops is not None:
                stops[place] = stops.copy()
        return scores

    def _rank_in_full(self, rows: NDArray[Any], n_threads: int) -> Run:
        """Return the model's own scores, if no document may leave."""
        scores = self.forest.scores(rows, n_threads=n_threads)[:, 0]
        trees = np.full(len(rows), self.forest.n_trees, np.int32)
        return Run(
            labels=scores,
            trees=trees,
            reason_codes=np.full(len(rows), COMPLETE, np.uint8),
            find_scores=lambda: scores,
            count_steps=lambda: count_tests_in_order(self.forest, rows, n_threads, self.order, trees),
        )

    def _lacks_groups(self) -> InputError:
        return InputError(
            f"this plan keeps the top {self.rule.k} of every query, so a row's answer depends on the others: call "
            "predict(X, groups=…) or run(X, groups=…) with the query of each row",
            argument="groups",
        )


@make_runner.register
def _(rule: TopKRule, forest: Forest, plan: Plan) -> TopKRunner:
    return TopKRunner(forest, plan.order, rule)


def _lower(forest: Forest, order: NDArray[np.int32], rule: SentinelRule | TopKRule, **tests: Any) -> _core.SentinelExit:
    lowered = _core.SentinelExit(
        forest.arrays,
        classes=forest.engine_labels,
        order=order,
        lanes=rule.lanes,
        sentinels=rule.sentinels,
        lane=rule.lane,
        scale=rule.scale,
        offset=rule.offset,
        limits=rule.limits,
        engine=forest.engine,
        value_of_node=value_numbers(forest),
        **tests,
    )
    forest.release()
    return lowered


def _check_groups(groups: Any, n_rows: int) -> NDArray[Any]:
    """Return the query of each row; an error unless all are known."""
    names = np.asarray(groups)
    if names.shape != (n_rows,):
        raise InputError(
            f"groups must name the query of each of the {n_rows:,} rows, got an array of shape {names.shape}",
            argument="groups",
        )
    if names.dtype.kind == "f" and np.isnan(names).any():
        raise InputError("groups has missing values, so the queries of some rows are not known", argument="groups")
    return names


def _sort_by_query(names: NDArray[Any]) -> tuple[NDArray[np.intp] | None, NDArray[np.int64]]:
    """Return where the rows of each query are (None: where they lie), and where queries begin among them."""
    n_rows = len(names)
    begins = np.flatnonzero(names[1:] != names[:-1]) + 1
    starts = np.concatenate([np.zeros(min(n_rows, 1), np.int64), begins])
    try:
        # Only the first rows of runs are sorted, which are few where rows lie by query already.
        if len(np.unique(names[starts])) == len(starts):
            return None, np.append(starts, n_rows).astype(np.int64)
        _, codes, counts = np.unique(names, return_inverse=True, return_counts=True)
    except TypeError as error:
        raise InputError("groups must hold numbers or texts of one kind", argument="groups") from error
    return np.argsort(codes, kind="stable"), np.concatenate([[0], counts.cumsum()]).astype(np.int64)


def value_numbers(forest: Forest) -> NDArray[np.int32] | None:
    """Return by which number the engine knows the value of each node; read at leaves. None if it knows none."""
    values = forest.engine_values
    if values is None:
        return None
    of_nodes = np.where(forest.is_leaf[:, None], forest.leaf_values(), values[:1])
    rows = np.ascontiguousarray(np.concatenate([values, of_nodes]))
    numbers, _ = _core.distinct_rows(rows.view(np.uint8).reshape(len(rows), -1))  # by first occurrence
    found = numbers[len(values) :].astype(np.int32)
    return found if found.max() < len(values) else None


def _report(
    runner: SentinelRunner | TopKRunner,
    rows: NDArray[Any],
    n_threads: int,
    labels: NDArray[Any],
    stops: NDArray[np.int32],
    scores: NDArray[np.float64],
) -> Run:
    """Return the run of rows that stopped at these sentinels; the number of sentinels itself is the end."""
    trees = np.append(runner.rule.sentinels, np.int32(runner.forest.n_trees)).astype(np.int32)[stops]
    is_complete: NDArray[np.bool_] = stops == len(runner.rule.sentinels)
    return Run(
        labels=labels,
        trees=trees,
        reason_codes=np.where(is_complete, COMPLETE, DECIDED).astype(np.uint8),
        find_scores=lambda: scores,
        count_steps=lambda: count_tests_in_order(runner.forest, rows, n_threads, runner.order, trees),
    )


def sentinel_plan(fit: SentinelFit, certificate: Certificate | None) -> Plan:
    """Return the plan of a fit that stops rows at sentinels."""
    stop = SentinelRule(
        **_lane_arrays(fit),
        spread_lane=fit.spread_lane,
        square=fit.square,
        edge_offset=np.cumsum([0, *map(len, fit.edges)]).astype(np.uint32),
        edges=np.concatenate([np.empty(0, np.int32), *(to_int32(edges.astype(np.float64)) for edges in fit.edges)]),
        limits=np.concatenate([np.empty(0), *fit.limits]),
    )
    return Plan(order=fit.order.astype(np.int32), stop=stop, certificate=certificate)


def rank_plan(fit: SentinelFit, promise: TopK, limits: NDArray[np.float64]) -> Plan:
    """Return the plan of a fit by which documents leave their query; `limits` are scores for each unit of spread."""
    stop = TopKRule(
        k=promise.k,
        keep=promise.keep,
        spread_lane=fit.spread_lane,
        limits=limits / fit.scale,
        **_lane_arrays(fit),
    )
    return Plan(order=fit.order.astype(np.int32), stop=stop)


def _lane_arrays(fit: SentinelFit) -> dict[str, Any]:
    return {
        "sentinels": fit.sentinels.astype(np.int32),
        "lanes": fit.lanes,
        "lane": fit.lane.astype(np.int32),
        "scale": fit.scale,
        "offset": fit.offset,
    }
