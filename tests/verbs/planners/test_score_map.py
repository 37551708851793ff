"""The fit of a score map, against the same problem written down in full and solved by a general solver."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax

from scurry.verbs.planners import score_map
from scurry.verbs.planners.score_map import Affine, fit_affine

N_POSITIONS = 5
SAME = Affine(np.ones((2, N_POSITIONS)), np.zeros((2, N_POSITIONS)))


def draw(n_rows: int, n_scores: int, seed: int = 0):
    """Rows that stop at positions 1 and 3 of five, with noisy full scores."""
    rng = np.random.default_rng(seed)
    positions = rng.choice([1, 3], n_rows)
    partial = rng.normal(size=(n_rows, n_scores))
    groups = (
        (partial > 0).astype(np.int64) if n_scores == 1 else (partial == partial.max(axis=1)[:, None]).astype(np.int64)
    )
    full = 1.5 * partial + 0.3 * groups + 0.4 * positions[:, None] + rng.normal(scale=0.3, size=partial.shape)
    return positions, groups, partial, full


def mapped(fitted: Affine, positions, groups, partial):
    return fitted.slope[groups, positions[:, None]] * partial + fitted.intercept[groups, positions[:, None]]


def penalised_loss(theta, positions, groups, partial, full, link, tie):
    """The loss as the module's docstring has it: coefficients are corrections of standardised partial scores."""
    theta = theta.reshape(N_POSITIONS, 2, 2)
    centre = np.array([partial[groups == g].mean() for g in (0, 1)])
    spread = np.array([partial[groups == g].std() for g in (0, 1)])
    z = (partial - centre[groups]) / spread[groups]
    at = theta[positions[:, None], groups]
    scores = partial + at[..., 0] + at[..., 1] * z
    if link == "softmax":
        loss = -(softmax(full, axis=1) * log_softmax(scores, axis=1)).sum()
    elif link == "logistic":
        loss = (np.logaddexp(0, scores) - expit(full) * scores).sum()
    else:
        loss = ((scores - full) ** 2).sum() / 2
    return loss + (tie.reshape(2, 2) * np.diff(theta, axis=0) ** 2).sum() / 2


@pytest.mark.parametrize(("link", "n_scores"), [("identity", 1), ("logistic", 1), ("identity", 3), ("softmax", 3)])
def test_the_fit_minimises_the_penalised_loss(link, n_scores, monkeypatch):
    ties = []
    own_tie = score_map._Problem._tie
    monkeypatch.setattr(score_map._Problem, "_tie", lambda self, weight: ties.append(own_tie(self, weight)) or ties[-1])
    data = draw(400, n_scores)
    fitted = fit_affine(*data, start=SAME, link=link)
    best = minimize(penalised_loss, np.zeros(4 * N_POSITIONS), (*data, link, ties[-1]), options={"gtol": 1e-6})
    positions, groups, partial, _ = data
    theta = best.x.reshape(N_POSITIONS, 2, 2)
    centre, spread = (np.array([f(partial[groups == g]) for g in (0, 1)]) for f in (np.mean, np.std))
    at = theta[positions[:, None], groups]
    expected = partial + at[..., 0] + at[..., 1] * (partial - centre[groups]) / spread[groups]
    found = mapped(fitted, positions, groups, partial)
    if link == "softmax":  # scores of a row may move together
        expected, found = expected - expected.mean(axis=1)[:, None], found - found.mean(axis=1)[:, None]
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_positions_without_rows_lie_between_their_neighbours():
    fitted = fit_affine(*draw(4000, 1), start=SAME)
    for part in fitted:
        np.testing.assert_allclose(part[:, 2], (part[:, 1] + part[:, 3]) / 2, rtol=1e-6)
        np.testing.assert_allclose(part[:, [0, 4]], part[:, [1, 3]], rtol=1e-5)


def test_a_group_without_rows_keeps_the_map_it_starts_from():
    positions, _, partial, full = draw(500, 1)
    start = Affine(np.full((2, N_POSITIONS), 0.7), np.full((2, N_POSITIONS), 0.1))
    fitted = fit_affine(positions, np.ones_like(partial, np.int64), partial, full, start=start)
    np.testing.assert_allclose(fitted.slope[0], 0.7)
    np.testing.assert_allclose(fitted.intercept[0], 0.1)
    assert (np.abs(fitted.slope[1] - 0.7) > 0.1).all()
    assert fit_affine(positions[:0], np.empty((0, 1), np.int64), partial[:0], full[:0], start=start) is start


@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_no_slope_is_negative(link):
    positions, groups, partial, _ = draw(600, 1)
    full = np.where(positions[:, None] == 1, -2.0, 1.0) * partial + 3
    fitted = fit_affine(positions, groups, partial, full, start=SAME, link=link)
    assert fitted.slope.min() == 0
    # Rows at the position where evidence misleads get the mean score, or probability, instead.
    here = (positions == 1) & (fitted.slope[groups[:, 0], 1] == 0)
    found, wanted = mapped(fitted, positions, groups, partial)[here], full[here]
    if link == "logistic":
        found, wanted = expit(found), expit(wanted)
    assert here.sum() > 100
    assert abs((found - wanted).mean()) < 0.2


def test_few_rows_follow_their_neighbours_and_many_do_not():
    rng = np.random.default_rng(0)
    for n_here, low, high in ((2, 0.0, 0.5), (5000, 1.9, 2.1)):
        positions = np.repeat([1, 2], [5000, n_here])
        partial = rng.normal(size=(len(positions), 1))
        full = partial + np.where(positions == 2, 2.0, 0.0)[:, None]
        fitted = fit_affine(positions, np.ones_like(partial, np.int64), partial, full, start=SAME)
        assert low <= fitted.intercept[1, 2] <= high


def test_rows_that_all_have_one_score():
    positions = np.array([1, 1, 2, 2])
    full = np.array([[1.0], [1.0], [2.0], [2.0]])
    fitted = fit_affine(positions, np.zeros((4, 1), np.int64), np.full((4, 1), 0.5), full, start=SAME, link="logistic")
    assert np.isfinite(fitted.slope).all()
    assert np.isfinite(fitted.intercept).all()
