"""Fit a score map: from the score of the trees that a row evaluated to the score that all trees would have given it.

Probabilities of an early exit have a score map, fitted once a plan is chosen. It is fitted to calibration rows, those
that fitted the rule and those that certified it. It cannot change a label, so the promise about labels is not touched.
Rows given as `X_fit` are left out: often the model was trained on them, and full scores of training rows are more
extreme than those of new ones.

Rows that stop at one position, on one side, are few, so each position cannot be fitted by itself. The coefficients of
neighbouring positions are tied together instead: the loss is that of an affine map per position and group, plus a
penalty on the squared differences of neighbouring coefficients. It is a random walk prior on the coefficients of a
varying-coefficient model (Hastie and Tibshirani 1993, "Varying-coefficient models"). Positions where no row stops
lie between their neighbours, and a group without any row keeps the map that it starts from.

Where scores become probabilities by a logistic function or a softmax, the loss is the cross-entropy to the full model's
probabilities, so that mapped probabilities are right on average; elsewhere it is the squared error of the score.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.evaluation import ScoreQuality, score_quality
from scurry.forest import Forest
from scurry.plan import Plan, ScoreMap
from scurry.predictor import Predictor
from scurry.runners.exits import Stops, expected_map, stops_of
from scurry.verbs.options import Calibration

FloatArray = NDArray[np.float64]

# How strongly neighbours are tied, in rows. Of 1, 10, 100, … tried on six models, 10 and 100 gave new rows the lowest
# log-loss or nearly so.
_TIE_ROWS = 30.0
_RIDGE = 1e-6  # rows: keeps the equations solvable where no row says anything
_MAX_ROUNDS, _SMALL_STEP = 30, 1e-5
_LOGISTIC, _SOFTMAX = ("logistic", "logistic-each"), ("softmax",)
_MAX_SCORES = 1 << 18  # that fit a map: enough, and quickly brought together from files


def with_score_map(calibration: Calibration, plan: Plan) -> Plan:
    """Return the plan with a score map, and with the quality of its probabilities where labels are known."""
    if plan.exit_rule is None or calibration.sample.n_rows == 0:
        return plan
    forest = calibration.forest
    chosen = _choose_evenly(calibration, np.ones(calibration.sample.n_rows, np.bool_))
    rows = calibration.sample.where(chosen).gather()
    stops = stops_of(forest, plan, rows)
    if stops is None:
        return plan
    mapped = replace(plan, score_map=_fit(forest, plan, stops, ~stops.complete))
    y = None if calibration.rows.y is None else calibration.rows.y[chosen]
    return _say_quality(mapped, None if y is None else _measure(forest, plan, stops, rows, y))


def with_quality(calibration: Calibration, tests: NDArray[np.bool_], plan: Plan) -> Plan:
    """Return the plan with the quality of its probabilities on rows it was not fitted to, where labels are known.

    For plans that estimate scores by themselves, and need no map.
    """
    if calibration.rows.y is None or not tests.any():
        return plan
    chosen = _choose_evenly(calibration, tests)
    y = calibration.rows.y[chosen]
    if len(np.unique(calibration.forest.codes_of(y))) < 2:
        return plan
    rows = calibration.sample.where(chosen).gather()
    return _say_quality(plan, score_quality(Predictor(calibration.forest, plan), rows, y))


def _choose_evenly(calibration: Calibration, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return an even selection of rows, the same wherever they lie, and not too many to be brought together."""
    possible, sample = np.flatnonzero(among), calibration.sample
    n_rows = min(len(possible), sample.max_gathered, _MAX_SCORES // max(calibration.forest.n_outputs, 2))
    chosen = np.zeros(sample.n_rows, np.bool_)
    chosen[possible[np.linspace(0, len(possible) - 1, max(n_rows, 1)).astype(np.intp)]] = True
    return chosen


def _say_quality(plan: Plan, quality: ScoreQuality | None) -> Plan:
    certificate = plan.certificate
    if quality is None or certificate is None or certificate.exits is None:
        return plan
    return replace(plan, certificate=replace(certificate, measured=replace(certificate.exits, **asdict(quality))))


def _fit(forest: Forest, plan: Plan, stops: Stops, chosen: NDArray[np.bool_]) -> ScoreMap:
    assert plan.exit_rule is not None
    start = expected_map(forest, plan.order, plan.exit_rule)
    fitted = fit_affine(
        stops.positions[chosen].astype(np.int64),
        stops.groups[chosen],
        stops.partial[chosen],
        stops.full[chosen],
        start=Affine(start.slope, start.intercept),
        link=forest.link,
        link_scale=forest.link_scale,
    )
    return ScoreMap(slope=fitted.slope, intercept=fitted.intercept)


def _measure(forest: Forest, plan: Plan, stops: Stops, rows: NDArray[Any], y: NDArray[Any]) -> ScoreQuality | None:
    """Measure probabilities on every other row, with a map fitted to the rest; None if they are of one class."""
    measured = np.arange(len(rows)) % 2 == 1
    if len(np.unique(forest.codes_of(y[measured]))) < 2:
        return None
    half = replace(plan, score_map=_fit(forest, plan, stops, ~stops.complete & ~measured))
    return score_quality(Predictor(forest, half), rows[measured], y[measured])


class Affine(NamedTuple):
    """An affine map per group and position, ``slope * x + intercept``, both of shape (2, n_positions)."""

    slope: FloatArray
    intercept: FloatArray


def fit_affine(
    positions: NDArray[np.int64],
    groups: NDArray[np.int64],
    partial: FloatArray,
    full: FloatArray,
    *,
    start: Affine,
    link: str = "identity",
    link_scale: float = 1.0,
) -> Affine:
    """Return the map from partial to full scores that fits rows best, tied between neighbouring positions.

    Parameters
    ----------
    positions : int array of shape (n_rows,)
        Where each row stopped.
    groups : int array of shape (n_rows, n_scores)
        Which of the two maps of the position each score uses: 0 or 1.
    partial, full : float64 arrays of shape (n_rows, n_scores)
    start : Affine
        The map that rows correct.
    link : str
        How scores become probabilities: "logistic", "logistic-each", "softmax"; anything else compares scores.
    link_scale : float

    Returns
    -------
    Affine
        Slopes are not negative.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> partial, positions = rng.normal(size=(500, 1)), np.repeat([1, 2], 250)
    >>> start = Affine(np.ones((2, 4)), np.zeros((2, 4)))
    >>> fitted = fit_affine(positions, np.ones((500, 1), int), partial, 2 * partial + 1, start=start)
    >>> fitted.slope.round(3).tolist()
    [[1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0]]
    """
    if not len(positions):
        return start
    problem = _Problem(positions, groups, partial, full, start, link, link_scale)
    return problem.affine(problem.solve())


class _Problem:
    """The penalised loss. A position has four coefficients: height and slope of group 0, then of group 1."""

    def __init__(
        self,
        positions: NDArray[np.int64],
        groups: NDArray[np.int64],
        partial: FloatArray,
        full: FloatArray,
        start: Affine,
        link: str,
        link_scale: float,
    ) -> None:
        self.start, self.link = start, link
        self.scale = link_scale if link in _LOGISTIC + _SOFTMAX else 1.0
        self.n_positions = start.slope.shape[1]
        self.row, self.at = positions, positions[:, None] * 2 + groups
        # Coefficients are those of scores with mean 0 and deviation 1 in each group.
        n = np.maximum(np.bincount(groups.ravel(), minlength=2), 1)
        self.centre = np.bincount(groups.ravel(), partial.ravel(), 2) / n
        spread = np.bincount(groups.ravel(), (partial - self.centre[groups]).ravel() ** 2, 2) / n
        self.spread = np.where(spread > 0, np.sqrt(spread), 1.0)
        self.z = (partial - self.centre[groups]) / self.spread[groups]
        heights = start.slope[groups, positions[:, None]] * partial + start.intercept[groups, positions[:, None]]
        self.offset, self.target = self.scale * heights, self.scale * full
        self.wanted = self._probabilities(self.target)

    def solve(self) -> FloatArray:
        """Return coefficients of shape (n_positions, 4)."""
        # Least squares on the scores themselves: the answer, or a place to start from.
        theta = self._newton_step(np.zeros((self.n_positions, 4)), np.ones_like(self.z), self.target - self.offset)
        if self.link not in _LOGISTIC + _SOFTMAX:
            return theta
        for _ in range(_MAX_ROUNDS):
            found = self._probabilities(self._scores(theta))
            weight = found if self.link in _SOFTMAX else found * (1 - found)
            step = self._newton_step(theta, weight, self.wanted - found) - theta
            theta, moved = self._line_search(theta, step, weight)
            if moved < _SMALL_STEP:
                break
        return theta

    def affine(self, theta: FloatArray) -> Affine:
        """Return the map with these coefficients, whose slopes are not negative."""
        height, slope = theta[:, 0::2].T, theta[:, 1::2].T
        slope = slope / self.spread[:, None]
        intercept = (height - slope * self.centre[:, None]) / self.scale + self.start.intercept
        slope = slope / self.scale + self.start.slope
        # Where more evidence for a class would lower its score, the score is that of the mean row instead.
        n = np.bincount(self.at.ravel(), minlength=2 * self.n_positions)
        partial = (self.z * self.spread[self.at % 2] + self.centre[self.at % 2]).ravel()
        mean = np.bincount(self.at.ravel(), partial, 2 * self.n_positions) / np.maximum(n, 1)
        mean = np.where(n > 0, mean, self.centre[np.arange(len(n)) % 2]).reshape(-1, 2).T
        return Affine(np.maximum(slope, 0.0), intercept + np.minimum(slope, 0.0) * mean)

    def _scores(self, theta: FloatArray) -> FloatArray:
        height, slope = theta[:, 0::2].ravel(), theta[:, 1::2].ravel()
        return np.asarray(self.offset + height[self.at] + slope[self.at] * self.z)

    def _probabilities(self, scores: FloatArray) -> FloatArray:
        if self.link in _LOGISTIC:
            return np.asarray(0.5 * (1 + np.tanh(0.5 * scores)))
        if self.link in _SOFTMAX:
            e = np.exp(scores - scores.max(axis=1, keepdims=True))
            return np.asarray(e / e.sum(axis=1, keepdims=True))
        return scores

    def _penalised_loss(self, theta: FloatArray, tie: FloatArray) -> float:
        scores = self._scores(theta)
        if self.link in _SOFTMAX:
            most = scores.max(axis=1)
            log_total = float((np.log(np.exp(scores - most[:, None]).sum(axis=1)) + most).sum())
        else:
            log_total = float(np.logaddexp(0.0, scores).sum())
        roughness = float((tie * np.diff(theta, axis=0) ** 2).sum())
        return log_total - float((self.wanted * scores).sum()) + roughness / 2

    def _newton_step(self, theta: FloatArray, weight: FloatArray, residual: FloatArray) -> FloatArray:
        """Return the coefficients that minimise the quadratic approximation of the loss at `theta`."""
        curvature, slope = self._curvature(weight), np.zeros((self.n_positions, 4))
        for power in (0, 1):
            slope[:, power::2] = self._sums((residual * self.z**power).ravel()).reshape(-1, 2)
        tie = self._tie(weight)
        pull = tie * np.diff(theta, axis=0)
        slope[:-1] += pull
        slope[1:] -= pull
        return theta + _solve_tied(curvature, slope, tie)

    def _curvature(self, weight: FloatArray) -> FloatArray:
        curvature = np.zeros((self.n_positions, 4, 4))
        for i, j in ((0, 0), (0, 1), (1, 1)):
            entry = self._sums((weight * self.z ** (i + j)).ravel()).reshape(-1, 2)
            for group in (0, 1):
                curvature[:, 2 * group + i, 2 * group + j] = curvature[:, 2 * group + j, 2 * group + i] = entry[
                    :, group
                ]
        if self.link in _SOFTMAX and not (weight == 1).all():
            # The classes of a row compete, so its coefficients do too.
            mean = np.stack(
                [(weight * (self.at % 2 == g) * self.z**power).sum(axis=1) for g in (0, 1) for power in (0, 1)], axis=1
            )
            for i in range(4):
                for j in range(4):
                    curvature[:, i, j] -= np.bincount(self.row, mean[:, i] * mean[:, j], self.n_positions)
        return curvature

    def _tie(self, weight: FloatArray) -> FloatArray:
        """Return how strongly neighbours are tied, one number per coefficient: the weight of so many rows."""
        n_rows = max(len(self.row), 1)
        of_group = np.bincount(self.at.ravel() % 2, weight.ravel(), 2) / n_rows
        return np.repeat(_TIE_ROWS * np.maximum(of_group, _RIDGE), 2)

    def _sums(self, values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(self.at.ravel(), values, 2 * self.n_positions), np.float64)

    def _line_search(self, theta: FloatArray, step: FloatArray, weight: FloatArray) -> tuple[FloatArray, float]:
        """Return the coefficients after a part of the step that lowers the loss, and how far they moved."""
        tie = self._tie(weight)
        before, share = self._penalised_loss(theta, tie), 1.0
        while share > 1e-3:
            after = theta + share * step
            if self._penalised_loss(after, tie) <= before:
                return after, float(share * np.abs(step).max())
            share /= 2
        return theta, 0.0


def _solve_tied(curvature: FloatArray, slope: FloatArray, tie: FloatArray) -> FloatArray:
    """Solve the equations of all positions: blocks of four, of which each is tied to the one before and after."""
    n, size = slope.shape
    blocks, ties = curvature.copy(), np.diag(tie)
    blocks[1:] += ties
    blocks[:-1] += ties
    blocks += np.diag(_RIDGE * tie)
    factors, found = np.zeros((n, size, size)), np.zeros((n, size))
    for at in range(n):
        block, right = blocks[at], slope[at]
        if at > 0:
            block, right = block - ties @ factors[at - 1], right + ties @ found[at - 1]
        both = np.linalg.solve(block, np.column_stack([ties, right]))
        factors[at], found[at] = both[:, :-1], both[:, -1]
    for at in range(n - 2, -1, -1):
        found[at] += factors[at] @ found[at + 1]
    return found
