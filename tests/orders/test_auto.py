import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry import Forest, _core
from scurry.orders import auto as auto_module
from scurry.orders import find
from scurry.orders.auto import find_auto, mean_loss
from scurry.orders.ordering_set import OrderingSet
from support.order_oracle import Oracle, states
from support.strategies import complete_forest, trees

COSTS = [(1.0, 1.0), (3.0, 1.0), (1.0, 2.5)]


@st.composite
def problems(draw):
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
    @given(problems(), st.sampled_from(COSTS))
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
    @given(problems(), st.sampled_from(COSTS))
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
        refine = auto_module._core.refined_order

        def refine_by_steps_alone(descent, steps, **options):
            return refine(descent, steps, **options) if options["same_tree"] == options["other_tree"] else worst

        monkeypatch.setattr(auto_module._core, "refined_order", refine_by_steps_alone)
        found = find_auto(ordering, costs)
        assert mean_loss(ordering.descent(), found, costs) <= mean_loss(ordering.descent(), by_step, costs)

    def test_large_forests_are_searched_on_a_sample(self, monkeypatch):
        X, y = load_digits(return_X_y=True)
        forest = scurry.from_model(RandomForestClassifier(20, max_depth=5, random_state=0).fit(X[:600], y[:600]))
        ordering = OrderingSet.of(forest, X[600:], y[600:])
        monkeypatch.setattr(auto_module, "ROWS_PER_CLASS", 30)
        per_row = int(forest.tree_depth.sum()) * 20 * 10
        for affordable, width, n_rows in (
            (2 * ordering.n_rows, 6, 300),
            (ordering.n_rows * 16, 16, ordering.n_rows),
            (1, 1, 100),
        ):
            monkeypatch.setattr(auto_module, "MAX_WORK", affordable * per_row)
            found_width, sample = auto_module._choose_effort(ordering)
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
