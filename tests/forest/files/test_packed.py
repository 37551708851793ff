"""Packed forests: every array comes back bit by bit, predictions need none of them, and nothing hostile is believed.

Values of inner nodes that follow from leaves.

StoredForest: arrays of a packed file are made when they are asked for, and given back by whoever needed them.
"""

import itertools
import json
import pickle
import tracemalloc
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import scurry
from scurry import Forest
from scurry.errors import FormatError
from scurry.forest.files.packed import add_up, average_leaves, leaf_counts, narrowest
from scurry.forest.files.storage import container_bytes, container_of
from scurry.forest.structure import ARRAYS
from support import catboost_models, lightgbm_models, packed_reader, wrapper_models, xgboost_models
from support.mutations import mutated
from support.sklearn_models import BOOSTED, HIST_BOOSTED, TREES, make_data
from support.strategies import forests

GOLDEN = Path(__file__).parents[2] / "golden"


def loaded(forest: Forest) -> Forest:
    return Forest.from_container(container_of(container_bytes("forest", *forest.to_packed_parts())))


def assert_same_bits(found: np.ndarray, expected: np.ndarray, name: str) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), name
    assert found.tobytes() == expected.tobytes(), name


def assert_round_trip(forest: Forest, X=None) -> Forest:
    """Answers without arrays first, then every array, and what is written again."""
    header, arrays = forest.to_packed_parts()
    again = loaded(forest)
    if X is None:
        X = np.random.default_rng(0).normal(size=(64, forest.n_features)) * 2
        X[:, [f for f in forest.categories if forest.is_encoded]] = np.nan  # their values are texts
    if forest.wrapper is None or not forest.wrapper.members:
        np.testing.assert_array_equal(again.scores(X), forest.scores(X))
        np.testing.assert_array_equal(again.predict(X), forest.predict(X))
        assert repr(again) == repr(forest)
        assert again.is_packed
        assert again.to_packed_parts()[1].keys() == arrays.keys()
        assert again.n_bytes == forest.n_bytes
        assert again.is_packed, "something above asked for arrays"
        by_page = packed_reader.read(header, arrays)
        for name in ARRAYS:
            assert_same_bits(by_page[name], getattr(forest, name), name)
    for name in (*ARRAYS, "node_depth", "tree_depth"):
        assert_same_bits(getattr(again, name), getattr(forest, name), name)
        assert not getattr(again, name).flags.writeable
    assert again.digest == forest.digest
    assert not again.is_packed
    np.testing.assert_array_equal(again.apply(X), forest.apply(X))
    np.testing.assert_array_equal(again.predict(X), forest.predict(X))
    return again


@settings(max_examples=60, deadline=None)
@given(forest=forests())
def test_any_forest(forest):
    assert_round_trip(forest)


@pytest.mark.parametrize("at", range(len(TREES + BOOSTED + HIST_BOOSTED)))
def test_sklearn(at):
    model, task = (TREES + BOOSTED + HIST_BOOSTED)[at]
    X, y = make_data(task, 150)
    assert_round_trip(scurry.from_model(model.fit(X, y)), X)


def test_counts_are_used_where_they_tell():
    """They do for bootstrapped trees, and not where rows have weights; values and covers come back in either case."""
    X, y = make_data("multi")
    kinds = {}
    for name, options in {
        "plain": {},
        "weights": {"class_weight": "balanced_subsample"},
        "whole": {"bootstrap": False},
    }.items():
        forest = scurry.from_model(RandomForestClassifier(5, random_state=0, **options).fit(X, y))
        kinds[name] = forest.to_packed_parts()[0]["packed"]["values"]["leaves"]
        assert_round_trip(forest, X)
    assert kinds == {"plain": "counts", "weights": "numbers", "whole": "counts"}
    light = forest.replace(cover=forest.cover * 0.1)
    assert light.to_packed_parts()[0]["packed"]["values"]["leaves"] == "numbers"
    assert_round_trip(light, X)


@pytest.mark.parametrize("objective", ["binary", "multiclass", "regression", "lambdarank"])
def test_lightgbm(objective):
    y = (
        np.digitize(lightgbm_models.SIGNAL, [-0.5, 0.5]) if objective == "multiclass" else lightgbm_models.SIGNAL > 0
    ).astype(int)
    more = {"num_class": 3} if objective == "multiclass" else {}
    booster = lightgbm_models.train(objective, y, categorical=[3], **more)
    assert_round_trip(scurry.from_model(booster), lightgbm_models.X)


