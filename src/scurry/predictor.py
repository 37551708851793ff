"""Predictor: a forest run by a plan. A thin shell over the native core."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import RandomState, check_count, check_flag, check_instance, read_column
from scurry.costs import FeatureCosts
from scurry.errors import FormatError, InputError, warn
from scurry.forest import Forest, RowCall, as_rows, in_blocks, thread_count, warn_of_other_order
from scurry.forest.files.storage import digest, read_container, write_container
from scurry.formatting import align
from scurry.importers import import_for
from scurry.plan import Plan
from scurry.runners import runner_of
from scurry.runners.cells import CellRunner
from scurry.runners.receipts import Receipt, find_trees, write_receipt
from scurry.runners.runner import NO_LIMIT, AbortFlag, Budget, Run, Runner
from scurry.runners.sentinels import TopKRunner
from scurry.runners.steps import Answer, StepRunner
from scurry.skops import check_trusted

# Promises and features that are bought one at a time are loaded at first use: most processes only predict.
if TYPE_CHECKING:
    from scurry.promises import Audit, Certificate, Promise
    from scurry.runners.acquisition.acquire import Acquisition
    from scurry.runners.acquisition.ledger import Ledger
    from scurry.runners.acquisition.row_walk import Terms
    from scurry.runners.acquisition.visit import Visit

# What rules of `scurry.stopping` are called in files.
_RULE_CLASSES = {
    "vote rule": "VoteRule",
    "weighted vote rule": "WeightedVoteRule",
    "plurality rule": "PluralityRule",
    "rule for answers": "AnswerRule",
    "margin rule": "MarginFit",
    "leader rule": "LeaderFit",
    "Fan rule": "FanFit",
}
_LITTLE_SAVED = 0.85  # of all trees: rules and estimates take about what the others of a row would


class Predictor:
    """A forest and the plan that runs it. Immutable, and safe to use from several threads.

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
        check_instance("forest", forest, Forest, hint="; import a model with scurry.from_model(model)")
        check_instance("plan", plan, Plan)
        plan.check(forest)
        self.forest, self.plan = forest, plan

    @classmethod
    def full(
        cls, forest: Forest, certificate: Certificate | None = None, feature_costs: FeatureCosts | None = None
    ) -> Self:
        """Return a predictor that evaluates every tree.

        Parameters
        ----------
        forest : Forest
        certificate, feature_costs
            As of `scurry.Plan`.

        Returns
        -------
        Predictor
        """
        check_instance("forest", forest, Forest, hint="; import a model with scurry.from_model(model)")
        return cls(forest, Plan.full(forest, certificate, feature_costs))

    @classmethod
    def from_rule(cls, forest: Forest, rule: Any, *, shuffle: str = "fixed", random_state: RandomState = None) -> Self:
        """Return a predictor that stops rows by a rule of `scurry.stopping`.

        It runs the rule as it is. The summary says what the rule promises by construction, which is nothing for rules
        that were fitted to rows; `scurry.early_exit` fits rules, and tests on other rows what it promises.

        Parameters
        ----------
        forest : Forest
        rule : VoteRule, PluralityRule, WeightedVoteRule, MarginFit, FanFit or LeaderFit
            A rule on votes must have a voter for each tree. Of a plurality rule that draws one of several policies, the
            strictest runs, and it goes on where nothing but a tie is left, to the same label. A rule on weighted votes
            must be solved for ``forest.vote_weights``; ``forest.with_vote_weights(weights)`` gives trees other weights.
            A rule on scores must be fitted to ``forest.tree_scores(X)``, with ``forest.score_threshold`` as its
            `decision_threshold` or ``forest.score_start`` as its `base_score`.
        shuffle : {"fixed", "row"}
            For a VoteRule, which asks voters in random order: one order for all rows, or one for each row, drawn by its
            values.
        random_state : int, Generator, RandomState or None
            Draws the order of the trees for a rule on votes.

        Returns
        -------
        Predictor
            Rows that are evaluated in full get the model's own label, or that of the full vote.

        Raises
        ------
        InputError
            If the rule does not fit the forest.

        Examples
        --------
        >>> import scurry
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> forest = scurry.from_model(RandomForestClassifier(51, random_state=0).fit(X, y))
        >>> rule = scurry.stopping.solve(n_voters=51, max_disagreement=0.01)
        >>> fast = scurry.Predictor.from_rule(forest, rule, random_state=0)
        >>> print(fast.promise.describe())
        Each row gets another label than the full vote's with probability at most 1 %, over random orders of the trees.
        >>> fast.run(X).mean_trees < 20
        True
        """
        from scurry.runners.rules import plan_of  # rules need scipy, and predictions do not

        return cls(forest, plan_of(forest, rule, shuffle=shuffle, random_state=random_state))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything a saved predictor holds, as hex."""
        return digest(*self.to_parts())

    @property
    def classes(self) -> NDArray[Any] | None:
        """The model's own labels."""
        return self.forest.classes

    @property
    def certificate(self) -> Certificate | None:
        """How the plan came about and what proves its promise; None for a plan made by hand."""
        return self.plan.certificate

    @property
    def promise(self) -> Promise | None:
        """What may change, how much and how surely; None if nothing is promised."""
        return None if self.plan.certificate is None else self.plan.certificate.promise

    @property
    def feature_costs(self) -> FeatureCosts | None:
        """What rows pay for features; None if the predictor was made without prices."""
        return self.plan.feature_costs

    def with_feature_costs(
        self, feature_costs: Any = None, *, groups: Any = None, group_costs: Any = None, step_cost: float = 0.0
    ) -> Predictor:
        """Return the same predictor with prices, which it keeps, saves, and asks of rows by itself.

        Predictors of ``path.at(promise=…)`` and of `FeatureBudgetClassifier` have their prices already.

        Parameters
        ----------
        feature_costs, groups, group_costs, step_cost : optional
            As in `scurry.prune`.

        Returns
        -------
        Predictor

        Examples
        --------
        >>> import scurry
        >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
        ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
        >>> priced = scurry.Predictor.full(scurry.Forest.from_trees([stump])).with_feature_costs([12.5])
        >>> priced.start_row().next_feature.cost
        12.5
        """
        costs = FeatureCosts.of(
            self.forest, feature_costs=feature_costs, groups=groups, group_costs=group_costs, step_cost=step_cost
        )
        return Predictor(self.forest, replace(self.plan, feature_costs=costs))

    def _agree_terms(
        self, feature_costs: Any, groups: Any, group_costs: Any, max_cost: float | None, order: str
    ) -> Terms:
        """Return what rows pay, at most, and in which order: by the prices given, or by those kept."""
        from scurry.runners.acquisition.row_walk import Terms

        costs = self.feature_costs
        if costs is None or any(given is not None for given in (feature_costs, groups, group_costs)):
            costs = FeatureCosts.of(self.forest, feature_costs=feature_costs, groups=groups, group_costs=group_costs)
        return Terms.of(self, costs, max_cost, order)

    @cached_property
    def coded(self) -> Predictor:
        """The same predictor, whose labels are the numbers of the classes."""
        return Predictor(self.forest.replace(classes=np.arange(self.forest.n_classes)), self.plan)

    @cached_property
    def _runner(self) -> Runner:
        # Made at the first prediction: lowering a forest to native tables takes longer than loading it.
        return runner_of(self.forest, self.plan)

    def _work(
        self,
        X: Any,
        n_threads: int | None,
        max_steps: int | None,
        time_us: float | None,
        abort: AbortFlag | None,
        *,
        as_bytes: bool = False,
    ) -> tuple[NDArray[Any], int, Budget]:
        """Check the arguments of a prediction; return what runners are called with, bytes if they may be."""
        if as_bytes and type(X) is not np.ndarray and self._runner.reads_bytes:
            rows = self.forest.engine_rows(X)
        else:
            rows = as_rows(self.forest, X)
        threads = 1 if n_threads == 1 else thread_count(n_threads)
        if max_steps is None and time_us is None and abort is None:
            return rows, threads, NO_LIMIT  # the common case, which single rows have to pay for in full
        budget = Budget.of(max_steps, time_us, abort)
        if budget != NO_LIMIT and not self.plan.by_step:
            raise InputError(
                "max_steps, time_us and abort need a plan that can stop after any step, and this one is of method "
                f"{self.plan.method!r}; make one with scurry.anytime(model, X_order, y_order)"
            )
        return rows, threads, budget

    def predict(
        self,
        X: Any,
        n_threads: int | None = 1,
        *,
        groups: Any = None,
        max_steps: int | None = None,
        time_us: float | None = None,
        abort: AbortFlag | None = None,
    ) -> NDArray[Any]:
        """Predict the label or the value of each row, stopping early where the plan or the budget says.

        A regressor whose row stops early answers with the plan's estimate of the full value.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1
            None uses all cores.
        groups : array of shape (n_rows,), optional
            For a plan that keeps the top k: the query of each row, a number or text. Rows are then scored so that the
            promised k of every query have higher scores than its other rows.
        max_steps : int, optional
            For an anytime plan: the number of steps each row may take. With 0 all rows are answered from the roots.
        time_us : float, optional
            For an anytime plan: the microseconds from the start of each row's work to its answer.
        abort : AbortFlag, optional
            For an anytime plan: once another thread sets it, rows are answered with what is known so far.

        Returns
        -------
        array of shape (n_rows,)
        """
        groups = read_column("groups", groups, X)
        if type(X) is not np.ndarray and groups is None:
            limits: dict[str, Any] = {"max_steps": max_steps, "time_us": time_us, "abort": abort}
            if (answers := in_blocks(X, lambda rows: self.predict(rows, n_threads, **limits))) is not None:
                return answers
        work = self._work(X, n_threads, max_steps, time_us, abort, as_bytes=groups is None)
        return self._runner.labels(*work) if groups is None else self._ranker.score_in_groups(work[0], groups, work[1])

    def predict_proba(
        self,
        X: Any,
        n_threads: int | None = 1,
        *,
        max_steps: int | None = None,
        time_us: float | None = None,
        abort: AbortFlag | None = None,
    ) -> NDArray[np.float64]:
        """Predict class probabilities: the model's own where every tree was evaluated, else estimates of them.

        A row that exits early has the probability of the score that its plan's `ScoreMap` expects of all trees. It
        never speaks for another class than `predict` answers. An anytime plan answers from the nodes that rows have
        reached.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1
        max_steps, time_us, abort : optional
            As for `predict`.

        Returns
        -------
        float64 array of shape (n_rows, n_classes)
        """
        if type(X) is not np.ndarray:
            limits: dict[str, Any] = {"max_steps": max_steps, "time_us": time_us, "abort": abort}
            if (answers := in_blocks(X, lambda rows: self.predict_proba(rows, n_threads, **limits))) is not None:
                return answers
        return self._runner.probabilities(*self._work(X, n_threads, max_steps, time_us, abort, as_bytes=True))

    def one_row(self, answer: str = "label") -> Callable[[Any], Any]:
        """Return a function that answers for one row, several times as fast as `predict`.

        The function may be called from any thread. Its answers are those of `predict` and `predict_proba`, as Python's
        own objects. Labels of early exits and all answers of sentinel plans and full models are found without making
        arrays; the other answers take as long as `predict` and `predict_proba`.

        Parameters
        ----------
        answer : {"label", "probabilities"}
            A label, which is a float for a regressor; or a tuple with the probability of each class.

        Returns
        -------
        callable
            ``call(row)`` takes an array of shape (n_features,) or (1, n_features). float32 and float64 are read where
            they lie; whatever else `predict` takes is converted first, which takes longer.

        Examples
        --------
        >>> import scurry
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = RandomForestClassifier(51, random_state=0).fit(X[:300], y[:300])
        >>> fast = scurry.early_exit(model, X[300:], max_disagreement=0.05, method="minimixed", random_state=0)
        >>> call = fast.one_row()
        >>> all(call(row) == label for row, label in zip(X[300:], fast.predict(X[300:])))
        True
        """
        runner = self._runner
        call = RowCall.of(
            self.forest,
            answer,
            lambda rows: runner.labels(rows, 1, NO_LIMIT),
            lambda rows: runner.probabilities(rows, 1, NO_LIMIT),
        )
        return runner.one_row(call)

    def run(
        self,
        X: Any,
        n_threads: int | None = 1,
        *,
        groups: Any = None,
        max_steps: int | None = None,
        time_us: float | None = None,
        abort: AbortFlag | None = None,
    ) -> Run:
        """Predict, and report how much work each row took and why it ended.

        Node tests are counted at their first use, from `X` as it then is: read them before writing to an array that was
        passed.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1
        groups, max_steps, time_us, abort : optional
            As for `predict`.

        Returns
        -------
        Run
        """
        work = self._work(X, n_threads, max_steps, time_us, abort)
        groups = read_column("groups", groups, X)
        run = self._runner.run(*work) if groups is None else self._ranker.rank(work[0], groups, work[1])
        return replace(run, find_receipt=lambda row: self._write_receipt(work[0], run, row))

    def _write_receipt(self, rows: NDArray[Any], run: Run, row: int) -> Receipt:
        by_step, plan, runner = self.plan.by_step, self.plan, self._runner
        if isinstance(runner, CellRunner):
            trees = np.flatnonzero(runner.trees_evaluated(rows[row : row + 1])[0]).astype(np.int32)
        elif by_step:
            trees = np.unique(plan.order[: run.steps[row]])
        else:
            trees = find_trees(plan, int(run.trees[row]))
        return write_receipt(
            self.forest,
            plan,
            rows,
            row,
            answer=run.labels[row],
            score=run.scores[row],
            stop_reason=str(run.stop_reason[row]),
            trees=trees,
            n_steps=int(run.steps[row]) if by_step else None,
        )

    @property
    def _ranker(self) -> TopKRunner:
        if not isinstance(self._runner, TopKRunner):
            raise InputError(
                "groups are for plans that keep the top k of queries, and this one answers each row by itself; leave "
                "them out",
                argument="groups",
            )
        return self._runner

    def stream(self, x: Any, *, every: int = 1) -> Iterator[Answer]:
        """Yield the answers of an anytime plan for one row: before the first step, after each `every`, after the last.

        Parameters
        ----------
        x : array of shape (n_features,) or (1, n_features), or DataFrame of one row
        every : int, default 1

        Yields
        ------
        Answer
            ``steps, label, probabilities, complete``.
        """
        row = as_rows(self.forest, x)
        if len(row) != 1:
            raise InputError(f"stream answers for one row, got {len(row)}; call it for each")
        if not isinstance(self._runner, StepRunner):
            raise InputError("stream needs a plan that can stop after any step; make one with scurry.anytime")
        return self._runner.stream(row, check_count("every", every))

    def acquire(
        self,
        get_feature: Callable[[int, Any], Any],
        n_rows: int = 1,
        *,
        feature_costs: Any = None,
        groups: Any = None,
        group_costs: Any = None,
        max_cost: float | None = None,
        order: str = "plan",
        ledger: Ledger | None = None,
    ) -> Acquisition:
        """Predict rows whose features are not known yet: each feature is requested when a node first needs it.

        If `get_feature` raises an error, the trees that need the feature answer with the node they have reached. The
        other trees continue, and so do the other rows. A warning says how many rows failed, and what was raised first.

        Parameters
        ----------
        get_feature : callable
            ``get_feature(row, feature)`` returns the value of a feature in row 0, 1, …, ``n_rows - 1``. It gets the
            feature's name if the forest has `feature_names`, as one that was trained on a DataFrame has, and else its
            column number. None and NaN are missing values. It may return a mapping of feature to value where several
            are measured at once: they are kept, and paid for if they are used.
        n_rows : int, default 1
        feature_costs, groups, group_costs : optional
            What a row pays, as in `scurry.prune`; by default the predictor's own `feature_costs`, or 1 for every
            feature if it has none. Node tests cost nothing here.
        max_cost : float, optional
            The most that each row may pay, unlike in `scurry.prune`, where it limits the mean of all rows. A tree whose
            next feature would exceed it answers with the node it has reached, and a warning says how many rows did.
        order : {"plan", "cheapest", "informative"}
            As in `start_row`. Early exits need "plan".
        ledger : Ledger, optional
            Where purchases are recorded, to continue the account of earlier calls. By default a new one.

        Returns
        -------
        Acquisition
            ``labels, scores, costs, bought, stop_reason, errors, …``, one for each row, and their `ledger`.

        Examples
        --------
        >>> import scurry
        >>> tree = {"feature": [1, -1, 0, -1, -1], "threshold": [0.5, 0, 0.5, 0, 0], "left": [1, -1, 3, -1, -1],
        ...         "right": [2, -1, 4, -1, -1], "value": [[0.5, 0.5], [0.9, 0.1], [0.3, 0.7], [0.8, 0.2], [0, 1]]}
        >>> predictor = scurry.Predictor.full(scurry.Forest.from_trees([tree]))
        >>> X = [[0.0, 0.0], [0.0, 1.0]]
        >>> out = predictor.acquire(lambda row, feature: X[row][feature], 2, feature_costs=[5, 2])
        >>> out.labels.tolist(), out.costs.tolist()
        ([0, 0], [2.0, 7.0])
        >>> out = predictor.acquire(lambda row, feature: X[row][feature], 2, feature_costs=[5, 2], max_cost=3)
        >>> out.labels.tolist(), out.stop_reason.tolist()
        ([0, 1], ['complete', 'max_cost'])
        >>> out.ledger
        Ledger(n_rows=2, n_purchases=2, total_cost=4)
        """
        from scurry.runners.acquisition.acquire import acquire
        from scurry.runners.acquisition.ledger import Ledger

        terms = self._agree_terms(feature_costs, groups, group_costs, max_cost, order)
        return acquire(terms, get_feature, n_rows, Ledger() if ledger is None else ledger)

    def start_row(
        self,
        known: Any = None,
        *,
        feature_costs: Any = None,
        groups: Any = None,
        group_costs: Any = None,
        max_cost: float | None = None,
        order: str = "plan",
        row: int | None = None,
    ) -> Visit:
        """Start to predict a row whose features arrive one at a time, perhaps days apart.

        Parameters
        ----------
        known : mapping of feature to value, array of shape (n_features,), or table of one row, optional
            What is known already, and costs nothing. NaN and None are not known yet.
        feature_costs, groups, group_costs : optional
            What a row pays, as in `scurry.prune`; by default the predictor's own `feature_costs`, or 1 for every
            feature if it has none. Node tests cost nothing here.
        max_cost : float, optional
            The most that this row may pay. A tree whose next feature would exceed it answers with the node it has
            reached.
        order : {"plan", "cheapest", "informative"}
            Which feature is needed next: the one that the plan's next tree tests; of all features that trees wait for,
            the cheapest; or the one that is expected to settle most of the answer for its cost, judged by the training
            rows that passed each node. Early exits keep their promise in the plan's order, so they need "plan".
        row : int, optional
            Number of the row, by which a randomised plan draws. Such a plan needs one, another for every row.

        Returns
        -------
        Visit
            With `next_feature`, `give`, `unavailable`, `answer` and `save`.

        Examples
        --------
        >>> import scurry
        >>> tree = {"feature": [1, -1, 0, -1, -1], "threshold": [0.5, 0, 0.5, 0, 0], "left": [1, -1, 3, -1, -1],
        ...         "right": [2, -1, 4, -1, -1], "value": [[0.5, 0.5], [0.9, 0.1], [0.3, 0.7], [0.8, 0.2], [0, 1]]}
        >>> predictor = scurry.Predictor.full(scurry.Forest.from_trees([tree]))
        >>> visit = predictor.start_row(known={1: 0.7}, feature_costs=[5, 2])
        >>> while visit.next_feature is not None:
        ...     visit.give(visit.next_feature.name, 0.2)  # here a patient would be sent to the laboratory
        >>> visit.answer.label, visit.answer.cost, visit.answer.why
        (0, 5.0, 'the only tree is evaluated')
        """
        from scurry.runners.acquisition.known import read_known
        from scurry.runners.acquisition.visit import Visit

        terms = self._agree_terms(feature_costs, groups, group_costs, max_cost, order)
        is_randomised = self.plan.exit_rule is not None and self.plan.exit_rule.is_randomised
        if row is None and is_randomised:
            raise InputError(
                "this plan is randomised, and its promise needs a new draw for every row; pass the row's number as "
                "row=0, 1, …",
                argument="row",
            )
        number = 0 if row is None else check_count("row", row, 0)
        return Visit(terms, read_known(self.forest, known), number)

    def audit(
        self,
        X: Any,
        y: Any = None,
        *,
        promise: Promise | str | None = None,
        groups: Any = None,
        model: Any = None,
        n_threads: int | None = 1,
    ) -> Audit:
        """Test the promise on rows, perhaps recent ones: the full model answers each of them too.

        Rows should be independent draws, and should not be the calibration rows, which chose the rule: there is a
        warning if they are. To look at rows again and again as they arrive, use `scurry.watch`, whose alarms allow for
        that.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        y : array of shape (n_rows,), optional
            Known labels. The promises `Recall` and `Accuracy` need them.
        promise : Promise or str, optional
            What to test, such as ``scurry.promises.Labels(0.01)`` or its text, ``"labels<=1%"``. By default what the
            predictor promises; needed for one that promises nothing, such as one with a rule of your own. Choose it,
            and the rule, before you look at these rows: the verdict is about rows that had no part in either.
        groups : str or array of shape (n_rows,), optional
            The query of each row for the promise `TopK`; the group of each row for a promise about groups, which
            cannot be tested without: one row of each is drawn. Or the name of a column of a frame `X`.
        model : estimator, booster, path or Forest, optional
            For a predictor of `scurry.compress`: the model that it was made from.
        n_threads : int or None, default 1

        Returns
        -------
        Audit
            ``rate`` with its bounds ``lower`` and ``upper``, and ``verdict``: "kept", "broken" or "too few rows".

        Raises
        ------
        InputError
            If nothing is promised about answers and `promise` is None, or if labels or groups are missing that the
            promise needs.
        """
        from scurry.promises import read_promise
        from scurry.runners.comparison import audit, check_auditable, plan_in_full

        groups = read_column("groups", groups, X)
        asked = check_auditable(self.forest, self.plan, read_promise(promise, self.classes), y, groups, model)
        if model is None:
            full = Predictor(self.forest, plan_in_full(self.forest, self.plan, asked))
        else:
            full = Predictor.full(read_forest(model, X))
        rows, certificate = as_rows(self.forest, X), self.plan.certificate
        if certificate is not None and certificate.rows is not None and certificate.rows.is_of(rows):
            warn(
                "these are the rows that the promise was calibrated on: they chose the rule, which breaks it more "
                "rarely on them than on others. Audit rows that came later"
            )
        audited = audit(self, full, asked, rows, y=y, groups=groups, n_threads=n_threads)
        if y is not None:
            warn_of_other_order(self.forest, X, y, rows, ("X", "y"))
        return audited

    def summary(self) -> Summary:
        """Return what the plan promises and what was measured when it was made; print it."""
        return Summary(self.forest, self.plan)

    def save(self, path: str | PathLike[str], *, engine: bool = False) -> None:
        """Write forest and plan to a ``.scurry`` file that executes nothing when loaded.

        Parameters
        ----------
        path : str or path
        engine : bool, default False
            Whether the forest's native engine is written too, see `Forest.save`.
        """
        write_container(path, "predictor", *self.to_file_parts(engine=check_flag("engine", engine)))

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return a header for JSON and arrays, of the forest and of the plan."""
        header, arrays = self.forest.to_parts()
        plan_header, plan_arrays = self.plan.to_parts()
        return header | {"plan": plan_header}, arrays | plan_arrays

    def to_file_parts(self, *, engine: bool = False) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return a header for JSON and arrays as a file has them: of the forest, packed, its front, and the plan."""
        parts = self.forest.to_packed_parts()
        header, arrays = self.forest.with_front(*(self.forest.with_engine(*parts) if engine else parts))
        plan_header, plan_arrays = self.plan.to_packed_parts()
        return header | {"plan": plan_header}, arrays | plan_arrays

    def __reduce__(self) -> tuple[Any, ...]:
        return Predictor, (self.forest, self.plan)  # everything else is made anew at the first prediction

    def __repr__(self) -> str:
        return f"Predictor({self.forest!r}, method={self.plan.method!r})"


