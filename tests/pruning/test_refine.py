"""Prunings between two optimal ones: within the budget, between the two, and closed under parents.

What a path offers: never a pruning that costs more and is not better on the validation rows.
"""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.costs import ErrorCosts
from scurry.errors import InputError, ScurryWarning
from scurry.pruning import Offer, Offers, refine
from scurry.pruning.refine import FamilyDrops, advise, families, within_cost, within_error
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


DATA = scurry.datasets.load("thyroid_ann_cost")
PRICES = {"feature_costs": DATA.feature_costs, "groups": DATA.groups, "group_costs": DATA.group_costs}
ORDER = np.random.default_rng(0).permutation(len(DATA.y))
GROW, VAL = ORDER[:1500], ORDER[1500:2700]


@pytest.fixture(scope="module")
def forest():
    """Return a forest whose cheap prunings all answer that nobody is ill."""
    model = RandomForestClassifier(30, max_depth=8, random_state=0).fit(DATA.X[GROW], DATA.y[GROW])
    return scurry.from_model(model)


@pytest.fixture(scope="module")
def path(forest):
    return scurry.prune(forest, DATA.X[VAL], DATA.y[VAL], **PRICES)


def accuracy(forest):
    return (forest.predict(DATA.X[VAL]) == DATA.y[VAL]).mean()


@pytest.mark.filterwarnings("ignore::scurry.errors.ScurryWarning")
@pytest.mark.parametrize("method", ["exact", "ccp"])
def test_what_costs_more_is_better_on_the_validation_rows(forest, method):
    path = scurry.prune(forest, DATA.X[VAL], DATA.y[VAL], method=method, **PRICES)
    points = [path.point(max_cost=budget) for budget in np.linspace(0, float(path.costs.max()), 25)]
    for cheap in points:
        for point in points:
            if point.cost > cheap.cost:
                assert accuracy(point.forest) > accuracy(cheap.forest)
    assert len({point.cost for point in points}) > 1
    assert points[-1].cost <= path.costs.max()


def test_one_label_for_all_rows_is_flagged_and_not_paid_for(path, forest):
    with pytest.warns(ScurryWarning, match=r"answers 3 for every validation row.*FeatureBudgetClassifier"):
        point = path.point(max_cost=20)
    assert point.single_label == 3
    assert point.cost == 0
    # Without labels, a pruning that answers as the cheapest one does is not worth more either.
    unlabelled = scurry.prune(forest, DATA.X[VAL], **PRICES)
    with pytest.warns(ScurryWarning):
        assert unlabelled.point(max_cost=20).cost == 0
    full = unlabelled.point(max_cost=1000)
    assert full.single_label is None
    assert full.cost == unlabelled.costs[0]


def test_the_mathematical_path_does_not_depend_on_labels(path, forest):
    unlabelled = scurry.prune(forest, DATA.X[VAL], **PRICES)
    assert path.exact_lambdas == unlabelled.exact_lambdas
    assert path.errors.tolist() == unlabelled.errors.tolist()
    assert path.costs.tolist() == unlabelled.costs.tolist()
    with pytest.raises(InputError, match="pass y_val"):
        unlabelled.offers  # noqa: B018


def test_labels_are_checked_even_if_errors_are_counted_on_training_rows(forest):
    with pytest.raises(InputError, match=r"y_val has shape \(3,\), X_val has 1200 rows"):
        scurry.prune(forest, DATA.X[VAL], [1, 2, 3], **PRICES)
    with pytest.raises(InputError, match="the model does not know: 7"):
        scurry.prune(forest, DATA.X[VAL], np.full(len(VAL), 7), **PRICES)


def test_offers_are_judged_with_the_weights(forest):
    truth = DATA.y[VAL]
    for weight in (None, "balanced"):
        path = scurry.prune(forest, DATA.X[VAL], truth, class_weight=weight, **PRICES)
        for offer in path.offers:
            answers = offer.forest.predict(DATA.X[VAL])
            recalls = [(answers[truth == label] == label).mean() for label in (1, 2, 3)]
            np.testing.assert_allclose(offer.recalls, recalls)
            error = 1 - np.mean(recalls) if weight else 1 - (answers == truth).mean()
            assert offer.error == pytest.approx(error, abs=1e-12)
            assert offer.cost == pytest.approx(path.problem.costs.of_rows(offer.forest, DATA.X[VAL]).mean(), rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20), st.integers(0, 9))
def test_offers_are_the_best_within_every_budget(points, budget):
    made = [Offer(None, str(at), float(c), float(e), np.zeros(2)) for at, (c, e) in enumerate(points)]
    offers = Offers(made, None, None)
    assert (np.diff(offers.costs) > 0).all()
    assert (np.diff(offers.errors) < 0).all()
    within = [(error, cost) for cost, error in points if cost <= budget]
    if within:
        chosen = offers.at(budget)
        assert (chosen.error, chosen.cost) == min(within)
    hull = offers.hull
    for price in np.linspace(0, 5, 40):
        best = min(error + price * cost for cost, error in points)
        assert min(offer.error + price * offer.cost for offer in hull) == pytest.approx(best)


def test_error_costs_as_matrix_and_by_name():
    by_name = ErrorCosts.of(["no", "yes"], error_costs={"no": {"yes": 1}, "yes": {"no": 5}})
    assert by_name.matrix.tolist() == [[0, 1], [5, 0]]
    confusion = np.array([[8, 2], [3, 7]])
    assert by_name.mean_cost(confusion) == (2 + 15) / 20
    assert ErrorCosts.of(["no", "yes"]).mean_cost(confusion) == 5 / 20
    assert ErrorCosts.of(["no", "yes"], class_weight={"no": 1, "yes": 3}).mean_cost(confusion) == (2 + 9) / 40
    assert ErrorCosts.of([0, 1, 2], class_weight="balanced").mean_cost(np.diag([0, 3, 4])) == 0


def test_offers_say_what_they_are(path):
    assert re.fullmatch(r"Offers\(\d+ forests, mean cost per row \S+ to \S+, error \S+ to \S+\)", repr(path.offers))


def test_a_search_is_not_sent_to_itself(path):
    assert "FeatureBudgetClassifier" in advise("a", path.problem.forest)
    assert "FeatureBudgetClassifier" not in advise("a", path.problem.forest, is_searched=True)
