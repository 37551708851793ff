"""early_exit(promise=Certain()): the same labels for every input, for every kind of model, without rows."""

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)

import scurry
from scurry.errors import InputError
from scurry.forest import decision_slack, reference, score_step
from scurry.plan import CellRule
from scurry.promises import Certain
from scurry.runners.cells import bound_leads, bound_sums, find_cells
from support.bounded_forests import all_inputs, bounded_forest
from support.strategies import adversarial_rows
from support.wrapper_models import ADABOOST, VOTES_OF_TREES, VOTING, fit, hard_rows


def rows_of(n_classes: int, missing: bool = False):
    X, y = make_classification(1500, 6, n_informative=5, n_redundant=0, n_classes=n_classes, flip_y=0.1, random_state=0)
    if missing:
        rng = np.random.default_rng(0)
        X[:, 0], X[:, 1] = rng.integers(0, 9, len(X)), rng.integers(0, 40, len(X))
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def boosted(**options):
    return lightgbm.LGBMClassifier(n_estimators=40, num_leaves=15, n_jobs=1, verbose=-1, random_state=0, **options)


MODELS = {
    "lightgbm": lambda: boosted().fit(*rows_of(2)),
    "lightgbm-categories": lambda: boosted().fit(*rows_of(2, True), categorical_feature=[0, 1]),
    "lightgbm-zeros": lambda: boosted(zero_as_missing=True).fit(np.round(rows_of(2)[0]), rows_of(2)[1]),
    "lightgbm-classes": lambda: boosted().fit(*rows_of(3)),
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=40, max_depth=4, n_jobs=1).fit(*rows_of(2, True)),
    "xgboost-classes": lambda: xgboost.XGBClassifier(n_estimators=20, max_depth=3, n_jobs=1).fit(*rows_of(3)),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=40, categorical_features=[0]).fit(*rows_of(2, True)),
    "gradient": lambda: GradientBoostingClassifier(n_estimators=40, random_state=0).fit(*rows_of(2)),
    "forest": lambda: RandomForestClassifier(25, random_state=0).fit(*rows_of(2)),
    "extra-trees-even": lambda: ExtraTreesClassifier(20, max_depth=4, random_state=0).fit(*rows_of(2)),
    "forest-classes": lambda: RandomForestClassifier(20, max_depth=6, random_state=0).fit(*rows_of(4)),
}


@pytest.mark.parametrize("name", MODELS)
def test_labels_of_hostile_rows(name):
    model = MODELS[name]()
    forest, fast = scurry.from_model(model), scurry.early_exit(model, promise=Certain())
    X = rows_of(max(forest.n_classes, 2), "categories" in name or name in ("xgboost", "histogram"))[0]
    hostile = adversarial_rows(forest, X, 20_000)
    with np.errstate(over="ignore"):
        as_floats = hostile.astype(np.float32)
    for rows in (hostile, as_floats):
        run, full = fast.run(rows), forest.predict(rows)
        np.testing.assert_array_equal(run.labels, full)
        np.testing.assert_array_equal(fast.predict(rows), full)
        np.testing.assert_array_equal(
            forest.decode(forest.engine_labels[fast.predict_proba(rows).argmax(axis=1)]), full
        )
    known = fast.run(X)
    assert known.mean_trees < 0.95 * forest.n_trees
    np.testing.assert_array_equal([fast.predict(row[None])[0] for row in hostile[:200]], fast.predict(hostile[:200]))


@pytest.mark.parametrize("header", [{}, {"aggregation": "mean"}, {"score_dtype": "float32"}])
@pytest.mark.parametrize("seed", range(10))
def test_bounds_on_leads_and_sums_by_brute_force(seed, header):
    for n_classes, make in ((3, bound_leads), (2, bound_sums)):
        forest = bounded_forest(seed, n_trees=12, n_classes=n_classes, n_features=2, categories=seed % 2 == 0, **header)
        rows = all_inputs(forest)
        run = scurry.Predictor(forest, make(forest)).run(rows)
        np.testing.assert_array_equal(run.labels, reference.predict(forest, rows))


