"""early_exit from model to labels, for models of every framework, saved and run in any way."""

import importlib

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import scurry
from scurry.errors import FormatError, InputError
from scurry.stopping.guarantee import certified_rate
from support.calibration_rows import two_classes


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
    assert fast.plan.certificate.threshold == threshold


def test_early_exit_that_does_not_pay_is_full_evaluation(monkeypatch):
    """Labels at random: most trees matter, so if more than 30 % must be saved, auto asks them all and says so."""
    monkeypatch.setattr(importlib.import_module("scurry.verbs.planners.speed"), "WORTH_IT", 0.7)
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


@pytest.mark.parametrize("method", ["minimean", "qwyc", "fan", "auto"])
def test_no_seed_and_no_order_of_the_rows_gives_a_second_try(forest, method):
    """The split comes from the rows, so that nobody can look for a lucky one."""
    X, _ = two_classes(3000, 12)
    plans = [
        scurry.early_exit(forest, rows, max_disagreement=0.05, method=method, random_state=seed).plan
        for rows, seed in ((X, 1), (X, 2), (X[::-1], 3))
    ]
    for plan in plans[1:]:
        np.testing.assert_array_equal(plan.order, plans[0].order)
        assert plan.certificate.measured == plans[0].certificate.measured
        assert plan.certificate.n_broken == plans[0].certificate.n_broken


def test_same_seed_same_draws_other_seed_other_draws(forest):
    X, _ = two_classes(3000, 12)

    def make(seed):
        asked = {"max_disagreement": 0.05, "method": "minimean", "shuffle": "row"}
        return scurry.early_exit(forest, X, random_state=seed, **asked)

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


def test_auto_states_the_asked_confidence_and_tests_with_a_larger_one(boosted):
    X, _ = two_classes(8000, 20)
    certificate = scurry.early_exit(boosted, X, max_disagreement=0.01, random_state=0).certificate
    assert certificate.promise.confidence == 0.95
    assert "confidence 0.95," in certificate.statement()
    # Another method might have been certified on the same rows.
    assert certificate.bound == certified_rate(certificate.n_broken, certificate.n_rows, 1 - 0.8 * (1 - 0.95)) <= 0.01
    assert "natural" in certificate.why
    assert "qwyc" in certificate.why


def test_auto_needs_no_more_rows_than_one_method_alone(boosted):
    """300 rows certify 1 %, if the candidate was chosen on others."""
    X, _ = two_classes(600, 21)
    alone = scurry.early_exit(boosted, X, max_disagreement=0.01, method="qwyc").certificate
    certificate = scurry.early_exit(boosted, X, max_disagreement=0.01).certificate
    assert certificate.n_rows == alone.n_rows == 300
    assert certificate.promise == alone.promise


@pytest.mark.parametrize("method", ["auto", "qwyc"])
def test_many_rows_spend_the_promise(boosted, method):
    """The first fit spends 0.3 of it; bolder ones follow while they are certified."""
    X, _ = two_classes(30_000, 22)
    certificate = scurry.early_exit(boosted, X, max_disagreement=0.02, method=method).certificate
    assert certificate.measured.changed > 0.6 * 0.02
    assert certificate.bound <= 0.02


@pytest.mark.parametrize("best", ["qwyc", "natural"])
def test_auto_takes_what_spends_least_on_rows_of_its_own(boosted, monkeypatch, best):
    module = importlib.import_module("scurry.verbs.early_exit")
    monkeypatch.setattr(module, "measure_spending", lambda planner, choosing, method: 0.0 if method == best else 1e9)
    X, _ = two_classes(2000, 23)
    assert scurry.early_exit(boosted, X, max_disagreement=0.05, random_state=0).plan.method == best


@pytest.mark.parametrize("method", ["auto", "qwyc"])
def test_a_class_that_is_given_up_is_named(method):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 3))
    y = np.where(X.sum(axis=1) > 3.9, "rare", "usual")  # 1.3 % of the rows
    model = GradientBoostingClassifier(n_estimators=15, random_state=0).fit(X[:4000], y[:4000])
    fast = scurry.early_exit(model, X[4000:], max_disagreement=0.05, method=method)
    full, labels = model.predict(X[4000:]), fast.predict(X[4000:])
    n_rare, n_lost = (full == "rare").sum(), ((full == "rare") & (labels != full)).sum()
    assert n_lost > 0.2 * n_rare > 0
    assert f"Of the {n_rare} calibration rows that the model answers 'rare' to, {n_lost} get another" in fast.summary()
    kept = scurry.early_exit(model, X[4000:], max_disagreement=1e-3, method=method)
    assert "get another label;" not in kept.summary()


def test_a_promise_may_be_a_text(boosted_words):
    model, X, y = boosted_words
    fast = scurry.early_exit(model, X, y, promise="recall(>50K)<=10%,others<=5%", confidence=0.9)
    assert fast.promise == scurry.promises.Recall(">50K", 0.1, 0.05, confidence=0.9)
    small = scurry.compress(model, X, promise=">50K<=10%,<=50K<=10%")
    assert small.promise == scurry.promises.LabelsPerClass({">50K": 0.1, "<=50K": 0.1})
    both = scurry.cascade(model, model.predict, X, promise="labels<=5%")
    assert both.certificate.promise == scurry.promises.Labels(0.05)
    with pytest.raises(InputError, match="or a text such as") as error:
        scurry.early_exit(model, X, promise=0.05)
    assert error.value.argument == "promise"


@pytest.fixture(scope="module")
def boosted_words():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 4))
    y = np.where(X[:, 0] + 0.2 * rng.normal(size=2500) > 0, ">50K", "<=50K")
    model = GradientBoostingClassifier(n_estimators=20, max_depth=2, random_state=0).fit(X[:500], y[:500])
    return model, X[500:], y[500:]
