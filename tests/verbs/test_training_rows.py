"""Rows that trained the model are noticed, whatever the kind of model; others are not taken for them."""

import json
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from scipy.sparse import csr_matrix
from scipy.stats import binom
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

import scurry
from scurry.stopping.guarantee import InMemory
from scurry.verbs.training_rows import _agrees, _count_in_leaves, _largest_unit, describe_training
from support.calibration_rows import two_classes

STORED = Path(__file__).parents[2] / "benchmarks" / "results" / "misuse.json"
ASKED = {"max_disagreement": 0.02, "random_state": 0}


@pytest.fixture(autouse=True)
def _unexpected_warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def train(model, n_rows=1200, seed=63):
    X, y = two_classes(n_rows, seed)
    return model.fit(X, y), X, y


class TestTrainingRows:
    @pytest.mark.parametrize(
        "model",
        [
            RandomForestClassifier(31, random_state=0),
            RandomForestClassifier(31, max_depth=8, random_state=0),
            RandomForestClassifier(31, min_samples_leaf=3, random_state=0),
            ExtraTreesClassifier(31, random_state=0),
            RandomForestClassifier(51, max_depth=5, random_state=0),
            GradientBoostingClassifier(n_estimators=30, random_state=0),
            LGBMClassifier(n_estimators=40, subsample=0.5, subsample_freq=1, n_jobs=1, random_state=0, verbose=-1),
            XGBClassifier(n_estimators=30, n_jobs=1, random_state=0),
            XGBClassifier(n_estimators=40, max_depth=3, subsample=0.7, n_jobs=1, random_state=0),
            CatBoostClassifier(iterations=40, depth=4, thread_count=1, random_seed=0, verbose=0),
        ],
        ids=lambda model: f"{type(model).__name__} {model.get_params().get('max_depth')}",
    )
    def test_nothing_is_promised(self, model):
        model, X, _ = train(model)
        with pytest.warns(UserWarning, match=r"look like rows that trained the model.*that the model has not seen"):
            seen = scurry.early_exit(model, X, **ASKED)
        assert seen.certificate.promise is None
        assert "Nothing is promised for new rows. The calibration rows look like" in str(seen.summary())
        new = scurry.early_exit(model, two_classes(1200, 64)[0], **ASKED)
        assert new.certificate.promise.confidence == 0.95

    def test_half_of_the_training_rows_is_enough(self):
        """Not the model's own share of rows, and still nearer to its leaves than new ones."""
        model, X, _ = train(RandomForestClassifier(31, max_depth=12, random_state=0), 4000)
        with pytest.warns(UserWarning, match="look like rows that trained the model"):
            assert scurry.early_exit(model, X[:2000], **ASKED).certificate.promise is None
        assert scurry.early_exit(model, two_classes(2000, 66)[0], **ASKED).certificate.promise is not None

    def test_labels_tell_where_leaves_do_not(self):
        """A forest that does not know how many rows its leaves had: that it is nearly always right is the sign."""
        model, X, y = train(RandomForestClassifier(101, random_state=0), 3000)
        forest = scurry.from_model(model)
        forest = forest.replace(cover=np.full(len(forest.cover), np.nan))
        with pytest.warns(UserWarning, match="right on them far more often than its own probabilities say"):
            seen = scurry.early_exit(forest, X, y, **ASKED)
        assert seen.certificate.promise is None
        new = scurry.early_exit(forest, *two_classes(3000, 65), **ASKED)
        assert new.certificate.promise is not None

    def test_a_fitted_estimator_says_what_to_do(self):
        model, X, y = train(RandomForestClassifier(31, random_state=0))
        with pytest.warns(UserWarning, match="estimators, such as EarlyExitClassifier, train the model themselves"):
            fast = scurry.EarlyExitClassifier(model, max_disagreement=0.02).fit(X, y)
        assert fast.predictor_.plan.stop is None
        np.testing.assert_array_equal(fast.predict(X), model.predict(X))

    @pytest.mark.parametrize("table", [np.asarray, csr_matrix])
    def test_rows_on_which_scurry_trained_are_known(self, table):
        """Leaves of so small trees do not tell them, nor would a tenth of the rows."""
        X, y = make_classification(3000, 10, n_informative=5, flip_y=0.1, random_state=0)
        X = X.astype(np.float32)
        small = RandomForestClassifier(9, max_depth=2, random_state=0)
        fast = scurry.EarlyExitClassifier(small, max_disagreement=0.05, random_state=0).fit(table(X[:2000]), y[:2000])
        assert not describe_training(scurry.from_model(fast.estimator_), InMemory(X[:200]), None)
        with pytest.warns(UserWarning, match=r"of 1,200 calibration rows trained the model\. Trees agree"):
            scurry.early_exit(fast.forest_, X[1800:], max_disagreement=0.05)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            scurry.early_exit(fast.forest_, X[2000:], max_disagreement=0.05)

    def test_promises_that_need_no_rows_stay(self):
        model, X, _ = train(RandomForestClassifier(31, random_state=0))
        with pytest.warns(UserWarning, match="trained the model"):
            fast = scurry.early_exit(model, X, method="minimax", shuffle="row", **ASKED)
        assert fast.certificate.promise.holds == "each row"

    def test_hessians_of_many_classes_are_counts_too(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(3000, 5)).astype(np.float32)
        y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=3000), [-1, 0, 1])
        forest = scurry.from_model(XGBClassifier(n_estimators=10, n_jobs=1).fit(X[:1500], y[:1500]))
        assert "as those rows did" in describe_training(forest, InMemory(X[:1500]), None)
        assert not describe_training(forest, InMemory(X[1500:]), None)

    def test_a_model_that_learnt_its_rows_by_heart_raises_no_alarm(self, misuse):
        """Derivatives of its few training rows vanish, so that sums in leaves tell fewer and fewer rows."""
        assert misuse.count_false_alarms("XGBoost", (5, 7, 8, 9)) == (0, 16)

    @pytest.mark.parametrize("depth", [1, 2])
    def test_stratified_splits_are_no_sign(self, depth):
        """Equal shares of each class on both sides make the leaves of good stumps agree; each tree says the same."""
        rng = np.random.default_rng(depth)
        y = rng.integers(0, 2, 2000)
        X = np.column_stack([y + rng.normal(0, 0.1, 2000), rng.normal(size=(2000, 3))]).astype(np.float32)
        X_train, X_new, y_train, y_new = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
        model = GradientBoostingClassifier(n_estimators=60, max_depth=depth, random_state=0).fit(X_train, y_train)
        assert not describe_training(scurry.from_model(model), InMemory(X_new), y_new)

    @pytest.mark.parametrize(
        ("kind", "class_weight"),
        [
            (RandomForestClassifier, "balanced"),
            (ExtraTreesClassifier, "balanced"),
            (ExtraTreesClassifier, {0: 1.0, 1: 7.5}),
        ],
    )
    def test_class_weights_hide_nothing(self, kind, class_weight):
        """Rows of a class that are drawn more often, or count more, give leaves more than their share."""
        X, y = make_classification(3500, 10, n_informative=5, flip_y=0.1, weights=[0.8], random_state=0)
        X = X.astype(np.float32)
        model = kind(25, class_weight=class_weight, random_state=0).fit(X[:1500], y[:1500])
        forest = scurry.from_model(model)
        assert "as those rows did" in describe_training(forest, InMemory(X[:1500]), None)
        assert not describe_training(forest, InMemory(X[1500:]), y[1500:])

    def test_nor_do_weights_that_differ_from_tree_to_tree(self):
        X, y = make_classification(3500, 10, n_informative=5, flip_y=0.1, weights=[0.8], random_state=0)
        X = X.astype(np.float32)
        asked = {"class_weight": "balanced_subsample", "min_samples_leaf": 3, "random_state": 0}
        forest = scurry.from_model(RandomForestClassifier(25, **asked).fit(X[:1500], y[:1500]))
        assert "as those rows did" in describe_training(forest, InMemory(X[:1500]), None)
        assert not describe_training(forest, InMemory(X[1500:]), y[1500:])

    def test_few_new_rows_are_no_sign(self):
        """Every leaf of trees grown to the end has a training row, and few of them have one of 300 others."""
        X, y = make_classification(4000, 10, n_informative=5, flip_y=0.15, weights=[0.75], random_state=1500)
        X = X.astype(np.float32)
        model = ExtraTreesClassifier(15, class_weight="balanced", random_state=0).fit(X[:1500], y[:1500])
        assert not describe_training(scurry.from_model(model), InMemory(X[1500:1800]), None)

    def test_units_of_weights(self):
        rng = np.random.default_rng(0)
        multiples = rng.integers(4, 60, 40).astype(np.float64)
        assert np.isclose(_largest_unit(multiples * 0.6417), 0.6417)
        assert np.isclose(_largest_unit(6.0 * multiples), 6.0)
        assert _largest_unit(rng.random(40)) == 0
        assert _largest_unit(np.arange(1.0, 6.0)) == 0  # too few to tell

    def test_sums_of_weights_are_no_counts(self):
        X, y = two_classes(1000, 67)
        weight = np.random.default_rng(0).random(1000)
        model = RandomForestClassifier(11, max_depth=4, random_state=0).fit(X, y, weight)
        assert not describe_training(scurry.from_model(model), InMemory(X), y)


