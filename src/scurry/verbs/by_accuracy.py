"""Early exit with a promise about right answers: accuracy, or the mean cost of answers.

A family of rules is walked from the most cautious to the boldest while each passes its test on labelled rows. For
accuracy that is the exact paired test of `scurry.stopping.paired`. For other costs a bet on each row is: its stake is
learned for each member on labelled rows that fitted the rules, where there are any.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InfeasibleError, InputError
from scurry.forest import Forest
from scurry.plan import Plan
from scurry.promises import Accuracy
from scurry.stopping.guarantee import best_stake, certified_mean, last_certified, loss_p_value
from scurry.stopping.paired import certified_drop, paired_p_value
from scurry.stopping.sample import InMemory, Sample, Sums
from scurry.stopping.scores.family import Family
from scurry.verbs.by_scores import ScoreSearch, as_rule, choose_method, decide_in_full, keep_if_worth_it
from scurry.verbs.options import Calibration

# Labels may change far more often than accuracy may fall, where gains make up for losses. So the order of trees is
# found for a rule that changes several times `max_loss` of the labels, and the family goes on to bolder ones.
_FIT_SHARE = 3.0
_BOLD_SHARES = tuple(float(share) for share in np.geomspace(3.6, 60.0, 20))
_MOST_CHANGED = 0.3  # of the rows that fit rules, by the boldest member


class _PairedTest:
    """The exact test of accuracy, for the members of a family."""

    def __init__(self, promise: Accuracy, answers: Sums, risk: float) -> None:
        self._promise, self._risk = promise, risk
        self._n_rows = int(answers[0].sum())
        true, full, own = np.indices(answers.shape[1:])
        # Rows that move from one wrong class to another count as neither.
        self.n_worse = answers[:, (full == true) & (own != true)].sum(axis=1)
        self.n_better = answers[:, (full != true) & (own == true)].sum(axis=1)

    def _counts(self, member: int) -> tuple[int, int, int]:
        return self._n_rows, int(self.n_worse[member]), int(self.n_better[member])

    def p_value(self, member: int) -> float:
        return paired_p_value(*self._counts(member), self._promise.max_loss, risk=self._risk)

    def bound(self, member: int) -> float:
        return certified_drop(*self._counts(member), 1.0 - self._risk)


class _CostTest:
    """A bet on the cost of each row, for the members of a family.

    The stake must not depend on the rows that are bet on. Where other labelled rows tell what a member costs, it is the
    one that would have gained most there; else capital is spread over several stakes.
    """

    def __init__(self, promise: Accuracy, answers: Sums, risk: float, fitting: Sums | None = None) -> None:
        self._risk, self._largest = risk, promise.largest_rise
        costs = np.asarray(promise.costs)
        rise = (costs[:, None, :] - costs[:, :, None]).ravel()  # true label, the model's, the member's
        self._counts = answers.reshape(len(answers), -1)
        self.n_worse = self._counts[:, rise > 0].sum(axis=1)
        self.n_better = self._counts[:, rise < 0].sum(axis=1)
        # Changes of cost lie in [-largest, largest], what is bet on in [0, 1].
        self._losses = np.clip(0.5 + rise / (2 * self._largest), 0.0, 1.0)
        self._limit = 0.5 + promise.max_loss / (2 * self._largest)
        self._fitting = None if fitting is None else fitting.reshape(len(fitting), -1)

    def _options(self, member: int) -> dict[str, Any]:
        given: dict[str, Any] = {"repeats": self._counts[member]}
        if self._fitting is not None:
            learned = np.repeat(self._losses, self._fitting[member])
            given["stakes"] = [best_stake(learned, self._limit)]
        return given

    def p_value(self, member: int) -> float:
        return loss_p_value(self._losses, self._limit, **self._options(member))

    def bound(self, member: int) -> float:
        # The stake suits the promised limit; other limits are tested with it too, which is valid.
        mean = certified_mean(self._losses, 1.0 - self._risk, **self._options(member))
        return 2 * self._largest * (mean - 0.5)


def plan_by_accuracy(calibration: Calibration) -> Plan:
    """Return the plan with the fewest trees whose answers are as good as promised."""
    promise, forest = calibration.promise, calibration.forest
    assert isinstance(promise, Accuracy)
    assert promise.confidence is not None
    if calibration.rows.parts is not None:
        raise InputError("by is for promises about labels that change, such as LabelsPerClass", argument="by")
    if promise.costs is not None and len(promise.costs) != forest.n_classes:
        raise InputError(
            f"costs of the promise are for {len(promise.costs)} classes, the model has {forest.n_classes}",
            argument="promise",
        )
    allowed = min(promise.max_loss / promise.largest_rise, _MOST_CHANGED / _FIT_SHARE)
    method, why = choose_method(calibration, _FIT_SHARE * allowed)
    search, risk = ScoreSearch.by(method, calibration), 1.0 - promise.confidence
    shares = [share for share in _BOLD_SHARES if share * allowed <= _MOST_CHANGED]
    family = search.family(method, allowed, _FIT_SHARE, shares)
    test = _make_test(search, family, promise, risk)
    last = last_certified(range(len(family)), test.p_value, promise.confidence)
    if last is None:
        raise _infeasible(calibration, promise, search.held_out.n_rows)
    at = search.cheapest_of(family, last)
    plan = search.plan(
        method,
        as_rule(family[at]),
        n_broken=int(test.n_worse[at]),
        n_gained=int(test.n_better[at]),
        bound=test.bound(at),
        why=why,
    )
    return keep_if_worth_it(calibration, plan)


def _make_test(search: ScoreSearch, family: Family, promise: Accuracy, risk: float) -> _PairedTest | _CostTest:
    forest, y = search.calibration.forest, search.calibration.rows.y
    assert y is not None
    count = partial(_count_labels, forest, search.score_rows, family)
    answers = _count_answers(search.held_out, forest.codes_of(y[search.tests]), forest.n_classes, count)
    if promise.costs is None:
        return _PairedTest(promise, answers, risk)
    fitting = None
    if search.y is not None:
        fitting = _count_answers(InMemory(search.rows), forest.codes_of(search.y), forest.n_classes, count)
    return _CostTest(promise, answers, risk, fitting)


def _count_answers(sample: Sample, y: NDArray[np.int32], n_classes: int, count: Callable[[NDArray[Any]], Sums]) -> Sums:
    """Count rows by member, true label, the model's label and the member's; each an axis of the result."""
    return np.stack([sample.where(y == true).sums(count) for true in range(n_classes)], axis=1)


def _count_labels(
    forest: Forest, score_rows: Callable[[NDArray[Any]], NDArray[np.float64]], family: Family, rows: NDArray[Any]
) -> Sums:
    """Count rows by member, the model's label and the member's."""
    scores, labels = score_rows(rows), decide_in_full(forest, rows).astype(np.intp)
    counts = np.zeros((len(family), forest.n_classes, forest.n_classes), np.int64)
    for label in np.unique(labels):
        chosen = labels == label
        answers = family.answers(scores[chosen], labels[chosen], forest.n_classes)
        counts[:, label] = answers[:, family.first.n_models :]
    return counts


def _infeasible(calibration: Calibration, promise: Accuracy, n_rows: int) -> InfeasibleError:
    # Without rows to fit, half of the calibration rows are used for that.
    needed = promise.rows_needed() if calibration.has_fit_rows else 2 * promise.rows_needed() - 1
    what = "a rise of the mean cost" if promise.costs is not None else "a fall in accuracy"
    enough = needed <= calibration.n_rows_given
    advice = "more calibration rows" if enough else f"at least {needed:,} calibration rows"
    return InfeasibleError(
        f"{what} of at most {promise.max_loss:g} cannot be certified with confidence {promise.confidence} on "
        f"{n_rows:,} {calibration.rows.unit}s. Pass {advice}, or a larger max_loss",
        n_rows_needed=None if enough else needed,
        argument="promise",
    )
