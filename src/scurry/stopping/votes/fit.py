"""VoteFit: a vote rule fitted to calibration rows, with or without a promise for new rows."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import RandomState, check_choice, check_confidence, check_count, check_random_state, check_rate
from scurry.errors import InfeasibleError, InputError
from scurry.formatting import format_percent
from scurry.stopping.guarantee import certified_mean, last_certified, loss_p_value
from scurry.stopping.sample import InMemory, Sample, Sums, random_part
from scurry.stopping.votes.policy import MAX_VOTERS, FloatArray
from scurry.stopping.votes.rule import METHODS, VoteRule
from scurry.stopping.votes.solve import solve

_SHAPING_SHARE = 0.25  # of the rows; the others test. A rule's shape needs fewer rows than its promise.
# Candidates are solved for these fractions of the bound. Some exceed 1 because the smoothed distribution of the shaping
# rows overstates close votes.
_FRACTIONS = np.concatenate([np.geomspace(1 / 256, 1 / 4, 10), np.linspace(0.3, 1.0, 20), np.linspace(1.1, 3.0, 15)])


class VotePromise(NamedTuple):
    """What a rule promises for new rows.

    Attributes
    ----------
    max_disagreement : float
        The largest mean disagreement on new rows.
    confidence : float
        The chance, over the draw of the calibration rows, that this holds; 1 if it holds for every row by construction.
    n_rows : int
        Number of rows that the promise was tested on.
    upper_bound : float
        The bound that the test rows would certify if this had been the only rule tested. It was chosen among several,
        so the promise is `max_disagreement`.

    Examples
    --------
    >>> fit_votes([0, 2, 5, 5, 4, 1], 5, 0.1, method="minimax").promise.confidence
    1.0
    """

    max_disagreement: float
    confidence: float
    n_rows: int
    upper_bound: float

    def describe(self) -> str:
        """Return the promise as one plain sentence."""
        if self.upper_bound == 0 and self.confidence == 1:
            return "Votes stop only where the outcome cannot change any more."
        at_most = f"at most {format_percent(self.max_disagreement)}"
        if self.confidence == 1:
            return f"Each row gets another outcome than the full vote's with probability {at_most}."
        return (
            f"With confidence {self.confidence:g}, {at_most} of new rows get another outcome than the full vote's; "
            f"{self.n_rows:,} rows tested it."
        )


class VoteFit(NamedTuple):
    """A rule and its promise.

    Attributes
    ----------
    rule : VoteRule
    promise : VotePromise or None
        None if the rule was fitted without a confidence.

    Examples
    --------
    >>> fit_votes([0, 2, 5, 5, 4, 1], 5, 0.1, confidence=None).promise is None
    True
    """

    rule: VoteRule
    promise: VotePromise | None


def fit_votes(
    n_positive: ArrayLike | Sample,
    n_voters: int,
    max_disagreement: float,
    *,
    method: str = "minimean",
    confidence: float | None = 0.95,
    shaping: ArrayLike | Sample | None = None,
    random_state: RandomState = None,
) -> VoteFit:
    """Fit a stopping rule to the positive votes of calibration rows.

    With a `confidence`, "minimean" and "schwing" rules are solved for a quarter of the rows and tested on the others
    (`scurry.stopping.guarantee`); the chance that a rule differs from the full vote is known exactly for each row.
    "minimixed" and "minimax" bound it for every row and need no test.

    Parameters
    ----------
    n_positive : int array of shape (n_rows,), or Sample of such
        Number of positive voters on each row.
    n_voters : int
    max_disagreement : float in [0, 1)
    method : {"minimean", "minimixed", "minimax", "schwing"}
    confidence : float in (0, 1), optional
        The chance that mean disagreement on new rows is within `max_disagreement`. With None the rule is fitted to all
        rows and its bound holds for their (smoothed) distribution only.
    shaping : int array of shape (n_other_rows,), optional
        Positive votes on other rows, for which rules are solved, so that all of `n_positive` test them. By default a
        quarter of `n_positive`, or all of it where nothing is tested.
    random_state : int, Generator or None
        Splits the rows.

    Returns
    -------
    VoteFit

    Raises
    ------
    InfeasibleError
        If not even the safest "schwing" rule passes; "minimean" falls back on "minimixed".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> n_positive = rng.binomial(101, rng.beta(0.3, 0.5, size=4000))
    >>> rule, promise = fit_votes(n_positive, 101, 0.001, random_state=0)
    >>> promise.confidence, promise.n_rows, promise.upper_bound <= 0.001
    (0.95, 3000, True)
    """
    n_voters = check_count("n_voters", n_voters, largest=MAX_VOTERS)
    alpha = check_rate("max_disagreement", max_disagreement)
    check_choice("method", method, METHODS)
    rows, histogram = _check_rows("n_positive", n_positive, n_voters), partial(np.bincount, minlength=n_voters + 1)
    others = None if shaping is None else _check_rows("shaping", shaping, n_voters)
    confidence = None if confidence is None else check_confidence(confidence)
    if confidence is None or alpha == 0.0 or method in ("minimixed", "minimax"):
        rule = solve(n_voters, alpha, method, smooth((rows if others is None else others).sums(histogram)))
        promise = None if confidence is None else VotePromise(alpha, 1.0, 0, float(rule.disagreement().max()))
        return VoteFit(rule, promise)
    if others is None:
        own = random_part(rows.n_rows, int(_SHAPING_SHARE * rows.n_rows), check_random_state(random_state))
        others, rows = rows.where(own), rows.where(~own)
    return _certify(alpha, method, confidence, smooth(others.sums(histogram)), rows.sums(histogram))


def _certify(alpha: float, method: str, confidence: float, shape: FloatArray, tested: NDArray[np.int64]) -> VoteFit:
    """Fit a rule to the distribution `shape` and test it on rows with these counts of positive votes."""
    n_voters, n_rows = len(shape) - 1, int(tested.sum())
    bounds = [float(alpha * fraction) for fraction in _FRACTIONS if alpha * fraction < 1.0]
    # A generator: no rule is solved after the first that fails its test.
    candidates = (solve(n_voters, bound, method, shape) for bound in bounds)

    def p_value_of(rule: VoteRule) -> float:
        return loss_p_value(rule.disagreement(), alpha, max_loss=float(rule.disagreement().max()), repeats=tested)

    rule = last_certified(candidates, p_value_of, confidence)
    if method == "minimean":
        # The bound of "minimixed" holds for every row, so it needs no test; with few rows it may be the faster rule.
        safe = solve(n_voters, alpha, "minimixed", shape)
        if rule is None or safe.objective < rule.objective:
            return VoteFit(safe, VotePromise(alpha, 1.0, 0, float(safe.disagreement().max())))
    elif rule is None:
        rule = solve(n_voters, float(alpha * _FRACTIONS[0]), method, shape)
        achieved = _bound_disagreement(rule, confidence, tested)
        raise InfeasibleError(
            f"no {method!r} rule keeps disagreement within {alpha:g} with confidence {confidence:g} on {n_rows} rows; "
            f'the safest certifies {achieved:.3g}. Use method="minimixed", or more rows',
            achieved,
        )
    return VoteFit(rule, VotePromise(alpha, confidence, n_rows, _bound_disagreement(rule, confidence, tested)))


def _bound_disagreement(rule: VoteRule, confidence: float, tested: NDArray[np.int64]) -> float:
    """Return the mean disagreement that the rows certify for one rule."""
    losses = rule.disagreement()
    return certified_mean(losses, confidence, max_loss=float(losses.max()), repeats=tested)


def smooth(histogram: Sums) -> FloatArray:
    """Add one half to each count of positive votes, so that no state is impossible."""
    return histogram.astype(np.float64) + 0.5


def _check_rows(name: str, n_positive: ArrayLike | Sample, n_voters: int) -> Sample:
    """Return the positive votes of at least two rows as a sample."""
    if isinstance(n_positive, Sample) and n_positive.n_rows >= 2:
        return n_positive
    rows = n_positive.gathered() if isinstance(n_positive, Sample) else np.asarray(n_positive)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or len(rows) < 2:
        raise InputError(
            f"{name} must be whole numbers of positive votes, one for each of at least 2 rows, got an array of "
            f"{rows.dtype} and shape {rows.shape}",
            argument=name,
        )
    if rows.min() < 0 or rows.max() > n_voters:
        raise InputError(
            f"{name} must be between 0 and n_voters = {n_voters}, got {rows.min()} to {rows.max()}", argument=name
        )
    return InMemory(rows.astype(np.int64))
