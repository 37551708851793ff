"""The baselines do what defines them, and none beats the exact path."""

from fractions import Fraction

import numpy as np
import pytest

from scurry import Forest
from scurry.pruning import exact_path
from scurry.pruning.solvers.baselines import complexity_path, error_path, greedy_prune, greedy_rounds, independent_path
from support.pruning_oracles import Instance, nodes_kept, objectives_of, random_instance, solved_case


@pytest.mark.parametrize("seed", range(10))
def test_no_method_beats_the_exact_path(seed):
    _, exact, lambdas = solved_case(seed)
    optimum = np.array([float(exact.objective(lam)) for lam in lambdas])
    for found in (
        greedy_prune(exact.problem, lambdas),
        independent_path(exact.problem).best_for(lambdas),
        complexity_path(exact.problem).best_for(lambdas),
    ):
        assert (objectives_of(found, lambdas) >= optimum - 1e-12).all()
        np.testing.assert_allclose(objectives_of(found, lambdas), found.objectives, rtol=1e-12)


def test_one_tree_alone_is_pruned_optimally():
    instance = random_instance(np.random.default_rng(6), n_trees=1, n_splits=30, n_rows=30)
    data = {"node_errors": instance.node_errors, "n_error": 5, "feature_costs": [1, 2, 3, 4]}
    exact = exact_path(instance.forest, instance.X, **data)
    alone = independent_path(exact.problem)
    np.testing.assert_allclose(alone.lambdas, exact.lambdas, rtol=1e-12)
    np.testing.assert_allclose(alone.errors, exact.errors, rtol=1e-12)
    np.testing.assert_allclose(alone.costs, exact.costs, rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_independent_prunings_are_those_of_single_trees(seed):
    instance, exact, _ = solved_case(seed)
    together = independent_path(exact.problem)
    forest = instance.forest
    for at in range(0, len(together.lambdas) + 1, 3):
        lam = _between(together.lambdas, at)
        expected = set()
        for tree in range(forest.n_trees):
            start, end = forest.tree_offset[tree : tree + 2].tolist()
            nodes = slice(start, end)
            single = Forest.from_trees(
                [
                    {
                        "feature": forest.feature[nodes],
                        "threshold": forest.threshold[nodes],
                        "left": np.where(forest.left[nodes] < 0, -1, forest.left[nodes] - start),
                        "right": np.where(forest.right[nodes] < 0, -1, forest.right[nodes] - start),
                        "value": forest.value[nodes],
                    }
                ],
                n_features=forest.n_features,
            )
            # The forest's objective has the tree's error by the number of trees.
            path = exact_path(
                single,
                instance.X,
                node_errors=instance.node_errors[nodes],
                n_error=instance.n_error * forest.n_trees,
                **instance.options,
            )
            kept = nodes_kept(path, int(np.searchsorted(path.lambdas, lam)))
            expected |= {start + node for node in kept}
        assert nodes_kept(together, at) == expected


@pytest.mark.parametrize("seed", range(8))
def test_ccp_removes_the_weakest_links_first(seed):
    instance, exact, _ = solved_case(seed)
    path = complexity_path(exact.problem)
    unit = instance.n_error * instance.forest.n_trees
    for at in range(len(path)):
        kept = _weakest_links(instance, float(_between(path.lambdas, at)) * unit)
        assert nodes_kept(path, at) == kept


def _between(lambdas, at):
    """A trade-off for which the path's pruning `at` is meant."""
    if len(lambdas) == 0:
        return 1.0
    if at == len(lambdas):
        return 2 * lambdas[-1]
    return (lambdas[at] + (lambdas[at - 1] if at else 0.0)) / 2


def _weakest_links(instance: Instance, alpha: float) -> frozenset:
    """Breiman's procedure: collapse the node of smallest g = (R(h) - R(T_h)) / (leaves - 1) while g < alpha."""
    forest, errors = instance.forest, instance.node_errors
    kept = set(np.flatnonzero(forest.left >= 0).tolist())

    def below(node):
        if node not in kept:
            return errors[node], 1, {node}
        parts = [below(int(forest.left[node])), below(int(forest.right[node]))]
        return sum(p[0] for p in parts), sum(p[1] for p in parts), {node}.union(*(p[2] for p in parts))

    while kept:
        links = {node: (errors[node] - below(node)[0]) / (below(node)[1] - 1) for node in kept}
        weakest = min(links, key=links.get)
        if links[weakest] >= alpha:
            break
        kept -= below(weakest)[2]
    return frozenset(kept)


@pytest.mark.parametrize("seed", range(8))
def test_greedy_prune_drops_the_best_feature_or_group_each_round(seed):
    instance, exact, lambdas = solved_case(seed)
    found = greedy_prune(exact.problem, lambdas[1:3])
    for at, lam in enumerate(lambdas[1:3]):
        assert found.objectives[at] == pytest.approx(float(_greedy_by_hand(instance, lam)), rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_rounds_of_greedy_prune_go_from_the_forest_to_its_roots(seed):
    _, exact, lambdas = solved_case(seed)
    rounds = greedy_rounds(exact.problem, lambdas[1])
    kept = np.array([rounds.kept(at) for at in range(len(rounds))])
    assert kept[0].all()
    assert not kept[-1].any()
    assert (kept[1:] <= kept[:-1]).all()
    assert (kept[1:] != kept[:-1]).any(axis=1).all()
    assert rounds.objectives[0] == greedy_prune(exact.problem, lambdas[1:2]).objectives[0]


def _greedy_by_hand(instance: Instance, lam: Fraction) -> Fraction:
    forest = instance.forest
    _, groups, shared, _ = instance.prices()
    families = [{feature} for feature in range(forest.n_features)]
    families += [{f for f in range(forest.n_features) if groups[f] == g} for g in range(len(shared)) if shared[g] > 0]

    def without(kept, family):
        def reached(node):
            if node not in kept or int(forest.feature[node]) in family:
                return set()
            return {node} | reached(int(forest.left[node])) | reached(int(forest.right[node]))

        return frozenset().union(*map(reached, forest.tree_offset[:-1].tolist()))

    kept = frozenset(np.flatnonzero(forest.left >= 0).tolist())
    best = instance.error(kept) + lam * instance.cost(kept)
    while kept:
        options = [smaller for family in families if (smaller := without(kept, family)) != kept]
        kept = min(options, key=lambda smaller: instance.error(smaller) + lam * instance.cost(smaller))
        best = min(best, instance.error(kept) + lam * instance.cost(kept))
    return best


@pytest.mark.parametrize("seed", range(10))
def test_error_alone_has_fewest_errors_then_fewest_splits(seed):
    _, exact, _ = solved_case(seed)
    path, problem = error_path(exact.problem), exact.problem
    assert path.errors.tolist() == [exact.errors.min()]
    # Of every subtree, the kept part makes strictly fewer errors than its root alone: none of it can go.
    kept, closure = path.kept(0), problem.closure
    gain = np.where(kept, closure.gain, 0)
    for at in range(len(gain) - 1, -1, -1):
        if closure.parent[at] >= 0:
            gain[closure.parent[at]] += gain[at]
    assert (gain[kept] > 0).all()
    assert not (kept & ~np.where(closure.parent >= 0, kept[closure.parent], True)).any()
