"""Columns: the tests of exported nodes are the source's, on categories, zeros that are missing, and integers.

The tests a row makes before each tree: tables in numpy against loops over rows, and against their rule.
"""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from threadpoolctl import threadpool_limits

import scurry
from scurry import Forest
from scurry.errors import InputError, UnsupportedModelError
from scurry.export import LAYOUTS, to_c, verify
from scurry.export.c.model import make_probes
from scurry.export.comparisons import CategorySets, CellTables, ExitTables, LeadTables, SentinelTables, check_integers
from scurry.export.lowered import lower
from scurry.export.replay import find_cells, find_leaves, run_trees
from scurry.plan import CellRule, ExitRule, ExitSide, SentinelRule

RNG = np.random.default_rng(0)
ROWS = np.column_stack([RNG.integers(0, 70, 600), RNG.normal(size=600), RNG.integers(0, 5, 600)])
ROWS = ROWS.astype(np.float32).astype(np.float64)  # what the C reads
ROWS[RNG.random(ROWS.shape) < 0.1] = np.nan
LABELS = ((np.nan_to_num(ROWS[:, 0]) % 3 == 0) ^ (np.nan_to_num(ROWS[:, 1]) > 0)).astype(int)


def with_categories(library: str) -> Forest:
    if library == "scikit-learn":
        model = HistGradientBoostingClassifier(max_iter=4, categorical_features=[0, 2])
        with threadpool_limits(1):
            return scurry.from_model(model.fit(ROWS, LABELS))
    lightgbm = pytest.importorskip("lightgbm")
    options = {"zero_as_missing": library == "zeros", "cat_smooth": 1}
    model = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=8, n_jobs=1, verbose=-1, **options)
    if library == "zeros":
        return scurry.from_model(model.fit(np.nan_to_num(ROWS), LABELS))
    return scurry.from_model(model.fit(ROWS, LABELS, categorical_feature=[0, 2]))


@pytest.mark.parametrize("library", ["lightgbm", "scikit-learn", "zeros"])
def test_categories_and_zeros_go_where_the_source_sends_them(library, tmp_path):
    forest = with_categories(library)
    if library == "zeros":
        assert (forest.missing == 1).any()
    else:
        assert (forest.category_set >= 0).any()
    for layout in ("float32", "int16-uint16"):
        export = to_c(forest, tmp_path, layout=layout, X_cal=ROWS)
        assert export.agreement[0] == 1.0
        proof = verify(tmp_path, ROWS[:100], n_adversarial=400, sanitize=layout == "int16-uint16")
        assert (proof.n_mismatches, proof.n_wrong_leaves, proof.n_changed_labels) == (0, 0, 0)


@pytest.mark.parametrize("rounding", ["floor", "trunc"])
@pytest.mark.parametrize("default_left", [False, True])
def test_every_number_as_a_category(rounding, default_left, tmp_path):
    stump = {"feature": [0, -1, -1], "threshold": [0.0, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1]}
    forest = Forest.from_trees([stump | {"value": [[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]]}]).replace(
        category_set=[0, -1, -1],
        category_offset=[0, 2],
        category_bits=[1 | 1 << 5, 1 << 3],
        category_rounding=rounding,
        default_left=[default_left, False, False],
    )
    x = [0, -0.0, 0.99, 1, 5, 5.5, 35, 36, 63, 64, 1e6, 2**24, 1e30, np.inf, -np.inf, np.nan, -0.5, -1, -2, -2.5, 1e-40]
    rows = np.array(x, np.float32)[:, None]
    for layout in ("float32", "int16-uint8"):
        tables = lower(scurry.Predictor.full(forest), LAYOUTS[layout])
        np.testing.assert_array_equal(tables.source[find_leaves(tables, rows)], forest.apply(rows), err_msg=layout)
        to_c(forest, tmp_path, layout=layout)
        assert verify(tmp_path, rows, n_adversarial=50)


def test_an_anytime_plan_of_categories(tmp_path):
    forest = with_categories("lightgbm")
    anyt = scurry.anytime(forest, ROWS[:100], LABELS[:100], order="random", random_state=0)
    for layout in ("int16-node8", "breadcrumb"):
        to_c(anyt, tmp_path, layout=layout)
        assert verify(tmp_path, ROWS[:50], n_adversarial=100)


def test_equal_sets_are_stored_once():
    sets = CategorySets(np.array([0, 1, 3]), np.array([0b101, 0, 1], np.uint32))
    found = sets.contain(np.array([0, 1, 2, 32, 32, -1, -2]), np.array([0, 0, 0, 0, 1, 1, 1]))
    assert found.tolist() == [True, False, True, False, True, False, True]
    forest = with_categories("lightgbm")
    tables = lower(scurry.Predictor.full(forest), LAYOUTS["int16-uint16"])
    assert len(tables.sets.start) - 1 <= len(np.unique(forest.category_set[forest.category_set >= 0]))
    words = [part.tobytes() for part in np.split(tables.sets.words, tables.sets.start[1:-1])]
    assert len(set(words)) == len(words) > 1


