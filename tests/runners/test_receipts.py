"""Receipts: contributions add up to the score, and what is called certain is certain."""

import warnings
from functools import cache

import numpy as np
import pytest
from catboost import CatBoostClassifier, CatBoostRegressor
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBClassifier, XGBRegressor

import scurry
from scurry.errors import InputError, ScurryError, ScurryWarning
from scurry.promises import Certain, TopK, Values
from scurry.runners import receipts
from support.calibration_rows import two_classes

X, Y = two_classes(6000, 0)
Y3 = (X[:, 0] > 0.6).astype(int) + (X[:, 1] > 0.4)
FIT, CAL, NEW = slice(0, 800), slice(800, 2000), slice(3800, 3900)


@cache
def make(kind):
    forest = RandomForestClassifier(21, max_depth=5, random_state=0)
    boosted = LGBMClassifier(n_estimators=15, num_leaves=8, random_state=0, verbose=-1)
    exits = {"max_disagreement": 0.05, "random_state": 0}
    match kind:
        case "full":
            return scurry.Predictor.full(scurry.from_model(forest.fit(X[FIT], Y[FIT])))
        case "scores":
            return scurry.early_exit(forest.fit(X[FIT], Y[FIT]), X[CAL], method="qwyc", **exits)
        case "votes":
            return scurry.early_exit(forest.fit(X[FIT], Y[FIT]), X[CAL], method="minimixed", **exits)
        case "boosted":
            return scurry.early_exit(boosted.fit(X[FIT], Y[FIT]), X[CAL], method="qwyc", **exits)
        case "sentinels":
            return scurry.early_exit(boosted.fit(X[FIT], Y[FIT]), X[CAL], method="sentinels", **exits)
        case "classes":
            return scurry.early_exit(boosted.fit(X[FIT], Y3[FIT]), X[CAL], **exits)
        case "forest of classes":
            return scurry.early_exit(forest.fit(X[FIT], Y3[FIT]), X[CAL], method="qwyc", **exits)
        case "certain":
            model = GradientBoostingClassifier(n_estimators=15, random_state=0).fit(X[FIT], Y[FIT])
            return scurry.early_exit(model, promise=Certain())
        case "adaptive" | "certain adaptive":
            model = AdaBoostClassifier(n_estimators=15, random_state=0).fit(X[FIT], Y[FIT])
            return (
                scurry.early_exit(model, promise=Certain())
                if "certain" in kind
                else scurry.early_exit(model, X[CAL], **exits)
            )
        case "values":
            model = LGBMRegressor(n_estimators=15, num_leaves=8, verbose=-1).fit(X[FIT], X[FIT, 0] * 2 + Y[FIT])
            return scurry.early_exit(model, X[CAL], promise=Values(0.4), random_state=0)
        case "steps":
            return scurry.anytime(forest.fit(X[FIT], Y[FIT]), X[CAL][:500], Y[CAL][:500], order="breadth-ie")
    raise AssertionError(kind)


KINDS = (
    "full",
    "scores",
    "votes",
    "boosted",
    "sentinels",
    "classes",
    "forest of classes",
    "certain",
    "adaptive",
    "certain adaptive",
    "values",
    "steps",
)


@pytest.mark.parametrize("kind", KINDS)
def test_contributions_add_up_to_the_score(kind):
    fast = make(kind)
    run = fast.run(X[NEW], **({"max_steps": 40} if kind == "steps" else {}))
    leaves, forest = fast.forest.apply(X[NEW]), fast.forest
    for row in range(0, 100, 7):
        receipt = run.receipt(row)
        total = receipt.start + receipt.contributions.sum(axis=0) + receipt.estimated
        np.testing.assert_allclose(total, run.scores[row], atol=1e-9, rtol=0)
        assert receipt.answer == run.labels[row]
        assert receipt.stop_reason == run.stop_reason[row]
        assert len(receipt.trees) == run.trees[row]
        if kind not in ("steps", "values") and run.complete[row]:
            # Nothing is estimated: what is left is rounding.
            assert np.abs(receipt.estimated).max() < 1e-9
        if kind not in ("steps", "classes", "forest of classes", "adaptive", "certain adaptive"):
            # Without the estimate, it is what the leaves of the trees evaluated add up to.
            given = forest.leaf_values()[leaves[row, receipt.trees], -1].sum() + forest.base_score[-1]
            if forest.aggregation != "sum":
                given /= max(len(receipt.trees), 1)
            assert receipt.start + receipt.contributions.sum() == pytest.approx(given, abs=1e-9)
        if kind != "steps":
            # The features on the paths of the trees evaluated, found by walking down with the row's own values.
            used = set()
            for tree in receipt.trees:
                node = int(forest.tree_offset[tree])
                while forest.left[node] >= 0:
                    used.add(int(forest.feature[node]))
                    x = float(np.asarray(X[NEW][row, forest.feature[node]], forest.input_dtype))
                    node = int(forest.left[node] if forest.goes_left(node, x) else forest.right[node])
                assert node == leaves[row, tree]
            assert receipt.features.tolist() == sorted(used)
            assert not receipt.contributions[sorted(set(range(6)) - used)].any()


