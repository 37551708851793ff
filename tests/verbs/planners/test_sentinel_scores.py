"""Labels by estimates at sentinels: what is certified is what runs, and scores never contradict labels."""

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from xgboost import XGBClassifier

import scurry
from scurry.errors import InputError
from scurry.verbs.planners.by_scores import can_refit
from scurry.verbs.planners.sentinel_scores import full_scores, link_of, score_values

N = 900


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(7000, 5)).astype(np.float32)
    return X, (X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.5 * rng.normal(size=len(X)) > 0.5).astype(int)


def models():
    return {
        "lightgbm": LGBMClassifier(n_estimators=80, learning_rate=0.05, num_leaves=15, verbose=-1, n_jobs=1),
        "xgboost": XGBClassifier(n_estimators=60, max_depth=4, base_score=0.3, n_jobs=1),
        "boosting": GradientBoostingClassifier(n_estimators=60, random_state=0),
        "histogram": HistGradientBoostingClassifier(max_iter=60, random_state=0),
    }


@pytest.mark.parametrize("name", models())
@pytest.mark.parametrize("threshold", [None, 0.2])
def test_certified_labels_are_those_that_run(rows, name, threshold):
    X, y = rows
    forest = scurry.from_model(models()[name].fit(X[:N], y[:N]))
    fit, cal = X[N : N + 2500], X[N + 2500 : N + 5000]
    fast = scurry.early_exit(forest, cal, X_fit=fit, max_disagreement=0.02, method="sentinels", threshold=threshold)
    run, p = fast.run(cal), forest.predict_proba(cal)[:, 1]
    full = fast.forest.predict(cal)
    assert fast.certificate.n_broken == (run.labels != full).sum()
    assert fast.certificate.bound <= 0.02
    assert fast.certificate.measured.mean_trees == pytest.approx(run.mean_trees, rel=1e-12)
    assert run.mean_trees < 0.8 * forest.n_trees
    found = fast.predict_proba(cal)[:, 1]
    stopped = ~run.complete
    assert np.array_equal((found >= (0.5 if threshold is None else threshold))[stopped], run.labels[stopped] == 1)
    assert np.array_equal(found[run.complete], p[run.complete])
    # Estimates are close to what they estimate.
    assert np.corrcoef(run.scores[stopped], full_scores(fast.forest, cal)[stopped])[0, 1] > 0.9


def test_costs_and_kept_scores(rows):
    X, y = rows
    forest = scurry.from_model(models()["lightgbm"].fit(X[:N], y[:N]))
    cal = X[N : N + 5000]
    costs = np.linspace(1, 3, forest.n_trees)
    fast = scurry.early_exit(
        forest,
        cal[2500:],
        X_fit=cal[:2500],
        max_disagreement=0.02,
        method="sentinels",
        costs=costs,
        keep_scores="positive",
    )
    run = fast.run(cal[2500:])
    spent = np.concatenate([[0], np.cumsum(costs[fast.plan.order])])[run.trees].mean()
    assert fast.certificate.measured.mean_cost == pytest.approx(spent)
    assert fast.certificate.measured.mean_trees == pytest.approx(run.mean_trees)
    assert (run.labels[~run.complete] == 0).all()


def test_auto_takes_sentinels_where_they_save_most(rows):
    X, y = rows
    model = models()["lightgbm"].fit(X[:N], y[:N])
    fast = scurry.early_exit(model, X[N:], y[N:], max_disagreement=0.02)
    spent = {m: scurry.early_exit(model, X[N:], max_disagreement=0.02, method=m).certificate.measured.mean_trees
             for m in ("qwyc", "sentinels")}  # fmt: skip
    assert fast.certificate.method == "sentinels"
    assert "qwyc" in fast.certificate.why
    measured = fast.certificate.measured
    assert 0.5 < measured.fast_auc <= 1
    assert abs(measured.fast_auc - measured.full_auc) < 0.1
    assert spent["sentinels"] < spent["qwyc"]


def test_files_keep_them(rows, tmp_path):
    X, y = rows
    fast = scurry.early_exit(models()["lightgbm"].fit(X[:N], y[:N]), X[N:], max_disagreement=0.02, method="sentinels")
    fast.save(tmp_path / "fast.scurry")
    again = scurry.load(tmp_path / "fast.scurry")
    assert np.array_equal(again.predict_proba(X), fast.predict_proba(X))
    assert 'method="sentinels"' in fast.certificate.recipe.replace("'", '"')


def test_scores_add_up_over_leaves(rows):
    X, y = rows
    for model in (*models().values(), RandomForestClassifier(10, max_depth=4, random_state=0)):
        forest = scurry.from_model(model.fit(X[:N], y[:N]))
        added = score_values(forest)[forest.apply(X)].sum(axis=1)
        full = full_scores(forest, X)
        if forest.aggregation == "sum":
            assert np.ptp(full - added) < 1e-4  # the base score
        else:
            assert np.allclose(added / 10, full)
        assert np.allclose(link_of(forest, full), forest.predict_proba(X)[:, 1], atol=1e-6)
        assert can_refit(forest) == (forest.aggregation == "sum")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_other_models_are_refused(rows, n_classes):
    X, y = rows
    labels = y if n_classes == 2 else y + (X[:, 3] > 1)
    model = RandomForestClassifier(5, random_state=0) if n_classes == 2 else LGBMClassifier(n_estimators=5, verbose=-1)
    with pytest.raises(InputError, match="boosted trees with two classes"):
        scurry.early_exit(model.fit(X[:N], labels[:N]), X[N:], method="sentinels", max_disagreement=0.02)
