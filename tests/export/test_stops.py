"""The tests a row makes before each tree: tables in numpy against loops over rows, and against their rule."""

import numpy as np
import pytest

import scurry
from scurry.export.lowered import LAYOUTS, lower
from scurry.export.replay import find_cells, run_trees
from scurry.export.stops import CellTables, ExitTables, LeadTables, SentinelTables
from scurry.plan import CellRule, ExitRule, ExitSide, SentinelRule


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
