"""RowWalk: where a row stands in every tree while its features are bought, and what it answers from there.

The native core walks rows whose values are all known. Here a value may have to be bought first, so a row moves in
Python, one node test at a time, by the same comparisons and the same integer sums.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice, check_number
from scurry.costs import FeatureCosts
from scurry.errors import InputError
from scurry.forest import CodedRows, Forest
from scurry.forest.files.storage import digest
from scurry.plan import Plan, Tally
from scurry.runners import runner_of
from scurry.runners.acquisition.ledger import RowBudget
from scurry.runners.runner import NO_LIMIT, Runner

ORDERS = ("plan", "cheapest", "informative")
NOT_STARTED = -1  # in place of a node


class Expectation:
    """How far the sum of all trees is expected to move when a feature becomes known, by the covers of nodes.

    From a node, a tree moves to either child with the share of training rows that did, so its answer has a standard
    deviation. Trees that wait for the same feature are taken to move together: their deviations add up. The square of
    the sum is the variance that the feature settles.

    Parameters
    ----------
    forest : Forest
        With a cover for every node.
    """

    def __init__(self, forest: Forest) -> None:
        inner = np.flatnonzero(forest.left >= 0)
        left, right = forest.left[inner], forest.right[inner]
        total = forest.cover[left] + forest.cover[right]
        if not (np.isfinite(total) & (total > 0)).all():
            raise InputError(
                'order="informative" needs the number of training rows at every node, which this model does not '
                'have; use order="cheapest"',
                argument="order",
            )
        share = forest.cover[left] / total
        self.forest = forest
        # A Bernoulli variable has this deviation; it is 0 at leaves.
        self._deviation = np.zeros(forest.n_nodes)
        distance = np.linalg.norm(forest.value[left] - forest.value[right], axis=1)
        self._deviation[inner] = np.sqrt(share * (1 - share)) * distance

    def by_feature(self, nodes: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return how much variance each feature settles in trees that stand at these nodes, shape (n_features,)."""
        deviation = np.zeros(self.forest.n_features)
        inner = nodes[~self.forest.is_leaf[nodes]]
        np.add.at(deviation, self.forest.feature[inner], self._deviation[inner])
        settled: NDArray[np.float64] = deviation**2
        return settled


class Runs(Protocol):
    """What visits need of a predictor."""

    @property
    def forest(self) -> Forest:
        """The forest."""
        ...

    @property
    def plan(self) -> Plan:
        """The plan that runs it."""
        ...


@dataclass(frozen=True, eq=False)
class Terms:
    """What all visits of one predictor share: prices, a limit, and the order of purchases.

    Attributes
    ----------
    predictor : Predictor
    costs : FeatureCosts
    max_cost : float
        Infinite if there is no limit.
    order : {"plan", "cheapest", "informative"}
    """

    predictor: Runs
    costs: FeatureCosts
    max_cost: float
    order: str

    @classmethod
    def of(cls, predictor: Runs, costs: FeatureCosts, max_cost: float | None, order: str) -> Self:
        """Check the arguments that `Predictor.acquire` and `Predictor.start_row` share."""
        check_choice("order", order, ORDERS)
        predictor.forest.refuse_wrapper("buy features one at a time")
        if predictor.plan.stop is not None and predictor.plan.stop.needs_whole_rows:
            raise InputError(
                "this plan needs all features of a row before it starts; to buy them one at a time, use "
                'Predictor.full(forest), or an early exit made with method="qwyc"'
            )
        if order != "plan" and predictor.plan.exit_rule is not None:
            raise InputError(
                f'an early exit keeps its promise in its own order of trees; use order="plan", or order="{order}" with '
                "Predictor.full(forest)",
                argument="order",
            )
        limit = np.inf
        if max_cost is not None and max_cost != np.inf:
            limit = check_number("max_cost", max_cost, hint="; None sets no limit")
        terms = cls(predictor, costs, limit, order)
        if order == "informative":
            _ = terms.expectation  # a forest without covers raises an error here, before anything is bought
        return terms

    @property
    def forest(self) -> Forest:
        """The predictor's forest."""
        return self.predictor.forest

    @cached_property
    def increments(self) -> NDArray[np.int32] | None:
        """What each node, as a leaf, adds to the sums of an early exit; None without one."""
        rule = self.predictor.plan.exit_rule
        return None if rule is None else rule.increments(self.forest)

    @cached_property
    def runner(self) -> Runner:
        """What runs the predictor's plan on rows whose values are known."""
        return runner_of(self.forest, self.predictor.plan)

    @cached_property
    def expectation(self) -> Expectation:
        """How much of the answer is expected to depend on each feature."""
        return Expectation(self.forest)

    def plan_of(self, number: int) -> Plan:
        """Return the plan that a row follows: the predictor's, or what the row draws from a randomised one."""
        plan = self.predictor.plan
        if plan.exit_rule is None:
            return plan
        order, rule = plan.exit_rule.draw(plan.order, number)
        return replace(plan, order=order, stop=rule)