def build_families():
    """Return a small model of each family, unfitted, with how its labels or values are made."""
    few = {"n_estimators": 9, "max_depth": 4, "random_state": 0}
    boosted = {"n_estimators": 9, "num_leaves": 8, "random_state": 0, "verbose": -1, "n_jobs": 1}
    cat = {"iterations": 9, "depth": 3, "random_seed": 0, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    classifiers = {
        "forest": RandomForestClassifier(**few),
        "gradient boosting": GradientBoostingClassifier(n_estimators=9, random_state=0),
        "histograms": HistGradientBoostingClassifier(max_iter=9, random_state=0),
        "LightGBM": LGBMClassifier(**boosted),
        "XGBoost": XGBClassifier(n_estimators=9, max_depth=3, n_jobs=1),
        "CatBoost": CatBoostClassifier(**cat),
        "AdaBoost": AdaBoostClassifier(n_estimators=9, random_state=0),
        "bagging": BaggingClassifier(n_estimators=7, random_state=0),
        "calibrated": CalibratedClassifierCV(RandomForestClassifier(**few), cv=2),
        "voting": VotingClassifier([("a", RandomForestClassifier(**few)), ("b", LGBMClassifier(**boosted))]),
        "pipeline, folded": make_pipeline(StandardScaler(), RandomForestClassifier(**few)),
        "pipeline with a front": make_pipeline(PCA(4, random_state=0), LGBMClassifier(**boosted)),
    }
    regressors = {
        "forest": RandomForestRegressor(**few),
        "gradient boosting": GradientBoostingRegressor(n_estimators=9, random_state=0),
        "histograms, Poisson": HistGradientBoostingRegressor(max_iter=9, loss="poisson", random_state=0),
        "LightGBM": LGBMRegressor(**boosted),
        "XGBoost": XGBRegressor(n_estimators=9, max_depth=3, n_jobs=1),
        "CatBoost": CatBoostRegressor(**cat),
        "bagging": BaggingRegressor(n_estimators=5, random_state=0),
        "voting": VotingRegressor([("a", RandomForestRegressor(**few)), ("b", LGBMRegressor(**boosted))]),
        "pipeline, folded": make_pipeline(StandardScaler(), LGBMRegressor(**boosted)),
        "pipeline with a front": make_pipeline(PCA(4, random_state=0), RandomForestRegressor(**few)),
    }
    families = {f"{name}, {n} classes": (model, y) for name, model in classifiers.items() for n, y in ((2, Y), (3, Y3))}
    families |= {f"{name}, values": (model, np.abs(X[:, 0] * 2 + Y)) for name, model in regressors.items()}
    return families | {"isolation": (IsolationForest(n_estimators=9, random_state=0), Y)}


FAMILIES = build_families()
GROUPS = np.repeat(np.arange(10), 10)


def make_plans(model, y):
    """Yield the predictors that can be made of a model, one of each kind of plan."""
    X_cal, exits = X[CAL], {"random_state": 0}
    wanted = {
        "full": lambda: scurry.Predictor.full(scurry.from_model(model)),
        "scores": lambda: scurry.early_exit(model, X_cal, max_disagreement=0.05, method="qwyc", **exits),
        "votes": lambda: scurry.early_exit(model, X_cal, max_disagreement=0.05, method="minimixed", **exits),
        "sentinels": lambda: scurry.early_exit(model, X_cal, max_disagreement=0.05, method="sentinels", **exits),
        "certain": lambda: scurry.early_exit(model, X_cal, promise=Certain()),
        "probabilities": lambda: scurry.early_exit(model, X_cal, promise=Values(0.1, 0.1, of="probability"), **exits),
        "values": lambda: scurry.early_exit(model, X_cal, promise=Values(0.4, 0.1), **exits),
        "top k": lambda: scurry.early_exit(
            model, X_cal, promise=TopK(3, 0.2), groups=np.repeat(np.arange(120), 10), **exits
        ),
        "steps": lambda: scurry.anytime(model, X_cal[:200], y[CAL][:200], order="breadth-ie"),
    }
    for kind, make_one in wanted.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ScurryWarning)
                fast = make_one()
        except ScurryError:
            continue  # not every plan fits every model
        yield kind, fast


