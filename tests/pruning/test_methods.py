"""`exact_path`, every method by its name, and what is said about arguments that make no sense.

The baselines do what defines them, and none beats the exact path.

The primal-dual algorithm stays within the gap it reports.

The exact path: known answers, every pruning listed, HiGHS on an independent program, and what stops it.
"""

import json
import operator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry import Forest, _core
from scurry.errors import InputError
from scurry.pruning import METHODS, exact_path
from scurry.pruning.methods import (
    at_lambdas,
    complexity_path,
    error_path,
    greedy_prune,
    greedy_rounds,
    independent_path,
    primal_dual,
)
from support.pruning_oracles import (
    Instance,
    instances,
    lower_hull,
    nodes_kept,
    objectives_of,
    random_instance,
    solved_case,
)
from support.pruning_oracles import (
    solve as solve_instance,
)

X, Y = load_wine(return_X_y=True)
X = X.astype(np.float32)


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"node_errors": [1, 2]}, r"node_errors has shape \(2,\), expected \(3,\): one for every node"),
        ({"node_errors": [1, -2, 0], "n_error": 3}, r"node_errors\[1\] is -2; an error count is finite and 0 or more"),
        ({"node_errors": [1, np.nan, 0], "n_error": 3}, r"node_errors\[1\] is nan"),
        ({"node_errors": ["x", 1, 0], "n_error": 3}, "node_errors must be numbers"),
        (
            {"node_errors": [1, 0, 0]},
            "n_error must be a number above 0, got None",
        ),
        ({"node_errors": [1, 0, 0], "n_error": 0}, "n_error must be a number above 0, got 0"),
        ({"n_error": 4}, "n_error goes with node_errors"),
    ],
)
def test_nonsense_errors_are_named(options, message):
    stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1]}
    forest = Forest.from_trees([stump | {"value": [[0.5, 0.5]] * 3}])
    with pytest.raises(InputError, match=message):
        exact_path(forest, [[0.0]], **options)


def test_rows_are_needed():
    forest = random_instance(np.random.default_rng(1)).forest
    with pytest.raises(InputError, match="X_val has no rows"):
        exact_path(forest, np.zeros((0, 4)), node_errors=np.zeros(forest.n_nodes), n_error=1)
    with pytest.raises(InputError, match="X has 3 columns"):
        exact_path(forest, np.zeros((1, 3)), node_errors=np.zeros(forest.n_nodes), n_error=1)


def test_prune_is_still_reachable_here():
    with pytest.warns(DeprecationWarning, match=r"use scurry\.prune"):
        assert scurry.pruning.prune is scurry.prune
    with pytest.raises(AttributeError, match="no attribute 'plum'"):
        operator.attrgetter("plum")(scurry.pruning)


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


@pytest.mark.parametrize("seed", range(20))
def test_primal_dual_is_within_its_gap(seed):
    _, exact, lambdas = solved_case(seed)
    found = primal_dual(exact.problem, lambdas)
    optimum = np.array([float(exact.objective(lam)) for lam in lambdas])
    assert (found.lower_bounds <= optimum + 1e-9).all()
    assert (objectives_of(found, lambdas) >= optimum - 1e-9).all()
    assert (objectives_of(found, lambdas) <= optimum + np.maximum(found.gaps, 0) + 1e-9).all()


def test_primal_dual_closes_its_gap_with_time():
    _, exact, lambdas = solved_case(4)
    gaps = [primal_dual(exact.problem, lambdas, max_iterations=n).gaps.max() for n in (5, 50, 2000)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.2 * gaps[0]


GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("pruning_*.json"))


