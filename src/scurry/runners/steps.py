"""Running a plan that may stop after any step: budgets, the abort flag, and what is reported of each row."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.checks import check_count, check_number
from scurry.errors import InputError
from scurry.forest import Forest
from scurry.plan import StepRule
from scurry.runners.exits import Run

_REASON_CODES = np.array([0, 2, 3, 4], np.uint8)  # from the core's reasons to STOP_REASONS


class AbortFlag(_core.AbortFlag):
    """A flag by which one thread ends the predictions of another, which then answers with what it has.

    `set` raises the flag, `clear` lowers it, `is_set` tells.

    Examples
    --------
    >>> import scurry
    >>> flag = scurry.AbortFlag()
    >>> flag.set()
    >>> flag.is_set()
    True
    """

    __slots__ = ()


class Answer(NamedTuple):
    """What is known of a row after some steps.

    Attributes
    ----------
    steps : int
    label : scalar
        One of the model's classes, or a regressor's value.
    probabilities : float64 array of shape (n_classes,) or None
        None for a regressor.
    complete : bool
        Whether this is the full model's answer.
    """

    steps: int
    label: Any
    probabilities: NDArray[np.float64] | None
    complete: bool


@dataclass(frozen=True)
class Budget:
    """What each row may spend. Whichever limit is met first ends its work."""

    max_steps: int = sys.maxsize
    time_us: float = np.inf
    abort: AbortFlag | None = None

    @classmethod
    def of(cls, max_steps: int | None, time_us: float | None, abort: AbortFlag | None) -> Self:
        """The budget a caller asks for; None is no limit."""
        n_steps = (
            sys.maxsize if max_steps is None else check_count("max_steps", max_steps, 0, hint="; None runs all steps")
        )
        # An infinite deadline is no deadline, and a caller may compute one.
        if time_us is None or time_us == np.inf:
            time_us = np.inf
        else:
            time_us = check_number("time_us", time_us, hint="; None sets no deadline")
        if abort is not None and not isinstance(abort, AbortFlag):
            raise InputError(f"abort must be a scurry.AbortFlag, got {type(abort).__name__}")
        return cls(min(n_steps, sys.maxsize), time_us, abort)


class AnytimeRunner:
    """The native walk of a forest step by step."""

    def __init__(self, forest: Forest, steps: NDArray[np.int32], rule: StepRule) -> None:
        self.forest, self.n_steps = forest, len(steps)
        steps = np.ascontiguousarray(steps, np.int32)
        self._native = _core.Anytime(
            forest.arrays, classes=forest.engine_labels, steps=steps, weights=rule.weights(forest)
        )
        is_first = np.zeros(len(steps), np.int32)
        is_first[np.unique(steps, return_index=True)[1]] = 1
        self._trees_after = np.concatenate([np.zeros(1, np.int32), is_first.cumsum(dtype=np.int32)])

    def labels(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[Any]:
        """The label of each row, or a regressor's value."""
        if self.forest.classes is None:
            return self._probabilities(rows, n_threads, budget)[:, 0]
        codes = np.empty(len(rows), np.int64)
        self._native.run(rows, n_threads, budget.max_steps, budget.time_us, budget.abort, labels=codes)
        return self.forest.decode(codes)

    def probabilities(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[np.float64]:
        """Class probabilities as far as the steps taken tell, shape (n_rows, n_classes)."""
        if self.forest.classes is None:
            raise InputError("this forest is a regressor and has no probabilities; use predict")
        return self._probabilities(rows, n_threads, budget)

    def run(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> Run:
        """Labels, and how they came about."""
        n, forest = len(rows), self.forest
        codes, values = np.empty(n, np.int64), np.empty((n, max(forest.n_classes, 1)))
        scores, steps = np.empty((n, forest.n_outputs)), np.empty(n, np.int32)
        reasons, time_us = np.empty(n, np.uint8), np.empty(n)
        self._native.run(
            rows,
            n_threads,
            budget.max_steps,
            budget.time_us,
            budget.abort,
            labels=codes,
            probabilities=values,
            scores=scores,
            n_steps=steps,
            reasons=reasons,
            times_us=time_us,
        )
        return Run(
            labels=values[:, 0] if forest.classes is None else forest.decode(codes),
            trees=self._trees_after[steps],
            reason_codes=_REASON_CODES[reasons],
            find_scores=lambda: scores[:, -1] if forest.n_outputs <= 2 else scores,
            count_steps=lambda: steps.astype(np.int64),
            time_us=None if budget.abort is None and np.isinf(budget.time_us) else time_us,
        )

    def stream(self, row: NDArray[Any], every: int) -> Iterator[Answer]:
        """A row's answers before the first step, after each `every` steps, and after the last."""
        walk = _core.AnytimeRow(self._native, row)
        code, values = np.empty(1, np.int64), np.empty(max(self.forest.n_classes, 1))
        while True:
            walk.answer(code, values)
            complete = walk.n_steps == self.n_steps
            if self.forest.classes is None:
                yield Answer(walk.n_steps, values[0], None, complete)
            else:
                yield Answer(walk.n_steps, self.forest.decode(code)[0], values.copy(), complete)
            if complete:
                return
            walk.advance(every)

    def walking_times_us(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """What all steps take each row, without reading it and without an answer, shape (n_rows,)."""
        flag, spent_us = AbortFlag(), []  # a flag, so that rows are walked one by one
        for max_steps in (self.n_steps, 0):
            spent_us.append(np.empty(len(rows)))
            self._native.run(rows, 1, max_steps, np.inf, flag, times_us=spent_us[-1])
        walking: NDArray[np.float64] = np.maximum(spent_us[0] - spent_us[1], 0)
        return walking

    def _probabilities(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[np.float64]:
        values = np.empty((len(rows), max(self.forest.n_classes, 1)))
        self._native.run(rows, n_threads, budget.max_steps, budget.time_us, budget.abort, probabilities=values)
        return values
