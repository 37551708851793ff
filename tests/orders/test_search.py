"""Optimal order: exact on grids of every shape, within its memory, and refused where it does not fit."""

import itertools
import json
import logging
import math
import os
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import scurry
from scurry import Forest, _core, stopping
from scurry.errors import InfeasibleError, InputError
from scurry.orders import ORDERS, accuracy_curve, find
from scurry.orders import search as search_module
from scurry.orders.ordering_set import OrderingSet
from scurry.orders.search import find_auto, mean_loss, measure_ambiguity, rank, rank_by_drep
from support.order_oracle import Oracle, least_sum, node_path, node_values, states
from support.strategies import complete_forest, trees

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("orders_*.json"))
COSTS = [(1.0, 1.0), (3.0, 1.0), (1.0, 2.5)]


@pytest.fixture(params=GOLDEN, ids=lambda path: path.stem)
def golden(request):
    case = json.loads(request.param.read_text())
    forest = Forest.from_trees(case["trees"], n_features=len(case["X"][0]))
    return case, forest, np.array(case["X"], np.float32), np.array(case["y"])


@st.composite
def problems(draw, max_trees=4, max_nodes=7):
    """A tiny forest of fractions or votes, with ties and trees of unequal depth, and labelled rows on thresholds."""
    n_classes = draw(st.integers(2, 4))
    forest = Forest.from_trees(
        draw(st.lists(trees(2, n_classes, max_nodes), min_size=1, max_size=max_trees)),
        n_features=2,
        aggregation=draw(st.sampled_from(["mean", "vote"])),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(1, 12))
    X = rng.choice(np.array([-2.0, -0.0, 0.1, 0.2, 0.25, 1.0, 4.0], np.float32), (n_rows, 2))
    return forest, X, rng.integers(0, n_classes, n_rows)


def correct(curve, y):
    return np.rint(np.asarray(curve) * len(y)).astype(int).tolist()


class TestGolden:
    def test_states(self, golden):
        case, forest, X, y = golden
        for state, expected in case["state_correct"].items():
            steps = [tree for tree, level in enumerate(map(int, state.split(","))) for _ in range(level)]
            assert correct(accuracy_curve(forest, steps, X, y), y)[-1] == expected, state

    @pytest.mark.parametrize("order", ["optimal", "unoptimal"])
    def test_best_and_worst_sums(self, golden, order):
        case, forest, X, y = golden
        assert sum(correct(find(forest, X, y, order=order).curve, y)) == case[order]["sum_correct"]

    @pytest.mark.parametrize("direction", ["forward", "backward"])
    def test_squirrels(self, golden, direction):
        case, forest, X, y = golden
        found = find(forest, X, y, order=f"{direction}-squirrel")
        assert found.steps.tolist() == case[direction]["order"]
        assert correct(found.curve, y) == case[direction]["trace"]
        assert found.nma == pytest.approx(case[direction]["mean_accuracy"] / (case["final_correct"] / len(y)))

    def test_natural_depth_and_breadth(self, golden):
        case, forest, X, y = golden
        depth = [tree for tree, d in enumerate(case["depths"]) for _ in range(d)]
        breadth = [tree for level in range(3) for tree, d in enumerate(case["depths"]) if d > level]
        assert correct(accuracy_curve(forest, depth, X, y), y) == case["depth"]["trace"]
        assert correct(accuracy_curve(forest, breadth, X, y), y) == case["breadth"]["trace"]


