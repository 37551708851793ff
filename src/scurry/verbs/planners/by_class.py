"""Early exit with a promise for each of several groups of rows, or about right answers.

Groups are classes, rows that a class's recall counts, or subgroups. Rows of disjoint groups are independent, given how
many there are of each. So each group has a test of its own, and the risks of the tests multiply to the risk of the
promise (`split_risk`); no union bound is needed.

- Two classes, each group within one of them: a row that the model labels positive can only be lost through the lower
  threshold, and a negative one only through the upper. So the two sides are walked apart. The first walk looks at one
  class only, with the other side never stopping a row. What it finds is fixed when the second walk looks at the other
  class, whose rows are fresh. The side found second lets rows of the first class leave earlier, with their own label,
  so that the first test stays valid.
- Otherwise one walk over whole rules: a member passes if it passes the test of every group. For each group this is a
  fixed sequence at the group's own risk, so a member that breaks the promise for a group is accepted with at most that
  probability, and with independent groups all promises hold at once with the confidence asked for.

Which order of trees is taken is decided on rows that certify nothing (see `planners.speed.certify_in_turn`).

A promise about right answers is about accuracy, or about the mean cost of answers. A family of rules is walked from the
most cautious to the boldest while each passes its test on labelled rows. For accuracy that is the exact paired test of
`scurry.stopping.guarantee`. For other costs a bet on each row is: its stake is learned for each member on labelled rows
that fitted the rules, where there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from scurry.errors import InfeasibleError, InputError
from scurry.forest import Forest
from scurry.formatting import format_percent, round_up
from scurry.plan import Plan
from scurry.promises import Accuracy, GroupTest, Labels, LabelsPerClass, Promise, Recall
from scurry.stopping import ScoreFit
from scurry.stopping.guarantee import InMemory, Sample, Sums, certified_rate, last_certified, split_risk
from scurry.stopping.losses import best_stake, certified_drop, certified_mean, loss_p_value, paired_p_value
from scurry.stopping.scores.qwyc import Family, MarginFit, last_accepted
from scurry.verbs.options import Calibration
from scurry.verbs.planners.by_scores import (
    ScoreSearch,
    compare_methods,
    methods_for,
    split_to_choose,
)
from scurry.verbs.planners.sentinel_scores import decide_in_full
from scurry.verbs.planners.speed import certify_in_turn, keep_if_worth_it

_FIT_SHARE = 0.3  # of the mistakes that the promise allows, spent by the fit that is widened
_BOLD_SHARES = (0.45, 0.6, 0.8, 1.0, 1.3, 2.0)
_OTHERS = "Recall's max_changed of"
_ROOM = 2.0  # times the rate that rows certify without a mistake: room for about two
_MAX_MORE_ROWS = 1 << 40  # beyond which nobody is told how many rows to add


@dataclass(frozen=True)
class _Group:
    """Rows that a rate is promised for.

    Attributes
    ----------
    name : str
    max_rate : float
    label : int or None
        The model's label of all of them, as an index; None if they have several.
    rows : bool array of shape (n_rows,)
        Which of the rows that certify belong to it.
    fit_share : float
        About how large a part of the rows that fit rules belongs to it.
    argument : str
        How a caller writes the rate.
    """

    name: str
    max_rate: float
    label: int | None
    rows: NDArray[np.bool_]
    fit_share: float
    argument: str

    @property
    def n_rows(self) -> int:
        return int(self.rows.sum())


def plan_by_class(calibration: Calibration) -> Plan:
    """Return the plan with the fewest trees that keeps a promise for every group of rows."""
    own = ScoreSearch.of(calibration)
    groups = _find_groups(own)
    if isinstance(calibration.promise, Recall) and calibration.promise.max_changed is None:
        groups = _settle_others(groups, calibration.risk)
        calibration = replace(calibration, promise=replace(calibration.promise, max_changed=groups[-1].max_rate))
    if not _has_enough(groups, calibration):
        raise _infeasible(calibration, groups)
    allowed = min(group.max_rate * group.fit_share for group in groups)

    def certify(tested: Calibration, method: str) -> tuple[Plan, float]:
        search = ScoreSearch.by(method, tested, allowed) if method == "sentinels" else replace(own, calibration=tested)
        risks = _divide_risk(groups, tested)
        family = search.family(method, allowed, _FIT_SHARE, _BOLD_SHARES)
        has_sides = isinstance(family.first, MarginFit) and all(group.label is not None for group in groups)
        rule = (_walk_sides if has_sides else _walk_whole)(search, family, groups, risks)
        if rule is None:
            cautious = _test_groups(search, family[0], groups, risks)
            raise _infeasible(tested, groups, [test.n_broken for test in cautious])
        tests = _test_groups(search, rule, groups, risks)
        return search.plan(method, rule, n_broken=sum(test.n_broken for test in tests), bound=None, tests=tests)

    spent = compare_methods(calibration, allowed)
    return keep_if_worth_it(calibration, *certify_in_turn(calibration, spent, certify, partial(_has_enough, groups)))


def _divide_risk(groups: Sequence[_Group], calibration: Calibration) -> NDArray[np.float64]:
    return split_risk([group.n_rows for group in groups], [group.max_rate for group in groups], calibration.risk)


def _walk_sides(
    search: ScoreSearch, family: Family, groups: Sequence[_Group], risks: NDArray[np.float64]
) -> ScoreFit | None:
    """Return the rule that two one-sided walks find; None if a side has no member."""
    assert isinstance(family.first, MarginFit)
    n_models = family.first.n_models
    # The side whose exits save less comes first: the other one then profits from it. Rows that fit rules decide.
    upper_first = float(np.mean(search.decisions)) <= 0.5
    found = {upper: np.full(n_models - 1, np.inf if upper else -np.inf) for upper in (True, False)}
    side: ScoreFit = family.first
    for upper in (upper_first, not upper_first):
        sides = family.one_sided(upper=upper, other=found[not upper])
        # Negatives are lost through the upper side, positives through the lower.
        tested = [at for at, group in enumerate(groups) if (group.label == 0) == upper]
        last = last_accepted(_accept(search, sides, [groups[at] for at in tested], risks[tested]))
        if last < 0:
            return None
        side = sides[last]
        assert isinstance(side, MarginFit)
        found[upper] = side.upper if upper else side.lower
    return side


def _walk_whole(
    search: ScoreSearch, family: Family, groups: Sequence[_Group], risks: NDArray[np.float64]
) -> ScoreFit | None:
    """Return the cheapest member before the first that fails the test of a group; None if the first fails."""
    last = last_accepted(_accept(search, family, groups, risks))
    return None if last < 0 else family[search.cheapest_of(family, last)]


def _accept(
    search: ScoreSearch, family: Family, groups: Sequence[_Group], risks: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which members pass the tests of all groups."""
    passes = np.ones(len(family), np.bool_)
    for group, risk in zip(groups, risks, strict=True):
        n_changed = search.count(family, group.rows)[:, -1]
        passes &= binom.cdf(n_changed, group.n_rows, group.max_rate) <= risk
    return passes