def golden(file):
    case = json.loads(file.read_text())
    nodes = case["forest"]
    bounds = [*nodes["roots"], len(nodes["left"])]
    trees = []
    for start, end in pairwise(bounds):
        left, right = (np.array(nodes[side][start:end]) for side in ("left", "right"))
        trees.append(
            {
                "feature": nodes["feat"][start:end],
                "threshold": nodes["thr"][start:end],
                "left": np.where(left < 0, -1, left - start),
                "right": np.where(right < 0, -1, right - start),
                "value": np.full((end - start, 2), 0.5),
            }
        )
    forest = Forest.from_trees(trees, n_features=len(case["group"]))
    options = {"groups": case["group"], "group_costs": case["cost"], "step_cost": case["comp"]}
    return case, Instance(forest, np.array(case["X"], np.float32), np.array(nodes["e"]), case["N_err"], options)


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_golden_path(file):
    case, instance = golden(file)
    path = solve_instance(instance)
    errors, costs = zip(*case["path"]["vertices"], strict=True)
    n_error, n_val = case["N_err"] * case["T"], case["N_val"]
    assert path.exact_lambdas == tuple(Fraction(*lam) for lam in case["path"]["lambda_breakpoints"])
    np.testing.assert_allclose(path.errors, np.array(errors) / n_error, rtol=1e-15)
    np.testing.assert_allclose(path.costs, np.array(costs) / n_val, rtol=1e-15)
    for solution in case["solutions"]:
        assert path.objective(Fraction(*solution["lam"])) == Fraction(*solution["objective"])


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_golden_cuts_are_the_largest_optima(file):
    case, instance = golden(file)
    lambdas = [Fraction(*solution["lam"]) for solution in case["solutions"]]
    cuts = at_lambdas(solve_instance(instance).problem, lambdas)
    assert cuts.exact_lambdas == tuple(lambdas)
    for at, solution in enumerate(case["solutions"]):
        assert nodes_kept(cuts, at) == frozenset(solution["kept_max"])


@settings(max_examples=150, deadline=None)
@given(instances())
def test_path_is_the_hull_of_all_prunings(instance):
    path = solve_instance(instance)
    every = {kept: (instance.error(kept), instance.cost(kept)) for kept in instance.prunings()}
    vertices, meets = lower_hull(every.values())
    assert list(path.exact_lambdas) == meets
    assert [every[nodes_kept(path, i)] for i in range(len(path))] == vertices
    assert path.errors.tolist() == [float(error) for error, _ in vertices]
    assert path.costs.tolist() == [float(cost) for _, cost in vertices]


@settings(max_examples=60, deadline=None)
@given(instances())
def test_prunings_are_nested_and_the_largest_of_their_value(instance):
    path = solve_instance(instance)
    every = {kept: (instance.error(kept), instance.cost(kept)) for kept in instance.prunings()}
    kept = [nodes_kept(path, i) for i in range(len(path))]
    assert all(inner < outer for outer, inner in pairwise(kept))
    assert all(other <= chosen for chosen in kept for other, value in every.items() if value == every[chosen])


@settings(max_examples=60, deadline=None)
@given(instances())
@example(random_instance(np.random.default_rng(1895)))  # a λ that outweighs all gains together
def test_one_cut_is_the_largest_optimum(instance):
    path = solve_instance(instance)
    every = {kept: (instance.error(kept), instance.cost(kept)) for kept in instance.prunings()}
    # On breakpoints, where there are ties, and between them.
    lambdas = sorted({Fraction(0), Fraction(1, 100), *path.exact_lambdas, *(2 * lam for lam in path.exact_lambdas)})
    cuts = at_lambdas(path.problem, lambdas)
    assert cuts.exact_lambdas == tuple(lambdas)
    for at, lam in enumerate(lambdas):
        values = {kept: error + lam * cost for kept, (error, cost) in every.items()}
        optimal = [kept for kept, value in values.items() if value == min(values.values())]
        assert nodes_kept(cuts, at) == frozenset().union(*optimal)


@settings(max_examples=100, deadline=None)
@given(instances(n_trees=5, n_splits=25, n_rows=20), st.integers(0, 30), st.integers(1, 30))
def test_tops_of_trees_first_keep_what_one_cut_keeps(instance, price, unit):
    arrays = solve_instance(instance).problem.closure.arrays
    weights = {"gain_weight": unit, "cost_weight": price}
    one_cut = _core.largest_closure(**arrays, **weights, one_cut_below=2**40)
    np.testing.assert_array_equal(_core.largest_closure(**arrays, **weights, one_cut_below=0), one_cut)


@settings(max_examples=60, deadline=None)
@given(instances())
def test_tops_of_trees_first_are_the_largest_optimum(instance):
    path = solve_instance(instance)
    problem = path.problem
    every = {kept: (instance.error(kept), instance.cost(kept)) for kept in instance.prunings()}
    for lam in {Fraction(1, 100), *path.exact_lambdas}:
        theta = problem.theta(lam)
        kept = _core.largest_closure(
            **problem.closure.arrays, gain_weight=theta.denominator, cost_weight=theta.numerator, one_cut_below=0
        )
        values = {kept: error + lam * cost for kept, (error, cost) in every.items()}
        optimal = [kept for kept, value in values.items() if value == min(values.values())]
        assert frozenset(problem.nodes[kept.astype(bool)].tolist()) == frozenset().union(*optimal)


