"""A new algorithm is one module: it makes a plan and a certificate, and everything else in scurry takes them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import scurry
from scurry.forest import leaf_scores, score_threshold
from scurry.plan import NEVER_ABOVE, NEVER_BELOW, ExitRule
from scurry.promises import Certificate, ExitMeasurement, Labels, RowSummary
from support.calibration_rows import two_classes

STEP = 2.0**-20
X_FIT, Y_FIT = two_classes(1500, seed=0)
X_TEST, Y_TEST = two_classes(400, seed=1)
COLUMNS = [f"f{j}" for j in range(6)]


def exit_by_quantiles(forest: scurry.Forest, X: np.ndarray, share: float) -> scurry.Predictor:
    """Stop a row in the first half of the trees if few rows of the other label have such a running score.

    This is the whole algorithm. It knows `Forest`, `Plan` and `Certificate`, and nothing that uses them.
    """
    sums = running_sums(forest, X)
    positive = forest.predict(X) == forest.classes[1]
    lower = np.full((1, forest.n_trees + 1), NEVER_BELOW, np.int32)
    upper = np.full((1, forest.n_trees + 1), NEVER_ABOVE, np.int32)
    for n_trees in range(1, forest.n_trees // 2):
        lower[0, n_trees] = np.quantile(sums[positive, n_trees], share, method="lower") - 1
        upper[0, n_trees] = np.quantile(sums[~positive, n_trees], 1 - share, method="higher") + 1
        # Where the classes overlap so much that the thresholds cross, no row stops.
        if lower[0, n_trees] >= upper[0, n_trees]:
            lower[0, n_trees], upper[0, n_trees] = NEVER_BELOW, NEVER_ABOVE
    stop = ExitRule(kind="scores", step=STEP, weights=np.ones(1), lower=lower, upper=upper)
    order = np.arange(forest.n_trees, dtype=np.int32)
    run = scurry.Predictor(forest, scurry.Plan(order=order, stop=stop)).run(X)
    changed = run.labels != forest.predict(X)
    certificate = Certificate(
        method="toy",
        promise=Labels(0.2, confidence=None),
        n_calibration_rows=len(X),
        why="it is short",
        measured=ExitMeasurement(changed=float(changed.mean()), mean_trees=run.mean_trees),
        rows=RowSummary.of(X),
    )
    return scurry.Predictor(forest, scurry.Plan(order=order, stop=stop, certificate=certificate))


def running_sums(forest: scurry.Forest, X: np.ndarray) -> np.ndarray:
    """Return the integer score of each row after each number of trees, found by a walk in Python."""
    units = np.rint(leaf_scores(forest) / STEP).astype(np.int64)
    rows = X.astype(forest.input_dtype)
    sums = np.zeros((len(X), forest.n_trees + 1), np.int64)
    for tree in range(forest.n_trees):
        nodes = np.full(len(X), forest.tree_offset[tree])
        for _ in range(int(forest.tree_depth[tree])):
            inner = forest.left[nodes] >= 0
            goes_left = rows[np.arange(len(X)), np.maximum(forest.feature[nodes], 0)] <= forest.threshold[nodes]
            nodes = np.where(inner, np.where(goes_left, forest.left[nodes], forest.right[nodes]), nodes)
        sums[:, tree + 1] = sums[:, tree] + units[nodes]
    return sums


@pytest.fixture(scope="module", params=[RandomForestClassifier, GradientBoostingClassifier])
def toy(request):
    model = request.param(n_estimators=25, max_depth=4, random_state=0).fit(X_FIT, np.where(Y_FIT, "yes", "no"))
    return exit_by_quantiles(scurry.from_model(model, feature_names=COLUMNS), X_FIT, 0.005)


def test_it_runs(toy):
    """Every row stops where its running sum first leaves the thresholds, and gets the label of that side."""
    run, rule, n_trees = toy.run(X_TEST), toy.plan.stop, toy.forest.n_trees
    sums = running_sums(toy.forest, X_TEST)
    outside = (sums <= rule.lower[0]) | (sums >= rule.upper[0])
    outside[:, -1] = True
    trees = outside.argmax(axis=1)
    stopped = trees < n_trees
    positive = sums[np.arange(len(X_TEST)), trees] >= rule.upper[0, trees]
    expected = np.where(stopped, toy.classes[positive.astype(int)], toy.forest.predict(X_TEST))
    assert run.trees.tolist() == trees.tolist()
    assert run.labels.tolist() == expected.tolist() == toy.predict(X_TEST).tolist()
    assert (run.stop_reason == np.where(stopped, "decided", "complete")).all()
    assert 0.2 < stopped.mean() < 1
    assert (toy.predict_proba(X_TEST)[~stopped] == toy.forest.predict_proba(X_TEST)[~stopped]).all()
    assert score_threshold(toy.forest) == pytest.approx(rule.threshold(toy.forest) * STEP, abs=STEP)


def test_it_is_saved_and_loaded(toy, tmp_path):
    toy.save(tmp_path / "toy.scurry")
    loaded = scurry.load(tmp_path / "toy.scurry")
    assert loaded.digest == toy.digest
    assert loaded.certificate.to_json() == toy.certificate.to_json()
    assert (loaded.predict(X_TEST) == toy.predict(X_TEST)).all()
    assert "toy: it is short" in str(loaded.summary())
    assert loaded.promise == Labels(0.2, confidence=None)


def test_its_report_is_written(toy, tmp_path):
    page = scurry.report.write(toy, tmp_path / "toy.html", X_TEST, np.where(Y_TEST, "yes", "no"))
    text = page.read_text(encoding="utf-8")
    assert "toy" in text
    assert "20 %" in text


def test_it_is_exported_to_c(toy, tmp_path):
    scurry.export.to_c(toy, tmp_path, name="toy", X_cal=X_FIT[:200])
    checked = scurry.export.verify(tmp_path, X_TEST[:100], name="toy")
    assert checked
    assert checked.n_mismatches == 0


def test_it_scores_files(toy, tmp_path):
    pd.DataFrame(X_TEST, columns=COLUMNS).to_parquet(tmp_path / "rows.parquet")
    done = scurry.batch.score(tmp_path / "rows.parquet", toy, tmp_path / "scores.parquet")
    assert done.n_rows == len(X_TEST)
    scores, run = pd.read_parquet(tmp_path / "scores.parquet"), toy.run(X_TEST)
    assert scores.label.tolist() == run.labels.tolist()
    assert scores.trees.tolist() == run.trees.tolist()


def test_its_features_are_acquired(toy):
    run = toy.run(X_TEST[:20])
    out = toy.acquire(lambda row, feature: X_TEST[row][COLUMNS.index(feature)], 20)
    assert out.labels.tolist() == run.labels.tolist()
