import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier

import scurry
from scurry import Forest, Plan, Predictor
from scurry.compression import share_thresholds
from scurry.errors import InputError, UnsupportedModelError
from scurry.export import LAYOUTS, to_c, verify
from scurry.export.comparisons import lower_tests, split_columns
from scurry.export.lowered import Compact, find_total, lower, lower_plan, merge_leaves
from scurry.export.replay import find_leaves, run_trees
from scurry.forest import leaf_scores
from scurry.plan import NEVER_ABOVE, NEVER_BELOW, ExitRule, ExitSide, LeaderRule, StepRule
from support.anytime_oracle import anytime_of, depth_steps
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


@pytest.mark.parametrize("inputs", ["int16", "float32"])
def test_the_advice_about_too_many_thresholds_works(inputs):
    rng = np.random.default_rng(0)
    rows = rng.integers(-32768, 32767, (5000, 100 if inputs == "float32" else 3)).astype(float)
    trees = ExtraTreesRegressor(60 if inputs == "float32" else 4, random_state=0)
    deep = scurry.from_model(trees.fit(rows[:2500], rng.normal(size=2500)))

    def split(forest):
        return split_columns(lower_tests(forest, np.flatnonzero(~forest.is_leaf), quantised=True, inputs=inputs))

    with pytest.raises(InputError, match=r"share_thresholds\(forest, \d+\)") as refused:
        split(deep)
    n_splits = int(re.search(r"forest, (\d+)\)", str(refused.value)).group(1))
    assert len(split(share_thresholds(deep, n_splits)).columns.feature) <= 256


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


def full_plan(forest: Forest) -> Plan:
    return Predictor.full(forest).plan


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_codes_stand_for_the_scores_of_leaves(anyt, bits):
    forest = anyt.forest
    values = lower_plan(forest, full_plan(forest), bits)
    assert values.kind == "margin"
    assert values.codes.max() < 2 ** min(bits, 31)
    stored = values.offset + values.unit * values.codes[:, 0]
    error = np.abs(stored - leaf_scores(forest))[forest.is_leaf]
    assert error.max() <= values.unit / 2 * (1 + 1e-9)
    assert (values.codes[~forest.is_leaf] == 0).all()


def test_inner_nodes_count_in_anytime_plans_alone(anyt):
    values = lower_plan(anyt.forest, anyt.plan, 16)
    assert values.is_anytime
    assert (values.codes[~anyt.forest.is_leaf] > 0).any()
    assert not lower_plan(anyt.forest, full_plan(anyt.forest), 16).is_anytime


def test_a_tie_of_two_probabilities_is_the_first_class():
    leaf = {"feature": [0], "threshold": [0.0], "left": [-1], "right": [-1]}
    forest = Forest.from_trees([leaf | {"value": [[0.75, 0.25]]}, leaf | {"value": [[0.25, 0.75]]}], n_features=1)
    values = lower_plan(forest, full_plan(forest), 16)
    total = values.codes.sum(axis=0)[None, :]
    assert values.labels(total).tolist() == [0]
    assert values.labels(total + 1).tolist() == [1]


def test_more_than_two_classes_have_a_sum_each():
    forest = complete_forest(4, 3, 5, 3)
    values = lower_plan(forest, full_plan(forest), 16)
    assert (values.kind, values.n_sums, values.codes.shape) == ("vector", 3, (forest.n_nodes, 3))
    assert values.labels(np.array([[1, 5, 5], [2, 1, 0]])).tolist() == [1, 0]


@pytest.mark.parametrize("bits", [8, 16])
def test_a_lead_never_becomes_smaller(bits):
    forest = complete_forest(4, 3, 5, 3)
    leads = np.arange(forest.n_rounds + 1, dtype=np.int32) * 37 + 1
    rule = LeaderRule(kind="scores", step=2.0**-12, lead=leads)
    plan = Plan(order=np.arange(forest.n_trees, dtype=np.int32), stop=rule)
    values = lower_plan(forest, plan, bits)
    exported = values.stop.lead * values.unit
    assert (exported >= leads).all()
    assert (exported < leads + values.unit).all()