class Summary(str):
    """A predictor's promise and measurements, as a text.

    Attributes
    ----------
    lines : dict
        The lines of the text by their names.
    """

    lines: dict[str, str]

    def __new__(cls, forest: Forest, plan: Plan) -> Self:
        """Describe a plan of a forest."""
        about = _describe_own(plan) if plan.certificate is None else plan.certificate.lines()
        front = {} if forest.front is None else {"front": forest.front.describe()}
        wrapper = {} if forest.wrapper is None else {"wrapper": forest.wrapper.describe()}
        lines = {"forest": repr(forest)} | front | wrapper | about | _describe_saving(forest, plan)
        made = super().__new__(cls, align(lines))
        made.lines = lines
        return made

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def _describe_own(plan: Plan) -> dict[str, str]:
    """Return what is known of a plan without a certificate: nothing but who decides where rows stop."""
    if plan.exits_early:
        stop = "trees are stopped early by a rule of the caller's"
    elif plan.by_step:
        stop = "steps are taken in an order of the caller's, until a budget ends"
    else:
        return {"method": plan.method}
    tested = "; audit(X, promise=…) tests a promise on rows" if plan.exits_early else ""
    return {"promise": f"Nothing is promised for new rows{tested}.", "method": f"{plan.method}: {stop}"}


