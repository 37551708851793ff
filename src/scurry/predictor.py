"""Predictor: a forest run by a plan. A thin shell over the native core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_count
from scurry.errors import FormatError, InputError
from scurry.forest import Forest
from scurry.forest.rows import as_rows, thread_count
from scurry.forest.storage import digest, read_container, write_container
from scurry.plan import ExitRule, LeaderRule, Plan, StepRule, told
from scurry.runners.exits import ExitRunner, FullRunner, LeaderRunner, Run
from scurry.runners.ledger import Ledger
from scurry.runners.steps import AbortFlag, Answer, AnytimeRunner, Budget

if TYPE_CHECKING:
    from scurry.runners.acquire import Acquisition


class Predictor:
    """A forest and the plan that runs it.

    Parameters
    ----------
    forest : Forest
    plan : Plan

    Attributes
    ----------
    ledger : Ledger
        What has been paid for features acquired through this predictor: every purchase, until it is cleared.

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
        self.forest, self.plan, self.ledger = forest, plan, Ledger()

    @classmethod
    def full(cls, forest: Forest) -> Self:
        """A predictor that asks every tree."""
        return cls(forest, Plan(order=np.arange(forest.n_trees, dtype=np.int32)))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything a saved predictor holds, as hex."""
        return digest(*self._parts())

    @property
    def classes(self) -> NDArray[Any] | None:
        """The model's own labels."""
        return self.forest.classes

    @cached_property
    def coded(self) -> Predictor:
        """The same predictor, whose labels are the numbers of the classes."""
        return Predictor(self.forest.replace(classes=np.arange(self.forest.n_classes)), self.plan)

    @cached_property
    def _runner(self) -> FullRunner | ExitRunner | LeaderRunner | AnytimeRunner:
        match self.plan.stop:
            case ExitRule() as rule:
                return ExitRunner(self.forest, self.plan.order, rule)
            case LeaderRule() as rule:
                return LeaderRunner(self.forest, self.plan.order, rule)
            case StepRule() as rule:
                return AnytimeRunner(self.forest, self.plan.order, rule)
        return FullRunner(self.forest)

    def _work(
        self, X: Any, n_threads: int | None, max_steps: int | None, time_us: float | None, abort: AbortFlag | None
    ) -> tuple[Any, ...]:
        """What the runner is called with: rows, threads, and the budget if it keeps one."""
        rows, threads = as_rows(self.forest, X), 1 if n_threads == 1 else thread_count(n_threads)
        if isinstance(self._runner, AnytimeRunner):
            return rows, threads, Budget.of(max_steps, time_us, abort)
        if max_steps is not None or time_us is not None or abort is not None:
            raise InputError(
                "max_steps, time_us and abort need a plan that can stop after any step, and this one is of method "
                f"{self.plan.facts.get('method', 'full')!r}; make one with scurry.anytime(model, X_order, y_order)"
            )
        return rows, threads

    def predict(
        self,
        X: Any,
        n_threads: int | None = 1,
        *,
        max_steps: int | None = None,
        time_us: float | None = None,
        abort: AbortFlag | None = None,
    ) -> NDArray[Any]:
        """Labels for each row, stopping early where the plan or the budget says.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1
            None uses all cores.
        max_steps : int, optional
            Of an anytime plan: how many steps each row may take. With 0 all rows are answered from the roots.
        time_us : float, optional
            Of an anytime plan: the microseconds from the start of each row's work to its answer.
        abort : AbortFlag, optional
            Of an anytime plan: once another thread sets it, rows are answered with what is known of them.

        Returns
        -------
        array of shape (n_rows,)
        """
        return self._runner.labels(*self._work(X, n_threads, max_steps, time_us, abort))

    def predict_proba(
        self,
        X: Any,
        n_threads: int | None = 1,
        *,
        max_steps: int | None = None,
        time_us: float | None = None,
        abort: AbortFlag | None = None,
    ) -> NDArray[np.float64]:
        """Class probabilities as far as the work done tells; the model's own where all of it was done.

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
        return self._runner.probabilities(*self._work(X, n_threads, max_steps, time_us, abort))

    def run(
        self,
        X: Any,
        n_threads: int | None = 1,
        *,
        max_steps: int | None = None,
        time_us: float | None = None,
        abort: AbortFlag | None = None,
    ) -> Run:
        """Predict and report, per row, how much work that took and why it ended.

        Node tests are counted at their first use, from `X` as it then is: read them before writing to an array that was
        passed.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1
        max_steps, time_us, abort : optional
            As for `predict`.

        Returns
        -------
        Run
        """
        return self._runner.run(*self._work(X, n_threads, max_steps, time_us, abort))

    def stream(self, x: Any, *, every: int = 1) -> Iterator[Answer]:
        """The answers an anytime plan has for one row: before the first step, after each `every` steps, after the last.

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
        if not isinstance(self._runner, AnytimeRunner):
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
    ) -> Acquisition:
        """Predict rows whose features are not at hand: each is asked for when a node first needs it.

        What was paid stays in `ledger`. If `get_feature` raises, the trees that need the feature answer with the node
        they have reached, the others go on, and so do the other rows.

        Parameters
        ----------
        get_feature : callable
            ``get_feature(row, feature)`` is the value of a feature (by name; by index in a forest without names) in row
            0, 1, …, ``n_rows - 1``. None and NaN are missing values. A mapping of feature to value may be returned
            where several are measured at once: they are kept, and paid for if they are used.
        n_rows : int, default 1
        feature_costs, groups, group_costs : optional
            What a row pays, as in `scurry.prune`: by default 1 for every feature.
        max_cost : float, optional
            What a row may pay. A tree whose next feature would exceed it answers with the node it has reached.
        order : {"plan", "cheapest"}
            "cheapest" buys, of all features that trees wait for, the cheapest first. Early exits need "plan".

        Returns
        -------
        Acquisition
            ``labels, scores, costs, bought, stop_reason, errors, …``, one for each row.

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
        >>> predictor.ledger
        Ledger(n_rows=4, n_purchases=5, total_cost=13)
        """
        from scurry.costs import FeatureCosts
        from scurry.runners.acquire import acquire

        costs = FeatureCosts.of(
            self.forest, feature_costs=feature_costs, groups=groups, group_costs=group_costs, step_cost=0.0
        )
        return acquire(
            self.forest, self.plan, get_feature, n_rows, costs=costs, max_cost=max_cost, order=order, ledger=self.ledger
        )

    def summary(self) -> Summary:
        """What the plan promises, and what was measured when it was made."""
        return Summary(self.forest, self.plan)

    def save(self, path: str | PathLike[str]) -> None:
        """Write forest and plan to a ``.scurry`` file that executes nothing when loaded.

        Parameters
        ----------
        path : str or path
        """
        write_container(path, "predictor", *self._parts())

    def _parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        forest_header, forest_arrays = self.forest.to_parts()
        plan_header, plan_arrays = self.plan.to_parts()
        return forest_header | {"plan": plan_header}, forest_arrays | plan_arrays

    def __reduce__(self) -> tuple[Any, ...]:
        return Predictor, (self.forest, self.plan)  # what else it holds is made at the first prediction

    def __repr__(self) -> str:
        return f"Predictor({self.forest!r}, method={self.plan.facts.get('method', 'full')!r})"


class Summary:
    """A predictor's promise and measurements; print it."""

    def __init__(self, forest: Forest, plan: Plan) -> None:
        self.facts = {"forest": repr(forest)} | plan.facts

    def __str__(self) -> str:
        lines = told(self.facts)
        width = max(map(len, lines))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in lines.items())

    __repr__ = __str__


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
