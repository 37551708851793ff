"""Every verb on models around models: it works, with the labels of the model itself, or says why not."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestRegressor, VotingRegressor
from sklearn.frozen import FrozenEstimator

import scurry
from scurry.errors import InputError
from support.wrapper_models import (
    ADABOOST,
    BAGGED,
    BOOSTED,
    CALIBRATED,
    FOREST,
    ISOLATION,
    ONE_VS_REST,
    THRESHOLDS,
    VOTING,
    vote,
)

MODELS = {
    "bagged forests": BAGGED["forests"],
    "soft": vote(FOREST, BOOSTED, voting="soft"),
    "hard": VOTING["hard with weights"],
    "AdaBoost": ADABOOST["trees"],
    "calibrated": CALIBRATED["forest sigmoid"],
    "calibrated, one model": CALIBRATED["forest isotonic, one model"],
    "one-vs-rest": ONE_VS_REST["boosted"],
}
DECIDED_BY_MEMBERS = ("soft", "hard", "calibrated")
ONE_SUM = {
    "bagged forests": BAGGED["forests"],
    "soft vote of forests": VOTING["soft"],
    "one-vs-rest": ONE_VS_REST["boosted"],
    "AdaBoost": ADABOOST["trees"],
}


def rows_of(n_classes):
    X, y = make_classification(3400, 6, n_informative=4, n_redundant=0, n_classes=n_classes, random_state=0)
    X[:, ::2] = np.round(X[:, ::2], 1)
    return X, y


def check_early_exit(model, X):
    fast = scurry.early_exit(model, X[400:2900], max_disagreement=0.04, random_state=0)
    run, wanted = fast.run(X[2900:]), model.predict(X[2900:])
    np.testing.assert_array_equal(fast.predict(X[2900:]), run.labels)
    # Rows that evaluate every tree get the model's own label, and the certificate counts what the predictor does.
    assert (run.labels[run.complete] == wanted[run.complete]).all()
    assert (run.labels != wanted).mean() < 0.08
    assert run.mean_trees < 0.9 * fast.forest.n_trees
    return fast, run


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_early_exit(name, n_classes, tmp_path):
    X, y = rows_of(n_classes)
    model = clone(MODELS[name]).fit(X[:400], y[:400])
    fast, run = check_early_exit(model, X)
    shares = fast.predict_proba(X[2900:])
    np.testing.assert_array_equal(shares.argmax(axis=1), run.labels)
    if name != "hard":
        full = model.predict_proba(X[2900:])[run.complete]
        np.testing.assert_allclose(shares[run.complete], full, rtol=1e-12, atol=1e-12)
    for one, full in ((fast.one_row(), fast), (fast.forest.one_row(), model)):
        assert [one(row) for row in X[:20]] == full.predict(X[:20]).tolist()
    probable = fast.forest.one_row(answer="probabilities")(X[0])
    assert list(probable) == fast.forest.predict_proba(X[:1])[0].tolist()
    fast.save(tmp_path / "fast.scurry")
    np.testing.assert_array_equal(scurry.load(tmp_path / "fast.scurry").predict(X[2900:]), run.labels)
    assert fast.forest.wrapper.describe() in str(fast.summary())


@pytest.mark.parametrize("name", ["soft", "calibrated"])
def test_what_is_certified_is_what_runs(name):
    X, y = rows_of(2)
    model = clone(MODELS[name]).fit(X[:400], y[:400])
    fast = scurry.early_exit(model, X[400:2400], X_fit=X[2400:], max_disagreement=0.05, method="qwyc")
    assert fast.certificate.n_broken == (fast.predict(X[400:2400]) != model.predict(X[400:2400])).sum()


@pytest.mark.parametrize("name", ["forest", "forest, first class", "tuned calibrated"])
def test_early_exit_at_a_threshold(name):
    X, y = rows_of(2)
    check_early_exit(clone(THRESHOLDS[name]).fit(X[:400], y[:400]), X)


@pytest.mark.parametrize("name", ["soft", "calibrated", "calibrated, one model"])
def test_a_threshold_of_ones_own(name):
    X, y = rows_of(2)
    model = clone(MODELS[name]).fit(X[:400], y[:400])
    fast = scurry.early_exit(model, X[400:2900], threshold=0.3, max_disagreement=0.04)
    run = fast.run(X[2900:])
    wanted = (model.predict_proba(X[2900:])[:, 1] >= 0.3).astype(int)
    np.testing.assert_array_equal(run.labels[run.complete], wanted[run.complete])
    assert (run.labels != wanted).mean() < 0.08


@pytest.mark.parametrize("name", DECIDED_BY_MEMBERS)
def test_what_needs_one_sum_is_refused(name, tmp_path):
    X, y = rows_of(2)
    model = clone(MODELS[name]).fit(X[:400], y[:400])
    forest = scurry.from_model(model)
    full = scurry.Predictor.full(forest)
    inside = "not of one sum over all trees. Import one of the models inside"
    with pytest.raises(InputError, match=f"answer after any step: .*{inside}"):
        scurry.anytime(model, X[:400], y[:400])
    with pytest.raises(InputError, match=inside):
        scurry.early_exit(model, promise=scurry.promises.Certain())
    with pytest.raises(InputError, match=inside):
        scurry.export.to_c(full, tmp_path, name="model")
    with pytest.raises(InputError, match=inside):
        full.start_row()
    with pytest.raises(
        InputError, match=r"counts votes of trees that count alike, and this model answers with the .*use \"qwyc\""
    ):
        scurry.early_exit(model, X[400:], method="minimean")
    with pytest.raises(InputError, match=f"be pruned: .*{inside}"):
        scurry.prune(model, X[400:500])
    with pytest.raises(InputError, match=f"be compressed: .*{inside}"):
        scurry.compress(model, X[400:], max_bytes=10_000)
    with pytest.raises(InputError, match=f"be written as ONNX: .*{inside}"):
        scurry.export.to_onnx(forest, tmp_path / "model.onnx")
    with pytest.raises(InputError, match=r"promise Labels\(…\), or import the model inside"):
        scurry.early_exit(model, X[400:], promise=scurry.promises.Values(0.1, of="probability"))
    if name == "hard":
        with pytest.raises(InputError, match="threshold needs probabilities"):
            scurry.early_exit(model, X[400:], threshold=0.3)


@pytest.mark.parametrize("name", ONE_SUM)
def test_models_whose_members_add_up_are_one_sum(name, tmp_path):
    """Labels are the model's, except where two classes are equal up to rounding."""
    X, y = rows_of(3)
    model = clone(ONE_SUM[name]).fit(X[:400], y[:400])
    forest, rows = scurry.from_model(model), X[2400:]
    assert forest.wrapper.decides
    shares = np.sort(model.predict_proba(rows), axis=1)
    clear = shares[:, -1] - shares[:, -2] > 1e-9
    assert clear.mean() > 0.7

    def check(answers):
        np.testing.assert_array_equal(answers[clear], model.predict(rows)[clear])

    check(scurry.anytime(model, X[:100], y[:100], order="depth-ie").predict(rows))
    assert scurry.prune(model, X[400:500])[-1].n_nodes < forest.n_nodes
    assert scurry.compress(model, X[400:2400], max_bytes=20_000).forest.n_nodes <= forest.n_nodes
    written = scurry.export.to_onnx(forest, tmp_path / "model.onnx")
    assert "all trees are added up at once" in str(written)
    check(scurry.from_model(written.path).predict(rows))
    scurry.export.to_c(forest, tmp_path / "c", layout="float32")


