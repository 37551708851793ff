"""Early exits on scores: exact where they end, certified where they stop, cheap in the units asked for.

Probabilities of early exits: they agree with the labels, and are as good as partial scores allow.
"""

from dataclasses import replace

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from scipy import stats
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.metrics import log_loss, roc_auc_score
from xgboost import XGBClassifier

import scurry
from scurry.errors import FormatError, InfeasibleError, InputError
from scurry.forest.files.storage import write_container
from scurry.plan import ScoreMap
from scurry.runners.exits import stops_of
from scurry.stopping import fan, preset_order, qwyc
from scurry.verbs.options import Calibration, ExitOptions
from scurry.verbs.planners import by_scores, score_map
from support.calibration_rows import two_classes
from support.strategies import adversarial_rows, complete_forest

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


def test_labels_of_fitting_rows_order_the_trees_of_fan(boosted):
    (X, y), (X_fit, y_fit) = two_classes(2000, 31), two_classes(2000, 32)
    asked = {"method": "fan", "max_disagreement": 0.02}
    by_labels = scurry.early_exit(boosted, X, X_fit=X_fit, y_fit=y_fit, **asked)
    scores = by_labels.forest.tree_scores(X_fit)
    threshold = by_labels.forest.score_threshold
    rule = fan(scores, max_disagreement=0.02, order="individual-mse", y=y_fit, decision_threshold=threshold)
    np.testing.assert_array_equal(by_labels.plan.order, rule.order)
    natural = scurry.early_exit(boosted, X, y, X_fit=X_fit, **asked)
    np.testing.assert_array_equal(natural.plan.order, np.arange(boosted.n_estimators))
    assert "y_fit=y_fit" in by_labels.certificate.recipe


def test_labels_of_fitting_rows_are_checked(boosted):
    X, y = two_classes(300, 31)
    for given, match in (
        ({"y_fit": y}, "y_fit has the labels of X_fit, and there is none"),
        ({"X_fit": X, "y_fit": y[:9]}, r"y_fit has shape \(9,\), X_fit has 300 rows"),
        ({"X_fit": X, "y_fit": y + 7}, "y_fit"),
    ):
        with pytest.raises(InputError, match=match) as caught:
            scurry.early_exit(boosted, X, **given)
        assert caught.value.argument == "y_fit"


def test_rows_compare_certify_or_fit(forest):
    """Rows that compare methods fitted none of them, and those that certify had no part in either."""
    X, _ = two_classes(900, 21)
    calibration = Calibration.of(scurry.from_model(forest), X, None, None, ExitOptions(max_disagreement=0.02))
    choosing, certifying = by_scores.split_to_choose(calibration)
    parts = [choosing.sample.gather(), choosing.fit_rows, certifying.sample.gather()]
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


N_TRAIN, N_CALIBRATE = 1500, 4500


def blobs(n_classes: int):
    return make_classification(
        8000,
        n_features=8,
        n_informative=6,
        n_classes=n_classes,
        class_sep=0.8,
        weights=[0.8] if n_classes == 2 else None,
        random_state=0,
    )


DATA = {n_classes: blobs(n_classes) for n_classes in (2, 3)}
MODELS = {
    "lightgbm": lambda: LGBMClassifier(n_estimators=80, num_leaves=15, n_jobs=1, verbose=-1),
    "xgboost": lambda: XGBClassifier(n_estimators=80, max_depth=4, n_jobs=1),
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=80, random_state=0),
    "forest": lambda: RandomForestClassifier(81, max_depth=7, random_state=0),
    "extra trees": lambda: ExtraTreesClassifier(81, random_state=0),
}
CASES = {
    **{f"{name}, 2 classes": (name, 2, {}) for name in MODELS},
    **{f"{name}, 3 classes": (name, 3, {}) for name in ("lightgbm", "xgboost", "forest")},
    "one versus all": ("ova", 3, {}),
    "threshold 0.1": ("lightgbm", 2, {"threshold": 0.1}),
    "threshold 0.9": ("xgboost", 2, {"threshold": 0.9}),
    "threshold of a forest": ("forest", 2, {"threshold": 0.2}),
    "one side": ("lightgbm", 2, {"keep_scores": "positive"}),
    "fan": ("xgboost", 2, {"method": "fan"}),
    "votes": ("forest", 2, {"method": "minimean"}),
    "votes, an order per row": ("forest", 2, {"method": "minimixed", "shuffle": "row"}),
    "votes as solved": ("forest", 2, {"method": "minimax", "confidence": None}),
    "votes of 3 classes": ("forest", 3, {"method": "minimixed"}),
    "scores as fitted": ("lightgbm", 2, {"method": "qwyc", "confidence": None}),
}
MODELS["ova"] = lambda: LGBMClassifier(n_estimators=40, objective="multiclassova", n_jobs=1, verbose=-1)


