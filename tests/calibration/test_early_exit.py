"""early_exit from model to labels: the promise, exactness without a budget, and errors that say what to do."""

import sys

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

import scurry
from scurry.errors import FormatError, InfeasibleError, InputError

VOTE_METHODS = ("minimax", "minimean", "minimixed", "schwing")
SCORE_METHODS = ("qwyc", "fan", "auto")


def two_classes(n_rows, seed):
    """Two overlapping Gaussians: new rows are drawn, never split off a pool."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    X = rng.normal(size=(n_rows, 6)) + 0.7 * (2 * y[:, None] - 1) * np.array([1, 0.8, 0.5, 0.2, 0, 0])
    return X, y


@pytest.fixture(scope="module")
def forest():
    X, y = two_classes(600, 0)
    return RandomForestClassifier(31, max_depth=6, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def boosted():
    X, y = two_classes(800, 1)
    return GradientBoostingClassifier(n_estimators=60, max_depth=3, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def three_classes():
    X, y = make_classification(6000, n_features=8, n_informative=5, n_classes=3, random_state=0)
    labels = np.array(["red", "green", "blue"])[y]
    return ExtraTreesClassifier(30, max_depth=7, random_state=0).fit(X[:1000], labels[:1000]), X[1000:]


def full_vote(model, X):
    votes = np.stack([tree.predict(X) for tree in model.estimators_], axis=1).astype(int)
    counts = np.stack([(votes == k).sum(axis=1) for k in range(len(model.classes_))], axis=1)
    return model.classes_[counts.argmax(axis=1)]


@pytest.mark.parametrize("method", VOTE_METHODS)
@pytest.mark.parametrize("shuffle", ["fixed", "row"])
def test_no_disagreement_is_the_full_vote(forest, method, shuffle):
    X, _ = two_classes(3000, 2)
    fast = scurry.early_exit(forest, X, max_disagreement=0, method=method, shuffle=shuffle, random_state=0)
    new, _ = two_classes(4000, 3)
    run = fast.run(new)
    np.testing.assert_array_equal(run.labels, full_vote(forest, new))
    assert run.mean_trees < 31 or method == "schwing"  # whose belief is never certain before the end


@pytest.mark.parametrize("method", VOTE_METHODS)
@pytest.mark.parametrize("shuffle", ["fixed", "row"])
def test_votes_keep_their_bound(forest, method, shuffle):
    X, _ = two_classes(4000, 4)
    alpha = 0.01
    fast = scurry.early_exit(forest, X, max_disagreement=alpha, method=method, shuffle=shuffle, random_state=1)
    new, _ = two_classes(20_000, 5)
    run = fast.run(new)
    assert (run.labels != full_vote(forest, new)).mean() <= alpha
    assert run.mean_trees < 25
    assert set(run.stop_reason) <= {"decided", "complete"}
    assert 0.9 < fast.plan.facts["vote_agrees_with_model"] <= 1


def test_votes_are_certified_by_what_the_predictor_does(forest, three_classes):
    """Where other rows choose, the mistakes that certify are those the native predictor makes on all of X_cal."""
    cases = [
        (forest, two_classes(500, 26)[0], two_classes(4000, 21)[0]),
        (three_classes[0], three_classes[1][:1000], three_classes[1][1000:]),
    ]
    for model, fit, X in cases:
        fast = scurry.early_exit(model, X, X_fit=fit, max_disagreement=0.02, method="minimean", random_state=0)
        run, facts = fast.run(X), fast.plan.facts
        n_mistakes = int((run.labels != full_vote(model, X)).sum())
        assert 0 < n_mistakes == facts["certified_mistakes"]
        assert facts["certified_on_rows"] == len(X)
        assert facts["calibration_mean_trees"] == pytest.approx(run.mean_trees)
        assert facts["calibration_disagreement"] < facts["certified_disagreement"] <= 0.02
        assert "with confidence 0.95, this predictor with its own order of trees" in str(fast.summary())


def test_rows_to_fit_shape_rules_that_draw_their_orders(forest):
    """Rows of one class only ask for few trees: a rule made for them is seen to fail on the calibration rows."""
    X, y = two_classes(4000, 27)
    easy = X[y == 1][:1000] + 1.0
    asked = {"max_disagreement": 0.01, "method": "minimean", "shuffle": "row", "random_state": 0}
    fitted = scurry.early_exit(forest, X, X_fit=easy, confidence=None, **asked)
    assert fitted.plan.facts["calibration_disagreement"] > 0.02
    assert "at most 0.01 of rows like X_fit" in fitted.plan.facts["promise"]
    certified = scurry.early_exit(forest, X, X_fit=easy, **asked)
    new, _ = two_classes(20_000, 28)
    assert (certified.predict(new) != full_vote(forest, new)).mean() <= 0.01


def test_too_few_rows_for_the_promise_give_the_full_vote(forest):
    X, _ = two_classes(1000, 22)
    fast = scurry.early_exit(forest, X, max_disagreement=0.001, method="minimean", random_state=0)
    new, _ = two_classes(5000, 23)
    run = fast.run(new)
    np.testing.assert_array_equal(run.labels, full_vote(forest, new))
    assert run.mean_trees < 25
    assert "the full vote, always: 800 rows certify no earlier stop" in fast.plan.facts["promise"]
    assert "takes 2995 rows" in fast.plan.facts["promise"]


@pytest.mark.parametrize("method", SCORE_METHODS)
@pytest.mark.parametrize("kind", ["forest", "boosted"])
def test_scores_never_change_a_calibration_label_without_budget(method, kind, request):
    model = request.getfixturevalue(kind)
    X, y = two_classes(3000, 6)
    fast = scurry.early_exit(model, X, y, max_disagreement=0, method=method, confidence=None, random_state=0)
    np.testing.assert_array_equal(fast.predict(X), model.predict(X))
    assert fast.run(X).mean_trees <= fast.forest.n_trees


@pytest.mark.parametrize("method", SCORE_METHODS)
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
    facts = fast.plan.facts
    assert facts["calibration_disagreement"] == facts["certified_mistakes"] / 4000
    assert facts["calibration_disagreement"] < facts["certified_disagreement"] <= 0.01
    assert f"{facts['certified_mistakes']} mistakes on 4000 rows" in facts["certified_by"]


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


def test_filter_and_score(boosted):
    X, _ = two_classes(8000, 10)
    fast = scurry.early_exit(boosted, X, max_disagreement=0.01, method="qwyc", keep_scores="positive", random_state=0)
    run = fast.run(X)
    positive = run.labels == 1
    assert (run.trees[positive] == 60).all()
    np.testing.assert_allclose(run.scores[positive], boosted.decision_function(X[positive]), rtol=1e-12)
    assert run.trees[~positive].mean() < 60


@pytest.mark.parametrize("method", ["minimixed", "minimax", "minimean"])
def test_plurality_of_several_classes(three_classes, method):
    model, X = three_classes
    exact = scurry.early_exit(model, X[:2000], max_disagreement=0, method=method, random_state=0)
    np.testing.assert_array_equal(exact.predict(X[2000:]), full_vote(model, X[2000:]))
    loose = scurry.early_exit(model, X[:2000], max_disagreement=0.05, method=method, random_state=0)
    run = loose.run(X[2000:])
    assert (run.labels != full_vote(model, X[2000:])).mean() <= 0.05
    assert run.mean_trees < exact.run(X[2000:]).mean_trees


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
    assert (run.labels != model.predict(X[3000:])).mean() <= 0.03
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


def frameworks():
    import lightgbm
    import xgboost
    from sklearn.ensemble import HistGradientBoostingClassifier

    few = {"n_estimators": 40, "random_state": 0, "n_jobs": 1}
    return {
        "sklearn": GradientBoostingClassifier(n_estimators=40, random_state=0),
        "histogram": HistGradientBoostingClassifier(max_iter=40, random_state=0),
        "xgboost": xgboost.XGBClassifier(max_depth=4, base_score=0.3, **few),
        "lightgbm": lightgbm.LGBMClassifier(num_leaves=15, verbose=-1, **few),
        "lightgbm forest": lightgbm.LGBMClassifier(
            boosting_type="rf", subsample=0.7, subsample_freq=1, verbose=-1, **few
        ),
        "forest": RandomForestClassifier(40, max_depth=6, random_state=0),
    }


@pytest.mark.parametrize("name", list(frameworks()))
@pytest.mark.parametrize("threshold", [None, 0.2])
def test_every_framework_by_its_own_labels(name, threshold):
    """An unbalanced problem, so that a base score that was forgotten would show."""
    rng = np.random.default_rng(0)

    def draw(n_rows):
        X, y = two_classes(4 * n_rows, rng.integers(2**31))
        keep = np.flatnonzero((y == 0) | (rng.random(len(y)) < 0.2))[:n_rows]
        return X[keep].astype(np.float32), y[keep]

    model = frameworks()[name].fit(*draw(1500))
    fast = scurry.early_exit(
        model, draw(8000)[0], max_disagreement=0.01, method="qwyc", threshold=threshold, random_state=0
    )
    new, _ = draw(10_000)
    full = model.predict(new) if threshold is None else (model.predict_proba(new)[:, 1] >= threshold).astype(int)
    run = fast.run(new)
    n_changed = int((run.labels != full).sum())
    assert n_changed > 0
    assert stats.binom.sf(n_changed - 1, len(new), 0.01) > 0.001  # the promise is about the rate, this is a sample
    assert run.mean_trees < 35
    complete = run.stop_reason == "complete"
    np.testing.assert_array_equal(run.labels[complete], full[complete])
    assert 0 < complete.mean() < 1
    assert fast.plan.facts.get("threshold") == threshold


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": 1.5}, "threshold must be a probability between 0 and 1, got 1.5"),
        ({"threshold": 0.3, "method": "minimean"}, 'votes, which know no threshold; use "qwyc"'),
        ({"costs": "steps", "method": "minimean"}, 'in random order, whatever they cost; use "qwyc"'),
        ({"costs": "euros"}, 'costs must be "trees", "steps" or a number per tree'),
        ({"costs": [1.0, 2.0]}, r"costs must be one number or one per model \(31\)"),
    ],
)
def test_thresholds_and_costs_that_make_no_sense(forest, arguments, message):
    X, _ = two_classes(500, 14)
    with pytest.raises(InputError, match=message):
        scurry.early_exit(forest, X, **arguments)


def test_a_threshold_is_for_two_classes(three_classes):
    model, X = three_classes
    with pytest.raises(InputError, match="threshold is for two classes, the model has 3"):
        scurry.early_exit(model, X[:500], threshold=0.3)


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
    assert priced.plan.facts["calibration_mean_cost"] == pytest.approx(spent.mean())
    assert priced.plan.facts["calibration_mean_trees"] == pytest.approx(run.mean_trees)
    assert spent.mean() < np.cumsum(cheap_late[plain.plan.order])[plain.run(X).trees - 1].mean()


def test_steps_are_node_tests(boosted):
    X, _ = two_classes(6000, 25)
    fast = scurry.early_exit(boosted, X, max_disagreement=0.02, confidence=None, costs="steps", random_state=0)
    assert "least steps per row" in fast.plan.facts["chosen_because"]
    assert fast.plan.facts["calibration_mean_cost"] == pytest.approx(fast.run(X).mean_steps, rel=0.02)


def test_early_exit_that_does_not_pay_is_full_evaluation(monkeypatch):
    """Labels at random: most trees matter, so if more than 30 % must be saved, auto asks them all and says so."""
    monkeypatch.setattr(sys.modules["scurry.calibration.early_exit"], "_WORTH_IT", 0.7)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 5)), rng.integers(0, 2, 3000)
    model = RandomForestClassifier(25, max_depth=3, random_state=0).fit(X[:500], y[:500])
    fast = scurry.early_exit(model, X[500:], max_disagreement=0.003, random_state=0)
    assert fast.plan.stop is None
    assert "would not pay" in str(fast.summary())
    np.testing.assert_array_equal(fast.predict(X), model.predict(X))
    assert fast.run(X[:10]).mean_trees == 25


@pytest.mark.parametrize(
    ("kind", "method"),
    [("forest", "minimean"), ("forest", "qwyc"), ("forest", "fan"), ("boosted", "qwyc"), ("boosted", "fan")],
)
def test_batch_position_threads_and_dtype_change_nothing(kind, method, request):
    model = request.getfixturevalue(kind)
    X, _ = two_classes(5000, 11)
    X = X.astype(np.float32)
    fast = scurry.early_exit(model, X, max_disagreement=0.02, method=method, random_state=3)
    whole = fast.run(X)
    order = np.random.default_rng(0).permutation(len(X))
    shuffled = fast.run(X[order].astype(np.float64), n_threads=2)
    np.testing.assert_array_equal(shuffled.trees, whole.trees[order])
    np.testing.assert_array_equal(shuffled.labels, whole.labels[order])
    for row in range(40):
        assert fast.predict(X[row : row + 1])[0] == whole.labels[row]
    np.testing.assert_array_equal(fast.predict(X[:333], n_threads=None), whole.labels[:333])


def test_same_seed_same_plan_other_seed_other_draws(forest):
    X, _ = two_classes(3000, 12)

    def make(seed):
        return scurry.early_exit(forest, X, max_disagreement=0.05, method="minimean", random_state=seed)

    np.testing.assert_array_equal(make(1).run(X).trees, make(1).run(X).trees)
    assert (make(1).run(X).trees != make(2).run(X).trees).any()


@pytest.mark.parametrize("method", ["minimean", "qwyc", "fan", "auto"])
def test_saved_predictors_predict_alike(forest, method, tmp_path):
    X, y = two_classes(4000, 13)
    fast = scurry.early_exit(forest, X, y, max_disagreement=0.02, method=method, random_state=0)
    fast.save(tmp_path / "fast.scurry")
    again = scurry.load(tmp_path / "fast.scurry")
    assert isinstance(again, scurry.Predictor)
    np.testing.assert_array_equal(again.run(X).trees, fast.run(X).trees)
    np.testing.assert_array_equal(again.predict(X), fast.predict(X))
    assert str(again.summary()) == str(fast.summary())
    assert scurry.from_model(tmp_path / "fast.scurry").digest == fast.forest.digest


def test_saved_leader_and_broken_plans(three_classes, tmp_path):
    model, X = three_classes
    fast = scurry.early_exit(model, X[:2000], max_disagreement=0.05, method="minimixed", random_state=0)
    path = tmp_path / "fast.scurry"
    fast.save(path)
    np.testing.assert_array_equal(scurry.load(path).predict(X[2000:]), fast.predict(X[2000:]))
    data = path.read_bytes()
    for cut in range(0, len(data), len(data) // 23):
        path.write_bytes(data[:cut])
        with pytest.raises(FormatError):
            scurry.load(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_disagreement": 5}, r"must be in \[0, 1\), got 5\. Did you mean 0\.05 \(5 %\)\?"),
        ({"max_disagreement": -0.1}, r"must be in \[0, 1\)"),
        ({"confidence": 95}, r"confidence must be between 0 and 1, or None, got 95\. Did you mean 0\.95\?"),
        ({"method": "best"}, "method must be one of auto, minimax"),
        ({"shuffle": "all"}, 'shuffle must be "fixed" or "row"'),
        ({"keep_scores": "all"}, 'keep_scores must be None or "positive"'),
        ({"method": "minimean", "keep_scores": "positive"}, 'use method="qwyc"'),
        ({"method": "fan", "keep_scores": "positive"}, 'use method="qwyc"'),
    ],
)
def test_arguments_that_make_no_sense(forest, arguments, message):
    X, _ = two_classes(500, 14)
    with pytest.raises(InputError, match=message):
        scurry.early_exit(forest, X, **arguments)


def test_data_that_makes_no_sense(forest, boosted):
    X, y = two_classes(500, 15)
    with pytest.raises(InputError, match="X_cal has no rows"):
        scurry.early_exit(forest, X[:0])
    with pytest.raises(InputError, match="X_fit has no rows; leave it out"):
        scurry.early_exit(forest, X, X_fit=X[:0])
    with pytest.raises(InputError, match=r"y_cal has shape \(3,\), X_cal has 500 rows"):
        scurry.early_exit(forest, X, y[:3])
    with pytest.raises(InputError, match="7 columns"):
        scurry.early_exit(forest, np.zeros((5, 7)))
    with pytest.raises(InputError, match="regressor; pass a classifier"):
        scurry.early_exit(RandomForestRegressor(3).fit(X, y), X)
    with pytest.raises(InputError, match='boosted model whose trees add scores; use "qwyc"'):
        scurry.early_exit(boosted, X, method="minimax")


@pytest.mark.parametrize("method", SCORE_METHODS)
def test_rows_of_one_class_say_which_are_missing(boosted, method):
    X, _ = two_classes(2000, 29)
    ones = X[boosted.predict(X) == 1]
    n_fit = len(ones) // 2
    with pytest.raises(
        InputError, match=rf"answers 1 to all {n_fit} rows that fit the rule.*Add rows that it answers 0"
    ):
        scurry.early_exit(boosted, ones, method=method)
    with pytest.raises(InputError, match=rf"answers 1 to all {len(ones)} rows"):
        scurry.early_exit(boosted, X, X_fit=ones, method=method)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "schwing"}, "'schwing' is for two classes, the model has 3; use \"minimixed\""),
        ({"method": "minimean", "confidence": None}, "'minimean' without a confidence is for two classes"),
        ({"method": "minimixed", "shuffle": "row"}, 'shuffle="row" is for two classes'),
        ({"method": "fan"}, 'decides between two classes, the model has 3; use "qwyc"'),
        ({"method": "qwyc", "keep_scores": "positive"}, "needs a model with two classes"),
    ],
)
def test_what_several_classes_cannot_have(three_classes, arguments, message):
    model, X = three_classes
    with pytest.raises(InputError, match=message):
        scurry.early_exit(model, X[:500], **arguments)


def test_infeasible_says_what_is_achievable(boosted):
    X, _ = two_classes(1000, 16)
    message = r"cannot be certified with confidence 0\.95 on 500 rows; 0\.00597 can.*at least 5989 calibration rows"
    with pytest.raises(InfeasibleError, match=message) as caught:
        scurry.early_exit(boosted, X, max_disagreement=0.001, method="qwyc", random_state=0)
    assert caught.value.achievable == pytest.approx(1 - 0.05 ** (1 / 500))
    with pytest.raises(InfeasibleError, match=r"confidence 0\.95 on 500 rows"):
        scurry.early_exit(boosted, X, max_disagreement=0.001, random_state=0)


def test_rows_to_fit_leave_all_calibration_rows_to_certify(boosted):
    fit, _ = two_classes(4000, 17)
    X, _ = two_classes(1000, 18)
    fast = scurry.early_exit(boosted, X, X_fit=fit, max_disagreement=0.02, method="qwyc", random_state=0)
    assert fast.plan.facts["certified_on_rows"] == 1000
    new, _ = two_classes(20_000, 19)
    run = fast.run(new)
    assert (run.labels != boosted.predict(new)).mean() <= 0.02
    assert run.mean_trees < 55
    with pytest.raises(InputError, match="4 columns"):
        scurry.early_exit(boosted, X, X_fit=fit[:, :4])
    unpromised = scurry.early_exit(boosted, X, X_fit=fit, max_disagreement=0.02, method="qwyc", confidence=None)
    assert (unpromised.predict(fit) != boosted.predict(fit)).mean() <= 0.02
    assert "at most 0.02 of the rows of X_fit" in unpromised.plan.facts["promise"]


def test_auto_shares_its_risk_but_states_the_asked_confidence(boosted):
    X, _ = two_classes(8000, 20)
    facts = scurry.early_exit(boosted, X, max_disagreement=0.01, random_state=0).plan.facts
    assert facts["confidence"] == 0.95
    assert "confidence 0.95," in facts["promise"]
    assert "natural" in facts["chosen_because"]
    assert "qwyc" in facts["chosen_because"]