@pytest.mark.parametrize("objective", xgboost_models.OBJECTIVES)
def test_xgboost(objective):
    booster = xgboost_models.train(objective, rounds=4, categorical=objective in ("binary:logistic", "multi:softprob"))
    assert_round_trip(scurry.from_model(booster), xgboost_models.X)


def test_catboost():
    cb = pytest.importorskip("catboost")
    for rows, y in ((catboost_models.X, catboost_models.SIGNAL > 0), (catboost_models.TABLE, catboost_models.TARGET)):
        known = {"categories": catboost_models.CATEGORIES} if rows is catboost_models.TABLE else {}
        forest = scurry.from_model(catboost_models.fitted(cb.CatBoostClassifier, y, rows), **known)
        assert_round_trip(forest)
        assert loaded(forest).engine.loop == forest.engine.loop == "symmetric"


@pytest.mark.parametrize(
    "path",
    [
        *GOLDEN.glob("onnx/*.onnx"),
        *GOLDEN.glob("treelite/*.tl"),
        *GOLDEN.glob("xgboost-*.json"),
        *GOLDEN.glob("ydf/*-*"),
    ],
    ids=lambda path: path.stem,
)
def test_files_of_others(path, tmp_path):
    if path.suffix == ".json":
        document = json.loads(path.read_text())
        document = document.get("model", document)
        if "learner" not in document:
            pytest.skip("holds answers, not a model")
        forest = xgboost_models.from_document(document, tmp_path)
    else:
        forest = scurry.from_model(path)
    assert_round_trip(forest)


_OF_TWO = wrapper_models.BAGGED | wrapper_models.VOTING | wrapper_models.ADABOOST
_OTHERS = [*wrapper_models.CALIBRATED.items()][::3] + [*wrapper_models.THRESHOLDS.items()][:3]
WRAPPED = [
    *itertools.product(["binary"], [*_OF_TWO.items(), *_OTHERS]),
    *itertools.product(["multi"], wrapper_models.ONE_VS_REST.items()),
    *itertools.product(["regression"], wrapper_models.REGRESSORS.items()),
]


@pytest.mark.parametrize("at", range(len(WRAPPED)))
def test_wrappers(at):
    task, (_, model) = WRAPPED[at]
    fitted, X = wrapper_models.fit(model, task)
    forest = scurry.from_model(fitted)
    again = assert_round_trip(forest, X)
    if forest.wrapper is not None and forest.is_classifier and forest.wrapper.has_probabilities:
        np.testing.assert_array_equal(again.predict_proba(X), forest.predict_proba(X))


def tree(left, right, **more) -> dict:
    """A tree of splits with different thresholds, and leaves with different values."""
    n = len(left)
    inner = np.array(left) >= 0
    return {
        "feature": np.where(inner, np.arange(n) % 3, -1),
        "threshold": np.where(inner, np.arange(n) / 7, 0.0),
        "left": left,
        "right": right,
        "value": np.arange(n, dtype=float)[:, None] - 3.5,
    } | more


def chain(depth: int, to_left: bool) -> dict:
    near, far = np.full(2 * depth + 1, -1), np.full(2 * depth + 1, -1)
    near[0 : 2 * depth : 2] = np.arange(2, 2 * depth + 1, 2)
    far[0 : 2 * depth : 2] = np.arange(1, 2 * depth + 1, 2)
    return tree(near, far) if to_left else tree(far, near)


def full(depth: int) -> dict:
    n, inner = 2 ** (depth + 1) - 1, np.arange(2**depth - 1)
    left, right = np.full(n, -1), np.full(n, -1)
    left[inner], right[inner] = 2 * inner + 1, 2 * inner + 2
    return tree(left, right)


