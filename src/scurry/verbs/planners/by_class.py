"""Early exit with a promise for each of several groups of rows: classes, rows that a class's recall counts, subgroups.

Rows of disjoint groups are independent, given how many there are of each. So each group has a test of its own, and the
risks of the tests multiply to the risk of the promise (`split_risk`); no union bound is needed.

- Two classes, each group within one of them: a row that the model labels positive can only be lost through the lower
  threshold, and a negative one only through the upper. So the two sides are walked apart. The first walk looks at one
  class only, with the other side never stopping a row. What it finds is fixed when the second walk looks at the other
  class, whose rows are fresh. The side found second lets rows of the first class leave earlier, with their own label,
  so that the first test stays valid.
- Otherwise one walk over whole rules: a member passes if it passes the test of every group. For each group this is a
  fixed sequence at the group's own risk, so a member that breaks the promise for a group is accepted with at most that
  probability, and with independent groups all promises hold at once with the confidence asked for.

Which order of trees is taken is decided on rows that certify nothing (see `planners.by_scores.choose_method`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from scurry.errors import InfeasibleError, InputError
from scurry.forest import Forest
from scurry.formatting import format_percent, round_up
from scurry.plan import Plan
from scurry.promises import GroupTest, Labels, LabelsPerClass, Promise, Recall
from scurry.runners.rules import ScoreRule
from scurry.stopping import ScoreFit
from scurry.stopping.guarantee import certified_rate, split_risk
from scurry.stopping.scores.family import Family, last_accepted
from scurry.stopping.scores.qwyc import MarginFit
from scurry.verbs.options import Calibration
from scurry.verbs.planners.by_scores import ScoreSearch, as_rule, choose_method, decide_in_full, keep_if_worth_it

_FIT_SHARE = 0.3  # of the mistakes that the promise allows, spent by the fit that is widened
_BOLD_SHARES = (0.45, 0.6, 0.8, 1.0, 1.3, 2.0)
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
    search = ScoreSearch.of(calibration)
    groups = _find_groups(search)
    risk = 1.0 - (calibration.promise.confidence or 0.0)
    risks = split_risk([group.n_rows for group in groups], [group.max_rate for group in groups], risk)
    _check_enough(calibration, groups, risks)
    allowed = min(group.max_rate * group.fit_share for group in groups)
    method, why = choose_method(calibration, allowed)
    search = search if method != "sentinels" else ScoreSearch.by(method, calibration)
    family = search.family(method, allowed, _FIT_SHARE, _BOLD_SHARES)
    has_sides = isinstance(family.first, MarginFit) and all(group.label is not None for group in groups)
    rule = (_walk_sides if has_sides else _walk_whole)(search, family, groups, risks)
    if rule is None:
        raise _infeasible(calibration, groups, risk)
    tests = _test_groups(search, rule, groups, risks)
    n_broken = sum(test.n_broken for test in tests)
    return keep_if_worth_it(calibration, search.plan(method, rule, n_broken=n_broken, bound=None, tests=tests, why=why))


def _walk_sides(
    search: ScoreSearch, family: Family, groups: Sequence[_Group], risks: NDArray[np.float64]
) -> ScoreRule | None:
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
    return as_rule(side)


def _walk_whole(
    search: ScoreSearch, family: Family, groups: Sequence[_Group], risks: NDArray[np.float64]
) -> ScoreRule | None:
    """Return the cheapest member before the first that fails the test of a group; None if the first fails."""
    last = last_accepted(_accept(search, family, groups, risks))
    return None if last < 0 else as_rule(family[search.cheapest_of(family, last)])


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
    search: ScoreSearch, chosen: ScoreRule, groups: Sequence[_Group], risks: NDArray[np.float64]
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
        missing = [label for code, label in enumerate(classes) if code not in rates]
        if missing:
            raise InputError(
                f"promise must have a rate for every class of the model; {missing} are missing", argument="promise"
            )
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
        ]
    assert isinstance(promise, Recall)
    assert y is not None
    code = _find_code(forest, promise.class_)
    found = _Group(
        f"class {promise.class_!r} found",
        promise.max_loss,
        code,
        (labels == code) & (y == code),
        max(float(shares[code]), 1e-9),
        "Recall's max_loss of",
    )
    others = _Group(
        "other labels",
        promise.max_changed,
        1 - code if len(classes) == 2 else None,
        labels != code,
        max(1 - float(shares[code]), 1e-9),
        "Recall's max_changed of",
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


def _check_enough(calibration: Calibration, groups: Sequence[_Group], risks: NDArray[np.float64]) -> None:
    """Raise an error if a group has too few rows for its promise, even if none of them changed."""
    if any(group.n_rows * np.log1p(-group.max_rate) > np.log(risk) for group, risk in zip(groups, risks, strict=True)):
        raise _infeasible(calibration, groups, float(-np.expm1(np.log1p(-risks).sum())))


def _infeasible(calibration: Calibration, groups: Sequence[_Group], risk: float) -> InfeasibleError:
    """Return the error that names the group furthest from having enough rows, and how many more it needs."""
    more = [_count_more(groups, at, risk) for at in range(len(groups))]
    worst = int(np.argmax(more))
    group = groups[worst]
    # Without rows to fit, half of the calibration rows are used for that.
    factor = 1 if calibration.has_fit_rows else 2
    unit = calibration.rows.unit
    asked = (
        f"{group.name}: at most {format_percent(group.max_rate)} cannot be certified with confidence "
        f"{calibration.promise.confidence} on the {group.n_rows:,} {unit}s of this kind that test the promise"
    )
    if more[worst] == 0:
        return InfeasibleError(
            f"{asked}: even the most cautious rule changes too many of them. Allow more than {group.argument} "
            f"{group.max_rate:g}, or pass more rows",
            argument="promise",
        )
    needed, least = factor * more[worst], round_up(_least_rate(groups, worst, risk), 2)
    return InfeasibleError(
        f"{asked}. Add at least {needed:,} more calibration {unit}s of this kind (rows of one class alone may be "
        f"added), or allow {group.argument} {least:g} or more",
        n_rows_needed=factor * (group.n_rows + more[worst]),
        argument="promise",
    )


def _least_rate(groups: Sequence[_Group], at: int, risk: float) -> float:
    """Return the least rate of one group that its rows certify if none of them changes."""
    counts = [group.n_rows for group in groups]
    least, most = groups[at].max_rate, 1.0
    while most - least > 1e-3 * least:
        middle = (least + most) / 2
        rates = [middle if k == at else group.max_rate for k, group in enumerate(groups)]
        is_enough = counts[at] * np.log1p(-middle) <= np.log(split_risk(counts, rates, risk)[at])
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
