"""Fits as integers: the sums, where rows stop, and how little rounding moves estimates.

Thresholds on estimates.

Families of rules on values: golden cases, and counts against single members.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scurry.stopping.sentinels.lanes import (
    CAUTIONS,
    MARGIN_STEP,
    NO_LANE,
    SentinelFit,
    decision_fit,
    equal_margins,
    increments,
    mean_family,
    near_decision,
    prefix_family,
    prefix_lanes,
    spaced_sentinels,
    spread_unit,
)
from scurry.stopping.sentinels.prefix import fit_prefix
from support.stumps import rows_of, stumps


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    leaves = stumps([3, 5, 4, 2, 6, 3, 4])
    values = rng.normal(size=len(leaves.node)) * 1e3
    rows = rows_of(leaves, rng.integers(0, np.diff(leaves.offset), (300, 7)).tolist(), values)
    fit = fit_prefix(leaves, values, rows, sentinels=np.array([1, 3, 5]))
    return leaves, fit, rows


def nodes_of(leaves, rows):
    return leaves.node[leaves.offset[:-1, None] + rows.leaves].T


def test_sums_of_integers_are_the_estimates_up_to_their_unit(fitted):
    leaves, fit, rows = fitted
    lanes = prefix_lanes(leaves, fit, with_spread=True)
    unit = lanes.scale[0]
    assert (lanes.scale == unit).all()
    assert np.log2(unit) == np.rint(np.log2(unit))
    assert np.array_equal(np.rint(lanes.offset / unit), lanes.offset / unit)
    spread = np.zeros(len(rows.target))
    unit_of_spread = spread_unit(leaves, fit)
    for at, ((total, found), estimate) in enumerate(
        zip(lanes.sums(nodes_of(leaves, rows)), fit.estimates(leaves, rows.leaves), strict=True)
    ):
        n = fit.sentinels[at]
        assert np.abs(lanes.estimate(at, total) - estimate).max() <= unit * (n + 1) / 2
        spread = sum(fit.spread[leaves.offset[tree] + rows.leaves[tree].astype(np.int64)] for tree in fit.order[:n])
        assert np.abs(found * unit_of_spread - spread).max() <= unit_of_spread * n / 2


def largest_sum(leaves, lanes):
    return np.maximum.reduceat(np.abs(lanes[leaves.node].astype(np.int64)).max(axis=1), leaves.offset[:-1]).sum()


def test_sums_over_a_few_trees_fit_16_bits_where_rounding_does_not_matter(fitted):
    leaves, fit, _ = fitted
    coarse = prefix_lanes(leaves, fit, with_spread=True)
    assert largest_sum(leaves, coarse.lanes[:, :3]) > 2**13
    for first, last in ((0, 1), (1, 3), (3, 5)):
        of_trees = np.isin(np.repeat(np.arange(leaves.n_trees), np.diff(leaves.offset)), fit.order[first:last])
        only = np.zeros_like(coarse.lanes)
        only[leaves.node[of_trees]] = coarse.lanes[leaves.node[of_trees]]
        assert largest_sum(leaves, only) < 2**15
    precise = prefix_lanes(leaves, replace(fit, sigma=fit.sigma * 1e-6), with_spread=True)
    assert precise.scale[0] < coarse.scale[0]
    assert 2**28 < largest_sum(leaves, precise.lanes) < 2**31 - 1


def test_trees_after_a_sentinel_add_nothing_to_its_lane(fitted):
    leaves, fit, _ = fitted
    lanes = prefix_lanes(leaves, fit, with_spread=True)
    tree_of = np.repeat(np.arange(leaves.n_trees), np.diff(leaves.offset))
    for at, n in enumerate(fit.sentinels):
        later = np.isin(tree_of, fit.order[n:])
        assert not lanes.lanes[leaves.node[later], at].any()


def test_rows_stop_at_the_first_sentinel_whose_limit_holds_their_spread(fitted):
    leaves, fit, rows = fitted
    lanes, nodes = prefix_lanes(leaves, fit, with_spread=True), nodes_of(leaves, rows)
    assert (lanes.stop(nodes).sentinel == 3).all()  # no limits yet
    sums = list(lanes.sums(nodes))
    edges = [np.sort(np.quantile(total, [0.3, 0.7]).astype(np.int64)) for total, _ in sums]
    limits = [np.quantile(spread, [0.2, 0.8, 0.4]) for _, spread in sums]
    rule = replace(lanes, edges=edges, limits=limits)
    found = rule.stop(nodes)
    for row in range(len(nodes)):
        at = 0
        while at < 3:
            total, spread = sums[at][0][row], sums[at][1][row]
            if spread <= limits[at][sum(total >= edge for edge in edges[at])]:
                break
            at += 1
        assert found.sentinel[row] == at
        if at == 3:
            assert np.isnan(found.estimate[row])
        else:
            assert found.estimate[row] == lanes.offset[at] + lanes.scale[at] * float(sums[at][0][row])
    assert set(found.sentinel) == {0, 1, 2, 3}


def test_squares_are_taken_from_the_spread():
    fit = SentinelFit(
        order=np.arange(3),
        sentinels=np.array([2]),
        lanes=np.array([[3, 9], [5, 25], [7, 49]], np.int32),
        lane=np.zeros(1, np.int64),
        scale=np.full(1, 0.5),
        offset=np.zeros(1),
        spread_lane=1,
        square=np.full(1, 0.5),
        edges=[np.empty(0, np.int64)],
        limits=[np.full(1, 2.0)],
    )
    ((total, spread),) = fit.sums(np.array([[0, 1, 2]]))
    assert total.tolist() == [8]
    assert spread.tolist() == [34 - 32]
    assert fit.stop(np.array([[0, 1, 2]])).estimate.tolist() == [4.0]
    assert replace(fit, spread_lane=NO_LANE, square=np.zeros(1)).stop(np.array([[0, 1, 2]])).sentinel.tolist() == [0]
    assert fit.n_trees_at_stop.tolist() == [2, 3]


@pytest.fixture(scope="module")
def fitted_of_labels():
    rng = np.random.default_rng(0)
    leaves = stumps([4] * 20)
    values = rng.normal(size=80) / 4
    rows, new = (rows_of(leaves, rng.integers(0, 4, (600, 20)).tolist(), values) for _ in range(2))
    weight = near_decision(rows.target, 0.0)
    fit = fit_prefix(leaves, values, rows, sentinels=np.array([2, 5, 10]), weight=weight)
    nodes = leaves.node[leaves.offset[:-1, None] + new.leaves].T
    return leaves, fit, nodes, new


def test_increments_add_up_to_margins_and_to_the_decision():
    found = increments(np.array([[1.0, -2.0], [4.0, -1.0]]), np.array([True, False]))
    assert found.tolist() == [[1.0, 3.0, -3.0], [-2.0, 1.0, 0.0]]


@pytest.mark.parametrize("threshold", [0.0, 0.7])
@pytest.mark.parametrize("amount", [0.1, 0.5, 1.5])
def test_rows_stop_as_the_margins_say(fitted_of_labels, threshold, amount):
    leaves, fit, nodes, new = fitted_of_labels
    found = decision_fit(leaves, fit, threshold)
    scores = increments(found.margins(found.fit.sums(nodes)), new.target >= threshold)
    wide = equal_margins(3, MARGIN_STEP, np.ones(4), negative_only=False).widen(amount)
    decision, n_used = wide.decide(scores)
    stops = found.rule(wide).stop(nodes)
    assert np.array_equal(stops.sentinel, n_used - 1)
    stopped = stops.sentinel < 3
    assert stopped.any()
    assert amount < 0.5 or not stopped.all()
    # The label of a row that stopped is that of its estimate.
    assert np.array_equal(stops.estimate[stopped] >= threshold, decision[stopped])


def test_margins_are_distances_over_expected_errors(fitted_of_labels):
    leaves, fit, nodes, _ = fitted_of_labels
    found = decision_fit(leaves, fit, 0.0)
    for at, (total, spread) in enumerate(found.fit.sums(nodes)):
        expected = fit.sigma[at] * np.sqrt(spread * found.unit / fit.sentinels[at])
        exact = found.fit.estimate(at, total) / expected
        margin = found.margins(found.fit.sums(nodes))[at]
        assert (np.abs(margin) <= np.abs(exact)).all()  # rounded towards 0
        assert (margin * exact >= 0).all()
        inside = np.abs(found.fit.estimate(at, total)) > 0.12 * fit.sigma[at]
        assert (np.abs(margin[inside]) > 0.8 * np.abs(exact[inside])).all()


def test_a_side_that_never_stops(fitted_of_labels):
    leaves, fit, nodes, _ = fitted_of_labels
    negative = equal_margins(3, 0.5, np.ones(4), negative_only=True)
    found = decision_fit(leaves, fit, 0.0).rule(negative).stop(nodes)
    assert (found.sentinel < 3).any()
    assert (found.estimate[found.sentinel < 3] < 0).all()


def test_estimates_that_miss_nothing_stop_where_they_are_not_at_the_decision(fitted_of_labels):
    leaves, fit, nodes, _ = fitted_of_labels
    exact = replace(fit, sigma=np.zeros(3))
    found = decision_fit(leaves, exact, 0.0)
    stops = found.rule(equal_margins(3, 1.0, np.ones(4), negative_only=False)).stop(nodes)
    assert (stops.sentinel == 0).mean() > 0.99


GOLDEN = Path(__file__).parents[2] / "golden" / "promises"
BOOSTED = json.loads((GOLDEN / "value_boosted.json").read_text())["cases"]
FOREST = json.loads((GOLDEN / "value_forest.json").read_text())["cases"]


@pytest.mark.parametrize("case", BOOSTED)
def test_golden_stops_of_boosted_trees(case):
    leaves, values, expected = stumps(case["n_leaves"]), np.concatenate(case["leaf_values"]), case["expected"]
    refit, spread = (rows_of(leaves, case[name], values, case["base"]) for name in ("refit_rows", "spread_rows"))
    (sentinel,) = expected["sentinels"]
    fit = fit_prefix(
        leaves,
        values,
        refit,
        spread,
        sentinels=np.array([sentinel["sentinel"]]),
        order=np.arange(leaves.n_trees),
        n_sweeps=case["epochs"],
    )
    rule = prefix_family(leaves, fit, expected["eps"]).member(expected["lam"])
    new = rows_of(leaves, [row["leaves"] for row in sentinel["new_rows"]], values, case["base"])
    stops = rule.stop(nodes_of(leaves, new))
    assert rule.n_trees_at_stop[stops.sentinel].tolist() == expected["trees_used"]
    rounded = rule.scale[0] * (sentinel["sentinel"] + 1) / 2  # every leaf, and the offset
    assert rounded < 0.1 * fit.sigma[0]
    for row, found in zip(sentinel["new_rows"], stops.estimate, strict=True):
        assert np.isnan(found) or found == pytest.approx(row["prediction"], abs=1e-6 + rounded)


@pytest.mark.parametrize("case", FOREST)
def test_golden_stops_of_averages(case):
    tree_values = np.array(case["tree_values"], float)
    n_rows, n_trees = tree_values.shape
    # Every row has leaves of its own. The prior is the golden case's, not that of these rows.
    values, nodes = tree_values.ravel(), np.arange(n_rows * n_trees).reshape(n_rows, n_trees)
    family = mean_family(values, nodes, tree_values.mean(axis=1), case["eps"], np.arange(2, n_trees))
    unit = values.max() / family.fit.lanes[values.argmax(), 0]
    square_unit = unit**2 / (family.fit.square[0] * family.fit.sentinels[0])
    family.known[:] = case["prior_weight"] * case["prior_variance"] / square_unit
    stops = family.member(case["lam"]).stop(nodes)
    for row, expected in enumerate(case["expected"]):
        trees = int(family.fit.n_trees_at_stop[stops.sentinel[row]])
        assert trees == expected["trees"]
        assert tree_values[row, :trees].mean() == pytest.approx(expected["value"])


def test_estimates_of_averages_follow_a_line_fitted_to_the_rows():
    rng = np.random.default_rng(0)
    values, nodes = rng.normal(size=400), rng.integers(0, 400, (300, 12))
    tree_values = values[nodes]
    target = tree_values.mean(axis=1)
    fit = mean_family(values, nodes, target, 0.1).fit
    for at, (total, spread) in enumerate(fit.sums(nodes)):
        r = at + 2
        mean = tree_values[:, :r].mean(axis=1)
        slope, intercept = np.polyfit(mean, target, 1)
        assert np.allclose(fit.estimate(at, total), slope * mean + intercept, atol=1e-6)
        variance = tree_values[:, :r].var(axis=1) * r
        square_unit = np.square(values).max() / fit.lanes[np.square(values).argmax(), 1]
        assert np.allclose(spread * square_unit, variance, atol=1e-5)


@pytest.mark.parametrize("with_link", [False, True])
def test_counts_are_those_of_single_members(with_link):
    rng = np.random.default_rng(1)
    leaves = stumps([4] * 20)
    values = rng.normal(size=80)
    rows, new = (rows_of(leaves, rng.integers(0, 4, (500, 20)).tolist(), values) for _ in range(2))
    fit = fit_prefix(leaves, values, rows, sentinels=np.array([3, 8, 14]))

    def link(scores):
        return 1 / (1 + np.exp(-scores))

    options = {"link": link, "scores": rows.target} if with_link else {}
    error = 0.1 if with_link else 1.0
    family = prefix_family(leaves, fit, error, **options)
    assert {len(edges) for edges in family.fit.edges} == ({63} if with_link else {0})

    def is_far(estimates, full):
        return np.abs(link(estimates) - link(full)) > error if with_link else np.abs(estimates - full) > error

    nodes = nodes_of(leaves, new)
    counts = family.count(nodes, new.target, is_far)
    assert counts.shape == (len(CAUTIONS), 5)
    for at in range(0, len(CAUTIONS), 20):
        stops = family.member(CAUTIONS[at]).stop(nodes)
        assert counts[at, :-1].tolist() == np.bincount(stops.sentinel, minlength=4).tolist()
        stopped = stops.sentinel < 3
        assert counts[at, -1] == is_far(stops.estimate[stopped], new.target[stopped]).sum()
    # A bolder rule stops no row later.
    assert (np.diff(counts[:, :-1].cumsum(axis=1), axis=0) >= 0).all()
    assert counts[0, -1] <= counts[-1, -1]
    assert counts[-1, :-1].argmax() < 3


def test_where_a_link_is_flat_larger_errors_of_the_score_are_allowed():
    rng = np.random.default_rng(2)
    leaves = stumps([4] * 20)
    values = rng.normal(size=80)
    rows = rows_of(leaves, rng.integers(0, 4, (500, 20)).tolist(), values)
    fit = fit_prefix(leaves, values, rows, sentinels=np.array([8]))
    family = prefix_family(leaves, fit, 0.05, link=lambda s: 1 / (1 + np.exp(-s)), scores=rows.target)
    (room,) = family.room
    middle = np.searchsorted(family.fit.edges[0] * family.fit.scale[0] + family.fit.offset[0], 0.0)
    assert room.argmin() in range(middle - 2, middle + 3)
    assert room.max() / room.min() == pytest.approx(0.08**-2, rel=0.01)


def test_some_sentinels_of_a_fit_stop_as_they_did():
    rng = np.random.default_rng(3)
    leaves = stumps([4] * 20)
    values = rng.normal(size=80)
    rows, new = (rows_of(leaves, rng.integers(0, 4, (500, 20)).tolist(), values) for _ in range(2))
    fit = fit_prefix(leaves, values, rows, sentinels=np.array([3, 8, 14]))
    nodes, rule = nodes_of(leaves, new), prefix_family(leaves, fit, 1.0).fit
    # At each sentinel, the rows with the highest estimates stop.
    edges = [np.quantile(total, [0.7]).astype(np.int64) for total, _ in rule.sums(nodes)]
    rule = replace(rule, edges=edges, limits=[np.array([-np.inf, np.inf])] * 3)
    kept = rule.keep(np.array([0, 2]))
    assert kept.lanes.shape[1] == 3  # two estimates and the spread
    for at, (total, spread) in zip((0, 2), kept.sums(nodes), strict=True):
        expected = list(rule.sums(nodes))[at]
        np.testing.assert_array_equal(total, expected[0])
        np.testing.assert_array_equal(spread, expected[1])
    all_stops, stops = rule.stop(nodes), kept.stop(nodes)
    for before, after in ((0, 0), (2, 1)):
        at_this = all_stops.sentinel == before
        assert at_this.any()
        np.testing.assert_array_equal(stops.sentinel[at_this], after)
        np.testing.assert_array_equal(stops.estimate[at_this], all_stops.estimate[at_this])


@pytest.mark.parametrize("n_trees", [1, 2, 3, 100])
def test_spaced_sentinels_rise_below_the_number_of_trees(n_trees):
    sentinels = spaced_sentinels(n_trees)
    assert (np.diff(sentinels) > 0).all()
    assert len(sentinels) == 0 if n_trees < 3 else 2 <= sentinels[0] < sentinels[-1] + 1 <= n_trees