@pytest.mark.parametrize(
    ("trees", "order"),
    {
        "a leaf": ([tree([-1], [-1])], "preorder"),
        "leaves": ([tree([-1], [-1])] * 9, "preorder"),
        "a chain to the left": ([chain(60, True)], "listed"),
        "a chain to the right": ([chain(60, False)], "preorder"),
        "a full tree": ([full(10)], "level"),
        "all orders": ([chain(5, True), chain(5, False), full(3)], "listed"),
        "right before left": ([tree([2, -1, 3, -1, -1], [1, -1, 4, -1, -1])], "listed"),
    }.values(),
)
def test_shapes_and_orders(trees, order):
    forest = Forest.from_trees(trees, n_features=3, classes=None, aggregation="sum")
    assert forest.to_packed_parts()[0]["packed"]["node_order"] == order
    assert_round_trip(forest)


SPECIAL = [0.0, -0.0, 5e-324, -5e-324, 1e-40, np.inf, -np.inf, 1.7976931348623157e308, 0.1, float(np.float32(0.1)),
           np.nextafter(float(np.float32(0.1)), 1), 1.0, np.nextafter(1.0, 2), -1.0]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_thresholds_of_all_kinds(dtype):
    left, right = chain(len(SPECIAL), False)["left"], chain(len(SPECIAL), False)["right"]
    one = tree(left, right)
    one["threshold"][one["feature"] >= 0] = SPECIAL
    one["feature"] = np.where(one["feature"] >= 0, 0, -1)
    forest = Forest.from_trees([one], classes=None, aggregation="sum", input_dtype=dtype)
    with np.errstate(over="ignore"):
        X = np.array([[x] for s in SPECIAL for x in (s, np.nextafter(s, -np.inf), np.nextafter(s, np.inf))])
        assert_round_trip(forest, X)


@pytest.mark.parametrize("n_splits", [1, 2, 3, 31, 32, 33, 255, 256, 257])
def test_tables_of_any_size(n_splits):
    rng = np.random.default_rng(n_splits)
    stumps = [
        tree([1, -1, -1], [2, -1, -1], threshold=[t, 0, 0], value=[[0.0], [t % 5], [1 - t % 7]])
        for t in rng.permutation(n_splits).tolist() * 2
    ]
    forest = Forest.from_trees(stumps, n_features=3, classes=None, aggregation="sum")
    assert len(forest.to_packed_parts()[1]["split_id"]) == (2 * n_splits * max(1, (n_splits - 1).bit_length()) + 7) // 8
    assert_round_trip(forest)


def test_nodes_that_leaves_do_not_read_come_back_too():
    odd = tree([1, -1, -1], [2, -1, -1], threshold=[0.5, np.nan, 7.0], feature=[1, 8, 9])
    forest = Forest.from_trees([odd], n_features=3, classes=None, aggregation="sum")
    forest = forest.replace(default_left=[True, False, True], missing=[0, 1, 2], category_set=[-1, 3, 5])
    assert_round_trip(forest)


@pytest.mark.parametrize(
    "cover", [None, [5, 2, 3], [5.5, 2, 3], [np.nan, 2, 3], [1e300, 0.1, 0.2], [0, 0, 0], [np.inf, 1, np.inf]]
)
@pytest.mark.parametrize("inner", [0.0, -0.0, 0.75, 1 / 3])
def test_covers_and_inner_values(cover, inner):
    stump = tree([1, -1, -1], [2, -1, -1], value=[[inner], [0.0], [1.0]])
    forest = Forest.from_trees([stump], n_features=3, classes=None, aggregation="sum").replace(cover=cover)
    assert_round_trip(forest)


def test_it_is_small_and_its_file_says_so(tmp_path):
    """Golden sizes: nothing but a change of the format may move them."""
    X, y = make_data("binary", 1000)
    forest = scurry.from_model(RandomForestClassifier(100, random_state=0).fit(X.round(2), y))
    forest.save(tmp_path / "f.scurry")
    n_bytes = (tmp_path / "f.scurry").stat().st_size
    assert n_bytes / forest.n_nodes < 3.3
    plain = len(container_bytes("forest", *forest.to_parts()))
    assert plain > 14 * n_bytes
    boosted = scurry.from_model(lgb.LGBMClassifier(n_estimators=200, n_jobs=1, verbose=-1).fit(X, y))
    assert len(container_bytes("forest", *boosted.to_packed_parts())) / boosted.n_nodes < 14.5