def _test_groups(
    search: ScoreSearch, chosen: ScoreFit, groups: Sequence[_Group], risks: NDArray[np.float64]
) -> tuple[GroupTest, ...]:
    """Return what the rule that was chosen does to the rows of each group."""
    tests = []
    for group, risk in zip(groups, risks.tolist(), strict=True):
        n_changed = int(search.count(Family(chosen, np.zeros(1)), group.rows)[0, -1])
        tests.append(
            GroupTest(
                group=group.name,
                max_rate=group.max_rate,
                n_rows=group.n_rows,
                n_broken=n_changed,
                confidence=1.0 - risk,
                bound=certified_rate(n_changed, group.n_rows, 1.0 - risk),
            )
        )
    return tuple(tests)


def _find_groups(search: ScoreSearch) -> list[_Group]:
    """Return the groups that the promise is about: by label, by known label, and by subgroup."""
    calibration, forest = search.calibration, search.calibration.forest
    labels = search.held_out.each(partial(decide_in_full, forest)).astype(np.intp)
    shares = np.bincount(search.decisions.astype(np.intp), minlength=forest.n_classes) / len(search.decisions)
    y = None if calibration.rows.y is None else forest.codes_of(calibration.rows.y[search.tests])
    whole = _groups_of(calibration.promise, forest, labels, y, shares)
    parts = calibration.rows.parts
    if parts is None:
        return whole
    codes = parts.codes[search.tests]
    # Rows that fit rules have no known subgroup, so each is taken for as large as it is among those that certify.
    return [
        _Group(
            f"{name}, {group.name}" if group.name else name,
            group.max_rate,
            group.label,
            group.rows & (codes == part),
            group.fit_share * float(np.mean(codes == part)),
            group.argument,
        )
        for part, name in enumerate(parts.names)
        for group in whole
    ]


