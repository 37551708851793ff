"""The papers' methods solve the same problem: optima agree, bounds hold, and baselines do what defines them."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry import Forest
from scurry.errors import InputError
from scurry.pruning import METHODS, exact_path
from scurry.pruning.baselines import complexity_path, greedy_prune, greedy_rounds, independent_path
from scurry.pruning.dantzig_wolfe import dantzig_wolfe
from scurry.pruning.lp import level_set, linear_program
from scurry.pruning.primal_dual import primal_dual
from support.pruning_oracles import Instance, nodes_kept, random_instance

X, Y = load_wine(return_X_y=True)
X = X.astype(np.float32)


def case(seed: int):
    """An instance, its exact path, and trade-offs on, between and beyond its breakpoints."""
    rng = np.random.default_rng(seed)
    instance = random_instance(rng, n_trees=int(rng.integers(2, 8)), n_splits=9, n_features=5, n_rows=12)
    path = exact_path(
        instance.forest, instance.X, node_errors=instance.node_errors, n_error=instance.n_error, **instance.options
    )
    lambdas = {0.0, *path.lambdas[:: max(len(path) // 3, 1)].tolist(), *rng.exponential(0.2, 2).tolist()}
    return instance, path, [Fraction(lam) for lam in sorted(lambdas)]


def values(path, lambdas):
    """error + lambda * cost of the pruning returned for each lambda."""
    return path.errors + np.array([float(lam) for lam in lambdas]) * path.costs


@pytest.mark.parametrize("method", [linear_program, dantzig_wolfe], ids=["lp", "dantzig-wolfe"])
@pytest.mark.parametrize("seed", range(20))
def test_linear_programs_find_the_optimum(method, seed):
    _, exact, lambdas = case(seed)
    found = method(exact.problem, lambdas)
    optimum = [float(exact.objective(lam)) for lam in lambdas]
    np.testing.assert_allclose(values(found, lambdas), optimum, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.lower_bounds, optimum, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_primal_dual_is_within_its_gap(seed):
    _, exact, lambdas = case(seed)
    found = primal_dual(exact.problem, lambdas)
    optimum = np.array([float(exact.objective(lam)) for lam in lambdas])
    assert (found.lower_bounds <= optimum + 1e-9).all()
    assert (values(found, lambdas) >= optimum - 1e-9).all()
    assert (values(found, lambdas) <= optimum + np.maximum(found.gaps, 0) + 1e-9).all()


def test_primal_dual_closes_its_gap_with_time():
    _, exact, lambdas = case(4)
    gaps = [primal_dual(exact.problem, lambdas, max_iterations=n).gaps.max() for n in (5, 50, 2000)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.2 * gaps[0]


@pytest.mark.parametrize("seed", range(10))
def test_no_method_beats_the_exact_path(seed):
    _, exact, lambdas = case(seed)
    optimum = np.array([float(exact.objective(lam)) for lam in lambdas])
    for found in (
        greedy_prune(exact.problem, lambdas),
        independent_path(exact.problem).best_for(lambdas),
        complexity_path(exact.problem).best_for(lambdas),
    ):
        assert (values(found, lambdas) >= optimum - 1e-12).all()
        np.testing.assert_allclose(values(found, lambdas), found.objectives, rtol=1e-12)


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
    instance, exact, _ = case(seed)
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
    instance, exact, _ = case(seed)
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
    instance, exact, lambdas = case(seed)
    found = greedy_prune(exact.problem, lambdas[1:3])
    for at, lam in enumerate(lambdas[1:3]):
        assert found.objectives[at] == pytest.approx(float(_greedy_by_hand(instance, lam)), rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_rounds_of_greedy_prune_go_from_the_forest_to_its_roots(seed):
    _, exact, lambdas = case(seed)
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


def test_the_naive_program_is_fractional_where_the_papers_is_not():
    """(IP1) on the papers' own counterexample: one row, feature 0 at the root, feature 1 at node 2, leaf 3 reached."""
    # z1 ... z5, w1, w2; minimise 4 z1 + z3 + 2 w1 + w2.
    objective = [4, 0, 1, 0, 0, 2, 1]
    once = [[1, 0, 1, 1, 0, 0, 0], [1, 0, 1, 0, 1, 0, 0], [1, 1, 0, 0, 0, 0, 0]]
    used = [[0, 0, 0, 1, 0, -1, 0], [0, 0, 1, 0, 0, -1, 0], [0, 0, 0, 1, 0, 0, -1]]
    naive = linprog(objective, A_ub=used, b_ub=[0] * 3, A_eq=once, b_eq=[1] * 3, bounds=(0, 1), method="highs")
    assert naive.fun == 2
    assert naive.x.tolist() == [0, 1, 0.5, 0.5, 0.5, 0.5, 0.5]
    # It is an extreme point: seven constraints that are tight there are independent.
    tight = np.array([*once, *used, [1, 0, 0, 0, 0, 0, 0]])
    assert np.linalg.matrix_rank(tight) == 7

    tree = {
        "feature": [0, -1, 1, -1, -1],
        "threshold": [0.5] * 5,
        "left": [1, -1, 3, -1, -1],
        "right": [2, -1, 4, -1, -1],
        "value": [[0.5, 0.5]] * 5,
    }
    data = {"node_errors": [4, 0, 1, 0, 0], "n_error": 1, "feature_costs": [2, 1]}
    exact = exact_path(Forest.from_trees([tree]), [[1.0, 0.0]], **data)
    assert exact.objective(Fraction(1)) == 3
    for method in (linear_program, dantzig_wolfe):
        assert method(exact.problem, [Fraction(1)]).objectives.tolist() == [3]