def test_softmax_and_votes_by_brute_force():
    for seed in range(6):
        for header in (
            {"link": "softmax"},
            {"link": "softmax", "score_dtype": "float32", "label_from": "score"},
            {"aggregation": "vote"},
        ):
            forest = bounded_forest(seed, n_trees=9, n_classes=3, n_features=2, **header)
            rows = all_inputs(forest)
            run = scurry.Predictor(forest, bound_leads(forest)).run(rows)
            np.testing.assert_array_equal(run.labels, forest.predict(rows))


def test_float32_sums_are_within_the_slack():
    """Sums of float32 lose much more than the grid does, and the slack has to cover that."""
    rng = np.random.default_rng(0)
    forest = scurry.Forest(
        tree_offset=np.arange(0, 901, 3),
        feature=np.tile([0, -1, -1], 300),
        threshold=np.tile([0.0, 0, 0], 300),
        left=np.where(np.arange(900) % 3 == 0, np.arange(900) + 1, -1),
        right=np.where(np.arange(900) % 3 == 0, np.arange(900) + 2, -1),
        # Large values that cancel out: every partial sum is rounded, and the full one is near the threshold.
        value=np.repeat(np.concatenate([rng.normal(0, 1e3, 150)] * 2) * np.repeat([1, -1], 150), 3)[:, None]
        + np.tile([0, 1e-6, -1e-6], 300)[:, None],
        n_features=1,
        classes=[0, 1],
        aggregation="sum",
        score_dtype="float32",
    )
    rows = np.array([[-1.0], [1.0]])
    step = score_step(forest)
    exact = np.rint(forest.value[forest.apply(rows), 0] / step).sum(axis=1)
    assert decision_slack(forest, step) > 10 * (forest.n_trees + 2)
    assert (np.abs(exact - forest.scores(rows)[:, 0] / step) <= decision_slack(forest, step)).all()
    np.testing.assert_array_equal(scurry.early_exit(forest, promise=Certain()).predict(rows), forest.predict(rows))


@pytest.mark.parametrize("task", ["binary", "multi"])
@pytest.mark.parametrize("name", [*VOTES_OF_TREES, "AdaBoost", "soft"])
def test_weighted_votes_stop_once_the_others_cannot_catch_up(name, task):
    """The call that a user would make: no rows, and the trees of the plain rule, or fewer."""
    model, X = fit((VOTES_OF_TREES | {"AdaBoost": ADABOOST["trees"], "soft": VOTING["soft"]})[name], task)
    fast = scurry.early_exit(model, promise="certain")
    rows = hard_rows(fast.forest, X)
    run = fast.run(rows)
    np.testing.assert_array_equal(run.labels, model.predict(rows))
    if name in VOTES_OF_TREES:
        order = fast.plan.order if len(fast.plan.order) else np.arange(9)
        assert run.trees.mean() <= plain_rule(model, rows, order).mean() + 1e-9


def plain_rule(model, rows, order):
    """How many trees a row takes if it stops once the leader is ahead by more than the others weigh."""
    weights = np.ones(len(order)) if model.weights is None else np.array(model.weights, float)
    voted = np.array([model.estimators_[tree].predict(rows) for tree in order]).astype(int)
    sums, taken = np.zeros((len(rows), len(model.classes_))), np.full(len(rows), len(order))
    for done, tree in enumerate(order, start=1):
        sums[np.arange(len(rows)), voted[done - 1]] += weights[tree]
        ranked = np.sort(sums, axis=1)
        sure = ranked[:, -1] - ranked[:, -2] > weights[order[done:]].sum() + 1e-9
        taken = np.where(sure & (taken == len(order)), done, taken)
    return taken


def test_rows_shape_the_router_and_nothing_else():
    X, y = rows_of(2)
    model = boosted().fit(X[:700], y[:700])
    forest = scurry.from_model(model)
    shaped = scurry.early_exit(model, promise=Certain(), X_fit=X[:700])
    again = scurry.early_exit(model, promise=Certain(), X_fit=X[:700], random_state=7)
    without = scurry.early_exit(model, promise=Certain())
    assert isinstance(shaped.plan.stop, CellRule)
    assert shaped.digest != without.digest
    for name in CellRule.ARRAYS:
        np.testing.assert_array_equal(getattr(shaped.plan.stop, name), getattr(again.plan.stop, name))
    whole = scurry.Predictor(forest, bound_sums(forest))
    trees = [predictor.run(X[700:]).mean_trees for predictor in (shaped, without, whole)]
    assert trees[0] < 0.8 * trees[2]
    assert trees[1] < 0.8 * trees[2]
    assert shaped.certificate.n_fit_rows == 700