class TestAgainstEnumeration:
    @settings(max_examples=60, deadline=None)
    @given(problems(max_trees=3, max_nodes=5), st.sampled_from(["plain", "weighted"]))
    def test_optimal_and_unoptimal_are_the_extremes_of_all_orders(self, problem, readout):
        forest, X, y = problem
        oracle = Oracle(forest, X, y, readout)
        sums = [sum(oracle.curve(steps)) for steps in oracle.all_orders()]
        for order, extreme in (("optimal", max), ("unoptimal", min)):
            steps = find(forest, X, y, order=order, readout=readout).steps
            assert sum(oracle.curve(steps)) == extreme(sums)

    @settings(max_examples=150, deadline=None)
    @given(problems(max_trees=5, max_nodes=15), st.sampled_from(["plain", "weighted"]))
    def test_squirrels_choose_as_the_definition_does(self, problem, readout):
        forest, X, y = problem
        oracle = Oracle(forest, X, y, readout)
        for name, down in (("forward-squirrel", True), ("backward-squirrel", False)):
            assert find(forest, X, y, order=name, readout=readout).steps.tolist() == oracle.greedy(down)

    @pytest.mark.parametrize("readout", ["plain", "weighted"])
    @pytest.mark.parametrize("n_classes", [2, 3, 8, 9, 16, 17, 32, 33, 50])
    def test_squirrels_of_many_rows_and_classes(self, n_classes, readout):
        forest = complete_forest(n_trees=6, depth=4, n_columns=n_classes, seed=n_classes)
        rng = np.random.default_rng(n_classes)
        X = rng.normal(size=(700, 6)).astype(np.float32)
        # Mostly what the forest says, so that there are rows whose answer no step changes; classes without a row too.
        y = np.where(rng.random(700) < 0.7, forest.predict(X), rng.integers(0, (n_classes + 1) // 2, 700))
        oracle = Oracle(forest, X, y, readout)
        for name, down in (("forward-squirrel", True), ("backward-squirrel", False)):
            assert find(forest, X, y, order=name, readout=readout).steps.tolist() == oracle.greedy(down)

    @settings(max_examples=100, deadline=None)
    @given(problems(max_trees=6, max_nodes=15), st.sampled_from(["plain", "weighted"]), st.integers(0, 99))
    def test_curve_is_that_of_states_evaluated_from_scratch(self, problem, readout, seed):
        forest, X, y = problem
        found = find(forest, X, y, order="random", readout=readout, random_state=seed)
        assert correct(found.curve, y)[:-1] == Oracle(forest, X, y, readout).curve(found.steps)[:-1]
        assert found.curve[-1] == np.mean(forest.predict(X) == y)
        prefix = found.steps[: len(found.steps) // 2]
        partial = accuracy_curve(forest, prefix, X, y, readout=readout)
        if len(prefix) < len(found.steps):
            assert partial.tolist() == found.curve[: len(partial)].tolist()

    @settings(max_examples=60, deadline=None)
    @given(problems(max_trees=5, max_nodes=11), st.sampled_from(ORDERS))
    def test_every_order_takes_every_step_once(self, problem, order):
        forest, X, y = problem
        if order.endswith("qwyc") and forest.n_classes == 2:
            # Integers decide a tie by themselves, maybe otherwise than the model does.
            assume(np.abs(np.diff(forest.predict_proba(X))).min() > 1e-6)
        if order.endswith("qwyc") and (forest.n_classes != 2 or len(set(forest.predict(X))) < 2):
            with pytest.raises(InputError, match=r"two classes|one class"):
                find(forest, X, y, order=order)
            return
        found = find(forest, X, y, order=order, random_state=1)
        assert np.bincount(found.steps, minlength=forest.n_trees).tolist() == forest.tree_depth.tolist()
        assert len(found.curve) == len(found.steps) + 1
        assert not found.steps.flags.writeable


class TestWholeModel:
    @pytest.mark.parametrize("n_trees", [4, 64])
    @pytest.mark.parametrize("load", [load_digits, load_breast_cancer])
    def test_ends_at_the_accuracy_of_scikit_learn(self, load, n_trees):
        X, y = load(return_X_y=True)
        X = X.astype(np.float32)
        # Unlimited trees vote with pure leaves, so that ties between classes are common.
        model = ExtraTreesClassifier(n_trees, random_state=0).fit(X[::2], y[::2])
        forest = scurry.from_model(model)
        for order in ("backward-squirrel", "breadth-re"):
            found = find(forest, X[1::2], y[1::2], order=order)
            assert found.curve[-1] == model.score(X[1::2], y[1::2])

    def test_labels_are_the_models_own(self, digits):
        _, X, y = digits
        names = np.array(list("abcdefghij"))
        model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, names[y])
        forest = scurry.from_model(model)
        found = find(forest, X, names[y], order="forward-squirrel")
        assert found.curve[-1] == model.score(X, names[y])
        numbers = scurry.from_model(RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y))
        assert found.steps.tolist() == find(numbers, X, y.astype(float), order="forward-squirrel").steps.tolist()

    def test_labels_may_be_in_any_order(self):
        stump = {"feature": [0, -1, -1], "threshold": [0, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1]}
        values = {"value": [[0.2, 0.3, 0.5], [0.1, 0.8, 0.1], [0.7, 0.2, 0.1]]}
        classes, X = np.array([7, -3, 5]), [[-1.0], [1.0], [-1.0], [1.0]]
        for dtype in (np.int64, np.int8, np.float32, object, str):
            forest = Forest.from_trees([stump | values], classes=classes.astype(dtype))
            found = find(forest, X, np.array([-3, 7, 5, 5]).astype(dtype), order="forward-squirrel")
            assert found.curve.tolist() == [0.5, 0.5]

    def test_a_model_of_one_class_is_always_right(self):
        stump = {"feature": [0, -1, -1], "threshold": [0, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1]}
        forest = Forest.from_trees([{**stump, "value": [[1.0]] * 3}] * 2, classes=["only"])
        for order in ("optimal", "backward-squirrel", "auto", "depth-ie"):
            assert find(forest, [[1.0], [-1.0]], ["only", "only"], order=order).curve.tolist() == [1, 1, 1]

    def test_trees_without_steps(self):
        leaf = {"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": [[0.2, 0.8]]}
        forest = Forest.from_trees([leaf, leaf], n_features=1)
        for order in set(ORDERS) - {"depth-qwyc", "breadth-qwyc"}:
            found = find(forest, [[0.0], [1.0]], [1, 0], order=order)
            assert (len(found.steps), found.curve.tolist()) == (0, [0.5])


class TestReadOut:
    @settings(max_examples=60, deadline=None)
    @given(problems(max_trees=5, max_nodes=11), st.sampled_from(["forward-squirrel", "auto"]))
    def test_auto_keeps_the_better_of_the_two(self, problem, order):
        forest, X, y = problem
        plain, weighted, chosen = (
            find(forest, X, y, order=order, readout=readout) for readout in ("plain", "weighted", "auto")
        )
        # Correct answers are counted: sums of shares differ by rounding where the two are equally good.
        n_plain, n_weighted = (np.rint(found.curve[:-1] * len(y)).sum() for found in (plain, weighted))
        better = {"plain": plain, "weighted": weighted}[chosen.readout]
        assert n_plain == n_weighted or better is (weighted if n_weighted > n_plain else plain)
        assert chosen.steps.tolist() == better.steps.tolist()
        assert chosen.curve.tolist() == better.curve.tolist()

    def test_time_decides_where_steps_have_costs(self, digits):
        forest, X, y = digits
        costs = (5.0, 1.0)

        def worth(found):
            weights = np.where(np.diff(found.steps, prepend=-1) == 0, *costs)
            return (found.curve[:-1] * weights).sum() / weights.sum()

        found = [find(forest, X, y, readout=readout, step_costs=costs) for readout in ("plain", "weighted", "auto")]
        assert worth(found[2]) == max(worth(found[0]), worth(found[1]))


class TestRandom:
    def test_is_reproducible_and_uniform(self, digits):
        forest, X, y = digits
        first = find(forest, X[:5], y[:5], order="random", random_state=3).steps
        assert first.tolist() == find(forest, X[:5], y[:5], order="random", random_state=3).steps.tolist()
        state = np.random.RandomState(0)
        assert len(find(forest, X[:5], y[:5], order="random", random_state=state).steps) == len(first)
        starts = {int(find(forest, X[:5], y[:5], order="random", random_state=seed).steps[0]) for seed in range(60)}
        assert starts == set(range(7))


class TestErrors:
    def test_unknown_order(self, digits):
        forest, X, y = digits
        with pytest.raises(InputError, match="unknown order 'optmal'; Did you mean 'optimal'") as error:
            find(forest, X, y, order="optmal")
        assert all(order in str(error.value) for order in ORDERS)
        with pytest.raises(InputError, match=r"unknown order 'zzz'; Known are auto, "):
            find(forest, X, y, order="zzz")

    def test_readout(self, digits):
        forest, X, y = digits
        with pytest.raises(InputError, match='readout must be one of "plain", "weighted", "auto", got \'soft\''):
            find(forest, X, y, readout="soft")

    def test_step_costs(self, digits):
        forest, X, y = digits
        with pytest.raises(InputError, match="step_costs is only used by"):
            find(forest, X, y, order="optimal", step_costs=(1, 2))
        for wrong in ((1,), (0, 1), (1, np.inf), (1, -2)):
            with pytest.raises(InputError, match="step_costs must be two positive numbers"):
                find(forest, X, y, step_costs=wrong)


@st.composite
def random_problems(draw):
    n_classes = draw(st.integers(2, 4))
    forest = Forest.from_trees(draw(st.lists(trees(2, n_classes, 5), min_size=2, max_size=4)), n_features=2)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(1, 300))
    X = rng.choice(np.array([-2.0, 0.0, 0.1, 0.2, 1.0, 4.0], np.float32), (n_rows, 2))
    return forest, X, rng.integers(0, n_classes, n_rows)


