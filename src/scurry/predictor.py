"""Predictor: a forest run by a plan. A thin shell over the native core."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry import _core, reference
from scurry.errors import FormatError
from scurry.forest import Forest
from scurry.plan import ExitRule, Plan
from scurry.rows import as_rows, thread_count
from scurry.storage import read_container, write_container


@dataclass(frozen=True, eq=False)
class Run:
    """What happened to each row of a batch.

    Attributes
    ----------
    labels : array of shape (n_rows,)
    scores : float64 array of shape (n_rows,)
        The share of positive votes, the mean probability of the second class, or the margin, over the trees asked.
    trees : int32 array of shape (n_rows,)
        Trees asked.
    steps : int64 array of shape (n_rows,)
        Node tests made in those trees.
    stop_reason : array of str of shape (n_rows,)
        "decided" (stopped early) or "complete" (every tree was asked).
    """

    labels: NDArray[Any]
    scores: NDArray[np.float64]
    trees: NDArray[np.int32]
    steps: NDArray[np.int64]
    stop_reason: NDArray[np.str_]

    @property
    def mean_trees(self) -> float:
        """Trees asked per row."""
        return float(self.trees.mean())

    @property
    def mean_steps(self) -> float:
        """Node tests per row."""
        return float(self.steps.mean())

    def __repr__(self) -> str:
        stopped = float((self.stop_reason == "decided").mean())
        return f"Run(n_rows={len(self.trees)}, mean_trees={self.mean_trees:.2f}, stopped_early={stopped:.1%})"


class Predictor:
    """A forest and the plan that runs it.

    Parameters
    ----------
    forest : Forest
    plan : Plan

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RandomForestClassifier(51, random_state=0).fit(X[:300], y[:300])
    >>> fast = scurry.early_exit(model, X[300:], max_disagreement=0.05, method="minimixed", random_state=0)
    >>> fast.run(X[300:]).mean_trees < 25
    True
    """

    def __init__(self, forest: Forest, plan: Plan) -> None:
        plan.check(forest)
        self.forest, self.plan = forest, plan

    @property
    def classes(self) -> NDArray[Any] | None:
        """The model's own labels."""
        return self.forest.classes

    @cached_property
    def _exit(self) -> _ExitRunner | None:
        return None if self.plan.stop is None else _ExitRunner(self.forest, self.plan.order, self.plan.stop)

    def predict(self, X: Any, n_threads: int | None = 1) -> NDArray[Any]:
        """Labels for each row, stopping early where the plan allows.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1
            None uses all cores.

        Returns
        -------
        array of shape (n_rows,)
        """
        if self._exit is None:
            return self.forest.predict(X, n_threads)
        return self._exit.labels(as_rows(self.forest, X), n_threads)

    def predict_proba(self, X: Any, n_threads: int | None = 1) -> NDArray[np.float64]:
        """Class probabilities as far as the trees asked tell; the model's own where every tree was asked.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1

        Returns
        -------
        float64 array of shape (n_rows, 2)
        """
        if self._exit is None:
            return self.forest.predict_proba(X, n_threads)
        rows = as_rows(self.forest, X)
        run = self.run(rows, n_threads)
        positive = self._exit.probability(run.scores)
        probabilities = np.column_stack([1 - positive, positive])
        complete = run.stop_reason == "complete"
        if self.plan.stop is not None and self.plan.stop.kind == "scores" and complete.any():
            probabilities[complete] = self.forest.predict_proba(rows[complete], n_threads)
        return probabilities

    def run(self, X: Any, n_threads: int | None = 1) -> Run:
        """Predict and report, per row, how much work that took and why it ended.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1

        Returns
        -------
        Run
        """
        rows = as_rows(self.forest, X)
        if self._exit is not None:
            return self._exit.run(rows, n_threads)
        trees = np.full(len(rows), self.forest.n_trees, np.int32)
        scores = self.forest.scores(rows, n_threads)[:, -1]
        steps = self.forest.node_depth[self.forest.apply(rows, n_threads)].sum(axis=1)
        return Run(self.forest.predict(rows, n_threads), scores, trees, steps, np.full(len(rows), "complete"))

    def summary(self) -> Summary:
        """What the plan promises, and what was measured when it was made."""
        return Summary(self.forest, self.plan)

    def save(self, path: str | PathLike[str]) -> None:
        """Write forest and plan to a ``.scurry`` file that executes nothing when loaded.

        Parameters
        ----------
        path : str or path
        """
        forest_header, forest_arrays = self.forest.to_parts()
        plan_header, plan_arrays = self.plan.to_parts()
        write_container(path, "predictor", forest_header | {"plan": plan_header}, forest_arrays | plan_arrays)

    def __repr__(self) -> str:
        return f"Predictor({self.forest!r}, method={self.plan.facts.get('method', 'full')!r})"


