"""What all runners share: the budget of a row, the report of a run, and the protocol they follow."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.checks import check_count, check_number
from scurry.errors import InputError
from scurry.forest import Forest, RowCall
from scurry.plan import Plan, StopRule
from scurry.runners.receipts import Receipt

STOP_REASONS = np.array(["complete", "decided", "max_steps", "time", "abort"])
COMPLETE, DECIDED = 0, 1  # positions in STOP_REASONS
_ROWS_AT_ONCE = 1 << 14  # leaves of so many rows in all trees are held while node tests are counted


class AbortFlag(_core.AbortFlag):
    """A flag by which one thread ends the predictions of another, which then answers with what it has.

    Call `set` to raise the flag and `clear` to lower it; `is_set` says whether it is raised.

    Examples
    --------
    >>> import scurry
    >>> flag = scurry.AbortFlag()
    >>> flag.set()
    >>> flag.is_set()
    True
    """

    __slots__ = ()


@dataclass(frozen=True)
class Budget:
    """What each row may spend. The limit that is reached first ends its work."""

    max_steps: int = sys.maxsize
    time_us: float = np.inf
    abort: AbortFlag | None = None

    @classmethod
    def of(cls, max_steps: int | None, time_us: float | None, abort: AbortFlag | None) -> Self:
        """Return the budget a caller asks for; None is no limit."""
        n_steps: float = np.inf
        if max_steps is not None:
            n_steps = check_count("max_steps", max_steps, 0, largest=np.inf, hint="; None runs all steps")
        # An infinite deadline is no deadline, and a caller may compute one.
        if time_us is None or time_us == np.inf:
            time_us = np.inf
        else:
            time_us = check_number("time_us", time_us, hint="; None sets no deadline")
        if abort is not None and not isinstance(abort, AbortFlag):
            raise InputError(f"abort must be a scurry.AbortFlag, got {type(abort).__name__}")
        return cls(int(min(n_steps, sys.maxsize)), time_us, abort)


NO_LIMIT = Budget()


@dataclass(frozen=True, eq=False)
class Run:
    """What happened to each row of a batch.

    Attributes
    ----------
    labels : array of shape (n_rows,)
    trees : int32 array of shape (n_rows,)
        Trees evaluated.
    reason_codes : uint8 array of shape (n_rows,)
        `stop_reason` as an index of ``STOP_REASONS``.
    find_scores, count_steps : callable
        Make `scores` and `steps`, at their first use: that may take longer than the run.
    time_us : float64 array of shape (n_rows,) or None
        What each row took, where rows had a deadline or could be aborted.
    find_receipt : callable or None
        Makes the receipt of a row, from `X` as it then is.
    """

    labels: NDArray[Any]
    trees: NDArray[np.int32]
    reason_codes: NDArray[np.uint8]
    find_scores: Callable[[], NDArray[np.float64]]
    count_steps: Callable[[], NDArray[np.int64]]
    time_us: NDArray[np.float64] | None = None
    find_receipt: Callable[[int], Receipt] | None = None

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """Scores before the link: the model's own where every tree was evaluated, else estimates of them.

        An early exit expects them of the trees not evaluated, by its plan's `ScoreMap`; an anytime plan adds up the
        nodes reached. Shape (n_rows,), or (n_rows, n_classes) for more than two classes. For two classes with a boosted
        score each, the lead of the second.
        """
        return self.find_scores()

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        """Node tests made in the trees evaluated; of an anytime plan, steps of its order. Shape (n_rows,).

        Where every row draws an order of its own, what its number of trees takes on average.
        """
        return self.count_steps()

    @cached_property
    def stop_reason(self) -> NDArray[np.str_]:
        """Why each row's work ended, shape (n_rows,).

        "complete" (every tree was evaluated to the end), "decided" (stopped early), or what ended an anytime run:
        "max_steps", "time" or "abort".
        """
        return STOP_REASONS[self.reason_codes]

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Whether each row's answer is the full model's, shape (n_rows,)."""
        return np.asarray(self.reason_codes == COMPLETE)

    @property
    def mean_trees(self) -> float:
        """Trees evaluated per row, 0 if there are no rows."""
        return float(self.trees.sum() / max(len(self.trees), 1))

    @property
    def mean_steps(self) -> float:
        """Node tests per row, 0 if there are no rows."""
        return float(self.steps.sum() / max(len(self.steps), 1))

    def receipt(self, row: int) -> Receipt:
        """Return why one row got its answer: where it stopped, how surely, and what each feature contributed.

        Parameters
        ----------
        row : int

        Returns
        -------
        Receipt

        Examples
        --------
        >>> import scurry
        >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
        ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
        >>> forest = scurry.Forest.from_trees([stump], n_features=2)
        >>> receipt = scurry.Predictor.full(forest).run([[1.0, 0.0]]).receipt(0)
        >>> receipt.start, receipt.contributions.round(9).tolist(), float(receipt.score)
        (0.5, [0.3, 0.0], 0.8)
        """
        at = check_count("row", row, 0)
        if at >= len(self.trees):
            raise InputError(f"row must be below {len(self.trees)}, the number of rows, got {row}", argument="row")
        if self.find_receipt is None:
            raise InputError("these rows were not run by a Predictor, and have no receipts")
        return self.find_receipt(at)

    def __repr__(self) -> str:
        stopped = float((~self.complete).sum() / max(len(self.trees), 1))
        return f"Run(n_rows={len(self.trees)}, mean_trees={self.mean_trees:.2f}, stopped_early={stopped:.1%})"


