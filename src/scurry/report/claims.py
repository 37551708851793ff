"""What was promised next to what test rows show, with an interval and a verdict, for every kind of promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from scurry.formatting import format_number, format_percent, format_share
from scurry.predictor import Predictor
from scurry.promises import Certificate, Count, Labels, Mean, Outcomes, Promise, Values
from scurry.report.story import CONFIDENCE, Claim, TestRows, judge
from scurry.stopping.guarantee import certified_drop, certified_mean, certified_rate


def claim_promise(
    certificate: Certificate, outcomes: Outcomes, *, full_vote: NDArray[Any] | None = None
) -> list[Claim]:
    """Return what a certificate promises next to what these outcomes show.

    Parameters
    ----------
    certificate : Certificate
    outcomes : Outcomes
    full_vote : array of shape (n_rows,), optional
        The labels that a promise about the vote of all trees is compared with.
    """
    is_classifier = bool(outcomes.classes)
    if not is_classifier and certificate.promise is None:
        return []
    # Without a promise, or with a rate that was asked of the fitting rows alone, changes are measured all the same.
    promise = certificate.promise or Labels(0.0, against="model" if full_vote is None else "vote")
    of_fit_rows = isinstance(promise, Labels | Values) and promise.max_rate is None
    is_promised = certificate.promise is not None and not of_fit_rows
    counts = promise.count(compared_with(outcomes, promise, full_vote))
    claims = [_claim(count, is_promised=is_promised) for count in counts if count.n_rows]
    mean = promise.mean(outcomes)
    if mean is not None:
        claims.append(_claim_mean(mean))
    every_label = _claim(Labels(0.0).count(outcomes)[0], is_promised=False)
    if is_classifier and every_label.what not in [claim.what for claim in claims]:
        claims.append(every_label)
    return claims


def compared_with(outcomes: Outcomes, promise: Promise, full_vote: NDArray[Any] | None) -> Outcomes:
    """Return outcomes next to what the promise compares with: the full vote, or the model itself."""
    about_vote = isinstance(promise, Labels) and promise.against == "vote"
    return replace(outcomes, full=full_vote) if about_vote and full_vote is not None else outcomes


def outcomes_of(
    test: TestRows,
    answers: NDArray[Any],
    *,
    probabilities: NDArray[np.float64] | None = None,
    scores: NDArray[np.float64] | None = None,
) -> Outcomes:
    """Return answers on the test rows next to the full model's.

    Parameters
    ----------
    test : TestRows
    answers : array of shape (n_rows,)
    probabilities : float64 array of shape (n_rows, n_classes), optional
    scores : float64 array of shape (n_rows,), optional
        Scores before the link, of two classes.
    """
    forest = test.forest
    known: dict[str, NDArray[np.float64]] = {}
    if probabilities is not None and forest.n_classes == 2:
        known |= {"probabilities": probabilities[:, 1], "full_probabilities": test.full_probabilities[:, 1]}
    if scores is not None:
        known |= {"log_odds": scores * forest.link_scale, "full_log_odds": test.full_log_odds}
    classes = () if forest.classes is None else tuple(forest.classes.tolist())
    return Outcomes(answers=answers, full=test.full, y=test.y, classes=classes, queries=test.groups, **known)


def try_rows(predictor: Predictor, test: TestRows) -> tuple[Outcomes, NDArray[np.int32]]:
    """Return what a predictor does to test rows, with all that promises are about, and their numbers of trees."""
    run = predictor.run(test.rows, None, groups=test.groups)
    has_probabilities = test.forest.n_classes == 2 and test.forest.has_probabilities
    about_log_odds = isinstance(predictor.promise, Values) and predictor.promise.of == "log-odds"
    outcomes = outcomes_of(
        test,
        run.labels,
        probabilities=predictor.predict_proba(test.rows, None) if has_probabilities else None,
        scores=run.scores if about_log_odds else None,
    )
    return outcomes, run.trees


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


def find_rise(mean: Mean) -> tuple[float, float]:
    """Return an interval that holds the mean rise of new rows with 95 % confidence, from bets on both of its ends."""
    tail = (1 - CONFIDENCE) / 2
    rises = mean.values - mean.full_values
    # Rises lie in [-largest, largest], what is bet on in [0, 1].
    shares, repeats = np.unique(0.5 + rises / (2 * mean.largest), return_counts=True)
    high = certified_mean(shares.clip(0, 1), 1 - tail, repeats=repeats)
    low = 1 - certified_mean((1 - shares).clip(0, 1), 1 - tail, repeats=repeats)
    return 2 * mean.largest * (low - 0.5), 2 * mean.largest * (high - 0.5)


def _claim(count: Count, *, is_promised: bool) -> Claim:
    low, high = find_interval(count)
    of_rows = "" if count.n_broken == 0 and count.n_mended == 0 else f"{count.n_broken - count.n_mended:,} of "
    measured = (
        f"{format_share(count.rate)}, {of_rows}{count.n_rows:,} {count.unit} ({format_share(low)} to "
        f"{format_share(high)} with {format_percent(CONFIDENCE)} confidence)"
    )
    if not is_promised:
        return Claim(count.what, "nothing", measured)
    most = f"at most {format_percent(count.max_rate)}" if count.max_rate else "none"
    return Claim(count.what, most, measured, judge(count.rate, low, count.max_rate))


def _claim_mean(mean: Mean) -> Claim:
    (low, high), ours, full = find_rise(mean), float(mean.values.mean()), float(mean.full_values.mean())
    measured = (
        f"{ours - full:+.3g}: {format_number(ours)} here, {format_number(full)} with all trees ({low:+.3g} to "
        f"{high:+.3g} with {format_percent(CONFIDENCE)} confidence, by betting)"
    )
    promised = f"rises by at most {format_number(mean.max_rise)}"
    return Claim(mean.what, promised, measured, judge(ours - full, low, mean.max_rise))
