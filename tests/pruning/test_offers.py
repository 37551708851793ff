"""What a path offers: never a pruning that costs more and is not better on the validation rows."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.costs import ErrorCosts
from scurry.errors import InputError, ScurryWarning
from scurry.pruning import Offer, Offers
from scurry.pruning.offers import advise

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
    assert re.fullmatch(r"Offers\(\d+ forests, cost per row \S+ to \S+, error \S+ to \S+\)", repr(path.offers))


def test_a_search_is_not_sent_to_itself(path):
    assert "FeatureBudgetClassifier" in advise("a", path.problem.forest)
    assert "FeatureBudgetClassifier" not in advise("a", path.problem.forest, is_searched=True)
