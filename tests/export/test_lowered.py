import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry import Forest, Predictor
from scurry.errors import InputError
from scurry.export import LAYOUTS, to_c, verify
from scurry.export.columns import lower_tests, split_columns
from scurry.export.lowered import Compact, find_total, lower, merge_leaves
from scurry.export.replay import find_leaves, run_trees
from support.anytime_oracle import anytime_of
from support.strategies import complete_forest, symmetric_forest

QUANTISED = [name for name in LAYOUTS if name != "float32"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 3)).astype(np.float32)
Y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-0.5, 0.5])


def one_test(threshold: float, *, default_left: bool = True, comparison: str = "<=") -> Predictor:
    """A forest with one node test."""
    stump = {"feature": [0, -1, -1], "threshold": [threshold, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1]}
    stump |= {"value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    forest = Forest.from_trees([stump])
    fields = {"default_left": np.array([default_left, False, False]), "comparison": comparison}
    return Predictor.full(forest.replace(**fields))


@pytest.mark.parametrize("layout", ["float32", "int16-uint16"])
@pytest.mark.parametrize("comparison", ["<=", "<"])
@pytest.mark.parametrize("threshold", [0.1, 0.5, -3.0, 1e-40, 16777217.0, 1e300])
def test_floats_next_to_a_threshold_go_where_the_source_sends_them(layout, comparison, threshold):
    pred = one_test(threshold, comparison=comparison)
    lowered = lower(pred, LAYOUTS[layout])
    nearest = np.float32(min(threshold, 1e38))
    rows = np.array([nearest, np.nextafter(nearest, np.float32(-np.inf)), -np.inf, np.inf], np.float32)[:, None]
    exact = rows[:, 0].astype(np.float64)
    is_left = exact < threshold if comparison == "<" else exact <= threshold
    np.testing.assert_array_equal(lowered.columns.encode(rows)[:, 0] <= lowered.threshold[0], is_left)


@pytest.mark.parametrize("layout", ["float32", "int16-uint16"])
@pytest.mark.parametrize("default_left", [True, False])
def test_missing_values_have_a_side(layout, default_left):
    lowered = lower(one_test(0.5, default_left=default_left), LAYOUTS[layout])
    missing = lowered.columns.encode(np.array([[np.nan]]))
    assert (missing[0, 0] <= lowered.threshold[0]) == default_left


def test_inner_nodes_come_first_and_children_after_their_parents(anyt):
    lowered = lower(anyt, LAYOUTS["int16-uint16"])
    assert lowered.n_nodes == anyt.forest.n_nodes
    assert lowered.n_inner == np.count_nonzero(~anyt.forest.is_leaf)
    for side in (lowered.left, lowered.right):
        assert (side > np.arange(lowered.n_inner)).all()
        np.testing.assert_array_equal(lowered.level[side], lowered.level[: lowered.n_inner] + 1)
        np.testing.assert_array_equal(lowered.tree[side], lowered.tree[: lowered.n_inner])
    assert (lowered.level[lowered.root] == 0).all()


def test_runs_are_the_order(anyt):
    lowered = lower(anyt, LAYOUTS["breadcrumb"])
    order = [tree for tree, first, last in lowered.runs for _ in range(first, last)]
    assert order == anyt.plan.order.tolist()
    assert all(a[0] != b[0] for a, b in zip(lowered.runs, lowered.runs[1:], strict=False))
    ends = {tree: last for tree, _, last in lowered.runs}
    assert [ends[tree] for tree in range(lowered.n_trees)] == anyt.forest.tree_depth.tolist()


@pytest.mark.parametrize("layout", QUANTISED)
def test_codes_keep_the_order_of_thresholds_and_rows(anyt, cancer, layout):
    lowered = lower(anyt, LAYOUTS[layout])
    X = cancer[1].astype(np.float32)
    x = lowered.columns.encode(X)
    forest, missing_left = anyt.forest, lowered.columns.missing < 0
    for column, feature in enumerate(lowered.columns.feature):
        uses = (forest.left >= 0) & (forest.feature == feature) & (forest.default_left == missing_left[column])
        thresholds = np.sort(forest.threshold[uses])
        codes = np.sort(lowered.threshold[lowered.column == column])
        over = (X[:, feature, None] > thresholds).sum(axis=1)
        over_codes = (x[:, column, None] > codes).sum(axis=1)
        assert (over == over_codes).mean() > 0.99


def test_too_many_nodes_for_16_bits(tmp_path):
    forest = complete_forest(35, 10, 6, 2)
    assert forest.n_nodes > 70_000
    for layout in QUANTISED:
        with pytest.raises(InputError, match=r"7\d,\d{3} nodes.*at most 65,536"):
            to_c(anytime_of(forest), tmp_path / "never", layout=layout)
    assert not (tmp_path / "never").exists()
    assert to_c(forest, tmp_path, layout="auto").layout == "float32"
    assert verify(tmp_path, np.zeros((1, 6)), n_adversarial=100)


def test_the_last_node_that_16_bits_can_name(tmp_path):
    chain = complete_forest(32, 10, 3, 2)
    stump = complete_forest(1, 4, 3, 2, seed=1)
    tree = {name: getattr(stump, name) for name in ("feature", "threshold", "left", "right", "value")}
    parts = []
    for first, last in zip(chain.tree_offset[:-1], chain.tree_offset[1:], strict=True):
        part = {name: getattr(chain, name)[first:last].copy() for name in tree}
        for side in ("left", "right"):
            part[side][part[side] >= 0] -= first
        parts.append(part)
    leaf = {"feature": [0], "threshold": [0.0], "left": [-1], "right": [-1], "value": [[0.5, 0.5]]}
    forest = Forest.from_trees([*parts, tree, leaf], n_features=3)
    assert forest.n_nodes == 2**16
    to_c(forest, tmp_path, layout="int16-uint16")
    assert verify(tmp_path, np.zeros((1, 3)), n_adversarial=200)
    with pytest.raises(InputError, match="65,537 nodes"):
        to_c(Forest.from_trees([*parts, tree, leaf, leaf], n_features=3), tmp_path, layout="int16-uint16")


class TestLevels:
    """Trees that ask one question per level are stored as questions, without nodes."""

    @pytest.mark.parametrize("n_sets", [0, 3])
    def test_they_answer_as_nodes_do(self, n_sets, tmp_path):
        forest = symmetric_forest(8, 5, 4, 1, n_sets=n_sets, aggregation="sum")
        for layout in ("float32", "int16-uint16"):
            export = to_c(forest, tmp_path, layout=layout)
            assert lower(Predictor.full(forest), LAYOUTS[layout]).levels is not None
            assert verify(tmp_path, np.zeros((1, 4)), n_adversarial=300, sanitize=n_sets > 0)
            assert "struct node" not in (tmp_path / "model.c").read_text()
        n_leaves, n_inner = int(forest.is_leaf.sum()), int((~forest.is_leaf).sum())
        assert export.sizes.table_bytes < 2 * n_leaves + 6 * n_inner

    def test_one_other_test_needs_nodes(self, tmp_path):
        forest = symmetric_forest(3, 4, 4, 1, aggregation="sum")
        full = lower(Predictor.full(forest), LAYOUTS["float32"])
        assert full.levels is not None
        assert len(full.levels.column) == forest.tree_depth.sum()
        at = int(np.flatnonzero(~forest.is_leaf & (forest.node_depth == 2))[1])
        threshold = forest.threshold.copy()
        threshold[at] += 0.5
        stays = np.ones(forest.n_nodes, bool)
        stays[[at, forest.left[at], forest.right[at]]] = False
        for changed in (forest.replace(threshold=threshold), forest.keep_splits(stays)):
            assert lower(Predictor.full(changed), LAYOUTS["float32"]).levels is None
            to_c(changed, tmp_path, layout="float32")
            assert verify(tmp_path, np.zeros((1, 4)), n_adversarial=100)

    def test_anytime_plans_keep_nodes(self):
        forest = symmetric_forest(3, 4, 4, 2)
        assert lower(anytime_of(forest), LAYOUTS["float32"]).levels is None


@pytest.fixture(scope="module")
def forest():
    return scurry.from_model(RandomForestClassifier(8, max_depth=7, random_state=0).fit(X[:1500], Y[:1500]))


@pytest.mark.parametrize("layout", ["shared8", "shared16"])
def test_answers_are_those_of_the_plain_layout(forest, layout):
    pred = scurry.Predictor.full(forest)
    ours = run_trees(lower(pred, LAYOUTS[layout]), X)
    plain = run_trees(lower(pred, LAYOUTS[layout.replace("shared", "int16-uint")]), X)
    np.testing.assert_array_equal(ours.sums, plain.sums)
    np.testing.assert_array_equal(ours.codes, plain.codes)


@pytest.mark.parametrize("anytime", [False, True])
def test_tables_walk_to_the_same_values(forest, anytime):
    pred = scurry.anytime(forest, X[:200], Y[:200], order="depth-ie") if anytime else scurry.Predictor.full(forest)
    lowered = lower(pred, LAYOUTS["shared16"])
    compact = Compact.of(lowered)
    x = lowered.columns.encode(X[:300])
    leaves = find_leaves(lowered, X[:300])
    for tree in range(forest.n_trees):
        for row in range(0, 300, 7):
            at = compact.root[tree]
            while at < lowered.n_inner:
                column = lowered.column[at]
                limit = compact.threshold[compact.first_threshold[column] + compact.threshold_id[at]]
                at = compact.right[at] if x[row, column] > limit else compact.left[at]
            numbers = compact.values[at if anytime else at - lowered.n_inner]
            wanted = lowered.codes[leaves[row, tree]]
            np.testing.assert_array_equal(numbers, wanted[:-1])
            assert compact.total - numbers.sum() == wanted[-1]
    assert compact.threshold_id.max() < 256


def test_leaves_with_equal_values_are_one(forest):
    lowered = lower(scurry.Predictor.full(forest), LAYOUTS["shared8"])
    number, leaves = merge_leaves(lowered)
    assert len(leaves) < (~(forest.left >= 0)).sum()
    np.testing.assert_array_equal(number[: lowered.n_inner], np.arange(lowered.n_inner))
    np.testing.assert_array_equal(
        lowered.codes[leaves][number[lowered.n_inner :] - lowered.n_inner], lowered.codes[lowered.n_inner :]
    )


def test_probabilities_have_one_sum(forest):
    for layout in ("shared8", "int16-uint16"):
        codes = lower(scurry.Predictor.full(forest), LAYOUTS[layout]).codes
        leaf = codes.any(axis=1)
        assert len(np.unique(codes[leaf].sum(axis=1))) == 1
    weighted = scurry.anytime(forest, X[:200], Y[:200], order="depth-ie", readout="weighted")
    assert find_total(lower(weighted, LAYOUTS["shared16"])) is None


def test_many_thresholds_become_several_columns():
    deep = scurry.from_model(RandomForestClassifier(12, random_state=0).fit(X, Y))
    lowered = lower(scurry.Predictor.full(deep), LAYOUTS["shared16"])
    for column in range(len(lowered.columns.feature)):
        assert len(np.unique(lowered.threshold[lowered.column == column])) <= 256
    assert len(lowered.columns.feature) > 6
    plain = lower(scurry.Predictor.full(deep), LAYOUTS["int16-uint16"])
    np.testing.assert_array_equal(lowered.columns.feature[lowered.column], plain.columns.feature[plain.column])
    np.testing.assert_array_equal(lowered.threshold, plain.threshold)
    tests = lower_tests(deep, np.flatnonzero(~deep.is_leaf), quantised=True)
    many = tests._replace(column=np.zeros(2**16 + 1, np.int64), threshold=np.arange(2**16 + 1))
    with pytest.raises(InputError, match="share_thresholds"):
        split_columns(many)


def test_other_plans_and_splits_are_refused(forest):
    lightgbm = pytest.importorskip("lightgbm")
    data = lightgbm.Dataset(np.floor(np.abs(3 * X)), Y > 0, categorical_feature=[0])
    model = lightgbm.train({"verbose": -1, "objective": "binary", "min_data_per_group": 1}, data, 5)
    with pytest.raises(InputError, match="numeric splits"):
        lower(scurry.Predictor.full(scurry.from_model(model)), LAYOUTS["shared16"])


@pytest.mark.parametrize("layout", ["shared8", "shared16"])
def test_compiled(forest, layout, tmp_path):
    export = to_c(forest, tmp_path, layout=layout)
    plain = to_c(forest, tmp_path / "plain", layout=layout.replace("shared", "int16-uint"))
    assert export.sizes.flash_bytes < 0.85 * plain.sizes.flash_bytes
    assert verify(tmp_path, X[:200]).n_mismatches == 0