class TestIntegers:
    X = np.column_stack([RNG.integers(-(2**15), 2**15, 500), RNG.integers(0, 4096, 500), RNG.integers(-3, 4, 500)])
    y = ((X[:, 0] > 100) ^ (X[:, 1] > 2000)).astype(int)

    @pytest.mark.parametrize("kind", ["classifier", "regressor", "anytime", "strict"])
    def test_every_test_is_the_source_s(self, kind, tmp_path):
        if kind == "regressor":
            pred = scurry.from_model(
                RandomForestRegressor(5, max_depth=6, random_state=0).fit(self.X, self.X[:, 1] / 7)
            )
        else:
            pred = scurry.from_model(RandomForestClassifier(5, max_depth=6, random_state=0).fit(self.X, self.y))
        if kind == "anytime":
            pred = scurry.anytime(pred, self.X[:100], self.y[:100], order="random", random_state=0)
        if kind == "strict":
            # Thresholds on, next to and beyond the integers that there are.
            at = np.flatnonzero(~pred.is_leaf)[:8]
            threshold = pred.threshold.copy()
            threshold[at] = [-1e9, 1e9, -32768.5, -32768, -32767.5, 32767, 32767.5, 7.0]
            pred = pred.replace(threshold=threshold, comparison="<")
        export = to_c(pred, tmp_path, layout="int16-uint16", inputs="int16", X_cal=self.X)
        assert export.agreement.min() > 0.9999
        proof = verify(tmp_path, self.X[:100], n_adversarial=400, sanitize=kind == "strict")
        assert proof
        assert proof.n_changed_labels in (0, None)
        header, source = ((tmp_path / f"model.{end}").read_text() for end in "hc")
        assert "typedef int16_t model_raw;" in header
        assert "quantize" not in header + source
        assert "float" not in source

    def test_probes_are_integers_on_both_sides_of_thresholds(self):
        forest = scurry.from_model(RandomForestClassifier(5, max_depth=6, random_state=0).fit(self.X, self.y))
        probes = make_probes(forest, 300, integers=True)
        check_integers(probes, "X")
        for feature in range(3):
            thresholds = np.unique(forest.threshold[~forest.is_leaf & (forest.feature == feature)])
            nearest = np.abs(probes[:, feature, None] - thresholds).min(axis=1)
            assert (nearest < 2).mean() > 0.5

    def test_what_is_no_integer_is_refused(self, tmp_path):
        forest = scurry.from_model(RandomForestClassifier(2, max_depth=2, random_state=0).fit(self.X, self.y))
        for value, shown in ((0.5, "0.5"), (40000.0, "40000"), (np.nan, "nan")):
            with pytest.raises(InputError, match=f"row 0 has {shown} in column 1"):
                to_c(forest, tmp_path, inputs="int16", X_cal=[[0.0, value, 0.0]])
        with pytest.raises(InputError, match="compares floats"):
            to_c(forest, tmp_path, inputs="int16", layout="float32")
        with pytest.raises(UnsupportedModelError, match="zero_as_missing"):
            to_c(with_categories("zeros"), tmp_path, inputs="int16")
        assert to_c(forest, tmp_path, inputs="int16").layout == "int16-uint16"


def one_by_one(rule: ExitRule, running: np.ndarray, policy: int) -> list[tuple[int, int]]:
    """Trees and side of each row, walked as the C does; side 0 if it never stops."""
    found = []
    for row in range(running.shape[1]):
        trees, side = len(running) - 1, 0
        for i, total in enumerate(running[:, row, 0]):
            if rule.piece_offset.size:
                piece = rule.piece_offset[i]
                while piece < rule.piece_offset[i + 1] and rule.piece_edges[piece] <= total:
                    piece += 1
                here = int(rule.piece_sides[piece + i])
            else:
                here = ExitSide.POSITIVE if total >= rule.upper[policy, i] else 0
                here = ExitSide.NEGATIVE if total <= rule.lower[policy, i] else here
            if here == ExitSide.FULL:
                break
            if here:
                trees, side = i, here
                break
        found.append((trees, side))
    return found


@pytest.mark.parametrize("with_pieces", [False, True])
def test_exits_are_found_as_a_loop_over_rows_finds_them(with_pieces):
    rng = np.random.default_rng(0)
    n_trees, n_rows = 6, 50
    running = np.cumsum(rng.integers(-2, 3, (n_trees + 1, n_rows, 1)), axis=0)
    lower = rng.integers(-6, -1, (2, n_trees + 1)).astype(np.int32)
    pieces = {}
    if with_pieces:
        edges = [np.sort(rng.choice(np.arange(-5, 6), 3, replace=False)) for _ in range(n_trees + 1)]
        pieces["piece_offset"] = 3 * np.arange(n_trees + 2, dtype=np.uint32)
        pieces["piece_edges"] = np.concatenate(edges).astype(np.int32)
        pieces["piece_sides"] = rng.integers(0, 4, 4 * (n_trees + 1)).astype(np.uint8)
    rule = ExitRule(kind="scores", weights=np.array([1.0, 3.0]), lower=lower, upper=lower + 5, **pieces)
    full_codes = rng.integers(0, 2, n_rows)
    for policy, draw in ((0, 2**14 - 1), (1, 2**14)):
        trees, codes = ExitTables(rule).find_exits(running, full_codes, np.full(n_rows, draw))
        expected = one_by_one(rule, running, policy)
        assert trees.tolist() == [n for n, _ in expected]
        for code, (_, side), full in zip(codes, expected, full_codes, strict=True):
            assert code == (side == ExitSide.POSITIVE if side else full)


