"""Run plans that may stop after any tree step: at a number of steps, a deadline, or when another thread asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry import _core
from scurry.errors import InputError
from scurry.forest import Forest, RowCall
from scurry.plan import Plan, StepRule
from scurry.runners.runner import AbortFlag, Budget, Run, make_runner

if TYPE_CHECKING:  # loading and predicting mostly do without, and it takes long
    from scurry.promises import Certificate

_REASON_CODES = np.array([0, 2, 3, 4], np.uint8)  # positions of the core's reasons in STOP_REASONS
_PLAIN = StepRule()


class Answer(NamedTuple):
    """The answer of a row after some steps.

    Attributes
    ----------
    steps : int
    label : scalar
        One of the model's classes, or a regressor's value.
    probabilities : float64 array of shape (n_classes,) or None
        None for a regressor, and for a model whose probabilities are not those of its scores.
    complete : bool
        Whether this is the full model's answer.
    """

    steps: int
    label: Any
    probabilities: NDArray[np.float64] | None
    complete: bool


class StepRunner:
    """Runs the native walk of a forest, step by step."""

    reads_bytes = False

    def __init__(self, forest: Forest, steps: NDArray[np.int32], rule: StepRule = _PLAIN) -> None:
        forest.refuse_wrapper("answer after any step")
        self.forest, self.n_steps = forest, len(steps)
        steps = np.ascontiguousarray(steps, np.int32)
        self._native = _core.Anytime(
            forest.arrays, classes=forest.engine_labels, steps=steps, weights=rule.node_weights(forest)
        )
        forest.release()
        is_first = np.zeros(len(steps), np.int32)
        is_first[np.unique(steps, return_index=True)[1]] = 1
        self._trees_after = np.concatenate([np.zeros(1, np.int32), is_first.cumsum(dtype=np.int32)])

    def labels(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[Any]:
        """Return the label of each row, or a regressor's value."""
        if self.forest.classes is None:
            return self._probabilities(rows, n_threads, budget)[:, 0]
        codes = np.empty(len(rows), np.int64)
        self._native.run(rows, n_threads, budget.max_steps, budget.time_us, budget.abort, labels=codes)
        return self.forest.decode(codes)

    def probabilities(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[np.float64]:
        """Return class probabilities from the nodes reached, shape (n_rows, n_classes)."""
        if self.forest.classes is None:
            raise InputError("this forest is a regressor and has no probabilities; use predict")
        return self._probabilities(rows, n_threads, budget)

    def one_row(self, call: RowCall) -> Callable[[Any], Any]:
        """Return a function that answers for one row."""
        return call.otherwise

    def run(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> Run:
        """Return labels, and how much work they took."""
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
        """Yield a row's answers before the first step, after each `every` steps, and after the last."""
        walk = _core.AnytimeRow(self._native, row)
        code, values = np.empty(1, np.int64), np.empty(max(self.forest.n_classes, 1))
        while True:
            walk.answer(code, values)
            complete = walk.n_steps == self.n_steps
            if self.forest.classes is None:
                yield Answer(walk.n_steps, values[0], None, complete)
            else:
                shares = values.copy() if self.forest.wrapper is None else None
                yield Answer(walk.n_steps, self.forest.decode(code)[0], shares, complete)
            if complete:
                return
            walk.advance(every)

    def measure_walk_us(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Measure how long all steps take each row, without reading it and without an answer; shape (n_rows,)."""
        flag, spent_us = AbortFlag(), []  # with a flag, rows are walked one by one, each with a time of its own
        for max_steps in (self.n_steps, 0):
            spent_us.append(np.empty(len(rows)))
            self._native.run(rows, 1, max_steps, np.inf, flag, times_us=spent_us[-1])
        walking: NDArray[np.float64] = np.maximum(spent_us[0] - spent_us[1], 0)
        return walking

    def _probabilities(self, rows: NDArray[Any], n_threads: int, budget: Budget) -> NDArray[np.float64]:
        values = np.empty((len(rows), max(self.forest.n_classes, 1)))
        if self.forest.wrapper is not None and self.forest.n_outputs == 1:
            scores = np.empty((len(rows), 1))
            self._native.run(rows, n_threads, budget.max_steps, budget.time_us, budget.abort, scores=scores)
            second = self.forest.link_scores(scores)
            return np.hstack([1 - second, second])
        self._native.run(rows, n_threads, budget.max_steps, budget.time_us, budget.abort, probabilities=values)
        return values


def step_plan(steps: NDArray[np.int32], readout: str, certificate: Certificate) -> Plan:
    """Return the plan that takes `steps`, each the tree of one, and reads inner nodes by `readout`."""
    return Plan(order=steps, stop=StepRule(readout=readout), certificate=certificate)


@make_runner.register
def _(rule: StepRule, forest: Forest, plan: Plan) -> StepRunner:
    return StepRunner(forest, plan.order, rule)
