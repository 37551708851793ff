"""What was promised next to what test rows show, with an interval and a verdict, for every kind of promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray
from scipy.stats import beta

from scurry.formatting import format_percent, format_share
from scurry.promises import Certificate, Count, Labels, Outcomes
from scurry.report.story import CONFIDENCE, Claim, TestRows, judge
from scurry.stopping.guarantee import certified_rate
from scurry.stopping.paired import certified_drop


def claim_promise(
    certificate: Certificate, test: TestRows, answers: NDArray[Any], *, full_vote: NDArray[Any] | None = None
) -> list[Claim]:
    """Return what a certificate promises next to what these answers show.

    Parameters
    ----------
    certificate : Certificate
    test : TestRows
    answers : array of shape (n_rows,)
    full_vote : array of shape (n_rows,), optional
        The labels that a promise about the vote of all trees is compared with.
    """
    outcomes = outcomes_of(test, answers)
    if not test.forest.is_classifier and certificate.promise is None:
        return []
    # Without a promise, or with a rate that was asked of the fitting rows alone, changes are measured all the same.
    promise = certificate.promise or Labels(0.0, against="model" if full_vote is None else "vote")
    is_promised = certificate.promise is not None and not (isinstance(promise, Labels) and promise.max_rate is None)
    about_vote = isinstance(promise, Labels) and promise.against == "vote"
    tested = replace(outcomes, full=full_vote) if about_vote and full_vote is not None else outcomes
    claims = [_claim(count, is_promised=is_promised) for count in promise.count(tested) if count.n_rows]
    every_label = _claim(Labels(0.0).count(outcomes)[0], is_promised=False)
    if test.forest.is_classifier and every_label.what not in [claim.what for claim in claims]:
        claims.append(every_label)
    return claims


def outcomes_of(test: TestRows, answers: NDArray[Any]) -> Outcomes:
    """Return answers on the test rows next to the full model's."""
    forest = test.forest
    classes = () if forest.classes is None else tuple(forest.classes.tolist())
    return Outcomes(answers=answers, full=test.full, y=test.y, classes=classes)


def find_interval(count: Count) -> tuple[float, float]:
    """Return an interval that holds the rate of new rows with 95 % confidence.

    Without gains it is Clopper and Pearson's. With gains, each end is where the exact paired test of a fall of accuracy
    just fails.
    """
    tail = (1 - CONFIDENCE) / 2
    if count.n_mended:
        n_rows, n_broken, n_mended = count.n_rows, count.n_broken, count.n_mended
        return (
            -certified_drop(n_rows, n_mended, n_broken, 1 - tail),
            certified_drop(n_rows, n_broken, n_mended, 1 - tail),
        )
    low = float(beta.ppf(tail, count.n_broken, count.n_rows - count.n_broken + 1)) if count.n_broken else 0.0
    return low, certified_rate(count.n_broken, count.n_rows, 1 - tail)


def _claim(count: Count, *, is_promised: bool) -> Claim:
    low, high = find_interval(count)
    of_rows = "" if count.n_broken == 0 and count.n_mended == 0 else f"{count.n_broken - count.n_mended:,} of "
    measured = (
        f"{format_share(count.rate)}, {of_rows}{count.n_rows:,} rows ({format_share(low)} to {format_share(high)} with "
        f"{format_percent(CONFIDENCE)} confidence)"
    )
    if not is_promised:
        return Claim(count.what, "nothing", measured)
    most = f"at most {format_percent(count.max_rate)}" if count.max_rate else "none"
    return Claim(count.what, most, measured, judge(count.rate, low, count.max_rate))
