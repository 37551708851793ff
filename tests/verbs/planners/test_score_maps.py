"""Probabilities of early exits: they agree with the labels, and are as good as partial scores allow."""

from dataclasses import replace

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.metrics import log_loss, roc_auc_score
from xgboost import XGBClassifier

import scurry
from scurry.errors import FormatError, InputError
from scurry.forest.files.storage import write_container
from scurry.plan import ScoreMap
from scurry.runners import stops_of
from scurry.verbs.planners import score_maps
from support.strategies import adversarial_rows

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
    fit, measure, fitted, measured = score_maps._fit, score_maps.score_quality, [], []

    def fit_map(forest, plan, stops, chosen):
        fitted.append(chosen)
        return fit(forest, plan, stops, chosen)

    def measure_rows(predictor, rows, labels):
        measured.append(rows)
        return measure(predictor, rows, labels)

    monkeypatch.setattr(score_maps, "_fit", fit_map)
    monkeypatch.setattr(score_maps, "score_quality", measure_rows)
    fast = scurry.early_exit(model, X[400:], y[400:], max_disagreement=0.05, method="qwyc", random_state=0)
    shipped, of_measure = fitted
    np.testing.assert_array_equal(shipped, fast.run(X[400:]).trees < 15)
    assert not (of_measure & ~shipped).any()
    assert set(map(tuple, X[400:][of_measure])).isdisjoint(map(tuple, measured[0]))
