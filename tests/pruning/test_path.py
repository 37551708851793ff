"""Budgets on a path: what is returned is affordable, as good as said, and no better than the best of all prunings."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.errors import InfeasibleError, InputError
from scurry.pruning.methods import at_lambdas
from support.pruning_oracles import instances, random_instance, solve

X, Y = load_wine(return_X_y=True)
X = X.astype(np.float32)


def splits_of(pruned, forest) -> frozenset:
    """The nodes of `forest` that stay splits in `pruned`, found by walking both at once."""
    kept = set()
    pairs = list(zip(pruned.tree_offset[:-1].tolist(), forest.tree_offset[:-1].tolist(), strict=True))
    while pairs:
        small, large = pairs.pop()
        assert (pruned.value[small] == forest.value[large]).all()
        if pruned.left[small] >= 0:
            kept.add(large)
            pairs.append((pruned.left[small], forest.left[large]))
            pairs.append((pruned.right[small], forest.right[large]))
    return frozenset(int(node) for node in kept)


def budgets(values):
    """The values, between them, and beyond."""
    distinct = sorted(set(values))
    return [*distinct, *((a + b) / 2 for a, b in pairwise(distinct)), distinct[-1] + 1]


@settings(max_examples=60, deadline=None)
@given(instances())
def test_max_cost_is_kept_and_the_gap_is_proven(instance):
    path = solve(instance)
    every = [(instance.error(kept), instance.cost(kept)) for kept in instance.prunings()]
    for budget in budgets(cost for _, cost in every)[::5]:
        point = path.point(max_cost=budget)
        kept = splits_of(point.forest, instance.forest)
        assert point.cost == float(instance.cost(kept))
        assert point.error == float(instance.error(kept))
        assert instance.cost(kept) <= budget
        best = float(min(error for error, cost in every if cost <= budget))
        assert point.bound <= best * (1 + 1e-14)
        assert best <= point.error
        assert point.gap == pytest.approx(point.error - point.bound, rel=1e-12, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(instances())
def test_max_error_is_kept_and_the_gap_is_proven(instance):
    path = solve(instance)
    every = [(instance.error(kept), instance.cost(kept)) for kept in instance.prunings()]
    for budget in budgets(error for error, _ in every)[::3]:
        point = path.point(max_error=budget)
        kept = splits_of(point.forest, instance.forest)
        assert instance.error(kept) <= budget
        assert point.cost == float(instance.cost(kept))
        best = float(min(cost for error, cost in every if error <= budget))
        assert point.bound <= best * (1 + 1e-14)
        assert best <= point.cost
        assert point.gap == pytest.approx(point.cost - point.bound, rel=1e-12, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(instances())
def test_vertices_are_reached_by_their_own_figures(instance):
    path = solve(instance)
    for i, (error, cost) in enumerate(zip(path.errors.tolist(), path.costs.tolist(), strict=True)):
        vertex = splits_of(path[i], instance.forest)
        for point in (path.point(max_cost=cost), path.point(max_error=error)):
            assert splits_of(point.forest, instance.forest) >= vertex
            assert (point.error, point.cost, point.gap) == (error, cost, 0.0)


def test_refinement_uses_the_room_inside_a_jump():
    model = RandomForestClassifier(30, random_state=0).fit(X[::2], Y[::2])
    path = scurry.prune(model, X[1::2])
    jump = int(np.argmax(-np.diff(path.costs)))
    assert path.costs[jump] - path.costs[jump + 1] > 1
    for share in (0.25, 0.5, 0.75):
        budget = path.costs[jump + 1] + share * (path.costs[jump] - path.costs[jump + 1])
        point = path.point(max_cost=budget)
        assert path.errors[jump] < point.error < path.errors[jump + 1]
        assert budget - point.cost < 0.2
        assert path.at(max_cost=budget).digest == point.forest.digest


def test_refinement_saves_what_an_error_inside_a_jump_allows():
    model = RandomForestClassifier(30, random_state=0).fit(X[::2], Y[::2])
    path = scurry.prune(model, X[1::2])
    n_cheaper = 0
    for jump in range(len(path) - 1):
        budget = path.errors[jump] + 0.9 * (path.errors[jump + 1] - path.errors[jump])
        point = path.point(max_error=budget)
        # Also where it answers one label to all rows: bare roots would do that too, but have more errors.
        assert path.errors[jump] <= point.error <= budget * (1 + 1e-12)
        assert path.costs[jump + 1] < point.cost <= path.costs[jump]
        n_cheaper += point.cost < path.costs[jump]
    assert n_cheaper >= 5


def test_bounds_hold_where_only_some_trade_offs_were_solved():
    instance = random_instance(np.random.default_rng(8), n_trees=3, n_splits=4)
    every = [(float(instance.error(kept)), float(instance.cost(kept))) for kept in instance.prunings()]
    whole = solve(instance)
    some = at_lambdas(whole.problem, [Fraction(1, 20), Fraction(1, 2), Fraction(3)])
    for budget in np.linspace(some.costs.min(), whole.costs.max(), 7):
        point = some.point(max_cost=budget)
        assert point.cost <= budget * (1 + 1e-12)
        assert point.bound <= min(error for error, cost in every if cost <= budget) + 1e-12


def test_objective_is_exact_for_fractions():
    instance = random_instance(np.random.default_rng(3), n_trees=4, n_splits=6)
    path = solve(instance)
    lam = Fraction(3, 70)
    assert isinstance(path.objective(lam), Fraction)
    assert path.objective(lam) <= min(
        Fraction(error) + lam * Fraction(cost) for error, cost in zip(path.errors, path.costs, strict=True)
    ) + Fraction(1, 10**14)
    assert path.objective(3 / 70) == pytest.approx(float(path.objective(lam)), rel=1e-14)
    np.testing.assert_allclose(path.objectives, [path.objective(lam) for lam in path.lambdas], rtol=1e-13)


def test_indices():
    path = scurry.prune(RandomForestClassifier(5, random_state=0).fit(X, Y), X)
    assert len(list(path)) == len(path)
    assert path[-1].digest == path[len(path) - 1].digest
    assert path[np.int64(0)].n_nodes > path[-1].n_nodes
    for index in (len(path), -len(path) - 1):
        with pytest.raises(IndexError):
            path[index]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give one of max_cost and max_error"),
        ({"max_cost": 1, "max_error": 1}, "give one of max_cost and max_error"),
        ({"max_cost": np.nan}, "max_cost must be a number, got nan"),
        ({"max_error": "low"}, "max_error must be a number, got 'low'"),
    ],
)
def test_nonsense_budgets_are_named(options, message):
    path = scurry.prune(RandomForestClassifier(3, random_state=0).fit(X, Y), X)
    with pytest.raises(InputError, match=message):
        path.at(**options)


def test_budgets_out_of_reach_say_what_is_possible():
    path = scurry.prune(RandomForestClassifier(5, max_depth=1, random_state=0).fit(X, Y), X)
    assert path.at(max_cost=0).n_nodes == 5
    assert path.at(max_cost=np.inf).digest == path[0].digest
    assert path.at(max_error=np.inf).digest == path[-1].digest
    with pytest.raises(InfeasibleError, match="no pruning costs -1 or less; the cheapest costs 0") as negative:
        path.at(max_cost=-1)
    assert negative.value.achievable == 0
    with pytest.raises(InfeasibleError, match="no pruning has an error of 0 or less") as perfect:
        path.at(max_error=0)
    assert perfect.value.achievable == path.errors.min()


def test_costs_are_what_the_pruned_forests_pay():
    model = RandomForestClassifier(20, random_state=0).fit(X[::2], Y[::2])
    path = scurry.prune(
        model,
        X[1::2],
        Y[1::2],
        errors="validation",
        feature_costs=np.arange(13) / 4,
        groups=np.arange(13) % 4 - 1,
        group_costs=[0, 2.5, 7.27],
        step_cost=0.01,
    )
    for i in range(0, len(path), 5):
        pruned = path[i]
        np.testing.assert_allclose(path.problem.costs.of_rows(pruned, X[1::2]).mean(), path.costs[i], rtol=1e-12)
        wrong = [np.mean(_label_of_tree(pruned, tree, X[1::2]) != Y[1::2]) for tree in range(pruned.n_trees)]
        assert np.mean(wrong) == pytest.approx(path.errors[i], rel=1e-12)


def _label_of_tree(forest, tree, rows):
    return forest.classes[forest.value[forest.apply(rows)[:, tree]].argmax(axis=1)]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_tables_give_what_arrays_give(kind):
    names = load_wine().feature_names
    model = RandomForestClassifier(10, random_state=0).fit(pd.DataFrame(X, columns=names), Y)
    costs = {name: 1 + at % 3 for at, name in enumerate(names)}
    expected = scurry.prune(model, X, feature_costs=list(costs.values()))
    order = np.random.default_rng(0).permutation(13)
    table = kind({names[at]: X[:, at] for at in order})
    path = scurry.prune(model, table, feature_costs=costs)
    assert path.exact_lambdas == expected.exact_lambdas
    assert path[3].digest == expected[3].digest