@pytest.fixture(scope="module")
def fitted():
    models = {}

    def fit(name: str, n_classes: int):
        if (name, n_classes) not in models:
            X, y = DATA[n_classes]
            models[name, n_classes] = MODELS[name]().fit(X[:N_TRAIN], y[:N_TRAIN])
        return models[name, n_classes]

    return fit


def split(n_classes: int):
    X, y = DATA[n_classes]
    return X[N_TRAIN : N_TRAIN + N_CALIBRATE], X[N_TRAIN + N_CALIBRATE :], y[N_TRAIN + N_CALIBRATE :]


def exit_of(model, n_classes: int, options: dict, **more):
    asked = {"max_disagreement": 0.005, "method": "qwyc", "random_state": 0} | options | more
    return scurry.early_exit(model, split(n_classes)[0], **asked)


def labels_of(predictor, probabilities, options):
    """The class that probabilities speak for."""
    if predictor.forest.n_classes == 2:
        positive = probabilities[:, 1]
        return (positive >= options["threshold"] if "threshold" in options else positive > 0.5).astype(int)
    return probabilities.argmax(axis=1)


def check_agreement(predictor, X, options):
    probabilities, labels, run = predictor.predict_proba(X), predictor.predict(X), predictor.run(X)
    stopped = ~run.complete
    assert np.isfinite(probabilities).all()
    assert (probabilities >= 0).all()
    assert (probabilities <= 1).all()
    np.testing.assert_array_equal(labels_of(predictor, probabilities, options)[stopped], labels[stopped])
    np.testing.assert_array_equal(run.labels, labels)
    forest = predictor.forest
    if forest.n_classes > 2:
        np.testing.assert_array_equal(run.scores.argmax(axis=1)[stopped], labels[stopped])
    elif forest.n_outputs == 1:
        np.testing.assert_array_equal((run.scores >= forest.decision_threshold)[stopped], labels[stopped])
    else:
        np.testing.assert_array_equal((run.scores > 0.5)[stopped], labels[stopped])
    if predictor.plan.exit_rule is not None and predictor.plan.exit_rule.kind == "scores":
        np.testing.assert_array_equal(probabilities[~stopped], forest.predict_proba(X)[~stopped])
    return stopped.mean()


@pytest.mark.parametrize("options", [{}, {"threshold": 0.1}, {"keep_scores": "positive"}])
@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "histograms"])
def test_estimates_at_sentinels_never_contradict_labels(fitted, name, options):
    """They need no map: the label is that of the estimate."""
    X_new, y_new = split(2)[1:]
    y = DATA[2][1][N_TRAIN : N_TRAIN + N_CALIBRATE]
    predictor = exit_of(fitted(name, 2), 2, options, method="sentinels", y_cal=y)
    assert predictor.plan.score_map is None
    assert check_agreement(predictor, X_new, options) > 0.2
    check_agreement(predictor, adversarial_rows(predictor.forest, X_new, 1000), options)
    measured, forest = predictor.certificate.exits, predictor.forest
    auc = [roc_auc_score(y_new, one.predict_proba(X_new)[:, 1]) for one in (forest, predictor)]
    assert auc[1] > auc[0] - 0.035  # rows stop after 8 to 11 of 80 trees, and QWYC's lose up to 0.013 here
    # The certificate measured the same on rows of the same kind.
    assert measured.full_auc == pytest.approx(auc[0], abs=0.05)
    assert measured.fast_auc == pytest.approx(auc[1], abs=0.05)
    if options.get("keep_scores"):
        kept = predictor.predict(X_new) == 1
        np.testing.assert_array_equal(predictor.predict_proba(X_new)[kept], forest.predict_proba(X_new)[kept])