def test_inner_values_may_be_left_out(tmp_path):
    """The answers of complete predictions stay; what anytime reads becomes means of leaves."""
    X, y = make_data("binary", 300)
    boosted = scurry.from_model(lgb.LGBMClassifier(n_estimators=60, n_jobs=1, verbose=-1).fit(X, y))
    boosted.save(tmp_path / "all.scurry")
    boosted.save(tmp_path / "without.scurry", inner_values=False)
    again = scurry.load(tmp_path / "without.scurry")
    assert (tmp_path / "without.scurry").stat().st_size < 0.75 * (tmp_path / "all.scurry").stat().st_size
    np.testing.assert_array_equal(again.predict_proba(X), boosted.predict_proba(X))
    np.testing.assert_array_equal(again.value[again.is_leaf], boosted.value[boosted.is_leaf])
    assert again.digest != boosted.digest
    forest = scurry.from_model(RandomForestClassifier(5, random_state=0).fit(X, y))
    forest.save(tmp_path / "counts.scurry", inner_values=False)
    assert scurry.load(tmp_path / "counts.scurry").digest == forest.digest
    with pytest.raises(scurry.errors.InputError, match="inner_values"):
        forest.save(tmp_path / "counts.scurry", inner_values="no")


def test_large_files_are_mapped(tmp_path, monkeypatch):
    """What is read is the same; a file that takes its place, or is deleted, does not disturb who has the old one."""
    X, y = make_data("binary", 300)
    forest = scurry.from_model(RandomForestClassifier(20, random_state=0).fit(X, y))
    path = tmp_path / "f.scurry"
    forest.save(path)
    monkeypatch.setattr("scurry.forest.files.storage._MAPPED_FROM", 0)
    again = scurry.load(path)
    stump = tree([1, -1, -1], [2, -1, -1])
    Forest.from_trees([stump], n_features=3, classes=None, aggregation="sum").save(path)
    assert scurry.load(path).n_nodes == 3
    path.unlink()
    np.testing.assert_array_equal(again.predict_proba(X), forest.predict_proba(X))
    assert again.digest == forest.digest


def test_processes_exchange_packed_forests():
    X, y = make_data("binary", 300)
    forest = scurry.from_model(RandomForestClassifier(100, random_state=0).fit(X, y))
    data = pickle.dumps(forest)
    assert len(data) < forest.n_bytes / 8
    assert pickle.loads(data).digest == forest.digest


def test_a_forest_with_very_many_values_is_not_packed(monkeypatch):
    """Its values are far more than its bytes when packed; a reader would take it for a hostile file."""
    forest = Forest.from_trees([chain(9, False)], classes=None, aggregation="sum")
    parts = forest.to_packed_parts()
    monkeypatch.setattr("scurry.forest.files.packed.MAX_GROWTH", 1e-6)
    assert "layout" not in forest.to_packed_parts()[0]
    assert loaded(forest).digest == forest.digest
    with pytest.raises(FormatError, match="too many for the bytes of the file"):
        Forest.from_container(container_of(container_bytes("forest", *parts)))