def smooth_scores(oracle: Oracle, unit: float) -> np.ndarray:
    """#right + sum of (1 + x / (1 + |x|)) / 2, x = 10 margin / n_trees, for every state."""
    scores = {}
    for levels in itertools.product(*(range(depth + 1) for depth in oracle.depths)):
        total = sum(sums[level] for sums, level in zip(oracle.sums, levels, strict=True))
        rows = np.arange(len(oracle.y))
        own = total[rows, oracle.y]
        rivals = total.copy()
        rivals[rows, oracle.y] = -1
        x = 10 * (own - rivals.max(axis=1)) * unit / len(oracle.depths)
        scores[levels] = oracle.correct(levels) + (0.5 * (1 + x / (1 + abs(x)))).sum()
    return scores


def total_cost(scores, steps, depths, costs) -> float:
    """Sum over steps of what is still missing before the step, times the cost of the step."""
    way, total = states(steps, len(depths)), 0.0
    for i, tree in enumerate(steps):
        same = i > 0 and steps[i - 1] == tree
        total += (scores[way[-1]] - scores[way[i]]) * costs[0 if same else 1]
    return total


class TestSearchesOnTheSmoothScore:
    @settings(max_examples=40, deadline=None)
    @given(random_problems(), st.sampled_from(COSTS))
    def test_wide_beams_and_wide_windows_are_exact(self, problem, costs):
        forest, X, y = problem
        ordering, oracle = OrderingSet.of(forest, X, y), Oracle(forest, X, y)
        descent = ordering.descent()
        scores = smooth_scores(oracle, ordering.fixed.unit)
        orders = list(oracle.all_orders())
        best = min(total_cost(scores, steps, oracle.depths, costs) for steps in orders)
        options = {
            "steepness": 5 * ordering.fixed.unit / forest.n_trees,
            "same_tree": costs[0],
            "other_tree": costs[1],
        }
        found = [_core.beam_order(descent, width=5000, down=down, **options) for down in (True, False)]
        worst = max(orders, key=lambda steps: total_cost(scores, steps, oracle.depths, costs))
        start = np.array(worst, np.int32)
        found.append(_core.refined_order(descent, start, max_states=10**6, max_sweeps=1, **options))
        for steps in found:
            # Scores are rounded to 2^-15 of a row.
            tolerance = 2.0**-14 * len(y) * (len(steps) + 1) * max(costs)
            assert total_cost(scores, steps.tolist(), oracle.depths, costs) <= best + tolerance

    @pytest.mark.parametrize("costs", COSTS)
    def test_windows_never_make_an_order_worse(self, costs):
        forest = complete_forest(n_trees=6, depth=4, n_columns=3)
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(300, 6)).astype(np.float32), rng.integers(0, 3, 300)
        ordering, oracle = OrderingSet.of(forest, X, y), Oracle(forest, X, y)
        scores = smooth_scores(oracle, ordering.fixed.unit)
        steps = find(forest, X, y, order="random", random_state=0).steps
        options = {
            "steepness": 5 * ordering.fixed.unit / forest.n_trees,
            "same_tree": costs[0],
            "other_tree": costs[1],
        }
        totals = []
        for max_states in (1, 16, 64, 256):
            steps = _core.refined_order(ordering.descent(), steps, max_states=max_states, max_sweeps=9, **options)
            totals.append(total_cost(scores, steps.tolist(), oracle.depths, costs))
        assert totals == sorted(totals, reverse=True)
        assert totals[-1] < totals[0]