@pytest.mark.parametrize(("name", "n_classes", "options"), CASES.values(), ids=CASES)
def test_probabilities_never_contradict_labels(fitted, name, n_classes, options):
    predictor = exit_of(fitted(name, n_classes), n_classes, options)
    assert predictor.plan.score_map is not None
    X = split(n_classes)[1]
    assert check_agreement(predictor, X, options) > 0.2
    check_agreement(predictor, adversarial_rows(predictor.forest, X, 1000), options)
    # Nor do they without a map, as in old files, or with an absurd one.
    bare = scurry.Predictor(predictor.forest, replace(predictor.plan, score_map=None))
    n = predictor.plan.exit_rule.n_positions
    rng = np.random.default_rng(0)
    absurd = ScoreMap(slope=rng.random((2, n)) * 100, intercept=rng.normal(scale=1e3, size=(2, n)))
    check_agreement(bare, X, options)
    check_agreement(scurry.Predictor(predictor.forest, replace(predictor.plan, score_map=absurd)), X, options)
    np.testing.assert_array_equal(bare.predict(X), predictor.predict(X))


def regress(predictor, X_cal, X):
    """What a free regression makes of the same partial scores: about all that they know of the full model's answer."""
    known, new = (stops_of(predictor.forest, predictor.plan, rows) for rows in (X_cal, X))
    tables = [np.column_stack([stops.partial, stops.positions, stops.groups]) for stops in (known, new)]
    wanted = predictor.forest.predict_proba(X_cal)[:, 1]
    regression = HistGradientBoostingRegressor(min_samples_leaf=40, max_iter=60, random_state=0)
    regression.fit(tables[0][~known.complete], wanted[~known.complete])
    positive = np.where(
        new.complete, predictor.forest.predict_proba(X)[:, 1], regression.predict(tables[1]).clip(1e-3, 1 - 1e-3)
    )
    return np.column_stack([1 - positive, positive])


@pytest.mark.parametrize("case", [case for case in CASES if case != "one versus all"])
def test_probabilities_are_as_good_as_partial_scores_allow(fitted, case):
    name, n_classes, options = CASES[case]
    predictor = exit_of(fitted(name, n_classes), n_classes, options)
    X_cal, X, y = split(n_classes)
    full, fast = predictor.forest.predict_proba(X), predictor.predict_proba(X)
    if n_classes > 2:
        full_auc, fast_auc = (roc_auc_score(y, p, multi_class="ovr") for p in (full, fast))
        assert fast_auc > full_auc - 0.03
        assert log_loss(y, fast) < 1.15 * log_loss(y, full)
        return
    best = regress(predictor, X_cal, X)
    assert roc_auc_score(y, fast[:, 1]) > roc_auc_score(y, best[:, 1]) - 0.015
    assert log_loss(y, fast) < 1.06 * log_loss(y, best)


def test_missing_base_rates_are_made_up_for(fitted):
    """Where positives are rare, partial sums without the base rate rank stopped rows above the others."""
    model, (_, X, y) = fitted("lightgbm", 2), split(2)
    predictor = exit_of(model, 2, {"threshold": 0.1})
    full_auc = roc_auc_score(y, model.predict_proba(X)[:, 1])
    assert roc_auc_score(y, predictor.predict_proba(X)[:, 1]) > full_auc - 0.02


def test_kept_scores_are_the_full_models(fitted):
    model, (_, X, y) = fitted("lightgbm", 2), split(2)
    predictor = exit_of(model, 2, {"keep_scores": "positive"})
    kept = predictor.run(X).complete
    assert 0.1 < kept.mean() < 0.9
    assert kept[predictor.predict(X) == 1].all()
    full, fast = predictor.forest.predict_proba(X), predictor.predict_proba(X)
    np.testing.assert_array_equal(fast[kept], full[kept])
    assert roc_auc_score(y[kept], fast[kept, 1]) == roc_auc_score(y[kept], full[kept, 1])