class TestHostile:
    """What a file claims is checked before memory is taken for it."""

    @pytest.fixture
    def parts(self):
        X, y = make_data("multi", 100)
        model = RandomForestClassifier(6, max_depth=5, random_state=0).fit(X, y)
        return scurry.from_model(model).to_packed_parts()

    @staticmethod
    def refused(header, arrays) -> str:
        with pytest.raises(FormatError) as caught:
            Forest.from_container(container_of(container_bytes("forest", header, arrays)))
        return str(caught.value)

    @pytest.mark.parametrize(
        ("name", "change", "message"),
        [
            ("tree_nodes", lambda a: a + np.uint32(1), "even"),
            ("tree_nodes", lambda a: np.full(2**10, 2**32 - 1, np.uint32), "2147483646"),
            ("tree_nodes", lambda a: np.full(1, 2**31 - 3, np.uint32), "bytes"),
            ("tree_nodes", lambda a: a[:0], "at least one tree"),
            ("tree_nodes", lambda a: a[::-1].copy(), "splits"),
            ("topology", lambda a: np.full_like(a, 255), "bits after"),
            ("topology", lambda a: np.zeros_like(a), "splits"),
            ("topology", lambda a: a[:-1], "topology has"),
            ("split_id", lambda a: np.append(a[:-1], np.uint8(0))[1:], "split_id has"),
            ("split_id", lambda a: a | np.uint8(0x7F), "table|after"),
            ("leaf_id", lambda a: np.append(a, a), "leaf_id has"),
            ("feature_splits", lambda a: a * np.uint32(2**20), "tables have more"),
            ("feature_splits", lambda a: a[:-1], "split"),
            ("feature_used", lambda a: a[::-1].copy(), "must rise"),
            ("feature_used", lambda a: a + np.uint32(2**31), "features must be"),
            ("first_threshold", lambda a: a * np.nan, "NaN|rise"),
            ("threshold_width", lambda a: a + np.uint8(200), "64 bits|another size"),
            ("threshold_shift", lambda a: a + np.uint8(64), "64 bits"),
            ("threshold_delta", lambda a: a[1:], "another size"),
            ("leaf_table", lambda a: np.zeros_like(a), "no training rows"),
            ("leaf_table", lambda a: a.astype(np.float32), "whole numbers"),
            ("leaf_table", lambda a: a[:, :0], "no training rows|too many"),
            ("leaf_table", lambda a: np.ones((len(a), 200_000), np.uint8), "outputs|too many"),
            ("leaf_table", lambda a: a[:3], "table|bytes"),
            ("base_score", lambda a: a[:1], "outputs|columns"),
        ],
        ids=lambda x: x if isinstance(x, str) else "",
    )
    def test_arrays(self, parts, name, change, message):
        header, arrays = parts
        found = self.refused(header, arrays | {name: change(arrays[name])})
        assert any(word in found for word in message.split("|")), found

    @pytest.mark.parametrize("key", ["node_order", "cover", "values", "at_splits", "at_leaves"])
    @pytest.mark.parametrize("value", [None, 1, "x", [], {}, {"leaves": "counts", "inner": "means"}, {"feature": "x"}])
    def test_header(self, parts, key, value):
        header, arrays = parts
        self.refused(header | {"packed": header["packed"] | {key: value}}, arrays)

    @pytest.mark.parametrize("layout", ["plain", "other", 3, None])
    def test_layout(self, parts, layout):
        header, arrays = parts
        self.refused(header | {"layout": layout}, arrays)

    @pytest.mark.parametrize("n_splits", [0, 1, 40, 3000])
    def test_memory_of_loading(self, n_splits, tmp_path):
        """Until arrays are asked for, at most 12 times the bytes of the file (what Python and numpy allocate)."""
        stumps = [tree([1, -1, -1], [2, -1, -1], threshold=[t % max(n_splits, 1), 0, 0]) for t in range(6000)]
        trees = stumps if n_splits else [tree([-1], [-1])] * 6000
        Forest.from_trees(trees, n_features=3, classes=None, aggregation="sum").save(tmp_path / "f.scurry")
        tracemalloc.start()
        try:
            assert scurry.load(tmp_path / "f.scurry").is_packed
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= 12 * (tmp_path / "f.scurry").stat().st_size

    def test_every_array_is_needed(self, parts):
        header, arrays = parts
        for name in arrays:
            self.refused(header, {other: array for other, array in arrays.items() if other != name})

    def test_numbers_of_nodes(self):
        forest = Forest.from_trees([chain(5, True)], n_features=3, classes=None, aggregation="sum")
        header, arrays = forest.to_packed_parts()
        for seed in range(60):
            changed = np.frombuffer(mutated(arrays["node_number"].tobytes(), seed)[:6].ljust(6, b"\0"), np.uint8)
            if not np.array_equal(changed, arrays["node_number"]):
                self.refused(header, arrays | {"node_number": changed})


X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
Y = (X[:, 0] > X[:, 1]).astype(int)


@pytest.fixture(scope="module")
def forest():
    return scurry.from_model(RandomForestClassifier(20, random_state=0).fit(X, Y))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([0, 255], "u1"), ([256], "<u2"), ([65536], "<u4"), ([2**32], "<f4"), ([-1], "<f4"), ([-0.0], "<f4"),
     ([0.5], "<f4"), ([0.1], "<f8"), ([2**53 - 1], "<f8"), ([np.nan, 1], "<f4"), ([np.inf], "<f4"), ([1e39], "<f8")],
)  # fmt: skip
def test_narrowest(values, dtype):
    found = narrowest(np.array(values, float))
    assert found.dtype == np.dtype(dtype)
    assert found.astype(float).tobytes() == np.array(values, float).tobytes()