def test_a_loss_is_what_is_lost_until_the_end():
    X, y = load_digits(return_X_y=True)
    forest = scurry.from_model(RandomForestClassifier(3, max_depth=2, random_state=0).fit(X[:300], y[:300]))
    descent = OrderingSet.of(forest, X[300:600], y[300:600]).descent()
    steps = np.array([0, 0, 1, 2, 2, 1], np.int32)
    lost = descent.losses(steps)[:-1] - descent.losses(steps)[-1]
    assert lost[0] != 0
    assert mean_loss(descent, steps, (1.0, 3.0)) == lost @ [3, 1, 3, 3, 1, 3]


class TestAuto:
    @settings(max_examples=30, deadline=None)
    @given(random_problems(), st.sampled_from(COSTS))
    def test_is_never_below_the_backward_squirrel_on_its_rows(self, problem, costs):
        forest, X, y = problem
        ordering = OrderingSet.of(forest, X, y)
        squirrel = find(forest, X, y, order="backward-squirrel").steps
        found = find(forest, X, y, order="auto", step_costs=costs).steps
        assert mean_loss(ordering.descent(), found, costs) <= mean_loss(ordering.descent(), squirrel, costs)

    def test_costs_change_the_order(self):
        X, y = load_digits(return_X_y=True)
        forest = scurry.from_model(RandomForestClassifier(8, max_depth=6, random_state=0).fit(X[:600], y[:600]))
        ordering = OrderingSet.of(forest, X[600:1200], y[600:1200])
        by_step = find_auto(ordering)
        slow_to_stay, slow_to_change = find_auto(ordering, (3.0, 1.0)), find_auto(ordering, (1.0, 3.0))

        def stays(steps):
            return int((np.diff(steps) == 0).sum())

        assert stays(slow_to_stay) < stays(by_step) < stays(slow_to_change)
        for costs, steps in (((3.0, 1.0), slow_to_stay), ((1.0, 3.0), slow_to_change)):
            assert mean_loss(ordering.descent(), steps, costs) < mean_loss(ordering.descent(), by_step, costs)

    def test_by_time_the_order_by_steps_is_tried_too(self, monkeypatch):
        """It wins where the searches by time find nothing as good: here they are kept from finding anything."""
        X, y = load_digits(return_X_y=True)
        forest = scurry.from_model(RandomForestClassifier(4, max_depth=3, random_state=0).fit(X[:300], y[:300]))
        ordering, costs = OrderingSet.of(forest, X[300:600], y[300:600]), (1.0, 1.5)
        by_step = find_auto(ordering)
        worst = find(forest, X[300:600], y[300:600], order="unoptimal").steps
        refine = search_module._core.refined_order

        def refine_by_steps_alone(descent, steps, **options):
            return refine(descent, steps, **options) if options["same_tree"] == options["other_tree"] else worst

        monkeypatch.setattr(search_module._core, "refined_order", refine_by_steps_alone)
        found = find_auto(ordering, costs)
        assert mean_loss(ordering.descent(), found, costs) <= mean_loss(ordering.descent(), by_step, costs)

    def test_large_forests_are_searched_on_a_sample(self, monkeypatch):
        X, y = load_digits(return_X_y=True)
        forest = scurry.from_model(RandomForestClassifier(20, max_depth=5, random_state=0).fit(X[:600], y[:600]))
        ordering = OrderingSet.of(forest, X[600:], y[600:])
        monkeypatch.setattr(search_module, "ROWS_PER_CLASS", 30)
        per_row = int(forest.tree_depth.sum()) * 20 * 10
        for affordable, width, n_rows in (
            (2 * ordering.n_rows, 6, 300),
            (ordering.n_rows * 16, 16, ordering.n_rows),
            (1, 1, 100),
        ):
            monkeypatch.setattr(search_module, "MAX_WORK", affordable * per_row)
            found_width, sample = search_module._choose_effort(ordering)
            assert (found_width, len(sample)) == (
                min(16, 2 * ordering.n_rows // 300) if n_rows == 300 else width,
                n_rows,
            )
            assert len(set(sample.tolist())) == n_rows
            share = np.bincount(ordering.targets[sample], minlength=10) / n_rows
            assert share == pytest.approx(np.bincount(ordering.targets) / ordering.n_rows, abs=1.5 / n_rows)
        squirrel = find(forest, X[600:], y[600:], order="backward-squirrel").steps
        found = find_auto(ordering)
        assert mean_loss(ordering.descent(), found, (1, 1)) <= mean_loss(ordering.descent(), squirrel, (1, 1))


def test_same_orders_whatever_the_vector_instructions():
    code = """if True:
        import numpy as np
        from sklearn.datasets import load_digits
        from sklearn.ensemble import RandomForestClassifier
        import scurry
        X, digit = load_digits(return_X_y=True)
        for y in (digit, digit >= 5, digit // 2, 2 * digit + (X[:, 20] > 8), 4 * digit + X[:, 20].astype(int) // 4):
            forest = scurry.from_model(RandomForestClassifier(5, max_depth=4, random_state=0).fit(X[:700], y[:700]))
            known = np.isin(y, y[:700])
            for order in ("auto", "optimal", "forward-squirrel", "backward-squirrel"):
                print(scurry.orders.find(forest, X[known][700:], y[known][700:], order=order).steps.tolist())
        print(scurry._core.kernels())
    """
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "SCURRY_ISA": isa},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for isa in ("portable", "avx2", "")
    ]
    assert outputs[0][-1] == "portable"
    assert outputs[0][:-1] == outputs[1][:-1] == outputs[2][:-1]