class TestStoredDraws:
    """`benchmarks/misuse.py`: known pools, 60 draws of each kind of model, or 10 where each was noticed."""

    @pytest.fixture
    def stored(self):
        return json.loads(STORED.read_text(encoding="utf-8"))

    def test_what_is_not_noticed_does_no_harm(self, stored):
        cases = {name: case for name, case in stored["cases"].items() if name.startswith("rows that trained")}
        kinds = [name for name in cases if name.endswith(" 1 %")]
        assert len(kinds) >= 18
        for name in kinds:
            case = cases[name]
            assert case["stated"] == 0 or cases[name.replace(" 1 %", " 0.5 %")]["draws"] >= 60, name
        for name, case in cases.items():
            assert case["stated"] + case["warned"] >= case["draws"] >= (60 if case["stated"] else 10), name
            assert case["broken"] <= binom.ppf(0.99, case["draws"], 0.05), name

    def test_other_rows_are_hardly_ever_taken_for_training_rows(self, stored):
        alarms, tried = (sum(kind[name] for kind in stored["false_alarms"].values()) for name in ("alarms", "tried"))
        assert tried >= 1000
        assert alarms <= tried / 1000


def test_stumps_have_no_two_leaves_of_a_class():
    """Leaves are compared with those of the same class, of which a stump has one each."""
    X = np.repeat(np.arange(4.0, dtype=np.float32), 50)[:, None]
    stumps = RandomForestClassifier(5, max_depth=1, bootstrap=False, random_state=0).fit(X, np.repeat([0, 0, 1, 1], 50))
    forest, sample = scurry.from_model(stumps), InMemory(X)
    counts = sample.sums(partial(_count_in_leaves, forest))
    assert _agrees(forest, sample, counts, forest.cover, by_class=True) is None
    assert describe_training(forest, sample, None) == ""