def test_means_of_leaves(forest):
    values = average_leaves(forest, np.ones_like(forest.value), forest.cover)
    np.testing.assert_array_equal(values, 1.0)
    unknown = average_leaves(forest, forest.value, np.full(forest.n_nodes, np.nan))
    tree = slice(forest.tree_offset[0], forest.tree_offset[1])
    np.testing.assert_allclose(unknown[0], forest.value[tree][forest.is_leaf[tree]].mean(axis=0))


def test_counts(forest):
    counts = leaf_counts(forest)
    np.testing.assert_array_equal(counts.sum(axis=1), forest.cover)
    roots = forest.tree_offset[:-1]
    assert (counts[roots].sum(axis=1) == len(X)).all()


def test_no_counts(forest):
    boosted = scurry.from_model(GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, Y))
    assert leaf_counts(boosted) is None
    assert leaf_counts(forest.replace(cover=None)) is None
    assert leaf_counts(forest.replace(cover=forest.cover * 0.1)) is None
    moved = forest.value.copy()
    moved[0] = moved[0, ::-1] if moved[0, 0] != moved[0, 1] else [1, 0]  # no longer the sum of its leaves
    assert leaf_counts(forest.replace(value=moved)) is None


def test_sums_of_leaves(forest):
    ones = forest.is_leaf.astype(float)
    add_up(forest, ones)
    for tree in range(forest.n_trees):
        start, end = forest.tree_offset[tree], forest.tree_offset[tree + 1]
        assert ones[start] == forest.is_leaf[start:end].sum()


X_STORED, Y_STORED = make_data("binary", 400)
THREE = np.digitize(X_STORED[:, 0], [-0.5, 0.5])


def test_arrays_are_released_and_made_again(tmp_path):
    forest = scurry.from_model(RandomForestClassifier(5, random_state=0).fit(X_STORED, Y_STORED))
    forest.release()  # nothing else has its arrays
    assert forest.left is forest.left
    forest.save(tmp_path / "f.scurry")
    again = scurry.load(tmp_path / "f.scurry")
    left, parent = again.left, again.parent
    assert not again.is_packed
    again.release()
    assert again.is_packed
    assert again.left is not left
    np.testing.assert_array_equal(again.left, left)
    np.testing.assert_array_equal(again.parent, parent)


def test_runners_give_arrays_back(tmp_path):
    """Each predicts as before it was saved; none keeps arrays of nodes, which take several times its own memory."""
    two = RandomForestClassifier(10, max_depth=6, random_state=0).fit(X_STORED, Y_STORED)
    three = RandomForestClassifier(10, max_depth=6, random_state=0).fit(X_STORED, THREE)
    settings = {"max_disagreement": 0.05, "confidence": None, "random_state": 0}
    for predictor in (
        scurry.early_exit(two, X_STORED, method="qwyc", **settings),
        scurry.early_exit(two, X_STORED, method="minimixed", **settings),
        scurry.early_exit(three, X_STORED, method="qwyc", **settings),
        scurry.anytime(two, X_STORED, Y_STORED),
    ):
        predictor.save(tmp_path / "p.scurry", engine=True)
        again = scurry.load(tmp_path / "p.scurry")
        np.testing.assert_array_equal(again.predict(X_STORED), predictor.predict(X_STORED))
        assert again.forest.is_packed
        np.testing.assert_array_equal(again.predict_proba(X_STORED), predictor.predict_proba(X_STORED))
        np.testing.assert_array_equal(again.run(X_STORED).steps, predictor.run(X_STORED).steps)


def test_pages_that_predictions_do_not_read_are_let_go(tmp_path, monkeypatch):
    """What is read again is the same, before and after."""
    monkeypatch.setattr("scurry.forest.files.storage._MAPPED_FROM", 0)
    forest = scurry.from_model(RandomForestClassifier(40, random_state=0).fit(X_STORED, Y_STORED))
    for engine in (False, True):
        forest.save(tmp_path / "f.scurry", engine=engine)
        again = scurry.load(tmp_path / "f.scurry")
        np.testing.assert_array_equal(again.predict_proba(X_STORED), forest.predict_proba(X_STORED))
        again.save(tmp_path / "again.scurry", engine=engine)
        assert (tmp_path / "again.scurry").read_bytes() == (tmp_path / "f.scurry").read_bytes()
        assert again.digest == forest.digest