@pytest.mark.parametrize("with_need", [False, True])
def test_a_row_stops_once_its_leader_is_far_enough_ahead(with_need):
    votes = np.array([[0, 0, 0, 0, 1], [0, 1, 2, 1, 1], [2, 2, 1, 2, 2]])
    running = np.zeros((6, 3, 3), np.int64)
    for i in range(5):
        running[i + 1] = running[i]
        running[i + 1, np.arange(3), votes[:, i]] += 1
    never = 99
    need = [np.full(r // 2 + 1, never) for r in range(6)]
    for r in range(2, 6):
        need[r][0] = 2
    tables = LeadTables(trees_per_round=1, lead=np.array([never, never, 2, 2, 2, 2]), need=need if with_need else [])
    trees, codes = tables.find_exits(running, running[-1].argmax(axis=1), None)
    assert trees.tolist() == [2, 5, 2]
    assert codes.tolist() == [0, 1, 2]


@pytest.fixture(scope="module")
def boosted():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5)).astype(np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2]
    options = {"n_estimators": 24, "num_leaves": 8, "n_jobs": 1, "verbose": -1}
    classifier = lightgbm.LGBMClassifier(**options).fit(X[:800], score[:800] > 0)
    return classifier, lightgbm.LGBMRegressor(**options).fit(X[:800], score[:800]), X[800:]


def test_cells_stop_rows_with_the_label_of_all_trees(boosted):
    """Whatever the numbers were rounded to: bounds are computed from what was exported."""
    model, _, X = boosted
    fast = scurry.early_exit(model, promise=scurry.promises.Certain())
    assert isinstance(fast.plan.stop, CellRule)
    for name in ("float32", "int16-uint8"):
        lowered = lower(fast, LAYOUTS[name])
        stop = lowered.values.stop
        assert isinstance(stop, CellTables)
        codes, _, trees = run_trees(lowered, X)
        full = run_trees(lower(scurry.Predictor.full(fast.forest), LAYOUTS[name]), X)
        assert trees.mean() < 0.8 * fast.forest.n_trees
        # Both round leaves, to grids of their own; only rows between them may differ.
        assert (codes != full.codes).mean() <= (0.01 if name == "int16-uint8" else 0)
        cells = find_cells(lowered, X)
        assert len(np.unique(cells)) > 1
        for row in range(0, len(X), 97):
            total = lowered.codes[lowered.source.argsort()[fast.forest.apply(X[row : row + 1])[0]], 0]
            assert codes[row] == (total.sum() >= lowered.values.limit)


def test_a_router_of_fewer_cells_gives_the_same_labels(boosted):
    model, _, X = boosted
    fast = scurry.early_exit(model, promise=scurry.promises.Certain())
    for n_cells in (1, 2, 7, fast.plan.stop.n_cells):
        rule = fast.plan.stop.with_cells(n_cells)
        assert rule.n_cells == n_cells
        small = scurry.Predictor(fast.forest, scurry.Plan(order=fast.plan.order, stop=rule))
        np.testing.assert_array_equal(small.predict(X), model.predict(X))


@pytest.mark.parametrize("bits", [32, 16])
@pytest.mark.parametrize("kind", ["labels", "values", "forest"])
def test_sentinels_stop_rows_where_the_rule_does(boosted, kind, bits):
    from sklearn.ensemble import RandomForestRegressor

    classifier, regressor, X = boosted
    if kind == "labels":
        fast = scurry.early_exit(classifier, X, max_disagreement=0.02, method="sentinels", random_state=0)
    else:
        model = regressor
        if kind == "forest":
            targets = regressor.predict(X[:500])
            model = RandomForestRegressor(24, max_depth=5, random_state=0).fit(X[:500], targets)
        fast = scurry.early_exit(model, X[500:], promise=scurry.promises.Values(0.6, 0.1), random_state=0)
    rule = fast.plan.stop
    assert isinstance(rule, SentinelRule)
    lowered = lower(fast, LAYOUTS["float32" if bits == 32 else "int16-uint16"])
    stop = lowered.values.stop
    assert isinstance(stop, SentinelTables)
    rows = lowered.columns.move_to_grid(X)
    source, ours = fast.run(rows), run_trees(lowered, rows)
    assert source.mean_trees < 0.9 * fast.forest.n_trees
    assert (source.trees != ours.trees).mean() < 0.003
    same = source.trees == ours.trees
    answers = lowered.values.decode(fast.forest, ours.codes)
    if kind == "labels":
        np.testing.assert_array_equal(answers[same], source.labels[same])
    else:
        np.testing.assert_allclose(
            answers[same], source.labels[same], atol=1e-6 if (kind, bits) == ("values", 32) else 1e-3
        )
