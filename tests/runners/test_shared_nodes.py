"""Runners of one forest share its nodes, and answer as with nodes of their own."""

import gc
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import lightgbm
import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import scurry
from scurry import _core
from scurry.plan import ExitRule
from scurry.runners import exits as exit_run
from scurry.runners import sentinels
from scurry.runners.exits import nodes_of
from scurry.runners.sentinels import value_numbers


@pytest.fixture(autouse=True)
def share_small_forests_too(monkeypatch):
    monkeypatch.setattr(exit_run, "_SMALL_BYTES", 0)


@pytest.fixture(scope="module")
def rows():
    return make_classification(3000, n_features=6, n_informative=4, n_classes=3, random_state=0)


@pytest.fixture(scope="module")
def deep_forests(rows):
    X, y = rows
    fitted = {
        "two classes": RandomForestClassifier(12, random_state=0).fit(X[:900], y[:900] > 0),
        "three classes": RandomForestClassifier(12, random_state=0).fit(X[:900], y[:900]),
        "small trees": lightgbm.LGBMClassifier(n_estimators=20, num_leaves=15, verbose=-1).fit(X[:900], y[:900] > 0),
        "a score per class": lightgbm.LGBMClassifier(n_estimators=9, verbose=-1).fit(X[:900], y[:900]),
    }
    return {name: scurry.from_model(model) for name, model in fitted.items()}


@pytest.mark.parametrize("name", ["two classes", "three classes", "small trees", "a score per class"])
@pytest.mark.parametrize("method", ["minimixed", "qwyc"])
def test_predictors_share_the_nodes_of_their_forest(deep_forests, rows, name, method, tmp_path):
    forest, X = deep_forests[name], rows[0]
    if method == "minimixed" and not forest.has_votes:
        pytest.skip("it counts votes")
    asked = {"method": method, "random_state": 0, "confidence": None}
    several = [scurry.early_exit(forest, X, max_disagreement=rate, **asked) for rate in (0.02, 0.1)]
    for predictor in several:
        native = predictor._runner._native
        assert native.shared_bytes == forest.engine.node_bytes, "all nodes are the engine's"
        assert native.bytes - native.shared_bytes < native.shared_bytes / 2
        assert_same_outcomes_with_nodes_of_their_own(predictor, X)
    # From a file with the engine, nothing is lowered and nothing expanded.
    several[0].save(tmp_path / "p.scurry", engine=True)
    again = scurry.load(tmp_path / "p.scurry")
    assert type(again.forest.engine) is _core.MappedEngine
    np.testing.assert_array_equal(again.predict(X), several[0].predict(X))
    assert again.forest.is_packed
    np.testing.assert_array_equal(again.run(X).trees, several[0].run(X).trees)
    np.testing.assert_array_equal(again.predict_proba(X), several[0].predict_proba(X))
    # The engine's memory stays while a runner is there that reads it.
    kept, labels = again._runner._native, np.empty(len(X), np.int64)
    exact, rule = again.forest.engine, again._runner
    del again
    gc.collect()
    arguments = rule._decision if isinstance(rule, exit_run.ExitRunner) else (rule.forest.engine_labels, -1)
    kept.labels(np.ascontiguousarray(X), labels, exact, *arguments, 1)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(several[1])).predict(X), several[1].predict(X))


def test_small_forests_are_copied_unless_a_file_holds_them(deep_forests, rows, monkeypatch, tmp_path):
    monkeypatch.undo()
    forest, X = deep_forests["two classes"], rows[0]
    predictor = scurry.early_exit(forest, X, max_disagreement=0.02, method="qwyc", random_state=0, confidence=None)
    own = predictor._runner._native
    assert own.shared_bytes == 0
    assert own.bytes <= forest.engine.node_bytes <= exit_run._SMALL_BYTES <= 2**20, (
        "as the page about smaller files says"
    )
    predictor.save(tmp_path / "p.scurry", engine=True)
    again = scurry.load(tmp_path / "p.scurry")
    np.testing.assert_array_equal(again.predict(X), predictor.predict(X))
    assert again._runner._native.shared_bytes == again.forest.engine.node_bytes