def _describe_saving(forest: Forest, plan: Plan) -> dict[str, str]:
    """Return a line that says so where rows evaluate nearly all trees; else nothing."""
    trees = None if plan.certificate is None else getattr(plan.certificate.measured, "mean_trees", None)
    if trees is None or not plan.exits_early or trees < _LITTLE_SAVED * forest.n_trees:
        return {}
    return {
        "little is saved": "stopping takes time too, so all trees (Predictor.full(forest)) may be as fast, and "
        "their answers are the model's own; a promise that allows more changes saves more"
    }


def load(path: str | PathLike[str], *, trusted: Sequence[str] = ()) -> Forest | Predictor:
    """Load a ``.scurry`` file; nothing in it is executed.

    Parameters
    ----------
    path : str or path
    trusted : sequence of str
        For a file with transformers of a pipeline that could not be folded: the types to trust besides those that skops
        trusts, such as ``["mypackage.MyTransformer"]``. An error names those that a file needs.

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
    check_trusted(trusted)
    container = read_container(path)
    if container.kind == "visit":
        raise FormatError(f"{path} holds a visit; use scurry.Visit.load(path, predictor)")
    if container.kind == "cascade":
        raise FormatError(f"{path} holds a cascade; use scurry.Cascade.load(path, expensive)")
    if container.kind == "rule":
        held = container.header.get("of")
        raise FormatError(f"{path} holds a {held}; use scurry.stopping.{_RULE_CLASSES.get(str(held), '…')}.load(path)")
    if container.kind == "watch":
        raise FormatError(f"{path} holds the state of a watch; use scurry.Watch.load(path, predictor)")
    if container.kind not in ("forest", "predictor"):
        raise FormatError(f"{path} holds a {container.kind!r}, which this version of scurry does not know")
    forest = Forest.from_container(container, trusted)
    if container.kind == "forest":
        return forest
    plan = Plan.from_container(container)
    with container.reading("predictor"):
        return Predictor(forest, plan)


def read_forest(model: Any, X: Any) -> Forest:
    """Return the forest of a model that a verb got, for rows like `X`, as `scurry.from_model` does.

    A `Predictor` is no model: its plan would be dropped. The error says how to ask for that.
    """
    if isinstance(model, Predictor):
        raise InputError(
            "model is a Predictor, which a verb made already; pass its forest, predictor.forest, for a new plan of it",
            argument="model",
        )
    return model if isinstance(model, Forest) else import_for(model, X)


_without_locks = [0]  # how many modules there were when locks were dropped


def _drop_locks() -> None:
    """Take the locks of scurry's cached properties away, in a process that is about to fork.

    Until Python 3.11 a cached property has a lock; later ones do without. A thread may hold it, and is not there in the
    child to release it: the child would wait for ever. Classes are looked at once, before there is a child: whoever
    touches them later, parent or child, gets a copy of the memory in which they lie.
    """
    if len(sys.modules) == _without_locks[0]:
        return
    _without_locks[0] = len(sys.modules)
    for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == "scurry"]:
        for kind in [value for value in vars(module).values() if isinstance(value, type)]:
            for member in vars(kind).values():
                if isinstance(member, cached_property) and hasattr(member, "lock"):
                    member.lock = nullcontext()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_drop_locks)