def test_a_forest_without_covers_and_rows_of_nothing():
    forest = bounded_forest(2, n_trees=20, n_leaves=8)
    bare = forest.replace(cover=np.full(forest.n_nodes, np.nan))
    rows = all_inputs(forest)
    for shaping in (None, np.full((10, 3), np.nan), np.array([[np.inf, -np.inf, 1e300]])):
        rule = find_cells(bare, shaping, n_cells=20)
        order = np.arange(forest.n_trees, dtype=np.int32)
        fast = scurry.Predictor(bare, scurry.Plan(order=order, stop=rule))
        np.testing.assert_array_equal(fast.predict(rows), forest.predict(rows))


def test_progress_is_told_and_may_end_the_search():
    forest = scurry.from_model(MODELS["lightgbm"]())
    told = []
    find_cells(forest, n_cells=32, progress=lambda n_done, n_total: told.append((n_done, n_total)))
    assert told == [(n, 32) for n in range(2, 33)]

    def stop(n_done, n_total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find_cells(forest, n_cells=32, progress=stop)


def test_the_certificate_tells_what_was_measured():
    X, y = rows_of(2)
    model = boosted().fit(X[:700], y[:700])
    bare, measured = scurry.early_exit(model, promise=Certain()), scurry.early_exit(model, X[700:], promise=Certain())
    assert bare.promise == measured.promise == Certain()
    assert bare.certificate.measured is None
    assert bare.certificate.recipe == "scurry.early_exit(model, promise=scurry.promises.Certain(), method='auto')"
    assert measured.certificate.exits.changed == 0.0
    assert measured.certificate.exits.mean_trees == measured.run(X[700:]).mean_trees
    assert "Every possible input" in str(bare.summary())


def test_a_threshold_of_the_probability():
    X, y = rows_of(2)
    model = boosted().fit(X[:700], y[:700])
    fast = scurry.early_exit(model, promise=Certain(), threshold=0.2)
    np.testing.assert_array_equal(fast.predict(X), (model.predict_proba(X)[:, 1] >= 0.2).astype(int))


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"method": "qwyc"}, "method"),
        ({"shuffle": "row"}, "shuffle"),
        ({"keep_scores": "positive"}, "keep_scores"),
        ({"costs": "steps"}, "costs"),
        ({"costs": np.ones(40)}, "costs"),
        ({"confidence": 0.9}, "promise"),
        ({"max_disagreement": 0.01}, "promise"),
    ],
)
def test_options_that_cannot_be_chosen(options, argument):
    with pytest.raises(InputError) as raised:
        scurry.early_exit(MODELS["lightgbm"](), promise=Certain(), **options)
    assert raised.value.argument == argument


def test_models_without_certain_labels_are_refused():
    X, y = rows_of(3)
    with pytest.raises(InputError, match="round to equal numbers"):
        scurry.early_exit(boosted(objective="multiclassova").fit(X, y), promise=Certain())
    with pytest.raises(InputError, match="regressor"):
        scurry.early_exit(lightgbm.LGBMRegressor(n_estimators=2, verbose=-1).fit(X, y), promise=Certain())


def test_what_needs_one_order_of_trees_is_refused():
    fast = scurry.early_exit(MODELS["lightgbm"](), promise=Certain())
    X = rows_of(2)[0]
    with pytest.raises(InputError, match="needs all features of a row before it starts"):
        fast.start_row()
    with pytest.raises(InputError, match="not counted here"):
        scurry.evaluation.feature_bill(fast, X)


def test_reports_and_plots_of_cells(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    X, y = rows_of(2)
    for name in ("lightgbm", "forest"):
        fast = scurry.early_exit(MODELS[name](), promise=Certain())
        page = scurry.report.write(fast, tmp_path / "r.html", X, y).read_text(encoding="utf-8")
        assert "Every possible input" in page
        assert "labels changed" in page
        scurry.display.EarlyExitDisplay.from_predictor(fast, X)
    with pytest.raises(InputError, match="each of many cells"):
        scurry.display.EarlyExitDisplay.from_predictor(scurry.early_exit(MODELS["lightgbm"](), promise=Certain()))