@pytest.mark.parametrize("seed", range(48))
def test_equals_highs(seed):
    rng = np.random.default_rng(seed)
    instance = random_instance(rng, n_trees=int(rng.integers(2, 12)), n_splits=12, n_features=6, n_rows=15)
    path = solve_instance(instance)
    for lam in [0.0, *rng.exponential(0.1, 2), *path.lambdas[:: max(1, len(path) // 3)]]:
        assert path.objective(lam) == pytest.approx(instance.relaxation(lam), abs=1e-9, rel=1e-9)


@pytest.mark.parametrize("groups", [[0, 0, 0, 0], [0, 1, 2, 3], [-1, 0, -1, 1]], ids=["all", "one each", "some"])
def test_groups_of_all_and_of_one(groups):
    instance = random_instance(np.random.default_rng(5), n_trees=4, n_splits=4)
    instance = Instance(
        instance.forest, instance.X, instance.node_errors, 7, {"groups": groups, "feature_costs": [1] * 4}
    )
    instance.options["group_costs"] = [2] * (max(groups) + 1)
    path = solve_instance(instance)
    assert [float(instance.cost(nodes_kept(path, i))) for i in range(len(path))] == path.costs.tolist()
    assert path.objective(0.05) == pytest.approx(instance.relaxation(0.05), rel=1e-9)


def test_groups_of_one_are_features():
    instance = random_instance(np.random.default_rng(3), n_trees=4, n_splits=6)
    data = {"node_errors": instance.node_errors, "n_error": 5}
    by_group = exact_path(instance.forest, instance.X, groups=[0, 1, 2, 3], group_costs=[1, 2, 3, 4], **data)
    by_feature = exact_path(instance.forest, instance.X, feature_costs=[1, 2, 3, 4], **data)
    assert by_group.exact_lambdas == by_feature.exact_lambdas
    assert by_group.costs.tolist() == by_feature.costs.tolist()


def test_free_features_are_kept_at_any_price():
    tree = {
        "feature": [0, 1, 0, -1, -1, -1, -1],
        "threshold": [0.5] * 7,
        "left": [1, 3, 5, -1, -1, -1, -1],
        "right": [2, 4, 6, -1, -1, -1, -1],
        "value": [[0.5, 0.5]] * 7,
    }
    forest, rows = Forest.from_trees([tree]), [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    errors = {"node_errors": [9, 3, 3, 0, 1, 1, 0], "n_error": 3}
    free = exact_path(forest, rows, feature_costs=[0, 0], **errors)
    assert len(free) == 1
    assert free.lambdas.size == 0
    assert free[0].n_nodes == 7
    partly = exact_path(forest, rows, feature_costs=[0, 1], **errors)
    assert [nodes_kept(partly, i) for i in range(len(partly))] == [{0, 1, 2}, {0, 2}]
    assert partly.costs.tolist() == [2 / 3, 0.0]


def test_huge_costs_are_exact_or_refused():
    instance = random_instance(np.random.default_rng(11), n_trees=3, n_splits=5)
    data = {"node_errors": instance.node_errors, "n_error": 9}
    small = exact_path(instance.forest, instance.X, feature_costs=[1, 2, 3, 4], **data)
    large = exact_path(instance.forest, instance.X, feature_costs=[1e15, 2e15, 3e15, 4e15], **data)
    assert [lam * 10**15 for lam in large.exact_lambdas] == list(small.exact_lambdas)
    with pytest.raises(InputError, match=r"need \d+ bits to be exact, 61 are at hand.*fewer digits"):
        exact_path(instance.forest, instance.X, feature_costs=[1, 2e15, 3e15, 4e17], **data)
    with pytest.raises(InputError, match=r"1e\+300 is too large to be exact"):
        exact_path(instance.forest, instance.X, feature_costs=[1, 1, 1, 1e300], **data)


def test_the_core_refuses_sums_that_would_wrap():
    arrays = {
        "parent": np.array([-1, 0], np.int32),
        "gain": np.array([2**40, 2**40]),
        "cost": np.array([1, 2**30]),
        "item_offset": np.array([0]),
        "item_node": np.zeros(0, np.int32),
        "item_cost": np.zeros(0, np.int64),
    }
    assert _core.largest_closure(**arrays, gain_weight=2**20, cost_weight=2**30).tolist() == [1, 1]
    for weights in ({"gain_weight": 2**22, "cost_weight": 1}, {"gain_weight": 1, "cost_weight": 2**33}):
        with pytest.raises(OverflowError, match="more than 62 bits"):
            _core.largest_closure(**arrays, **weights)
    with pytest.raises(OverflowError, match="more than 62 bits"):
        _core.closure_path(**(arrays | {"gain": np.array([2**61, 2**61 + 1])}), progress=None)


def solve_or_refuse(instance: Instance):
    """Return the exact path, or None if exact integers have no room for it."""
    try:
        return solve_instance(instance)
    except InputError as refused:
        if "to be exact" not in str(refused):
            raise
        return None


@settings(max_examples=100, deadline=None)
@given(instances(n_trees=4, n_splits=8, prices=(0, 1, 3, 7)), st.integers(0, 30))
def test_a_common_factor_of_costs_changes_nothing(instance, digits):
    costs = {"feature_costs": [3.0, 0.0, 1.0, 7.0]} | instance.options
    usual = solve_instance(replace(instance, options=costs))
    scaled = {
        name: (np.asarray(given) * 10.0**digits).tolist() if name != "groups" else given
        for name, given in costs.items()
    }
    path = solve_or_refuse(replace(instance, options=scaled))
    if path is None:
        assert digits > 12
        return
    np.testing.assert_allclose(path.lambdas * 10.0**digits, usual.lambdas, rtol=1e-12)
    assert all(nodes_kept(path, i) == nodes_kept(usual, i) for i in range(len(usual)))


@settings(max_examples=100, deadline=None)
@given(instances(n_trees=4, n_splits=8), st.integers(0, 30))
def test_huge_costs_next_to_small_ones_are_exact_or_refused(instance, digits):
    instance = replace(instance, options={"feature_costs": [1.0, 0.0, 10.0**digits, 3 * 10.0**digits]})
    path = solve_or_refuse(instance)
    if path is None:
        assert digits > 12
        return
    assert [float(instance.cost(nodes_kept(path, i))) for i in range(len(path))] == path.costs.tolist()
    if digits < 6:
        lam = float(np.median(path.lambdas)) if len(path.lambdas) else 1.0
        assert path.objective(lam) == pytest.approx(instance.relaxation(lam), abs=1e-9, rel=1e-9)


def test_small_costs_are_not_lost():
    instance = random_instance(np.random.default_rng(11), n_trees=3, n_splits=5)
    data = {"node_errors": instance.node_errors, "n_error": 9}
    usual = exact_path(instance.forest, instance.X, feature_costs=[1, 2, 3, 4], **data)
    for factor in (1e-7, 1e-15, 1e-150):
        tiny = exact_path(instance.forest, instance.X, feature_costs=factor * np.arange(1, 5), **data)
        np.testing.assert_allclose(tiny.costs, factor * usual.costs, rtol=1e-6)
        np.testing.assert_allclose(tiny.lambdas, usual.lambdas / factor, rtol=1e-6)
        assert tiny.errors.tolist() == usual.errors.tolist()


def test_progress_is_reported_and_can_stop():
    instance = random_instance(np.random.default_rng(2), n_trees=8, n_splits=30, n_rows=40)
    seen = []
    data = {"node_errors": instance.node_errors, "n_error": 9}
    path = exact_path(instance.forest, instance.X, progress=lambda *at: seen.append(at), **data)
    n_splits = path.problem.n_splits
    assert [total for _, total in seen] == [n_splits] * len(seen)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (n_splits, n_splits)

    def stop(*_):
        raise KeyboardInterrupt("enough")

    with pytest.raises(KeyboardInterrupt, match="enough"):
        exact_path(instance.forest, instance.X, progress=stop, **data)


def test_single_leaves_have_one_pruning():
    leaf = {"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": [[0.4, 0.6]], "cover": [10]}
    path = scurry.prune(Forest.from_trees([leaf, leaf], n_features=2), [[0.0, 1.0]])
    assert len(path) == 1
    assert path.errors.tolist() == [0.4]
    assert path.costs.tolist() == [0.0]
    assert path.objective(3.0) == 0.4