@pytest.mark.parametrize("name", ["AdaBoost", "calibrated, one model"])
def test_models_of_one_sum_answer_after_any_step(name):
    X, y = rows_of(2)
    model = clone(MODELS[name]).fit(X[:400], y[:400])
    anytime = scurry.anytime(model, X[:400], y[:400])
    np.testing.assert_array_equal(anytime.predict(X), model.predict(X))
    np.testing.assert_allclose(anytime.predict_proba(X), model.predict_proba(X), rtol=1e-12)
    assert next(anytime.stream(X[0])).probabilities is None


def test_the_mean_of_regressors_exits_early():
    X, _ = rows_of(2)
    y = X[:, 1] + X[:, 3]
    inside = [(name, RandomForestRegressor(15, max_depth=4, random_state=seed)) for seed, name in enumerate("ab")]
    model = VotingRegressor(inside, weights=[1, 2]).fit(X[:400], y[:400])
    fast = scurry.early_exit(model, X[400:2900], promise=scurry.promises.Values(0.5))
    run = fast.run(X[2900:])
    np.testing.assert_allclose(run.labels[run.complete], model.predict(X[2900:])[run.complete], rtol=1e-12)
    assert run.mean_trees < 20


def test_an_isolation_forest_has_a_report(tmp_path):
    X, _ = rows_of(2)
    model = clone(ISOLATION["contaminated"]).fit(X[:400])
    fast = scurry.early_exit(model, X[400:], max_disagreement=0.05)
    path = scurry.report.write(fast, tmp_path / "report.html", X[:300])
    assert "no probabilities" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["soft", "calibrated"])
def test_estimators_on_top(name):
    X, y = rows_of(2)
    model = clone(MODELS[name]).fit(X[:400], y[:400])
    fast = scurry.EarlyExitClassifier(FrozenEstimator(model), max_disagreement=0.04).fit(X[400:2900], y[400:2900])
    assert (fast.predict(X[2900:]) != model.predict(X[2900:])).mean() < 0.08
    trained = scurry.EarlyExitClassifier(clone(MODELS[name]), max_disagreement=0.1, random_state=0).fit(X, y)
    assert trained.forest_.wrapper is not None