def assert_same_outcomes_with_nodes_of_their_own(predictor, X):
    forest, runner = predictor.forest, predictor._runner
    rule, shared = runner.rule, predictor.run(X)
    if isinstance(rule, ExitRule):
        own = exit_run.ExitRunner(forest, runner.order, rule, runner._score_map)
        own._native = own._lower(_core.Nodes(forest.arrays, rule.increments(forest)), rule.lower, rule.upper)
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(exit_run, "shared_vectors", lambda *_: None)
            own = exit_run.LeaderRunner(forest, runner.order, rule, runner._score_map)
    assert own._native.shared_bytes == 0
    for rows in (X, X[:1]):
        found = own.run(np.ascontiguousarray(rows), 1, None)
        np.testing.assert_array_equal(found.labels, shared.labels[: len(rows)])
        np.testing.assert_array_equal(found.trees, shared.trees[: len(rows)])
        np.testing.assert_array_equal(own.labels(rows, 1, None), shared.labels[: len(rows)])


def test_trees_that_are_much_smaller_by_votes_are_copied_once(rows):
    """Leaves of a rare class differ in shares and hardly in votes."""
    X, y = rows
    rare = (y == 0) & (np.arange(len(y)) % 4 == 0)
    model = RandomForestClassifier(15, max_depth=9, min_samples_leaf=3, random_state=0)
    forest = scurry.from_model(model.fit(X[:900], rare[:900]))
    asked = {"method": "minimixed", "random_state": 0, "confidence": None}
    several = [scurry.early_exit(forest, X, max_disagreement=rate, **asked) for rate in (0.02, 0.1)]
    with ThreadPoolExecutor(4) as pool:
        labels = list(pool.map(lambda i: several[i % 2].predict(X), range(8)))
    for found, predictor in zip(labels, several * 4, strict=True):
        np.testing.assert_array_equal(found, predictor.predict(X))
    assert [predictor._runner._native.shared_bytes for predictor in several] == [0, 0]
    assert several[0]._runner._native.bytes < 0.8 * forest.engine.node_bytes
    rule = several[0]._runner.rule
    copies = [nodes_of(forest, partial(rule.increments_of, forest), partial(rule.increments, forest)) for _ in range(2)]
    assert copies[0] is copies[1]


@pytest.mark.parametrize("num_leaves", [15, 200])
def test_sentinels_share_the_nodes_of_boosted_trees(rows, num_leaves):
    X, _ = rows
    y = X[:, 0] * 3 + np.sin(5 * X[:, 1]) + X[:, 2] * X[:, 3]
    model = lightgbm.LGBMRegressor(n_estimators=30, num_leaves=num_leaves, min_child_samples=2, verbose=-1, n_jobs=1)
    forest = scurry.from_model(model.fit(X[:900], y[:900]))
    assert forest.engine.loop == ("sliced" if num_leaves < 64 else "walked")
    predictor = scurry.early_exit(forest, X[900:], promise=scurry.promises.Values(1.5), random_state=0)
    assert_sentinels_answer_as_with_nodes_of_their_own(predictor, X)
    assert predictor._runner._native.shared_bytes == forest.engine.node_bytes


def test_sentinels_of_leaves_with_one_value_and_several_corrections_have_their_own(rows):
    X, _ = rows
    forest = scurry.from_model(RandomForestRegressor(20, random_state=0).fit(X[:900], np.rint(X[:900, 0] * 3)))
    predictor = scurry.early_exit(forest, X[900:], promise=scurry.promises.Values(3.0), random_state=0)
    assert predictor._runner._native.shared_bytes == 0
    assert_sentinels_answer_as_with_nodes_of_their_own(predictor, X)


def assert_sentinels_answer_as_with_nodes_of_their_own(predictor, X):
    runner = predictor._runner
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sentinels, "value_numbers", lambda _: None)
        own = sentinels.SentinelRunner(predictor.forest, runner.order, runner.rule)
    assert own._native.shared_bytes == 0
    expected, found = own.run(X, 1, None), predictor.run(X)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.trees, expected.trees)
    for row in range(5):
        assert predictor.predict(X[row : row + 1]) == expected.labels[row]


def test_numbers_of_values(deep_forests):
    for forest in deep_forests.values():
        values, numbers = forest.engine_values, value_numbers(forest)
        np.testing.assert_array_equal(values[numbers[forest.is_leaf]], forest.leaf_values()[forest.is_leaf])