def _groups_of(
    promise: Promise, forest: Forest, labels: NDArray[Any], y: NDArray[Any] | None, shares: NDArray[np.float64]
) -> list[_Group]:
    if isinstance(promise, Labels):
        return [_Group("", promise.max_changed, None, np.ones(len(labels), np.bool_), 1.0, "a share of")]
    assert forest.classes is not None
    classes = forest.classes.tolist()
    if isinstance(promise, LabelsPerClass):
        rates = {_find_code(forest, label): rate for label, rate in promise.rates}
        return [
            _Group(
                f"class {label!r}",
                rates[code],
                code,
                labels == code,
                max(float(shares[code]), 1e-9),
                f"a rate for class {label!r} of",
            )
            for code, label in enumerate(classes)
            if code in rates
        ]
    assert isinstance(promise, Recall)
    assert y is not None
    code = _find_code(forest, promise.label)
    found = _Group(
        f"class {promise.label!r} found",
        promise.max_loss,
        code,
        (labels == code) & (y == code),
        max(float(shares[code]), 1e-9),
        "Recall's max_loss of",
    )
    others = _Group(
        "other labels",
        promise.others_rate,
        1 - code if len(classes) == 2 else None,
        labels != code,
        max(1 - float(shares[code]), 1e-9),
        _OTHERS,
    )
    return [found, others]


def _find_code(forest: Forest, label: Any) -> int:
    try:
        return int(forest.codes_of([label], "promise")[0])
    except InputError as error:
        known = None if forest.classes is None else forest.classes.tolist()
        raise InputError(
            f"promise must name classes of the model, {known}, got {label!r}", argument="promise"
        ) from error


def _has_enough(groups: Sequence[_Group], calibration: Calibration) -> bool:
    """Return whether every group has enough rows for its promise if none of them changes."""
    each = zip(groups, _divide_risk(groups, calibration), strict=True)
    return all(group.n_rows * np.log1p(-group.max_rate) <= np.log(risk) for group, risk in each)


def _infeasible(
    calibration: Calibration, groups: Sequence[_Group], n_changed: Sequence[int] | None = None
) -> InfeasibleError:
    """Return the error that names the group furthest from having enough rows, and how many more it needs.

    If all have enough, that is the one of which the most cautious rule changes most: `n_changed` of each.
    """
    risk = calibration.risk
    more = [_count_more(groups, at, risk) for at in range(len(groups))]
    counts = [0] * len(groups) if n_changed is None or max(more) > 0 else n_changed
    rates = [_least_rate(groups, at, risk, count) for at, count in enumerate(counts)]
    worst = int(
        np.argmax(more if max(more) > 0 else [rate / one.max_rate for rate, one in zip(rates, groups, strict=True)])
    )
    group, least = groups[worst], round_up(rates[worst], 2)
    # Without rows to fit, half of the calibration rows are used for that.
    factor = 1 if calibration.has_fit_rows else 2
    unit = calibration.rows.unit
    asked = (
        f"{group.name}: at most {format_percent(group.max_rate)} cannot be certified with confidence "
        f"{calibration.promise.confidence} on the {group.n_rows:,} {unit}s of this kind that test the promise"
    )
    allow = f", or allow {group.argument} {least:g} or more" if least < 1 else ""
    if more[worst] == 0:
        return InfeasibleError(
            f"{asked}: even the most cautious rule changes {counts[worst]:,} of them. Pass more rows{allow}",
            least,
            argument="promise",
        )
    needed = factor * more[worst]
    # Among rows of a true class the model is surer than among all that it gives this label.
    by_label = isinstance(calibration.promise, LabelsPerClass)
    which = " and chosen by the model's label, not by their true class" if by_label else ""
    what = "calibration groups" if unit == "group" else "calibration rows"
    return InfeasibleError(
        f"{asked}. Add at least {needed:,} more {what} of this kind, drawn like new ones{which}{allow}",
        least,
        n_rows_needed=factor * (group.n_rows + more[worst]),
        argument="promise",
    )