def test_level_sets_avoid_noise():
    assert level_set(np.array([1.0, 1e-13, 1 - 1e-13, 0.0])).tolist() == [True, False, True, False]
    assert level_set(np.array([0.3, 0.3 - 1e-12, 0.0])).tolist() == [False, False, False]
    assert level_set(np.array([1.0, 0.7, 0.7])).tolist() == [True, True, True]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_through_the_verb(method):
    model = RandomForestClassifier(8, max_depth=4, random_state=0).fit(X[::2], Y[::2])
    lambdas = [0.001, 0.01, 0.05]
    seen = []
    path = scurry.prune(model, X[1::2], method=method, lambdas=lambdas, progress=lambda *at: seen.append(at))
    exact = scurry.prune(model, X[1::2])
    assert (path.method, len(path)) == (method, 3)
    np.testing.assert_allclose(path.lambdas, lambdas, rtol=1e-9)
    assert seen[-1][0] == seen[-1][1]
    for i, lam in enumerate(lambdas):
        assert path.errors[i] + lam * path.costs[i] >= exact.objective(lam) - 1e-12
    assert path[2].n_features == 13
    assert path.at(max_cost=path.costs[1]).n_nodes >= path[2].n_nodes
    assert (path.ties == "largest") == (method == "exact")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, 'method must be one of "exact", "lp", .*got \'magic\''),
        ({"errors": "test"}, 'errors must be one of "training", "validation", got \'test\''),
        ({"method": "lp"}, r"method 'lp' solves trade-offs one by one; pass lambdas=\[…\], rising"),
        ({"lambdas": []}, "lambdas is empty"),
        ({"lambdas": [0.1, 0.1]}, r"lambdas must rise, but lambdas\[1\] is 0.1 after 0.1"),
        ({"lambdas": [-1]}, r"lambdas\[0\] is -1; a trade-off is a finite number, 0 or more"),
        ({"lambdas": [0.1, np.inf]}, r"lambdas\[1\] is inf"),
        ({"lambdas": ["a"]}, r"lambdas\[0\] is 'a'"),
    ],
)
def test_nonsense_choices_are_named(options, message):
    model = RandomForestClassifier(3, random_state=0).fit(X, Y)
    with pytest.raises(InputError, match=message):
        scurry.prune(model, X, **options)