def test_rows_alone_threads_and_files_score_alike(fitted, tmp_path):
    for case in ("lightgbm, 2 classes", "votes", "xgboost, 3 classes", "votes of 3 classes"):
        name, n_classes, options = CASES[case]
        predictor = exit_of(fitted(name, n_classes), n_classes, options)
        X = split(n_classes)[1]
        expected, scores = predictor.predict_proba(X), predictor.run(X).scores
        np.testing.assert_array_equal(predictor.predict_proba(X, n_threads=2), expected)
        for row in range(0, len(X), 97):
            np.testing.assert_array_equal(predictor.predict_proba(X[row : row + 1])[0], expected[row])
            np.testing.assert_array_equal(predictor.run(X[row : row + 1]).scores[0], scores[row])
        predictor.save(tmp_path / "saved.scurry")
        loaded = scurry.load(tmp_path / "saved.scurry")
        assert loaded.digest == predictor.digest
        np.testing.assert_array_equal(loaded.plan.score_map.slope, predictor.plan.score_map.slope)
        np.testing.assert_array_equal(loaded.predict_proba(X), expected)
        bare = scurry.Predictor(predictor.forest, replace(predictor.plan, score_map=None))
        assert bare.digest != predictor.digest
        assert np.abs(bare.predict_proba(X) - expected).max() > 1e-3