def test_what_is_refused(cancer):
    single = complete_forest(2, 2, 3, 1).replace(classes=["only"])
    with pytest.raises(UnsupportedModelError, match="a single class"):
        lower_plan(single, full_plan(single), 16)
    model, X, _ = cancer
    fast = scurry.early_exit(model, X, max_disagreement=0.1, method="minimax", shuffle="row", random_state=0)
    with pytest.raises(InputError, match="shuffles the trees"):
        lower_plan(fast.forest, fast.plan, 16)


def test_exits_of_a_rule_are_those_of_its_tables(cancer):
    """Votes are whole numbers in both, so a rule and its tables stop at the same sums."""
    model, X, _ = cancer
    fast = scurry.early_exit(model, X, max_disagreement=0.1, method="minimax", confidence=None, random_state=0)
    rule, tables = fast.plan.stop, lower_plan(fast.forest, fast.plan, 8).stop
    assert isinstance(rule, ExitRule)
    for n_trees in range(fast.forest.n_trees + 1):
        sums = np.arange(n_trees + 1)
        sides = tables.rule.side_of(0, n_trees, sums)
        np.testing.assert_array_equal(sides == ExitSide.POSITIVE, sums >= rule.upper[0, n_trees])
        np.testing.assert_array_equal(sides == ExitSide.NEGATIVE, sums <= rule.lower[0, n_trees])


def test_weighted_readouts_need_a_threshold_of_zero():
    leaf = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1]}
    forest = Forest.from_trees([leaf | {"value": [[0.5], [0.1], [0.8]]}], classes=[0, 1])
    forest = forest.replace(decision_threshold=0.5)
    plan = Plan(order=depth_steps(forest), stop=StepRule(readout="weighted"))
    with pytest.raises(UnsupportedModelError, match="threshold of 0"):
        lower_plan(forest, plan, 16)


@pytest.mark.parametrize("bits", [8, 16])
def test_coarse_thresholds_stop_no_row_that_the_rule_would_not(cancer, bits):
    model, X, _ = cancer
    fast = scurry.early_exit(model, X, max_disagreement=0.1, method="qwyc", confidence=None, random_state=0)
    rng, rule, inner = np.random.default_rng(0), fast.plan.stop, slice(1, fast.forest.n_trees)
    lower, upper = rule.lower.copy(), rule.upper.copy()
    lower[:, inner] = -rng.integers(1, 2**24, lower[:, inner].shape)
    upper[:, inner] = rng.integers(1, 2**24, lower[:, inner].shape)
    rule = replace(rule, lower=lower, upper=upper)
    values = lower_plan(fast.forest, replace(fast.plan, stop=rule, score_map=None), bits)
    assert values.unit > 1
    n_trees = np.arange(fast.forest.n_trees + 1)
    for name, outside in (("lower", np.less_equal), ("upper", np.greater_equal)):
        asked, stored = getattr(rule, name), getattr(values.stop.rule, name)
        is_set = ~np.isin(asked, (NEVER_BELOW, NEVER_ABOVE))
        meant = values.offset * n_trees + values.unit * stored
        assert outside(meant, asked)[is_set].all()
        assert (np.abs(meant - asked)[is_set] > 0.1 * values.unit).any()


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("aggregation", ["mean", "sum"])
def test_the_sum_of_a_regressor_is_its_value_in_fixed_point(bits, aggregation):
    forest = complete_forest(7, 3, 4, 1).replace(aggregation=aggregation, base_score=[-2.75])
    forest = forest.replace(value=1000 * forest.value - 300)
    values = lower_plan(forest, full_plan(forest), bits)
    assert values.kind == "value"
    assert values.unit == 2.0**-values.fraction_bits
    rows = np.random.default_rng(0).normal(size=(50, 4))
    sums = values.start + values.codes[forest.apply(rows)].sum(axis=1)
    error = np.abs(values.decode(forest, values.labels(sums)) - forest.predict(rows)).max()
    assert error <= values.unit / 2 * (forest.n_trees + 1)
    assert values.codes.min() >= (0 if bits < 32 else -(2**31))


def test_a_link_is_left_to_whoever_reads_the_score():
    forest = complete_forest(7, 3, 4, 1).replace(aggregation="sum", link="exp")
    values = lower_plan(forest, full_plan(forest), 32)
    rows = np.random.default_rng(0).normal(size=(50, 4))
    sums = values.start + values.codes[forest.apply(rows)].sum(axis=1)
    np.testing.assert_allclose(values.decode(forest, values.labels(sums)), forest.predict(rows), rtol=1e-6)