class TestOptimal:
    @pytest.mark.parametrize("n_classes", [2, 3, 5])
    def test_larger_grids(self, n_classes):
        forest = complete_forest(n_trees=5, depth=4, n_columns=n_classes, seed=n_classes)
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(200, 6)).astype(np.float32), rng.integers(0, n_classes, 200)
        oracle = Oracle(forest, X, y)
        losses = oracle.losses()
        for order, sign in (("optimal", 1), ("unoptimal", -1)):
            found = find(forest, X, y, order=order)
            assert sign * (200 - np.array(oracle.curve(found.steps))).sum() == least_sum(sign * losses)

    def test_many_slices_and_threads(self):
        # 7^7 states are swept in several slices, which two threads prepare in turn.
        forest = complete_forest(n_trees=7, depth=6, n_columns=2, seed=3)
        rng = np.random.default_rng(1)
        X, y = rng.normal(size=(8, 6)).astype(np.float32), rng.integers(0, 2, 8)
        oracle = Oracle(forest, X, y)
        best = least_sum(oracle.losses())
        for n_threads in (1, 2, 3):
            steps = find(forest, X, y, order="optimal", n_threads=n_threads).steps
            assert (8 - np.array(oracle.curve(steps))).sum() == best

    def test_says_beforehand_what_it_needs(self, digits, caplog):
        forest, X, y = digits
        calls = []
        with caplog.at_level(logging.INFO, logger="scurry"):
            find(forest, X, y, order="optimal", progress=lambda n_done, n_total: calls.append((n_done, n_total)))
        assert calls[0] == (0, 78_125)
        assert calls[-1] == (78_125, 78_125)
        assert calls == sorted(calls)
        assert "optimal order: 78,125 states, " in caplog.text
        assert "MB, about " in caplog.text

    @pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of a process is read from Linux")
    @pytest.mark.skipif("SCURRY_SANITIZED" in os.environ, reason="AddressSanitizer keeps what was freed")
    @pytest.mark.parametrize(("n_classes", "n_threads"), [(2, 1), (12, 2), (0, 1)])
    def test_uses_no_more_memory_than_it_says(self, n_classes, n_threads):
        script = f"""
            import logging, numpy as np, scurry
            from pathlib import Path
            from scurry.orders import find
            from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

            def memory(field):
                lines = Path("/proc/self/status").read_text().splitlines()
                return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

            rng = np.random.default_rng(0)
            X = rng.normal(size=(24_000 // max({n_classes}, 1), 6)).astype(np.float32)
            if {n_classes}:
                y = rng.integers(0, {n_classes}, len(X))
                model = RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, y)
            else:
                y = rng.normal(size=len(X))
                model = RandomForestRegressor(4, max_depth=3, random_state=0).fit(X, y)
            forest, said = scurry.from_model(model), []
            find(forest, X, y, order="backward-squirrel")
            Path("/proc/self/clear_refs").write_text("5")
            before = memory("VmRSS")
            log = logging.getLogger("scurry")
            log.setLevel(logging.INFO)
            log.addFilter(lambda record: said.append(record.getMessage()) or True)
            find(forest, X, y, order="optimal", n_threads={n_threads})
            print(memory("VmHWM") - before, said[0].split(", ")[-2])
        """
        run = [sys.executable, "-c", textwrap.dedent(script)]
        used, said, unit = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
        announced = float(said) * {"kB": 1e3, "MB": 1e6}[unit]
        assert int(used) <= announced

    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_trees_that_change_their_mind_entirely(self, n_classes):
        """What both together may add to a margin is twice what a margin can be."""
        one, other = np.eye(n_classes)[:2]
        stump = {"feature": [0, -1, -1], "threshold": [0.0] * 3, "left": [1, -1, -1], "right": [2, -1, -1]}
        forest = Forest.from_trees([stump | {"value": [one, one, other]}, stump | {"value": [other, one, other]}])
        X = np.linspace(-1, 1, 21)[:, None]
        y = (X[:, 0] > 0).astype(int)
        steps = find(forest, X, y, order="optimal").steps
        right = {order: accuracy_curve(forest, order, X, y).sum() for order in ((0, 1), (1, 0))}
        assert accuracy_curve(forest, steps, X, y).sum() == max(right.values())

    def test_more_threads_than_the_system_gives(self):
        """Where no thread can be started (their stacks would not fit any memory), the calling one does all the work."""
        script = """
            import numpy as np
            from scurry.orders import find
            from support.strategies import complete_forest

            forest = complete_forest(n_trees=8, depth=6, n_columns=2)
            X, y = np.random.default_rng(0).normal(size=(20, 6)), np.arange(20) % 2
            steps = [find(forest, X, y, order="optimal", n_threads=n).steps for n in (1, 4)]
            print(np.array_equal(*steps))
        """
        limited = f"ulimit -s {2**37}; exec {sys.executable} -c {shlex.quote(textwrap.dedent(script))}"
        tests = str(Path(__file__).parents[1])
        path = os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH")]))
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
        run = subprocess.run(["sh", "-c", limited], env=environment, capture_output=True, text=True)
        assert run.stdout.strip() == "True", run.stderr

    def test_progress_may_stop_the_search(self):
        forest = complete_forest(n_trees=8, depth=6, n_columns=2)
        rng = np.random.default_rng(1)
        X, y = rng.normal(size=(3000, 6)).astype(np.float32), rng.integers(0, 2, 3000)

        def stop(n_done, n_total):
            if n_done > 0:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            find(forest, X, y, order="optimal", n_threads=2, progress=stop)

    def test_refuses_what_does_not_fit(self):
        forest = complete_forest(n_trees=12, depth=8, n_columns=2)
        X, y = np.zeros((10, 6), np.float32), np.zeros(10, int)
        with pytest.raises(InfeasibleError) as refused:
            find(forest, X, y, order="optimal")
        message = str(refused.value)
        assert "12 trees of depth 8 has 2.82e+11 states" in message
        assert "its first 10 trees or all 12 trees cut at depth 5" in message
        assert 'order="auto"' in message
        assert refused.value.achievable > 2**33
        with pytest.raises(InfeasibleError, match="its first 5 trees"):
            find(forest, X, y, order="unoptimal", max_memory=120_000)
        with pytest.raises(InfeasibleError, match=r"max_memory = 1 byte\. Use"):
            find(forest, X, y, order="optimal", max_memory=1)


