"""Fits as integers: the sums, where rows stop, and how little rounding moves estimates."""

from dataclasses import replace

import numpy as np
import pytest

from scurry.stopping.sentinels.lanes import NO_LANE, SentinelFit, prefix_lanes, spread_unit
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
