"""The exact test of a fall in accuracy: golden cases, direct sums, and its level by enumeration."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from scurry.errors import InputError
from scurry.stopping.paired import berger_boos, certified_drop, changed_upper, paired_p_value

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "promises" / "accuracy.json").read_text())


def case_name(case):
    return f"{case['n_rows']}-{case['n_losses']}-{case['n_gains']}"


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=case_name)
def test_golden_p_values(case):
    n_rows, n_losses, n_gains = case["n_rows"], case["n_losses"], case["n_gains"]
    expected = case["expected"]
    p_value = berger_boos(n_rows, n_losses, n_gains, case["max_drop"], case["gamma"])
    assert p_value == pytest.approx(expected["p_value"], rel=1e-9)
    if expected["q_upper"] is not None:
        most = max(case["max_drop"], changed_upper(n_losses + n_gains, n_rows, case["gamma"]))
        assert most == pytest.approx(expected["q_upper"], rel=1e-9)
    if n_rows * case["max_drop"] >= 8:
        chosen = paired_p_value(n_rows, n_losses, n_gains, case["max_drop"], risk=20 * case["gamma"])
        assert chosen == pytest.approx(p_value, rel=1e-12)


@pytest.mark.parametrize("case", GOLDEN["sign_test"], ids=str)
def test_golden_sign_tests(case):
    p_value = paired_p_value(100, case["n_losses"], case["n_gains"], 0.0)
    assert p_value == pytest.approx(case["expected"]["p_value"], rel=1e-9)


def chance_by_double_sum(n_rows, difference, max_drop, share):
    """P(A - B <= difference), added up over all pairs of losses and gains."""
    lose, gain = (share + max_drop) / 2, (share - max_drop) / 2
    total = 0.0
    for a in range(n_rows + 1):
        for b in range(max(0, a - difference), n_rows - a + 1):
            ways = math.comb(n_rows, a) * math.comb(n_rows - a, b)
            total += ways * lose**a * gain**b * (1 - lose - gain) ** (n_rows - a - b)
    return total


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


def test_misuse():
    with pytest.raises(InputError, match="do not fit into 10 rows"):
        paired_p_value(10, 8, 3, 0.1)
    with pytest.raises(InputError, match="n_losses"):
        paired_p_value(10, -1, 3, 0.1)
    with pytest.raises(InputError, match="max_drop"):
        paired_p_value(10, 1, 3, -0.1)
    with pytest.raises(InputError):
        paired_p_value(10, 1, 3, 0.1, risk=0.0)