class Summary:
    """A predictor's promise and measurements; print it."""

    def __init__(self, forest: Forest, plan: Plan) -> None:
        self.facts = {"forest": repr(forest)} | plan.facts

    def __str__(self) -> str:
        width = max(len(name) for name in self.facts)
        return "\n".join(f"{name.replace('_', ' '):<{width}}  {_shown(value)}" for name, value in self.facts.items())

    __repr__ = __str__


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class _ExitRunner:
    """The native early exit of a forest, and what its sums mean."""

    def __init__(self, forest: Forest, order: NDArray[np.int32], rule: ExitRule) -> None:
        self.forest, self.order, self.rule = forest, order, rule
        self._native = _core.EarlyExit(
            forest._arrays,
            order=order,
            increments=rule.increments(forest),
            weights=rule.weights,
            lower=rule.lower,
            upper=rule.upper,
            start=0,
            seed=rule.seed,
            shuffle_rows=rule.shuffle == "row",
        )
        # Rounding each leaf to the grid moves a sum by at most half a step a tree; closer sums are decided exactly.
        tolerance = 0 if rule.kind == "votes" else forest.n_trees + 2
        self._decision = (*map(int, forest._integer_classes), rule.threshold(forest), tolerance)

    def labels(self, rows: NDArray[Any], n_threads: int | None) -> NDArray[Any]:
        out = np.empty(len(rows), np.int64)
        self._native.labels(rows, out, self.forest._engine, *self._decision, thread_count(n_threads))
        classes = self.forest.classes
        return out if classes is None or self.forest._integer_classes is classes else classes.take(out)

    def run(self, rows: NDArray[Any], n_threads: int | None) -> Run:
        n = len(rows)
        sums, trees, sides = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.uint8)
        self._native.run(rows, sums, trees, sides, thread_count(n_threads))
        complete = trees == self.forest.n_trees
        scores = self._scores(sums, trees)
        if self.rule.kind == "scores" and complete.any():
            scores[complete] = self.forest.scores(rows[complete], n_threads)[:, -1]
        reason = np.where(complete, "complete", "decided")
        return Run(self.labels(rows, n_threads), scores, trees, self._steps(rows, trees, n_threads), reason)

    def _scores(self, sums: NDArray[np.int32], trees: NDArray[np.int32]) -> NDArray[np.float64]:
        asked = np.maximum(trees, 1)
        values: NDArray[np.float64] = sums * self.rule.step
        if self.rule.kind == "votes":
            return values / asked
        if self.forest.n_outputs == 2:
            return values / asked + 0.5
        total = values + self.forest.base_score[0]
        return total if self.forest.aggregation == "sum" else total / asked

    def _steps(self, rows: NDArray[Any], trees: NDArray[np.int32], n_threads: int | None) -> NDArray[np.int64]:
        """Depths of the leaves reached in the trees asked; an expectation where every row has an order of its own."""
        depth = self.forest.node_depth[self.forest.apply(rows, n_threads)]
        if self.rule.shuffle == "row":
            expected: NDArray[np.float64] = depth.mean(axis=1) * trees
            return np.rint(expected).astype(np.int64)
        asked = np.arange(len(self.order)) < trees[:, None]
        steps: NDArray[np.int64] = (depth[:, self.order] * asked).sum(axis=1, dtype=np.int64)
        return steps

    def probability(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The second class's probability that goes with `scores`."""
        if self.rule.kind == "votes" or self.forest.n_outputs == 2:
            return scores
        return reference.link(self.forest, scores[:, None])[:, 0]


def load(path: str | PathLike[str]) -> Forest | Predictor:
    """Load a ``.scurry`` file; nothing in it is executed.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Forest or Predictor
        What was saved.

    Examples
    --------
    >>> import scurry, tempfile, os
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> forest = scurry.Forest.from_trees([stump])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     forest.save(os.path.join(folder, "stump.scurry"))
    ...     scurry.load(os.path.join(folder, "stump.scurry")).digest == forest.digest
    True
    """
    container = read_container(path)
    if container.kind not in ("forest", "predictor"):
        raise FormatError(f"{path} holds a {container.kind!r}, which this version of scurry does not know")
    forest = Forest.from_container(container)
    if container.kind == "forest":
        return forest
    plan = Plan.from_container(container)
    with container.reading("predictor"):
        return Predictor(forest, plan)