@st.composite
def problems_of_rankings(draw):
    n_classes = draw(st.integers(2, 4))
    forest = Forest.from_trees(
        draw(st.lists(trees(2, n_classes, 9), min_size=1, max_size=7)),
        n_features=2,
        aggregation=draw(st.sampled_from(["mean", "vote"])),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(1, 15))
    X = rng.choice(np.array([-2.0, 0.0, 0.1, 0.2, 1.0, 4.0], np.float32), (n_rows, 2))
    return forest, X, rng.integers(0, n_classes, n_rows)


def leaf_fractions(forest, X):
    """P of shape (n_trees, n_rows, n_classes)."""
    values = node_values(forest)
    return np.array([values[node_path(forest, X, tree)[-1]] for tree in range(forest.n_trees)])


def fixed(forest, X):
    return np.floor(leaf_fractions(forest, X) * 2.0 ** (29 - math.ceil(math.log2(forest.n_trees))) + 0.5)


def errors_of(sums, y):
    return int((sums.argmax(axis=-1) != y).sum())


def reduced_error(P, y):
    chosen, total = [], np.zeros(P.shape[1:])
    while len(chosen) < len(P):
        rest = [m for m in range(len(P)) if m not in chosen]
        chosen.append(min(rest, key=lambda m: (errors_of(total + P[m], y), m)))
        total = total + P[chosen[-1]]
    return chosen