def _settle_others(groups: Sequence[_Group], risk: float) -> list[_Group]:
    """Return the groups of a promise about recall with a rate for other labels that their rows can certify.

    How many rows there are decides, not what becomes of them, so that the tests stay what they are.
    """
    others = [at for at, group in enumerate(groups) if group.argument == _OTHERS]
    least = max(_least_rate(groups, at, risk) for at in others)
    # With room for a few mistakes: at the least rate itself a single one would fail.
    rate = max(groups[others[0]].max_rate, round_up(_ROOM * least, 2))
    return [replace(group, max_rate=rate) if at in others else group for at, group in enumerate(groups)]


def _least_rate(groups: Sequence[_Group], at: int, risk: float, n_changed: int = 0) -> float:
    """Return the least rate of one group that its rows certify if so many of them change."""
    counts = [group.n_rows for group in groups]
    least, most = 0.0, 1.0
    while most - least > 1e-3 * most:
        middle = (least + most) / 2
        rates = [middle if k == at else group.max_rate for k, group in enumerate(groups)]
        is_enough = binom.cdf(n_changed, counts[at], middle) <= split_risk(counts, rates, risk)[at]
        least, most = (least, middle) if is_enough else (middle, most)
    return most


def _count_more(groups: Sequence[_Group], at: int, risk: float) -> int:
    """Return how many rows must be added to one group so that no mistake among them certifies its rate."""
    counts = np.array([group.n_rows for group in groups], np.float64)
    rates = [group.max_rate for group in groups]

    def is_enough(more: int) -> bool:
        n_rows = counts.copy()
        n_rows[at] += more
        return bool(n_rows[at] * np.log1p(-rates[at]) <= np.log(split_risk(n_rows, rates, risk)[at]))

    if is_enough(0):
        return 0
    most = 1
    while not is_enough(most) and most < _MAX_MORE_ROWS:
        most *= 2
    least = most // 2
    while most - least > 1:
        middle = (most + least) // 2
        least, most = (least, middle) if is_enough(middle) else (middle, most)
    return most


# Labels may change far more often than accuracy may fall, where gains make up for losses. How far the fit should go
# whose order is taken and whose thresholds are widened is chosen with the method; the family goes on to bolder fits.
_FIT_SHARES = (0.3, 3.0)  # changed labels of the fit, in units of `max_loss`
_LOSS_SHARES = (0.45, 0.6, 0.8, 1.0, 1.3, 1.8, 2.4, 3.0, 4.0, 6.0, 8.0, 12.0, 17.0, 24.0, 35.0, 60.0)
_N_LABELS = 4  # drawn for each row that compares families
_CHANGED_PER_LOSS = 2.0  # labels, by a rule that loses as much accuracy as promised
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
        costs = np.asarray(promise.error_costs)
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
    if promise.error_costs is not None and len(promise.error_costs) != forest.n_classes:
        raise InputError(
            f"error_costs of the promise are for {len(promise.error_costs)} classes, the model has {forest.n_classes}",
            argument="promise",
        )
    shares, spent = _compare_families(calibration, promise)

    def certify(tested: Calibration, method: str) -> tuple[Plan, float]:
        search = ScoreSearch.by(method, tested, _expect_changed(promise))
        at_risk = replace(promise, confidence=1.0 - tested.risk)
        make_test = partial(_test_on_rows, search, at_risk)
        family, test, last = _walk(search, method, shares[method], at_risk, make_test)
        if last is None:
            raise _refuse_accuracy(tested, promise, search.held_out.n_rows, test.bound(0))
        at = search.cheapest_of(family, last)
        return search.plan(
            method,
            family[at],
            n_broken=int(test.n_worse[at]),
            n_gained=int(test.n_better[at]),
            bound=test.bound(at),
        )

    return keep_if_worth_it(calibration, *certify_in_turn(calibration, spent, certify, _can_certify_accuracy))


