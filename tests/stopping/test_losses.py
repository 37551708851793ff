"""Tests of losses: p-values are valid, exact where they can be, and those of golden files."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from scurry.stopping.guarantee import (
    last_certified,
)
from scurry.stopping.losses import (
    berger_boos,
    certified_drop,
    certified_mean,
    changed_upper,
    hoeffding_bentkus,
    loss_p_value,
    paired_p_value,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "promises" / "accuracy.json").read_text())


def chance_by_double_sum(n_rows, difference, max_drop, share):
    """P(A - B <= difference), added up over all pairs of losses and gains."""
    lose, gain = (share + max_drop) / 2, (share - max_drop) / 2
    total = 0.0
    for a in range(n_rows + 1):
        for b in range(max(0, a - difference), n_rows - a + 1):
            ways = math.comb(n_rows, a) * math.comb(n_rows - a, b)
            total += ways * lose**a * gain**b * (1 - lose - gain) ** (n_rows - a - b)
    return total


def test_p_values_are_valid_for_any_losses():
    """Losses with expectation exactly at the bound: small p-values are as rare as they claim."""
    rng = np.random.default_rng(0)
    for draw in (
        lambda n: rng.random(n) * 0.2,
        lambda n: (rng.random(n) < 0.1).astype(float),
        lambda n: rng.beta(0.1, 0.9, n),
    ):
        p = np.array([hoeffding_bentkus(draw(300).mean(), 300, 0.1) for _ in range(2000)])
        assert (p <= 0.05).mean() <= 0.05 + 3 * np.sqrt(0.05 / 2000)
        assert (p <= 0.5).mean() <= 0.5


@pytest.mark.parametrize("bound", ["betting", "hoeffding-bentkus"])
def test_nothing_certifies_a_mean_of_zero(bound):
    assert loss_p_value([0.0] * 100, 0.0, bound=bound) == 1
    assert loss_p_value([0.5] * 100, 0.0, bound=bound) == 1
    assert last_certified([1], lambda rule: float("nan"), 0.95) is None


@pytest.mark.parametrize("bound", ["betting", "hoeffding-bentkus"])
@pytest.mark.parametrize("kind", ["uniform", "rare", "skewed"])
def test_p_values_are_valid(bound, kind):
    """Losses whose mean is exactly the limit: small p-values are as rare as they claim."""
    rng = np.random.default_rng(0)
    draw = {
        "uniform": lambda: rng.random(300) * 0.2,
        "rare": lambda: 0.5 * (rng.random(300) < 0.2),
        "skewed": lambda: 0.5 * rng.beta(0.2, 0.8, 300),
    }[kind]
    p = np.array([loss_p_value(draw(), 0.1, max_loss=0.5, bound=bound) for _ in range(1500)])
    assert (p <= 0.05).mean() <= 0.05 + 3 * np.sqrt(0.05 / 1500)
    assert (p <= 0.5).mean() <= 0.5


def test_betting_beats_hoeffding_where_losses_are_small():
    losses, counts = np.array([0.0, 0.002, 0.3]), np.array([1800, 198, 2])
    betting = certified_mean(losses, 0.95, max_loss=0.5, repeats=counts)
    assert losses @ counts / 2000 < betting
    assert loss_p_value(losses, betting * 1.001, max_loss=0.5, repeats=counts) <= 0.05
    assert loss_p_value(losses, betting * 0.999, max_loss=0.5, repeats=counts) > 0.05
    assert certified_mean(np.repeat(losses, counts), 0.95, max_loss=0.5) == pytest.approx(betting, rel=1e-6)
    tight = loss_p_value(np.full(200, 0.05), 0.06, max_loss=1.0)
    assert tight < loss_p_value(np.full(200, 0.05), 0.06, max_loss=1.0, bound="hoeffding-bentkus")


def test_nothing_to_test_if_no_row_can_lose_more():
    assert loss_p_value([0.01], 0.02, max_loss=0.02) == 0


@pytest.mark.parametrize("case", GOLDEN["sign_test"], ids=str)
def test_golden_sign_tests(case):
    p_value = paired_p_value(100, case["n_losses"], case["n_gains"], 0.0)
    assert p_value == pytest.approx(case["expected"]["p_value"], rel=1e-9)


@pytest.mark.parametrize(("n_rows", "n_losses", "n_gains"), [(40, 3, 2), (60, 0, 0), (60, 10, 12), (80, 4, 20)])
@pytest.mark.parametrize("max_drop", [0.2, 0.35])
def test_p_values_are_those_of_direct_double_sums(n_rows, n_losses, n_gains, max_drop):
    missed = 0.0025
    most = max(max_drop, changed_upper(n_losses + n_gains, n_rows, missed))
    shares = (max_drop, (max_drop + most) / 2, most)
    direct = max(chance_by_double_sum(n_rows, n_losses - n_gains, max_drop, share) for share in shares)
    assert berger_boos(n_rows, n_losses, n_gains, max_drop, missed) == pytest.approx(missed + direct, rel=1e-9)


@pytest.mark.parametrize("risk", [0.05, 0.1])
@pytest.mark.parametrize(("n_rows", "max_drop"), [(20, 0.1), (30, 0.3), (45, 0.2)])
def test_level_by_enumeration(n_rows, max_drop, risk):
    """Over all outcomes, at the edge of the hypothesis and beyond it: no more than the risk passes."""
    accepted = np.zeros((n_rows + 1, n_rows + 1), bool)
    for a in range(n_rows + 1):
        for b in range(n_rows + 1 - a):
            accepted[a, b] = paired_p_value(n_rows, a, b, max_drop, risk=risk) <= risk
    counts = np.arange(n_rows + 1)
    for drop in (max_drop, 1.3 * max_drop):
        for share in np.linspace(drop, 1.0, 15):
            changed = binom.pmf(counts, n_rows, share)
            lose = (1 + drop / share) / 2
            passed = sum(changed[m] * binom.pmf(a, m, lose) for m in counts for a in range(m + 1) if accepted[a, m - a])
            assert passed <= risk


def test_few_expected_losses_are_tested_by_losses_alone():
    assert paired_p_value(2000, 0, 30, 0.003) == pytest.approx(binom.cdf(0, 2000, 0.003))
    assert paired_p_value(2000, 6, 0, 0.003) == 1.0


@pytest.mark.parametrize(
    ("counts", "points"),
    [
        ((4000, 0, 0), 0.075),
        ((4000, 20, 16), 0.423),
        ((10_000, 50, 42), 0.269),
        ((10_000, 260, 250), 0.505),
        ((40_000, 1000, 980), 0.243),
    ],
)
def test_certified_drop(counts, points):
    drop = certified_drop(*counts, 0.95)
    assert 100 * drop == pytest.approx(points, abs=6e-4)
    assert paired_p_value(*counts, drop * (1 + 1e-9)) <= 0.05


def test_certified_drop_of_few_rows():
    assert certified_drop(5, 5, 0, 0.95) == 1.0
    assert certified_drop(5, 0, 0, 0.95) == pytest.approx(1 - 0.05 ** (1 / 5))