class Runner(Protocol):
    """Runs one kind of plan. Rows are a checked matrix; only plans that stop after any step look at the budget.

    Attributes
    ----------
    reads_bytes : bool
        Whether rows may be what `Forest.engine_rows` returns: nothing but engines of the forest itself reads them, and
        nothing is drawn by their values.
    """

    @property
    def reads_bytes(self) -> bool:
        """Whether rows may be bytes."""
        ...

    def labels(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[Any]:
        """Return the label of each row, or a regressor's value."""
        ...

    def probabilities(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[np.float64]:
        """Return class probabilities, shape (n_rows, n_classes)."""
        ...

    def run(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> Run:
        """Return labels, and how much work they took."""
        ...

    def one_row(self, call: RowCall) -> Callable[[Any], Any]:
        """Return a function that answers for one row."""
        ...


@singledispatch
def make_runner(rule: StopRule | None, forest: Forest, plan: Plan) -> Runner:
    """Return what runs `forest` by `plan`, whose stop rule is `rule`. The module of each runner registers its own."""
    raise TypeError(f"no runner is registered for rules of the class {type(rule).__name__}")


class FullRunner:
    """Evaluates every tree: the forest itself."""

    reads_bytes = True

    def __init__(self, forest: Forest) -> None:
        self.forest = forest

    def labels(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[Any]:
        """Return the label of each row, or a regressor's value."""
        return self.forest.predict(rows, n_threads)

    def probabilities(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[np.float64]:
        """Return class probabilities, shape (n_rows, n_classes)."""
        return self.forest.predict_proba(rows, n_threads)

    def run(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> Run:
        """Return labels, and how much work they took."""
        # Scores are computed at their first use, and must not change when the caller writes to the array until then.
        unchanged = rows.copy()
        return Run(
            labels=self.forest.predict(rows, n_threads),
            trees=np.full(len(rows), self.forest.n_trees, np.int32),
            reason_codes=np.full(len(rows), COMPLETE, np.uint8),
            find_scores=lambda: one_column(self.forest.scores(unchanged, n_threads)),
            count_steps=lambda: count_tests(self.forest, rows, n_threads, lambda depth, _: depth.sum(axis=1)),
        )

    def one_row(self, call: RowCall) -> Callable[[Any], Any]:
        """Return a function that answers for one row."""
        return self.forest.engine.one_row(call.answer, **call.options)


@make_runner.register(type(None))
def _(rule: None, forest: Forest, plan: Plan) -> FullRunner:
    return FullRunner(forest)


def count_tests(
    forest: Forest, rows: NDArray[Any], n_threads: int, count: Callable[[NDArray[np.int32], slice], NDArray[Any]]
) -> NDArray[np.int64]:
    """Return node tests of each row: what `count` makes of the depths of its leaves, block by block."""
    tests = np.empty(len(rows), np.int64)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = slice(start, start + _ROWS_AT_ONCE)
        tests[some] = count(forest.node_depth[forest.apply(rows[some], n_threads)], some)
    return tests


def count_tests_in_order(
    forest: Forest, rows: NDArray[Any], n_threads: int, order: NDArray[np.int32], trees: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Return node tests of rows that evaluate their first `trees` trees in `order`."""

    def count(depth: NDArray[np.int32], some: slice) -> NDArray[np.int64]:
        is_evaluated = np.arange(len(order)) < trees[some, None]
        return np.asarray((depth[:, order] * is_evaluated).sum(axis=1), np.int64)

    return count_tests(forest, rows, n_threads, count)


def one_column(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the score of the second class where there are two or fewer, else all."""
    return scores[:, -1] if scores.shape[1] <= 2 else scores
