"""Prunings between two optimal ones: within the budget, between the two, and closed under parents."""

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.pruning import refine
from scurry.pruning.refine import FamilyDrops, families, within_cost, within_error
from support.pruning_oracles import instances, random_instance, solve


def is_pruning(problem, kept):
    """Return whether every kept split has a kept parent."""
    parent = problem.closure.parent
    return bool((~kept | (parent < 0) | kept[parent]).all())


@settings(max_examples=40, deadline=None)
@given(instances(n_trees=4, n_splits=8, n_rows=10))
def test_refined_prunings_keep_the_budget(instance):
    path = solve(instance)
    problem, closure = path.problem, path.problem.closure
    for at in range(len(path) - 1):
        outer, inner = path.kept(at), path.kept(at + 1)
        for share in (0.1, 0.5, 0.9):
            max_cost = int(closure.cost_of(inner) + share * (closure.cost_of(outer) - closure.cost_of(inner)))
            min_gain = int(np.ceil(closure.gain_of(inner) + share * (closure.gain_of(outer) - closure.gain_of(inner))))
            cheap, good = within_cost(problem, inner, outer, max_cost), within_error(problem, inner, outer, min_gain)
            assert closure.cost_of(cheap) <= max_cost
            assert closure.gain_of(good) >= min_gain
            for kept in (cheap, good):
                assert is_pruning(problem, kept)
                assert (inner <= kept).all()
                assert (kept <= outer).all()


@pytest.mark.parametrize("seed", range(6))
def test_losses_of_families_are_those_of_walked_rows(seed):
    instance = random_instance(np.random.default_rng(seed), n_trees=3, n_splits=6)
    path = solve(instance)
    problem, theta = path.problem, 0.7
    drops = FamilyDrops(problem.closure, families(problem))
    kept = np.ones(problem.n_splits, bool)
    losses = drops.losses(kept, theta)
    for family in range(drops.n_families):
        left = kept & ~drops.goes_with[:, family]
        assert is_pruning(problem, left)
        closure = problem.closure
        gain, cost = (of(kept) - of(left) for of in (closure.gain_of, closure.cost_of))
        assert losses[family] == pytest.approx(gain - theta * cost, rel=1e-12, abs=1e-12)


def test_rounds_end_with_nothing():
    path = solve(random_instance(np.random.default_rng(3), n_trees=4, n_splits=6))
    drops = FamilyDrops(path.problem.closure, families(path.problem))
    rounds = list(drops.rounds(0.5))
    assert rounds[0][0].all()
    assert rounds[0][1] == 0
    assert not rounds[-1][0].any()
    closure = path.problem.closure
    whole = np.ones(closure.n_nodes, bool)
    assert rounds[-1][1] == pytest.approx(closure.gain_of(whole) - 0.5 * closure.cost_of(whole), rel=1e-12)


def test_the_best_of_several_ways_is_taken(monkeypatch):
    X, y = load_wine(return_X_y=True)
    model = RandomForestClassifier(30, random_state=0).fit(X[::2], y[::2])
    path = scurry.prune(model, X[1::2])
    problem, closure = path.problem, path.problem.closure
    lower_cost, thin_out, gains, costs = refine._lower_cost, refine._thin_out, [], []

    def record_gain(part, kept, max_cost):
        found = lower_cost(part, kept, max_cost)
        gains.append(part.gain_of(found))
        return found

    def record_cost(part, kept, min_gain):
        found = thin_out(part, kept, min_gain)
        costs.append(part.cost_of(found))
        return found

    monkeypatch.setattr(refine, "_lower_cost", record_gain)
    monkeypatch.setattr(refine, "_thin_out", record_cost)
    n_choices = 0
    for at in range(1, len(path)):
        inner, outer = path.kept(at), path.kept(at - 1)
        gains.clear()
        costs.clear()
        limit = (closure.cost_of(inner) + closure.cost_of(outer)) // 2
        found = refine.within_cost(problem, inner, outer, limit)
        assert closure.gain_of(found) - closure.gain_of(inner) == max(gains)
        needed = (closure.gain_of(inner) + closure.gain_of(outer)) // 2
        found = refine.within_error(problem, inner, outer, needed)
        assert closure.cost_of(found) - closure.cost_of(inner) == min(costs)
        n_choices += len(set(gains)) > 1 and len(set(costs)) > 1
    assert n_choices > 0
