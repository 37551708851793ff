"""Thresholds on estimates."""

import numpy as np
import pytest

from scurry.stopping import qwyc
from scurry.stopping.sentinels.labels import increments, keep_apart, label_rule, near_decision, read_estimates
from scurry.stopping.sentinels.lanes import prefix_lanes
from scurry.stopping.sentinels.prefix import fit_prefix
from support.stumps import rows_of, stumps


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    leaves = stumps([4] * 20)
    values = rng.normal(size=80) / 4
    rows, new = (rows_of(leaves, rng.integers(0, 4, (600, 20)).tolist(), values) for _ in range(2))
    weight = near_decision(rows.target, 0.0)
    fit = fit_prefix(leaves, values, rows, sentinels=np.array([2, 5, 10]), weight=weight)
    lanes = prefix_lanes(leaves, fit, with_spread=False)
    nodes = leaves.node[leaves.offset[:-1, None] + new.leaves].T
    return fit, rows, lanes, nodes, new


def test_increments_add_up_to_estimates_and_to_the_score():
    estimates, full = np.array([[1.0, 2.0], [4.0, 1.0]]), np.array([3.0, 5.0])
    found = increments(estimates, full)
    assert found.tolist() == [[1.0, 3.0, -1.0], [2.0, -1.0, 4.0]]


@pytest.mark.parametrize("amount", [0.0, 0.01, 0.3])
def test_rows_stop_as_the_thresholds_say(fitted, amount):
    fit, rows, lanes, nodes, new = fitted
    margins = keep_apart(qwyc(increments(fit.tested, rows.target), max_disagreement=0.02, order="natural"))
    estimates = read_estimates(lanes, nodes)
    wide = margins.widen(amount)
    decision, n_used = wide.decide(increments(estimates, new.target))
    stops = label_rule(lanes, wide).stop(nodes)
    assert np.array_equal(stops.sentinel, n_used - 1)
    stopped = stops.sentinel < 3
    assert 0 < stopped.sum() < len(nodes)
    # The label of a row that stopped is that of its estimate.
    assert np.array_equal(stops.estimate[stopped] >= 0, decision[stopped])


def test_thresholds_are_kept_on_their_sides_of_the_decision():
    # The full scores are far from what the first model says, so that the fit puts a threshold beyond the decision.
    margins = qwyc([[1.0, -5.0], [1.5, -5.0], [3.0, 1.0], [4.0, 1.0]], max_disagreement=0, order="natural")
    assert margins.lower[0] > 0
    apart = keep_apart(margins)
    assert apart.lower[0] < 0 < apart.upper[0]
    assert apart.upper[0] == margins.upper[0]


def test_sides_that_never_stop_have_no_edge(fitted):
    fit, rows, lanes, nodes, _ = fitted
    negative = keep_apart(
        qwyc(increments(fit.tested, rows.target), max_disagreement=0.02, order="natural", negative_only=True)
    )
    rule = label_rule(lanes, negative)
    assert all(len(edges) <= 1 for edges in rule.edges)
    found = rule.stop(nodes)
    assert (found.estimate[found.sentinel < 3] < 0).all()