def diverse(P, y, rho):
    chosen = [min(range(len(P)), key=lambda m: (errors_of(P[m], y), m))]
    while len(chosen) < len(P):
        total = sum(P[m] for m in chosen)
        rest = [m for m in range(len(P)) if m not in chosen]
        alike = {m: int((P[m].argmax(axis=1) == total.argmax(axis=1)).sum()) for m in rest}
        different = sorted(rest, key=lambda m: (alike[m], m))[: math.ceil(rho * len(rest))]
        chosen.append(min(different, key=lambda m: (errors_of(total + P[m], y), m)))
    return chosen


class TestAgainstDefinitions:
    @settings(max_examples=80, deadline=None)
    @given(problems_of_rankings())
    def test_individual_and_reduced_error(self, problem):
        forest, X, y = problem
        ordering, P = OrderingSet.of(forest, X, y), fixed(forest, X)
        by_error = sorted(range(forest.n_trees), key=lambda m: (errors_of(P[m], y), m))
        assert rank(ordering, "ie").tolist() == by_error
        assert rank(ordering, "re").tolist() == reduced_error(P, y)

    @settings(max_examples=80, deadline=None)
    @given(problems_of_rankings(), st.sampled_from([0.2, 0.25, 0.5, 1.0]))
    def test_drep(self, problem, rho):
        forest, X, y = problem
        assert rank_by_drep(OrderingSet.of(forest, X, y), rho).tolist() == diverse(fixed(forest, X), y, rho)

    def test_all_different_trees_make_drep_reduced_error(self):
        X, y = load_digits(return_X_y=True)
        forest = scurry.from_model(RandomForestClassifier(9, max_depth=4, random_state=0).fit(X[:500], y[:500]))
        ordering = OrderingSet.of(forest, X[500:900], y[500:900])
        assert rank_by_drep(ordering, 1.0).tolist() == rank(ordering, "re").tolist()

    @settings(max_examples=40, deadline=None)
    @given(problems_of_rankings())
    def test_measure_ambiguity(self, problem):
        forest, X, y = problem
        P = leaf_fractions(forest, X)
        C = P.shape[2]
        ordering = OrderingSet.of(forest, X, y)
        assert (np.diff(measure_ambiguity(ordering)[rank(ordering, "ea")]) >= 0).all(), "the least ambiguous first"
        for m, found in enumerate(measure_ambiguity(OrderingSet.of(forest, X, y))):
            expected = 0.0
            for i in range(len(X)):
                for c in range(C):
                    expected += (P[m, i, c] - P[:, i, c].mean()) ** 2
                    if c == y[i]:
                        expected += C**-2 * math.exp(-P[m, i, c] / C)
                    else:
                        expected += C**-2 * (C - 1) ** -2 * math.exp(P[m, i, c] / (C * (C - 1)))
            assert found == pytest.approx(expected, rel=1e-12)

    def test_qwyc_is_the_order_of_algorithm_1(self):
        X, y = load_digits(return_X_y=True)
        y = (y >= 5).astype(int)
        model = RandomForestClassifier(15, max_depth=4, random_state=0).fit(X[:700], y[:700])
        scores = np.stack([tree.predict_proba(X[700:])[:, 1] - 0.5 for tree in model.estimators_], axis=1)
        rule = stopping.qwyc(scores, max_disagreement=0.005, spending="upfront", sides="negative-first")
        forest = scurry.from_model(model)
        order = rule.order.tolist()
        assert rank(OrderingSet.of(forest, X[700:], y[700:]), "qwyc").tolist() == order
        steps = find(forest, X[700:], y[700:], order="depth-qwyc").steps
        assert steps.tolist() == [tree for tree in order for _ in range(forest.tree_depth[tree])]


