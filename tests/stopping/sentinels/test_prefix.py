"""Greedy orders and refitted prefixes: golden cases, a slow reference, and what they are for.

Leaves of trees as arrays.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

import scurry
from scurry import _core
from scurry.errors import InputError
from scurry.stopping.sentinels import prefix as module
from scurry.stopping.sentinels.prefix import (
    Leaves,
    Recipe,
    RowLeaves,
    count_needed,
    even_sentinels,
    fit_prefix,
    geometric_sentinels,
    leaf_spread,
    mix_rows,
    order_trees,
    placed_sentinels,
    worthwhile_sentinels,
)
from support.stumps import rows_of, stumps

GOLDEN = Path(__file__).parents[2] / "golden" / "promises"
GREEDY = json.loads((GOLDEN / "greedy_order.json").read_text())["cases"]
BOOSTED = json.loads((GOLDEN / "value_boosted.json").read_text())["cases"]


@pytest.fixture(scope="module")
def boosted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 6))
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + 0.3 * rng.normal(size=len(X))
    forest = scurry.from_model(GradientBoostingRegressor(n_estimators=60, random_state=0).fit(X[:700], y[:700]))
    leaves = Leaves.of(forest.tree_offset, forest.parent)
    rows = RowLeaves(leaves.encode(forest.apply(X)), forest.scores(X)[:, 0])
    return leaves, forest.leaf_values()[leaves.node, 0], rows


def part(rows, chosen):
    return RowLeaves(np.ascontiguousarray(rows.leaves[:, chosen]), rows.target[chosen])


@pytest.mark.parametrize("case", GREEDY)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_golden_orders(case, dtype):
    leaves = stumps(case["n_leaves"])
    rows = rows_of(leaves, case["rows"], np.concatenate(case["leaf_values"]))
    order, gains, left = _core.greedy_order(
        rows.leaves.astype(dtype),
        leaves.offset,
        np.ones(len(rows.target)),
        rows.target - rows.target.mean(),
        ridge=case["ridge"],
        n_steps=case["steps"],
        shrink=case["shrink"],
        exact=True,
        progress=None,
    )
    expected = case["expected"]
    assert order.tolist() == expected["order"]
    assert np.allclose(gains, expected["gains"], rtol=1e-9, atol=0)
    assert np.mean(left**2) == pytest.approx(expected["left_variance"], rel=1e-9)
    assert (
        order_trees(leaves, rows, np.ones(len(rows.target)), n_steps=case["steps"], exact=True).tolist()
        == (expected["order"])
    )


@pytest.mark.parametrize("case", BOOSTED)
def test_golden_estimates(case):
    leaves, values, base = stumps(case["n_leaves"]), np.concatenate(case["leaf_values"]), case["base"]
    refit, spread = (rows_of(leaves, case[name], values, base) for name in ("refit_rows", "spread_rows"))
    for expected in case["expected"]["sentinels"]:
        fit = fit_prefix(
            leaves,
            values,
            refit,
            spread,
            sentinels=np.array([expected["sentinel"]]),
            order=np.arange(leaves.n_trees),
            n_sweeps=case["epochs"],
        )
        slope, intercept = expected["affine"]
        n = leaves.offset[expected["sentinel"]]
        assert fit.slope[0] == pytest.approx(slope, rel=1e-9)
        assert fit.intercept[0] == pytest.approx(intercept + slope * base, rel=1e-9)  # sums here leave the base out
        assert np.allclose(fit.corrections[0, :n], np.concatenate(expected["corrections"]), rtol=1e-9, atol=1e-12)
        assert not fit.corrections[0, n:].any()
        assert fit.sigma[0] == pytest.approx(expected["sigma"], rel=1e-9)
        assert np.allclose(fit.spread[:n], np.concatenate(expected["spread"]), rtol=1e-9)
        new = rows_of(leaves, [row["leaves"] for row in expected["new_rows"]], values, base)
        (found,) = fit.estimates(leaves, new.leaves)
        assert np.allclose(found, [row["prediction"] for row in expected["new_rows"]], rtol=1e-9)


def reference_order(leaves, rows, weight, n_steps):
    """The search as it is described, one sum after the other."""
    residual = rows.target - np.average(rows.target, weights=weight)
    left, chosen = list(range(leaves.n_trees)), []

    def means(tree):
        n_leaves = leaves.offset[tree + 1] - leaves.offset[tree]
        total, count = np.zeros(n_leaves), np.full(n_leaves, 2.0)
        for leaf, value, w in zip(rows.leaves[tree], residual, weight, strict=True):
            total[leaf] += w * value
            count[leaf] += w
        return total, count

    for step in range(n_steps):
        gains = [float((total**2 / count).sum()) for total, count in map(means, left)]
        best = left[int(np.argmax(gains))]
        left.remove(best)
        chosen.append(best)
        for tree, rate in [(best, 0.5), *([(tree, 0.3) for tree in chosen[-25:]] if step % 5 == 4 else [])]:
            total, count = means(tree)
            residual = residual - rate * (total / count)[rows.leaves[tree]]
    return chosen + left


def test_orders_are_those_of_a_slow_search_with_weights(boosted):
    leaves, _, rows = boosted
    few = part(rows, np.arange(len(rows.target)) < 150)
    weight = np.random.default_rng(2).uniform(0.1, 2, size=150)
    assert order_trees(leaves, few, weight, n_steps=12, exact=True).tolist() == reference_order(leaves, few, weight, 12)


def test_lazy_gains_are_as_good_as_exact_ones(boosted):
    leaves, values, rows = boosted
    refit, new = part(rows, np.arange(1500) < 1000), part(rows, np.arange(1500) >= 1000)
    left = {}
    for exact in (False, True):
        order = order_trees(leaves, refit, np.ones(1000), exact=exact)
        assert sorted(order.tolist()) == list(range(60))
        fit = fit_prefix(leaves, values, refit, sentinels=np.array([8]), order=order)
        left[exact] = np.std(new.target - next(fit.estimates(leaves, new.leaves)))
    assert left[False] < 1.1 * left[True]


def test_refitted_prefixes_miss_less_than_sums_in_the_own_order(boosted):
    leaves, values, rows = boosted
    refit, new = part(rows, np.arange(1500) < 1000), part(rows, np.arange(1500) >= 1000)
    fit = fit_prefix(leaves, values, refit, sentinels=np.array([6, 15]))
    plain = fit_prefix(leaves, values, refit, sentinels=np.array([6, 15]), order=np.arange(60), n_sweeps=0)
    for ours, sums in zip(fit.estimates(leaves, new.leaves), plain.estimates(leaves, new.leaves), strict=True):
        assert np.std(new.target - ours) < 0.8 * np.std(new.target - sums)


def test_estimates_of_tested_rows_were_not_fitted_to_them(boosted):
    leaves, values, rows = boosted
    sentinels = np.array([6])
    order = order_trees(leaves, rows, np.ones(1500))
    fit = fit_prefix(leaves, values, rows, sentinels=sentinels, order=order)
    folds = np.arange(1500) % 3
    other = fit_prefix(leaves, values, part(rows, folds != 1), part(rows, folds == 1), sentinels=sentinels, order=order)
    assert np.array_equal(fit.tested[:, folds == 1], other.tested)
    inside = next(fit.estimates(leaves, rows.leaves))
    assert fit.sigma[0] > np.std(rows.target - inside)


@pytest.fixture(scope="module")
def mixed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + 0.3 * rng.normal(size=len(X))
    forest = scurry.from_model(GradientBoostingRegressor(n_estimators=60, random_state=0).fit(X[:700], y[:700]))
    leaves = Leaves.of(forest.tree_offset, forest.parent)
    rows, new = (RowLeaves(leaves.encode(forest.apply(part)), forest.scores(part)[:, 0]) for part in (X[:600], X[600:]))
    more = np.concatenate(list(mix_rows(X[:600], rows.leaves)))
    made = RowLeaves(leaves.encode(forest.apply(more)), forest.scores(more)[:, 0])
    return X[:600], more, leaves, forest.leaf_values()[leaves.node, 0], rows, made, new


class TestMixedRows:
    def test_each_value_is_that_of_one_of_two_rows_of_a_fold(self, mixed):
        X, more = mixed[:2]
        assert more.shape == (1800, 6)
        for at, row in enumerate(more[:60]):
            own = row == X[at]
            other = np.flatnonzero((X[:, ~own] == row[~own]).all(axis=1))
            assert own.all() or (len(other) == 1 and other[0] % 3 == at % 3)
        assert 0.45 < (more == np.tile(X, (3, 1))).mean() < 0.55

    def test_rows_of_a_table_stay_what_they_are(self):
        """Rows whose categories are codes would be encoded a second time."""
        coded = type("Coded", (np.ndarray,), {})
        rows = np.arange(12.0).reshape(6, 2).view(coded)
        assert all(type(more) is coded for more in mix_rows(rows, np.zeros((1, 6), np.uint8)))

    def test_estimates_of_new_rows_miss_less(self, mixed):
        _, _, leaves, values, rows, made, new = mixed
        sentinels = np.array([6, 15, 30])
        few, many = (fit_prefix(leaves, values, rows, mixed=more, sentinels=sentinels) for more in (None, made))
        missed = [[np.std(new.target - ours) for ours in fit.estimates(leaves, new.leaves)] for fit in (few, many)]
        assert np.mean(np.divide(missed[1], missed[0])) < 0.97

    def test_estimates_of_tested_rows_were_fitted_to_nothing_of_them(self, mixed):
        _, _, leaves, values, rows, made, _ = mixed
        sentinels, order = np.array([6]), np.arange(60)
        fit = fit_prefix(leaves, values, rows, mixed=made, sentinels=sentinels, order=order)
        out, made_out = np.arange(600) % 3 == 1, np.arange(1800) % 600 % 3 == 1
        other = fit_prefix(
            leaves,
            values,
            part(rows, ~out),
            part(rows, out),
            mixed=part(made, ~made_out),
            sentinels=sentinels,
            order=order,
        )
        assert np.array_equal(fit.tested[:, out], other.tested)

    def test_recipes_say_how_much_they_count_and_how_many_trees_are_ordered(self, mixed):
        _, _, leaves, values, rows, made, _ = mixed
        none = Recipe(mixed_weight=0.0, ordered_share=0.1)
        fit = fit_prefix(leaves, values, rows, mixed=made, sentinels=np.array([6]), recipe=none)
        others = np.setdiff1d(np.arange(60), fit.order[:6])
        assert fit.order.tolist() == order_trees(leaves, rows, np.ones(600), n_steps=6).tolist()
        assert fit.order[6:].tolist() == others.tolist()

    def test_rows_that_find_the_corrections_may_find_spreads_too(self, mixed):
        _, _, leaves, values, rows, made, new = mixed
        sentinels, order, spread = np.array([6, 20]), np.arange(60), part(new, np.arange(2400) < 200)
        plain, all_of_them = (
            fit_prefix(leaves, values, rows, spread, mixed=made, sentinels=sentinels, order=order, recipe=recipe)
            for recipe in (Recipe(), Recipe(all_spread=True))
        )
        assert np.array_equal(plain.tested, all_of_them.tested)
        assert np.array_equal(plain.sigma, all_of_them.sigma)
        estimates = np.stack(list(all_of_them.estimates(leaves, rows.leaves)))
        squared = [np.square(one) for one in (spread.target - plain.tested, rows.target - estimates)]
        scaled = [np.minimum(one / one.mean(axis=1, keepdims=True), 25).mean(axis=0) for one in squared]
        reached = np.concatenate([spread.leaves, rows.leaves], axis=1)
        np.testing.assert_allclose(all_of_them.spread, leaf_spread(leaves, reached, np.concatenate(scaled)))

    def test_many_rows_are_not_mixed(self):
        recipe = Recipe(most_rows=25)
        counts = [
            len(list(mix_rows(np.zeros((n, 2)), np.zeros((3, n), np.uint8), recipe))) for n in (1, 2, 8, 10, 13, 40)
        ]
        assert counts == [3, 3, 2, 1, 0, 0]


def test_the_same_rows_give_the_same_fit(boosted):
    leaves, values, rows = boosted
    one, two = (fit_prefix(leaves, values, rows, sentinels=np.array([3, 20])) for _ in range(2))
    for name in ("order", "slope", "corrections", "sigma", "spread"):
        assert np.array_equal(getattr(one, name), getattr(two, name))


def test_progress_rises_to_its_total_and_may_stop_the_work(boosted):
    leaves, values, rows = boosted
    seen = []
    fit_prefix(leaves, values, rows, sentinels=np.array([3, 20]), progress=lambda *n: seen.append(n))
    done = [n_done for n_done, _ in seen]
    assert done == sorted(done)
    assert seen[-1][0] == seen[-1][1]

    def stop(n_done, n_total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_prefix(leaves, values, rows, sentinels=np.array([3]), progress=stop)


def test_constant_targets_have_estimates_that_miss_nothing(boosted):
    leaves, values, rows = boosted
    fit = fit_prefix(leaves, values, rows._replace(target=np.full(1500, 3.0)), sentinels=np.array([5]))
    assert np.allclose(next(fit.estimates(leaves, rows.leaves)), 3.0)
    assert fit.sigma[0] < 1e-9
    assert np.isfinite(fit.spread).all()


@pytest.mark.parametrize("n_trees", [1, 2, 3, 10, 21, 60, 200, 1000])
@pytest.mark.parametrize("make", [geometric_sentinels, even_sentinels])
def test_sentinels_rise_and_stay_below_all_trees(make, n_trees):
    sentinels = make(n_trees)
    assert (np.diff(sentinels) > 0).all()
    assert all(0 < sentinel < n_trees for sentinel in sentinels)
    assert len(sentinels) <= 19


def test_no_rows_and_impossible_leaves_are_refused(boosted):
    leaves, values, rows = boosted
    with pytest.raises(InputError, match="there are none"):
        fit_prefix(leaves, values, part(rows, np.zeros(1500, bool)), sentinels=np.array([3]))
    options = {"ridge": 2.0, "n_steps": 3, "shrink": 0.5, "exact": True, "progress": None}
    good = [rows.leaves, leaves.offset, np.ones(1500), rows.target]
    for at, wrong, message in [
        (0, rows.leaves + np.uint8(60), "not among"),
        (1, leaves.offset[:-1], "shape"),
        (2, -np.ones(1500), "negative"),
        (3, np.full(1500, np.nan), "finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            _core.greedy_order(*[wrong if i == at else one for i, one in enumerate(good)], **options)
    with pytest.raises(ValueError, match="unknown tree"):
        _core.refit_leaves(*good, ridge=2.0, trees=np.array([60]), n_sweeps=1, rate=0.1, progress=None)
    with pytest.raises(ValueError, match="ridge"):
        _core.greedy_order(*good, **(options | {"ridge": 0.0}))


@pytest.mark.parametrize("seed", range(5))
def test_sentinels_are_placed_where_rows_stop(seed):
    rng = np.random.default_rng(seed)
    before = even_sentinels(300)
    first, last = sorted(rng.choice(len(before), 2, replace=False))
    stops = np.zeros(len(before) + 1, np.int64)
    stops[first : last + 1] = rng.integers(100, 1000, last + 1 - first)
    placed = placed_sentinels(before, stops, n_trees=300, test_cost=rng.uniform(0, 20))
    assert (np.diff(placed) > 0).all()
    assert placed[0] > (before[first - 1] if first else 0)
    assert before[last] in placed  # no row has to evaluate more than before
    assert set(placed[placed > before[last]]) == set(before[last + 1 : last + 3])
    assert len(placed) <= 11


def test_sentinels_stay_where_no_row_stops():
    before = even_sentinels(50)
    stops = np.append(np.zeros(len(before), int), 70)
    assert np.array_equal(placed_sentinels(before, stops, n_trees=50, test_cost=6), before)


def test_the_longer_tests_take_the_fewer_sentinels_are_placed():
    before = even_sentinels(300)
    stops = np.append(np.geomspace(1000, 1, len(before)).astype(int), 300)  # most rows stop early
    n_placed = [len(placed_sentinels(before, stops, n_trees=300, test_cost=cost)) for cost in (0.0, 3.0, 30.0)]
    assert n_placed == sorted(n_placed, reverse=True)
    assert n_placed[-1] < n_placed[0]


@pytest.fixture(scope="module")
def forest():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 5))
    return scurry.from_model(RandomForestRegressor(6, random_state=0).fit(X, X[:, 0] * X[:, 1])), X


def test_leaves_are_numbered_within_their_trees(forest):
    forest, X = forest
    leaves = Leaves.of(forest.tree_offset, forest.parent)
    assert np.array_equal(np.sort(leaves.node), np.flatnonzero(forest.is_leaf))
    nodes = forest.apply(X)
    reached = leaves.encode(nodes)
    assert reached.shape == nodes.T.shape
    assert reached.dtype == np.uint16
    assert reached.flags.c_contiguous
    assert np.array_equal(leaves.node[leaves.offset[:-1, None] + reached], nodes.T)


def test_small_trees_need_one_byte():
    leaves = Leaves.of(np.array([0, 3]), np.array([-1, 0, 0]))
    assert leaves.encode(np.array([[2], [1]])).dtype == np.uint8


def test_trees_of_too_many_leaves_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MAX_LEAVES", 2)
    with pytest.raises(InputError, match="3 leaves, at most 2"):
        Leaves.of(np.array([0, 4]), np.array([-1, 0, 0, 0]))


def test_smoothing_is_that_of_a_recursion(forest):
    forest, X = forest
    leaves = Leaves.of(forest.tree_offset, forest.parent)
    nodes, misses = forest.apply(X), np.random.default_rng(1).exponential(size=len(X))
    totals, counts = np.zeros(forest.n_nodes), np.zeros(forest.n_nodes)
    for row, miss in zip(nodes, misses, strict=True):
        for node in row:
            totals[node] += miss
            counts[node] += 1
    found = leaves.smooth(totals[leaves.node], counts[leaves.node], 8.0)

    @cache
    def below(node):
        if forest.left[node] < 0:
            return np.array([totals[node], counts[node]])
        return below(forest.left[node]) + below(forest.right[node])

    @cache
    def mean(node):
        total, count = below(node)
        if forest.parent[node] < 0:
            return total / count
        return (total + 8.0 * mean(forest.parent[node])) / (count + 8.0)

    assert np.allclose(found, [mean(node) for node in leaves.node], rtol=1e-12)


def test_sentinels_are_left_out_while_that_saves_time_and_costs_few_trees():
    sentinels = np.array([6, 10, 16, 24, 34, 46, 60])
    stops = np.array([600, 50, 50, 25, 10, 10, 10, 245])

    def keep(test_cost):
        return worthwhile_sentinels(sentinels, stops, n_trees=200, test_cost=test_cost)

    def trees(kept):
        at = np.searchsorted(kept, np.arange(7))  # where a row stops that stopped there before
        return stops @ np.append(np.append(sentinels[kept], 200)[at], 200)

    kept = [keep(cost) for cost in (0.0, 1.0, 12.0)]
    assert len(kept[0]) >= len(kept[1]) >= len(kept[2]) >= 1
    assert 0 in kept[2]
    assert len(kept[2]) < 7
    assert all(trees(one) <= 1.05 * trees(np.arange(7)) for one in kept)
    # Nobody stops at the second, which then costs tests alone.
    assert worthwhile_sentinels(np.array([5, 9]), np.array([9, 0, 1]), n_trees=20, test_cost=0.1).tolist() == [0]


def test_late_sentinels_are_needed_where_many_rows_stop():
    sentinels = np.array([50, 100, 150])

    def count(*stops):
        return count_needed(sentinels, np.array(stops), n_trees=200, test_cost=6)

    assert count(400, 300, 200, 100) == 3
    assert count(400, 600, 0, 0) == 2
    assert count(1000, 0, 0, 0) == 1
    assert count(400, 594, 1, 5) == 2  # one row evaluates 50 trees more, and all rows one sum less
    assert count(0, 0, 0, 1000) == 1


def test_the_fewer_trees_may_be_wasted_the_more_sentinels_stay():
    rng = np.random.default_rng(0)
    sentinels, stops = np.arange(10, 130, 10), rng.integers(20, 60, 13)
    n_kept = [
        len(worthwhile_sentinels(sentinels, stops, n_trees=200, test_cost=8.0, more_trees=more))
        for more in (0.0, 0.02, 0.05, 0.5)
    ]
    assert n_kept[0] == 12
    assert n_kept == sorted(n_kept, reverse=True)
    assert n_kept[-1] < n_kept[1]
