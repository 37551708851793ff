"""Early exits on scores: exact where they end, certified where they stop, cheap in the units asked for."""

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import scurry
from scurry.errors import InfeasibleError, InputError
from scurry.plan import NEVER_BELOW
from scurry.promises import Certificate
from scurry.runners import rules
from scurry.stopping import LeaderFit, MarginFit, fan, preset_order, qwyc
from scurry.verbs.options import Calibration, ExitOptions
from scurry.verbs.planners import by_scores
from support.calibration_rows import two_classes
from support.strategies import complete_forest

METHODS = ("qwyc", "fan", "auto")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["forest", "boosted"])
def test_scores_never_change_a_calibration_label_without_budget(method, kind, request):
    model = request.getfixturevalue(kind)
    X, y = two_classes(3000, 6)
    fast = scurry.early_exit(model, X, y, max_disagreement=0, method=method, confidence=None, random_state=0)
    np.testing.assert_array_equal(fast.predict(X), model.predict(X))
    assert fast.run(X).mean_trees <= fast.forest.n_trees


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["forest", "boosted"])
def test_certified_scores(method, kind, request):
    model = request.getfixturevalue(kind)
    X, y = two_classes(8000, 7)
    fast = scurry.early_exit(model, X, y, max_disagreement=0.01, method=method, random_state=0)
    new, _ = two_classes(30_000, 8)
    run = fast.run(new)
    assert float((run.labels != model.predict(new)).mean()) <= 0.01
    assert run.mean_trees < 0.8 * fast.forest.n_trees
    assert "confidence 0.95" in str(fast.summary())
    certificate = fast.certificate
    assert certificate.n_rows == 4000
    assert certificate.measured.changed == certificate.n_broken / 4000
    assert certificate.measured.changed < certificate.bound <= certificate.max_rate == 0.01
    assert f"4,000 rows that had no part in the fit: {certificate.n_broken} broke it" in certificate.describe()