class TestLayouts:
    def test_depth_and_breadth(self):
        X, y = load_digits(return_X_y=True)
        model = RandomForestClassifier(6, max_leaf_nodes=9, random_state=0).fit(X[:500], y[:500])
        forest = scurry.from_model(model)
        assert len(set(forest.tree_depth.tolist())) > 1
        order = rank(OrderingSet.of(forest, X[500:800], y[500:800]), "re")
        depth = [tree for tree in order for _ in range(forest.tree_depth[tree])]
        breadth = [tree for level in range(forest.max_depth) for tree in order if forest.tree_depth[tree] > level]
        assert find(forest, X[500:800], y[500:800], order="depth-re").steps.tolist() == depth
        assert find(forest, X[500:800], y[500:800], order="breadth-re").steps.tolist() == breadth


class TestOtherModels:
    def test_boosted_classifier(self):
        X, y = load_digits(return_X_y=True)
        y = (y >= 5).astype(int)
        model = GradientBoostingClassifier(n_estimators=12, max_depth=2, random_state=0).fit(X[:700], y[:700])
        forest = scurry.from_model(model)
        ordering = OrderingSet.of(forest, X[700:], y[700:])
        start = model._raw_predict_init(X[700:].astype(np.float32))[:, 0]
        alone = [start + 0.1 * tree.predict(X[700:].astype(np.float32)) for tree in model.estimators_[:, 0]]
        errors = [int(((score >= 0) != y[700:]).sum()) for score in alone]
        assert rank(ordering, "ie").tolist() == np.argsort(errors, kind="stable").tolist()
        for ranking in ("re", "drep", "qwyc"):
            assert sorted(rank(ordering, ranking)) == list(range(12))
        with pytest.raises(InputError, match="ea ranking needs trees that answer with fractions"):
            rank(ordering, "ea")

    @pytest.mark.parametrize("kind", [RandomForestRegressor, GradientBoostingRegressor])
    def test_regressors_by_squared_error(self, kind):
        X, y = load_diabetes(return_X_y=True)
        X = X.astype(np.float32)
        model = kind(n_estimators=9, max_depth=3, random_state=0).fit(X[:220], y[:220])
        ordering = OrderingSet.of(scurry.from_model(model), X[220:], y[220:])
        averaged = kind is RandomForestRegressor
        estimators = model.estimators_ if averaged else model.estimators_[:, 0]
        parts = [tree.predict(X[220:]) * (1.0 if averaged else 0.1) for tree in estimators]
        start = 0.0 if averaged else model.init_.predict(X[220:])

        def error(chosen):
            total = start + sum(parts[m] for m in chosen)
            return float(((total / (len(chosen) if averaged else 1) - y[220:]) ** 2).mean())

        assert rank(ordering, "ie").tolist() == sorted(range(9), key=lambda m: error([m]))
        greedy = []
        while len(greedy) < 9:
            greedy.append(min(set(range(9)) - set(greedy), key=lambda m: error([*greedy, m])))
        assert rank(ordering, "re").tolist() == greedy
        for ranking in ("ea", "drep", "qwyc"):
            with pytest.raises(InputError, match=f"the {ranking} ranking is for classifiers"):
                rank(ordering, ranking)
