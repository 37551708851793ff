"""Families of rules on values: golden cases, and counts against single members."""

import json
from pathlib import Path

import numpy as np
import pytest

from scurry.stopping.sentinels.prefix import fit_prefix
from scurry.stopping.sentinels.values import CAUTIONS, mean_family, prefix_family
from support.stumps import rows_of, stumps

GOLDEN = Path(__file__).parents[2] / "golden" / "promises"
BOOSTED = json.loads((GOLDEN / "value_boosted.json").read_text())["cases"]
FOREST = json.loads((GOLDEN / "value_forest.json").read_text())["cases"]


def nodes_of(leaves, rows):
    return leaves.node[leaves.offset[:-1, None] + rows.leaves].T


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
    family = mean_family(values, nodes, tree_values.mean(axis=1), case["eps"])
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