def test_what_runs_to_the_end_is_exact(boosted):
    X, _ = two_classes(6000, 9)
    fast = scurry.early_exit(boosted, X, max_disagreement=0.01, method="qwyc", random_state=0)
    run = fast.run(X)
    complete = run.stop_reason == "complete"
    assert 0 < complete.mean() < 1
    np.testing.assert_array_equal(run.labels[complete], boosted.predict(X[complete]))
    np.testing.assert_allclose(run.scores[complete], boosted.decision_function(X[complete]), rtol=1e-12)
    np.testing.assert_allclose(
        fast.predict_proba(X)[complete], boosted.predict_proba(X[complete]), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_array_equal(fast.predict_proba(X).argmax(axis=1)[~complete], run.labels[~complete])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_ties_are_no_mistakes_of_rows_that_run_to_the_end(n_classes):
    """Ten trees with pure leaves tie on a twentieth of the rows, and the model breaks each tie by itself."""
    X, y = make_classification(2600, 8, n_informative=5, n_classes=n_classes, random_state=0)
    model = RandomForestClassifier(10, random_state=0).fit(X[:800], y[:800])
    sums = model.predict_proba(X[800:])
    assert (np.sort(sums)[:, -1] - np.sort(sums)[:, -2] < 1e-9).mean() > 0.02
    fast = scurry.early_exit(model, X[800:2000], max_disagreement=0.02, method="qwyc", random_state=0)
    run = fast.run(X[2000:])
    assert 0 < fast.certificate.exits.mean_trees < 10
    assert (run.labels == model.predict(X[2000:]))[run.complete].all()


def test_filter_and_score(boosted):
    X, _ = two_classes(8000, 10)
    fast = scurry.early_exit(boosted, X, max_disagreement=0.01, method="qwyc", keep_scores="positive", random_state=0)
    run = fast.run(X)
    positive = run.labels == 1
    assert (run.trees[positive] == 60).all()
    np.testing.assert_allclose(run.scores[positive], boosted.decision_function(X[positive]), rtol=1e-12)
    assert run.trees[~positive].mean() < 60


def test_several_classes_search_their_order(three_classes):
    model, X = three_classes
    fast = scurry.early_exit(model, X[:3000], max_disagreement=0.02, method="qwyc", confidence=None)
    assert (fast.plan.order != np.arange(30)).any()
    assert (fast.predict(X[:3000]) != model.predict(X[:3000])).mean() <= 0.02


@pytest.mark.parametrize("method", ["qwyc", "auto"])
def test_scores_of_several_classes(three_classes, method):
    model, X = three_classes
    fast = scurry.early_exit(model, X[:3000], max_disagreement=0.03, method=method, random_state=0)
    run = fast.run(X[3000:])
    n_changed = int((run.labels != model.predict(X[3000:])).sum())
    assert stats.binom.sf(n_changed - 1, len(run.labels), 0.03) > 0.001  # the promise is about the rate
    assert run.mean_trees < 29
    assert run.scores.shape == (len(X) - 3000, 3)
    complete = run.stop_reason == "complete"
    np.testing.assert_array_equal(run.labels[complete], model.predict(X[3000:][complete]))
    np.testing.assert_allclose(
        fast.predict_proba(X[3000:])[complete], model.predict_proba(X[3000:][complete]), atol=1e-12
    )


def test_boosted_model_of_several_classes():
    X, y = make_classification(4000, n_features=8, n_informative=5, n_classes=3, random_state=1)
    model = GradientBoostingClassifier(n_estimators=25, max_depth=3, random_state=0).fit(X[:800], y[:800])
    fast = scurry.early_exit(model, X[800:2800], max_disagreement=0.03, random_state=0)
    run = fast.run(X[2800:])
    assert (run.labels != model.predict(X[2800:])).mean() <= 0.03
    assert (run.trees % 3 == 0).all()
    np.testing.assert_array_equal(fast.predict(X[2800:]), run.labels)


@pytest.mark.parametrize("costs", ["trees", "steps"])
def test_what_is_measured_is_what_runs(boosted, costs):
    X, y = make_classification(1500, n_features=8, n_informative=5, n_classes=3, random_state=1)
    several = GradientBoostingClassifier(n_estimators=10, max_depth=3, random_state=0).fit(X[:500], y[:500])
    for model, rows in ((several, X), (boosted, two_classes(1500, 20)[0])):
        fast = scurry.early_exit(model, rows, max_disagreement=0.03, confidence=None, method="qwyc", costs=costs)
        measured, run = fast.certificate.exits, fast.run(rows)
        assert measured.mean_trees == pytest.approx(run.mean_trees, rel=1e-12)
        assert measured.changed == (run.labels != model.predict(rows)).mean()


def test_costs_change_what_is_saved(boosted):
    """Trees of the second half at a thousandth of the price: the search prefers them, and counts in these units."""
    X, _ = two_classes(6000, 24)
    cheap_late = np.where(np.arange(60) < 30, 1.0, 1e-3)
    plain = scurry.early_exit(boosted, X, max_disagreement=0.02, method="qwyc", confidence=None)
    priced = scurry.early_exit(boosted, X, max_disagreement=0.02, method="qwyc", confidence=None, costs=cheap_late)
    assert (plain.plan.order[:10] < 30).mean() > 0.5
    assert (priced.plan.order[:10] >= 30).all()
    run = priced.run(X)
    spent = np.cumsum(cheap_late[priced.plan.order])[run.trees - 1]
    assert priced.plan.certificate.measured.mean_cost == pytest.approx(spent.mean())
    assert priced.plan.certificate.measured.mean_trees == pytest.approx(run.mean_trees)
    assert spent.mean() < np.cumsum(cheap_late[plain.plan.order])[plain.run(X).trees - 1].mean()


def test_steps_are_node_tests(boosted):
    X, _ = two_classes(6000, 25)
    fast = scurry.early_exit(boosted, X, max_disagreement=0.02, confidence=None, costs="steps", random_state=0)
    assert "fewest steps per row" in fast.plan.certificate.why
    assert fast.plan.certificate.measured.mean_cost == pytest.approx(fast.run(X).mean_steps, rel=0.02)


def test_rows_to_fit_leave_all_calibration_rows_to_certify(boosted):
    fit, _ = two_classes(4000, 17)
    X, _ = two_classes(1000, 18)
    fast = scurry.early_exit(boosted, X, X_fit=fit, max_disagreement=0.02, method="qwyc", random_state=0)
    assert fast.plan.certificate.n_rows == 1000
    new, _ = two_classes(20_000, 19)
    run = fast.run(new)
    assert (run.labels != boosted.predict(new)).mean() <= 0.02
    assert run.mean_trees < 55
    with pytest.raises(InputError, match="4 columns"):
        scurry.early_exit(boosted, X, X_fit=fit[:, :4])
    unpromised = scurry.early_exit(boosted, X, X_fit=fit, max_disagreement=0.02, method="qwyc", confidence=None)
    assert (unpromised.predict(fit) != boosted.predict(fit)).mean() <= 0.02
    assert "At most 2 % of the rows that fitted the rule" in unpromised.plan.certificate.statement()


def test_infeasible_says_what_is_achievable(boosted):
    X, _ = two_classes(1000, 16)
    message = r"cannot be certified with confidence 0\.95 on 500 rows; 0\.00597 can.*at least 5989 calibration rows"
    with pytest.raises(InfeasibleError, match=message) as caught:
        scurry.early_exit(boosted, X, max_disagreement=0.001, method="qwyc", random_state=0)
    assert caught.value.achievable == pytest.approx(1 - 0.05 ** (1 / 500))
    with pytest.raises(InfeasibleError, match=r"confidence 0\.95 on 500 rows"):
        scurry.early_exit(boosted, X, max_disagreement=0.001, random_state=0)


def test_bins_wider_than_all_sums(boosted):
    """Their edges are more grid units away than 32 bits hold, and were wrapped around."""
    forest = scurry.from_model(boosted)
    small = forest.replace(value=forest.value / 1e5, base_score=forest.base_score / 1e5)
    X, _ = two_classes(3000, 6)
    fast = scurry.early_exit(small, X, max_disagreement=0.02, method="fan", confidence=None)
    assert np.mean(fast.predict(X) != small.predict(X)) <= 0.02


def test_thresholds_off_the_grid_are_rounded_to_the_cautious_side():
    """A row half a unit inside a threshold continues: on the grid it may only stop where the rule would stop it."""
    step, costs, order = 0.25, np.ones(4), np.arange(4)
    shared = {"order": order, "costs": costs, "step": 2.0**-40, "n_rows": 10}
    between, on = 2.5 * step, 3 * step
    fit = MarginFit(
        **shared,
        lower=np.array([-between, -on, between]),
        upper=np.array([between, on, 2 * between]),
        decision_threshold=0.0,
        spread=1.0,
    )
    rule = rules._exit_rule(fit, step)
    assert rule.lower[0, 1:-1].tolist() == [-3, -3, 2]
    assert rule.upper[0, 1:-1].tolist() == [3, 3, 5]
    assert rule.lower[0, [0, -1]].tolist() == [NEVER_BELOW] * 2
    forest = complete_forest(4, 1, 1, 3)
    leads = LeaderFit(**shared, lead=np.array([between, on, 0.1 * step]), base_score=np.zeros(3), spread=1.0)
    assert rules.score_plan(forest, leads, step, Certificate(method="qwyc")).stop.lead[1:-1].tolist() == [3, 3, 1]


@pytest.mark.parametrize("method", ["qwyc", "fan"])
@pytest.mark.parametrize("order", ["natural", "random", "individual-mse", "greedy-mse", "given"])
def test_orders(boosted, method, order):
    X, y = two_classes(1500, 30)
    order = np.random.default_rng(3).permutation(60) if order == "given" else order
    asked = {"max_disagreement": 0.02, "method": method, "order": order}
    fast = scurry.early_exit(boosted, X, y, confidence=None, random_state=4, **asked)
    scores = fast.forest.tree_scores(X)
    expected = order if isinstance(order, np.ndarray) else preset_order(order, scores, y=y, random_state=4)
    np.testing.assert_array_equal(fast.plan.order, expected)
    shared = {"max_disagreement": 0.02, "decision_threshold": fast.forest.score_threshold, "order": expected}
    rule = qwyc(scores, **shared) if method == "qwyc" else fan(scores, min_rows=5, **shared)
    run = fast.run(X)
    np.testing.assert_array_equal(run.labels, rule.decide(scores).decision)
    np.testing.assert_array_equal(run.trees, rule.decide(scores).n_models_used)
    certified = scurry.early_exit(boosted, X, y, random_state=4, **asked)
    assert certified.certificate.n_rows == 750
    if isinstance(order, np.ndarray) or order == "natural":
        np.testing.assert_array_equal(certified.plan.order, expected)


def test_orders_of_several_classes(three_classes):
    model, X = three_classes
    drawn = np.random.default_rng(0).permutation(30)
    for order, expected in (("natural", np.arange(30)), (drawn, drawn), ("random", None)):
        fast = scurry.early_exit(model, X[:1000], method="qwyc", max_disagreement=0.05, order=order, random_state=0)
        assert sorted(fast.plan.order) == list(range(30))
        assert (fast.plan.order == np.arange(30)).all() == (isinstance(order, str) and order == "natural")
        if expected is not None:
            np.testing.assert_array_equal(fast.plan.order, expected)
    with pytest.raises(InputError, match="order 'greedy-mse' is for two classes, the model has 3"):
        scurry.early_exit(model, X[:1000], method="qwyc", order="greedy-mse")


def test_bins_and_deviations_of_fan(boosted):
    X, y = two_classes(2000, 31)
    asked = {"method": "fan", "gamma": 1.5, "bin_width": 0.25, "order": "natural"}
    fast = scurry.early_exit(boosted, X, y, confidence=None, **asked)
    scores, threshold = fast.forest.tree_scores(X), fast.forest.score_threshold
    rule = fan(scores, gamma=1.5, bin_width=0.25, order="natural", min_rows=5, decision_threshold=threshold)
    decision, n_used = rule.decide(scores)
    run = fast.run(X)
    np.testing.assert_array_equal(run.labels, decision)
    np.testing.assert_array_equal(run.trees, n_used)
    # No limit was kept, so none is stated.
    assert fast.certificate.measured.changed == (decision != boosted.predict(X)).mean() > 0
    assert fast.promise is None
    narrow = scurry.early_exit(boosted, X, y, confidence=None, **asked | {"bin_width": 0.05}).run(X)
    assert (narrow.trees != run.trees).any()
    promised = scurry.early_exit(boosted, X, y, max_disagreement=0.02, **asked)
    assert promised.certificate.bound <= promised.promise.max_changed == 0.02
    assert promised.run(X).mean_trees > run.mean_trees
    safe = scurry.early_exit(boosted, X, y, max_disagreement=0.02, **asked | {"gamma": 20.0})
    assert safe.run(X).mean_trees > promised.run(X).mean_trees


def test_rows_compare_certify_or_fit(forest):
    """Rows that compare methods fitted none of them, and those that certify had no part in either."""
    X, _ = two_classes(900, 21)
    calibration = Calibration.of(scurry.from_model(forest), X, None, None, ExitOptions(max_disagreement=0.02))
    choosing, certifying = by_scores.split_to_choose(calibration)
    parts = [choosing.sample.gathered(), choosing.fit_rows, certifying.sample.gathered()]
    assert [len(part) for part in parts] == [150, 300, 450]
    assert len({tuple(row) for part in parts for row in part}) == 900
    assert {tuple(row) for row in certifying.fit_rows} == {tuple(row) for part in parts[:2] for row in part}


def test_scores_that_are_hardly_numbers():
    """Sums below the smallest normal number have a grid too."""
    base = complete_forest(n_trees=5, depth=3, n_features=3, n_columns=2)
    forest = base.replace(value=base.value * 1e-310, aggregation="sum")
    X = np.random.default_rng(0).normal(size=(400, 3))
    fast = scurry.early_exit(forest, X, max_disagreement=0.1, method="qwyc", random_state=0)
    assert (fast.predict(X) != forest.predict(X)).mean() <= 0.1


def test_the_choice_says_that_it_came_before_the_certificate():
    assert "certified on other rows, which may take more" in by_scores.explain_choice(
        "trees", {"qwyc": 33.4, "sentinels": 11.5}
    )
    assert "certified" not in by_scores.explain_choice("trees", {"qwyc": 33.4}, "the rows that fitted them")