@cache
def fit_family(name):
    model, y = FAMILIES[name]
    return (model.fit(X[FIT]) if name == "isolation" else clone(model).fit(X[FIT], y[FIT])), y


def find_leaf_sums(forest, leaves, receipt):
    """Return what the leaves of the trees evaluated add up to, by output."""
    sums, values = forest.base_score.astype(np.float64).copy(), forest.leaf_values()
    for tree in receipt.trees:
        output = forest.tree_output[tree]
        sums[slice(None) if output < 0 else slice(output, output + 1)] += values[leaves[tree]]
    if forest.aggregation == "sum":
        return sums
    return sums / max(len(receipt.trees) * forest.score_divisor // forest.n_trees, 1)


@pytest.mark.parametrize("name", FAMILIES)
def test_contributions_add_up_for_every_family_and_plan(name):
    model, y = fit_family(name)
    kinds = set()
    for kind, fast in make_plans(model, y):
        kinds.add(kind)
        forest, by_step = fast.forest, kind == "steps"
        run = fast.run(
            X[NEW], **({"max_steps": 25} if by_step else {}), **({"groups": GROUPS} if kind == "top k" else {})
        )
        leaves = forest.apply(X[NEW])
        # Its own sums are those of float32, so that more than rounding of float64 is left.
        rounding = 1e-9 if forest.score_dtype == "float64" else 1e-5
        for row in range(0, 100, 19):
            receipt = run.receipt(row)
            summed = receipt.start + receipt.contributions.sum(axis=0)
            assert np.shape(summed) == np.shape(run.scores[row])
            np.testing.assert_allclose(summed + receipt.estimated, run.scores[row], atol=1e-9, rtol=0)
            assert receipt.answer == run.labels[row]
            assert receipt.describe()
            if run.complete[row] and kind != "votes":
                assert np.abs(receipt.estimated).max() < rounding
            if not by_step:
                outputs = find_leaf_sums(forest, leaves[row], receipt)
                expected = receipts._as_score(forest, fast.plan, outputs)
                np.testing.assert_allclose(summed, expected, atol=1e-9, rtol=0)
            if not forest.is_classifier and forest.link == "identity":
                assert receipt.answer == pytest.approx(receipt.score, abs=1e-9)
    assert kinds >= {"full"}
    assert len(kinds) > 1


def find_hostile_label(forest, by_votes, leaves, evaluated, label, other):
    """Return the label if the trees that are left give what speaks most for another class."""
    values = np.eye(forest.n_classes)[forest.value.argmax(axis=1)] if by_votes else forest.leaf_values()
    nodes = leaves.copy()
    for tree in set(range(forest.n_trees)) - set(evaluated.tolist()):
        part = np.arange(*forest.tree_offset[tree : tree + 2])
        part = part[forest.is_leaf[part]]
        if values.shape[1] > 1:
            gain = values[part, other] - values[part, label]
        elif forest.n_outputs == 1:
            gain = values[part, 0] * (1 if other else -1)
        else:
            output = forest.tree_output[tree]
            gain = values[part, 0] * (int(output == other) - int(output == label))
        nodes[tree] = part[gain.argmax()]
    if by_votes:
        return values[nodes].sum(axis=0).argmax()
    scores = forest.scores_at(nodes[None, :])[0]
    return scores.argmax() if forest.n_outputs > 1 else int(scores[0] > forest.decision_threshold)


@pytest.mark.parametrize("kind", ["scores", "votes", "boosted", "classes", "forest of classes", "adaptive"])
def test_certain_is_what_no_leaves_can_change(kind):
    fast = make(kind)
    forest, order, n_certain, n_seen = fast.forest, fast.plan.order, 0, 0
    for leaves in forest.apply(X[NEW][:12]):
        for n_trees in range(0, forest.n_trees, forest.trees_per_round):
            evaluated = order[:n_trees]
            is_certain = receipts._is_certain(forest, fast.plan, leaves, evaluated)
            found = {
                find_hostile_label(forest, kind == "votes", leaves, evaluated, label, other)
                for label in range(forest.n_classes)
                for other in range(forest.n_classes)
                if other != label
            }
            # Hostile to every label: if one label is certain, no choice of leaves leads to another.
            assert is_certain == (len(found) == 1)
            n_certain, n_seen = n_certain + is_certain, n_seen + 1
    assert 0 < n_certain < n_seen


@pytest.mark.parametrize("kind", ["certain", "certain adaptive"])
def test_bounds_of_cells_are_certain(kind):
    run = make(kind).run(X[NEW])
    found = [run.receipt(row) for row in range(0, 100, 9)]
    assert all(receipt.is_certain for receipt in found)
    assert "certain: no tree that is left" in found[0].describe()


def test_scores_speak_for_the_label_that_trees_voted_for():
    model = ExtraTreesClassifier(21, max_depth=5, random_state=0).fit(X[FIT], Y[FIT])
    run = scurry.early_exit(model, X[CAL], max_disagreement=0.05, method="minimixed", random_state=0).run(X)
    full = scurry.from_model(model).predict(X)
    row = int(np.flatnonzero(run.complete & (run.labels != full))[0])
    receipt = run.receipt(row)
    assert receipt.is_certain
    assert abs(receipt.estimated) > 1e-9
    assert receipt.start + receipt.contributions.sum() + receipt.estimated == pytest.approx(run.scores[row], abs=1e-9)


def test_margins():
    run = make("boosted").run(X[NEW])
    assert run.receipt(3).margin == pytest.approx(abs(run.scores[3]))
    classes = make("classes").run(X[NEW])
    assert classes.receipt(3).margin == pytest.approx(np.diff(np.sort(classes.scores[3])[-2:])[0])
    assert make("values").run(X[NEW]).receipt(0).margin is None


def test_a_query():
    model = LGBMRegressor(n_estimators=15, num_leaves=8, verbose=-1).fit(X[FIT], X[FIT, 0] * 2 + Y[FIT])
    fast = scurry.early_exit(model, X[CAL], promise=TopK(3, 0.1), groups=np.repeat(np.arange(120), 10), random_state=0)
    run = fast.run(X[NEW], groups=np.repeat(np.arange(10), 10))
    receipt = run.receipt(17)
    assert receipt.start + receipt.contributions.sum() + receipt.estimated == pytest.approx(run.scores[17], abs=1e-9)


def test_texts_and_mistakes():
    assert "what is known so far" in make("steps").run(X[NEW], max_steps=40).receipt(0).describe()
    assert ", of all trees" in make("full").run(X[NEW]).receipt(0).describe()
    run = make("scores").run(X[NEW])
    text = run.receipt(0).describe()
    assert "promised, not certain" in text
    assert f"after {run.trees[0]} of 21 trees" in text
    assert "column" in text
    with pytest.raises(InputError, match="row must be below 100"):
        run.receipt(100)
    with pytest.raises(InputError, match="row must be a whole number"):
        run.receipt(-1)
    shuffled = scurry.early_exit(
        RandomForestClassifier(21, max_depth=5, random_state=0).fit(X[FIT], Y[FIT]),
        X[CAL], max_disagreement=0.05, method="minimixed", shuffle="row", random_state=0,
    )  # fmt: skip
    with pytest.raises(InputError, match="not recorded"):
        shuffled.run(X[NEW]).receipt(0)