def _expect_changed(promise: Accuracy) -> float:
    """Return about which share of the labels may change: for each loss there is some gain."""
    return min(_CHANGED_PER_LOSS * promise.max_loss / promise.largest_rise, _MOST_CHANGED)


def _can_certify_accuracy(calibration: Calibration) -> bool:
    needed = replace(calibration.promise, confidence=1.0 - calibration.risk).rows_needed()
    n_rows = calibration.rows.n_units
    return (n_rows if calibration.has_fit_rows else n_rows // 2) >= needed


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
        shares = [more for more in _LOSS_SHARES if more > share and more * allowed <= _MOST_CHANGED]
        family = replace(family, bolder=search.bolder_fits(method, allowed, family.first, shares))
        test = make_test(family)
        last = last_certified(range(len(family)), test.p_value, confidence)
    return family, test, last


def _compare_families(calibration: Calibration, promise: Accuracy) -> tuple[dict[str, float], dict[str, float]]:
    """Return for each method the share of the first fit that promises to spend least, and what it then spends.

    Rows that certify nothing tell. Their labels are not known. The model's own probabilities stand for them: they tell
    how many losses and gains to expect where labels change, with less scatter than known labels would have. If they are
    wrong, a worse family may be chosen, but what is certified stays true.
    """
    methods = methods_for(calibration)
    choosing, certifying = split_to_choose(
        replace(calibration, promise=Labels(promise.max_loss, confidence=promise.confidence))
    )
    n_rows, spent = certifying.rows.sample.n_rows, {}
    for method in methods:
        try:
            search = ScoreSearch.by(method, choosing, _expect_changed(promise))
            for share in _FIT_SHARES:
                make_test = partial(_test_on_probabilities, search, promise, n_rows)
                family, _, last = _walk(search, method, share, promise, make_test)
                if last is not None:
                    spent[method, share] = search.mean_cost(family, search.cheapest_of(family, last))
        except InputError:
            continue  # all rows may do, and if not, their error says what is wrong
    costs = {method: [spent.get((method, share), np.inf) for share in _FIT_SHARES] for method in methods}
    shares = {method: _FIT_SHARES[int(np.argmin(one))] for method, one in costs.items()}
    return shares, {method: min(one) for method, one in costs.items()}


def _test_on_rows(search: ScoreSearch, promise: Accuracy, family: Family) -> _PairedTest | _CostTest:
    """Return the test of a family on the rows that certify."""
    forest, y, risk = search.calibration.forest, search.calibration.rows.y, 1.0 - (promise.confidence or 0.0)
    assert y is not None
    count = partial(_count_labels, forest, search.score_rows, family)
    answers = _count_answers(search.held_out, forest.codes_of(y[search.tests]), forest.n_classes, count)
    if promise.error_costs is None:
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
    return _PairedTest(promise, answers, risk) if promise.error_costs is None else _CostTest(promise, answers, risk)


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


def _refuse_accuracy(calibration: Calibration, promise: Accuracy, n_rows: int, achievable: float) -> InfeasibleError:
    """Return the error that says what the most cautious rule can promise."""
    # Without rows to fit, half of the calibration rows are used for that.
    needed = promise.rows_needed() if calibration.has_fit_rows else 2 * promise.rows_needed() - 1
    what = "a rise of the mean cost" if promise.error_costs is not None else "a fall in accuracy"
    enough = needed <= calibration.given.n_rows
    advice = "more calibration rows" if enough else f"at least {needed:,} calibration rows"
    return InfeasibleError(
        f"{what} of at most {promise.max_loss:g} cannot be certified with confidence {promise.confidence} on "
        f"{n_rows:,} {calibration.rows.unit}s; {achievable:.3g} can. Pass {advice}, or a larger max_loss",
        achievable,
        n_rows_needed=None if enough else needed,
        argument="promise",
    )
