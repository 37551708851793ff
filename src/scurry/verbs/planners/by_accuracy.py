"""Early exit with a promise about right answers: accuracy, or the mean cost of answers.

A family of rules is walked from the most cautious to the boldest while each passes its test on labelled rows. For
accuracy that is the exact paired test of `scurry.stopping.guarantee`. For other costs a bet on each row is: its stake
is learned for each member on labelled rows that fitted the rules, where there are any.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InfeasibleError, InputError
from scurry.forest import Forest
from scurry.plan import Plan
from scurry.promises import Accuracy, Labels
from scurry.stopping.guarantee import (
    best_stake,
    certified_drop,
    certified_mean,
    last_certified,
    loss_p_value,
    paired_p_value,
)
from scurry.stopping.sample import InMemory, Sample, Sums
from scurry.stopping.scores.family import Family
from scurry.verbs.options import Calibration
from scurry.verbs.planners.by_scores import (
    ScoreSearch,
    as_rule,
    decide_in_full,
    explain_choice,
    keep_if_worth_it,
    methods_for,
    split_to_choose,
)

# Labels may change far more often than accuracy may fall, where gains make up for losses. How far the fit should go
# whose order is taken and whose thresholds are widened is chosen with the method; the family goes on to bolder fits.
_FIT_SHARES = (0.3, 3.0)  # changed labels of the fit, in units of `max_loss`
_BOLD_SHARES = (0.45, 0.6, 0.8, 1.0, 1.3, 1.8, 2.4, 3.0, 4.0, 6.0, 8.0, 12.0, 17.0, 24.0, 35.0, 60.0)
_N_LABELS = 4  # drawn for each row that compares families
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
    method, share, why = _choose_family(calibration, promise)
    search = ScoreSearch.by(method, calibration)
    family, test, last = _walk(search, method, share, promise, partial(_test_on_rows, search, promise))
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


def _walk(
    search: ScoreSearch,
    method: str,
    share: float,
    promise: Accuracy,
    make_test: Callable[[Family], _PairedTest | _CostTest],
) -> tuple[Family, _PairedTest | _CostTest, int | None]:
    """Return a family, its test, and the last member before the first that fails; None if that is the first."""
    confidence = promise.confidence or 0.0
    allowed = min(promise.max_loss / promise.largest_rise, _MOST_CHANGED / max(_FIT_SHARES))
    family = search.family(method, allowed, share, ())
    test = make_test(family)
    last = last_certified(range(len(family)), test.p_value, confidence)
    if last == len(family) - 1:
        # All of them passed, so the sequence goes on.
        shares = [more for more in _BOLD_SHARES if more > share and more * allowed <= _MOST_CHANGED]
        family = replace(family, bolder=search.bolder_fits(method, allowed, family.first, shares))
        test = make_test(family)
        last = last_certified(range(len(family)), test.p_value, confidence)
    return family, test, last


def _choose_family(calibration: Calibration, promise: Accuracy) -> tuple[str, float, str]:
    """Return the method and the share of the first fit that promise to spend least, and why.

    Rows that certify nothing tell, so that the whole risk is left for the family that is chosen. Their labels are not
    known. The model's own probabilities stand for them: they tell how many losses and gains to expect where labels
    change, with less scatter than known labels would have. If they are wrong, a worse family may be chosen, but what is
    certified stays true.
    """
    methods = methods_for(calibration)
    choosing, certifying = split_to_choose(
        replace(calibration, promise=Labels(promise.max_loss, confidence=promise.confidence))
    )
    n_rows, spent = certifying.rows.sample.n_rows, {}
    for method in methods:
        try:
            search = ScoreSearch.by(method, choosing)
            for share in _FIT_SHARES:
                make_test = partial(_test_on_probabilities, search, promise, n_rows)
                family, _, last = _walk(search, method, share, promise, make_test)
                if last is not None:
                    spent[method, share] = search.mean_cost(family, search.cheapest_of(family, last))
        except InputError:
            continue  # all rows may do, and if not, their error says what is wrong
    best = min(spent, key=lambda one: spent[one], default=(methods[0], _FIT_SHARES[0]))
    least = {name: min((cost for (one, _), cost in spent.items() if one == name), default=np.inf) for name in methods}
    return *best, explain_choice(calibration.options.cost_unit, least)


def _test_on_rows(search: ScoreSearch, promise: Accuracy, family: Family) -> _PairedTest | _CostTest:
    """Return the test of a family on the rows that certify."""
    forest, y, risk = search.calibration.forest, search.calibration.rows.y, 1.0 - (promise.confidence or 0.0)
    assert y is not None
    count = partial(_count_labels, forest, search.score_rows, family)
    answers = _count_answers(search.held_out, forest.codes_of(y[search.tests]), forest.n_classes, count)
    if promise.costs is None:
        return _PairedTest(promise, answers, risk)
    fitting = None
    if search.y is not None:
        fitting = _count_answers(InMemory(search.rows), forest.codes_of(search.y), forest.n_classes, count)
    return _CostTest(promise, answers, risk, fitting)


def _test_on_probabilities(
    search: ScoreSearch, promise: Accuracy, n_rows: int, family: Family
) -> _PairedTest | _CostTest:
    """Return the test of a family on what `n_rows` rows should show if the model's probabilities are right."""
    forest, rng = search.calibration.forest, search.calibration.search_rng
    count = partial(_count_labels, forest, search.score_rows, family)
    upto = np.cumsum(search.held_out.each(forest.predict_proba), axis=1)[:, :-1]
    answers: Sums = np.zeros((len(family), *[forest.n_classes] * 3), np.int64)
    for at in range(_N_LABELS):  # one label in each of several parts of a row's distribution
        drawn = (at + rng.random((len(upto), 1))) / _N_LABELS
        labels = (drawn >= upto).sum(axis=1).astype(np.int32)
        answers += _count_answers(search.held_out, labels, forest.n_classes, count)
    answers = np.rint(answers * (n_rows / (_N_LABELS * len(upto)))).astype(np.int64)
    risk = 1.0 - (promise.confidence or 0.0)
    return _PairedTest(promise, answers, risk) if promise.costs is None else _CostTest(promise, answers, risk)


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