def test_batches_of_files_score_alike(fitted, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    predictor, X = exit_of(fitted("lightgbm", 2), 2, {}), split(2)[1]
    names = predictor.forest.feature_names or [f"x{j}" for j in range(X.shape[1])]
    pq.write_table(pa.table({name: X[:, j] for j, name in enumerate(names)}), tmp_path / "rows.parquet")
    scurry.batch.score(tmp_path / "rows.parquet", predictor, tmp_path / "out", columns=("label", "probability"))
    out = pq.read_table(tmp_path / "out")
    np.testing.assert_array_equal(out["probability"].to_numpy(), predictor.predict_proba(X)[:, 1])
    np.testing.assert_array_equal(out["label"].to_numpy(), out["probability"].to_numpy() > 0.5)


def test_the_estimator_has_the_same_probabilities():
    X, y = DATA[2]
    fast = scurry.EarlyExitClassifier(
        RandomForestClassifier(41, max_depth=7), max_disagreement=0.005, calibration_size=0.5, random_state=0
    ).fit(X[:6000], y[:6000])
    new, truth = X[6000:], y[6000:]
    probabilities = fast.predict_proba(new)
    np.testing.assert_array_equal(fast.classes_[probabilities.argmax(axis=1)], fast.predict(new))
    full = fast.forest_.predict_proba(new)
    assert roc_auc_score(truth, probabilities[:, 1]) > roc_auc_score(truth, full[:, 1]) - 0.05
    measured = fast.predictor_.certificate.measured
    assert abs(measured.fast_auc - measured.full_auc) < 0.05


def test_the_summary_shows_the_quality_of_both(fitted):
    model, (X_cal, X, y) = fitted("lightgbm", 2), split(2)
    y_cal = DATA[2][1][N_TRAIN : N_TRAIN + N_CALIBRATE]
    predictor = exit_of(model, 2, {}, y_cal=y_cal)
    measured = predictor.certificate.measured
    assert str(predictor.summary()).count("full model 0.") == 2
    # Measured on rows that the map was not fitted to, so that new rows give about the same.
    quality = scurry.evaluation.score_quality(predictor, X, y)
    for name in ("full_auc", "fast_auc", "full_log_loss", "fast_log_loss"):
        assert abs(getattr(measured, name) - getattr(quality, name)) < 0.04
    held_out = np.arange(len(X_cal)) % 2 == 1
    assert measured.full_auc == pytest.approx(
        roc_auc_score(y_cal[held_out], model.predict_proba(X_cal[held_out])[:, 1]), abs=1e-12
    )
    assert exit_of(model, 2, {}).certificate.measured.fast_auc is None
    assert exit_of(model, 2, {}, y_cal=np.zeros(len(X_cal), int)).certificate.measured.fast_auc is None


def test_a_map_fits_its_plan(fitted):
    predictor = exit_of(fitted("lightgbm", 2), 2, {})
    plan, ones = predictor.plan, np.ones((2, 3))
    with pytest.raises(InputError, match="the score map has 3 positions"):
        scurry.Predictor(predictor.forest, replace(plan, score_map=ScoreMap(slope=ones, intercept=ones)))
    with pytest.raises(InputError, match="the plan has no such rule"):
        scurry.Predictor(predictor.forest, replace(plan, stop=None))
    for slope, intercept in ((-ones, ones), (ones, ones * np.nan), (ones * np.inf, ones), (ones[0], ones[0])):
        with pytest.raises(InputError, match="a score map needs"):
            ScoreMap(slope=slope, intercept=intercept)


@pytest.mark.parametrize(
    "slope",
    [np.full((2, 81), np.nan), -np.ones((2, 81)), np.ones((2, 80)), np.ones(81), np.ones((2, 81), np.float32), None],
)
def test_files_with_broken_maps_are_refused(fitted, tmp_path, slope):
    header, arrays = exit_of(fitted("lightgbm", 2), 2, {}).to_parts()
    assert arrays["score_slope"].shape == (2, 81)
    if slope is None:
        del arrays["score_slope"]
    else:
        arrays["score_slope"] = slope
    write_container(tmp_path / "broken.scurry", "predictor", header, arrays)
    with pytest.raises(FormatError, match=r"broken\.scurry"):
        scurry.load(tmp_path / "broken.scurry")


def test_quality_is_measured_on_rows_that_did_not_fit_the_map(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.random((2000, 4))
    y = (X[:, 0] + rng.normal(0, 0.3, 2000) > 0.5).astype(int)
    model = RandomForestClassifier(15, max_depth=5, random_state=0).fit(X[:400], y[:400])
    fit, measure, fitted, measured = score_map._fit, score_map.score_quality, [], []

    def fit_map(forest, plan, stops, chosen):
        fitted.append(chosen)
        return fit(forest, plan, stops, chosen)

    def measure_rows(predictor, rows, labels):
        measured.append(rows)
        return measure(predictor, rows, labels)

    monkeypatch.setattr(score_map, "_fit", fit_map)
    monkeypatch.setattr(score_map, "score_quality", measure_rows)
    fast = scurry.early_exit(model, X[400:], y[400:], max_disagreement=0.05, method="qwyc", random_state=0)
    shipped, of_measure = fitted
    np.testing.assert_array_equal(shipped, fast.run(X[400:]).trees < 15)
    assert not (of_measure & ~shipped).any()
    assert set(map(tuple, X[400:][of_measure])).isdisjoint(map(tuple, measured[0]))


@pytest.mark.parametrize("costs", ["trees", "steps"])
def test_plans_are_compared_by_their_cost_or_by_trees(costs):
    X, y = make_classification(1200, random_state=0)
    forest = scurry.from_model(GradientBoostingClassifier(n_estimators=15, random_state=0).fit(X[:400], y[:400]))
    calibration = Calibration.of(forest, X[400:], None, None, ExitOptions(max_disagreement=0.05, costs=costs))
    plan, spent = by_scores.plan_by_scores(calibration, "natural")
    measured = plan.certificate.measured
    assert spent == (measured.mean_trees if costs == "trees" else measured.mean_cost)
    assert by_scores.measure_spending(by_scores.plan_by_scores, calibration, "natural") == spent
    few = Calibration.of(forest, X[400:420], None, None, ExitOptions(max_disagreement=0.05, costs=costs))
    assert by_scores.measure_spending(by_scores.plan_by_scores, few, "natural") == np.inf


@pytest.mark.parametrize("depth", [3, None])
def test_thresholds_are_staggered_where_trees_answer_whole_votes(depth):
    """Leaves of shallow trees have shares of many sizes, so that sums need no whole vote to change."""
    X, y = two_classes(2000, 11)
    forest = scurry.from_model(RandomForestClassifier(11, max_depth=depth, random_state=0).fit(X[:800], y[:800]))
    calibration = Calibration.of(forest, X[800:], None, None, ExitOptions(max_disagreement=0.05))
    search = by_scores.ScoreSearch.of(calibration)
    family = search.family("natural", 0.05, 0.3, ())
    fit = search.fit("natural", 0.3 * 0.05)
    is_moved = (family.first.lower != fit.lower).any() or (family.first.upper != fit.upper).any()
    assert is_moved == (depth is None)