def digest_of(predictor: Runs) -> str:
    """Return the SHA-256 of a forest and of what its plan does with it, as hex."""
    # Neither a certificate nor prices change an answer.
    header, arrays = replace(predictor.plan, certificate=None, feature_costs=None).to_parts()
    return digest(header | {"forest": predictor.forest.digest}, arrays)


class RowWalk:
    """A row on its way through the trees.

    Parameters
    ----------
    terms : Terms
    number : int
        Number of the row, by which a randomised plan draws.
    known : mapping of int to float
        Values that cost nothing, by feature.
    given : mapping of int to float
        Values that are paid for when they are first needed. The caller adds to it while the walk waits.
    unavailable : set of int
        Features that cannot be obtained. The caller adds to it too.

    Attributes
    ----------
    values : dict of int to float
        Known and paid.
    nodes : int32 array of shape (n_trees,)
        -1 in trees that have not been started.
    budget : RowBudget
    tally : Tally or None
        The sums of an early exit.
    n_steps : int
        Node tests made.
    is_blocked : bool
        Whether a feature was needed that is unavailable.
    expected_share : float
        In the "informative" order: how much of what is open the feature needed next is expected to settle.
    """

    def __init__(
        self,
        terms: Terms,
        number: int,
        known: Mapping[int, float],
        given: Mapping[int, float],
        unavailable: Set[int],
    ) -> None:
        forest, self.plan = terms.forest, terms.plan_of(number)
        self.terms, self.given, self.unavailable = terms, given, unavailable
        self.values, self.n_steps = dict(known), 0
        self.nodes = np.full(forest.n_trees, NOT_STARTED, np.int32)
        self.budget = RowBudget(forest, terms.costs, terms.max_cost, number)
        rule, increments = self.plan.exit_rule, terms.increments
        self.tally: Tally | None = None if rule is None or increments is None else rule.tally(forest, increments)
        self.is_blocked, self.expected_share = False, 0.0

    def run(self) -> Generator[int, None, None]:
        """Walk to the answer; yield each feature that is needed until it is in `given` or in `unavailable`."""
        if self.terms.order != "plan":
            return self._walk_by_feature()
        return self._walk_in_order() if self.tally is None else self._walk_until_decided(self.tally)

    @property
    def n_started(self) -> int:
        """Trees that have been started."""
        return int((self.nodes != NOT_STARTED).sum())

    @property
    def n_evaluated(self) -> int:
        """Trees that have reached a leaf."""
        return int(((self.nodes != NOT_STARTED) & self.terms.forest.is_leaf[self.nodes]).sum())

    def needs_by_tree(self) -> list[int | None]:
        """Return the feature that each tree needs, or would need if it were started; None if it needs no more."""
        forest, needs = self.terms.forest, []
        for tree, at in enumerate(self.nodes.tolist()):
            node = int(forest.tree_offset[tree]) if at == NOT_STARTED else at
            while forest.left[node] >= 0 and (feature := int(forest.feature[node])) in self.values:
                node = int((forest.left if forest.goes_left(node, self.values[feature]) else forest.right)[node])
            needs.append(None if forest.left[node] < 0 else int(forest.feature[node]))
        return needs

    @property
    def stop_reason(self) -> str:
        """Why a walk that has ended went no further, see `VisitAnswer`."""
        if self.is_blocked:
            return "unavailable"
        if self.budget.is_short:
            return "max_cost"
        return "complete" if self.n_started == self.terms.forest.n_trees else "decided"

    def _walk_until_decided(self, tally: Tally) -> Generator[int, None, None]:
        for tree in self.plan.order.tolist():
            if tally.decided is not None:
                return
            self._start(tree)
            yield from self._descend(tree)
            tally.add(tree, int(self.nodes[tree]))

    def _walk_in_order(self) -> Generator[int, None, None]:
        for tree in range(self.terms.forest.n_trees):
            self._start(tree)
        for tree in self.plan.order.tolist():
            if self.plan.by_step:
                feature = self._needs(tree)
                if feature is not None and (feature in self.values or (yield from self._buy(feature))):
                    self._move(tree)
            else:
                yield from self._descend(tree)

    def _walk_by_feature(self) -> Generator[int, None, None]:
        """Walk all trees as far as values lead, buy the best feature they wait for, and repeat."""
        waiting: dict[int, list[int]] = {}

        def walk_on(tree: int) -> None:
            if (feature := self._reach(tree)) is not None:
                waiting.setdefault(feature, []).append(tree)

        for tree in range(self.terms.forest.n_trees):
            self._start(tree)
            walk_on(tree)
        while waiting:
            affordable = [feature for feature in waiting if self.budget.can_afford(feature)]
            if not affordable:
                self.budget.is_short = True
                return
            feature = self._choose(affordable, waiting)
            trees = waiting.pop(feature)
            if (yield from self._buy(feature)):
                for tree in trees:
                    walk_on(tree)

    def _choose(self, features: list[int], waiting: Mapping[int, Sequence[int]]) -> int:
        """Return the feature to buy next: the cheapest, or the one that is expected to settle most for its cost."""

        def rank(feature: int) -> tuple[float, int, int]:
            return sum(self.budget.prices(feature)), -len(waiting[feature]), feature

        if self.terms.order == "cheapest":
            return min(features, key=rank)
        trees = [tree for waiters in waiting.values() for tree in waiters]
        settled = self.terms.expectation.by_feature(self.nodes[trees])
        settled[list(self.values)] = 0.0

        def worth(feature: int) -> float:
            price = sum(self.budget.prices(feature))
            return settled[feature] / price if price > 0 else np.inf

        best = min(features, key=lambda feature: (-worth(feature), *rank(feature)))
        self.expected_share = float(settled[best] / settled.sum()) if settled[best] > 0 else 0.0
        return best

    def _start(self, tree: int) -> None:
        """Stand at the root of a tree."""
        self.nodes[tree] = self.terms.forest.tree_offset[tree]

    def _needs(self, tree: int) -> int | None:
        """Return the feature that the next node test in a tree reads, None at a leaf."""
        forest, node = self.terms.forest, self.nodes[tree]
        return None if forest.left[node] < 0 else int(forest.feature[node])

    def _move(self, tree: int) -> None:
        """Go one node down a tree."""
        forest, node = self.terms.forest, int(self.nodes[tree])
        goes_left = forest.goes_left(node, self.values[int(forest.feature[node])])
        self.nodes[tree] = (forest.left if goes_left else forest.right)[node]
        self.n_steps += 1

    def _reach(self, tree: int) -> int | None:
        """Go down a tree as far as values are known; return the feature that it needs there, None at a leaf."""
        while (feature := self._needs(tree)) is not None and feature in self.values:
            self._move(tree)
        return feature

    def _descend(self, tree: int) -> Generator[int, None, None]:
        """Go down a tree as far as features can be obtained."""
        while (feature := self._reach(tree)) is not None and (yield from self._buy(feature)):
            pass

    def _buy(self, feature: int) -> Generator[int, None, bool]:
        """Buy a feature, waiting for its value; return False if it is too expensive or unavailable."""
        if not self.budget.can_afford(feature):
            self.budget.is_short = True
            return False
        while feature not in self.given and feature not in self.unavailable:
            yield feature
        if feature in self.unavailable:
            self.is_blocked = True
            return False
        self.budget.pay(feature)
        self.values[feature] = self.given[feature]
        return True

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities that the plan gives to the row, with trees cut where they could not continue."""
        forest = self.terms.forest
        if self.plan.by_step and len(self._stuck):
            linked = forest.link_scores(scores)
            return np.append(1 - linked, linked) if linked.shape[1] < forest.n_classes else linked[0]
        runner, row = self._replay()
        found: NDArray[np.float64] = runner.probabilities(row, 1, NO_LIMIT)[0]
        return found

    def estimated_scores(self) -> NDArray[np.float64]:
        """Return what the plan estimates the full scores to be, shape (n_outputs,); they agree with the label."""
        forest = self.terms.forest
        runner, row = self._replay()
        scores: NDArray[np.float64] = np.ravel(runner.run(row, 1, NO_LIMIT).scores[0])
        if len(scores) == forest.n_outputs:
            return scores
        lead = scores[0]  # of two classes with a score each, that of the second
        return np.array([-lead / 2, lead / 2]) if forest.aggregation == "sum" else np.array([1 - lead, lead])

    @property
    def _stuck(self) -> NDArray[np.int32]:
        """Inner nodes from which trees could not continue."""
        started: NDArray[np.int32] = self.nodes[self.nodes != NOT_STARTED]
        return started[~self.terms.forest.is_leaf[started]]

    def _replay(self) -> tuple[Runner, NDArray[Any]]:
        """Return a runner that answers the row as it was answered, and the row."""
        forest, plan = self.terms.forest, self.plan
        # Features that are not known are not read on the way to this answer, whatever stands in their place.
        row = np.full((1, forest.n_features), np.nan, forest.input_dtype)
        row[0, list(self.values)] = list(self.values.values())
        if forest.is_encoded:
            row = row.view(CodedRows)
        if len(self._stuck) == 0 and plan.exit_rule is self.terms.predictor.plan.exit_rule:
            return self.terms.runner, row
        is_cut = np.zeros(forest.n_nodes, np.bool_)
        is_cut[self._stuck] = True
        for _ in range(forest.max_depth):
            is_cut |= (forest.parent >= 0) & is_cut[forest.parent]
        return runner_of(forest.keep_splits(~is_cut), plan), row


def read_out(terms: Terms, walks: Sequence[RowWalk]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the labels and scores of rows that have ended their walks.

    Parameters
    ----------
    terms : Terms
    walks : sequence of RowWalk

    Returns
    -------
    labels : array of shape (n_rows,)
    scores : float64 array of shape (n_rows, n_outputs)
    """
    forest, plan = terms.forest, terms.predictor.plan
    nodes = np.array([walk.nodes for walk in walks], np.int32).reshape(len(walks), forest.n_trees)
    scores = _scores(forest, nodes, plan.node_weights(forest))
    labels = forest.decide(np.nan_to_num(scores))
    by_vote = plan.exit_rule is not None and plan.exit_rule.kind == "votes"
    for row, walk in enumerate(walks):
        decided = None if walk.tally is None else walk.tally.decided
        if walk.tally is not None and forest.classes is not None and (decided is not None or by_vote):
            labels[row] = forest.classes[walk.tally.leading if decided is None else decided]
            if decided is not None or walk.n_evaluated > 0:
                scores[row] = walk.estimated_scores()
    return labels, scores


def _scores(forest: Forest, nodes: NDArray[np.int32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores from the nodes reached, shape (n_rows, n_outputs); inner nodes count by their weight."""
    started = nodes != NOT_STARTED
    scores = np.empty((len(nodes), forest.n_outputs))
    is_own = started.all(axis=1) & (len(weights) == 0 or forest.is_leaf[nodes].all(axis=1))
    scores[is_own] = forest.scores_at(nodes[is_own])
    values = forest.leaf_values()
    output = forest.tree_output
    for row in np.flatnonzero(~is_own):
        trees = np.flatnonzero(started[row])
        at = nodes[row, trees]
        weight = weights[at] if len(weights) else np.ones(len(at))
        total, count = np.zeros(forest.n_outputs), np.zeros(forest.n_outputs)
        if output[0] < 0:
            total += weight @ values[at]
            count += weight.sum()
        else:
            np.add.at(total, output[trees], weight * values[at, 0])
            np.add.at(count, output[trees], weight)
        if forest.aggregation == "sum":
            scores[row] = forest.base_score + total
        else:
            with np.errstate(invalid="ignore"):
                scores[row] = forest.base_score / forest.score_divisor + total / count
    return scores
