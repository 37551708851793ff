"""Exported models on emulated microcontrollers. Run by `make embedded`, which installs compilers and emulators."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

import scurry
from scurry.export import LAYOUTS, replay, to_c
from scurry.export.c.model import make_probes
from scurry.export.c.sizes import count_work, estimate_time
from scurry.export.c.source import name_answer
from scurry.export.lowered import Lowered, lower
from scurry.forest import as_rows
from support.cycles import M0, M4, Core, count_tests, trace
from support.emulator import ARM, INSTRUCTION_NS, RISCV, Board, Sweep, mean_steps, replay_nodes, sweep
from support.strategies import symmetric_forest

pytestmark = pytest.mark.embedded
KINDS = ["sentinels", "cells", "values", "variance", "regressor", "categories", "integers", "levels"]
BOARDS = pytest.mark.parametrize("board", [ARM, RISCV], ids=lambda board: board.name)


@pytest.fixture(autouse=True)
def _tools():
    missing = [*ARM.missing(), *RISCV.missing()]
    if missing:
        pytest.fail(f"{', '.join(missing)} not found; `make embedded` installs them")


def forest_and_rows(load, n_trees: int, depth: int):
    X, y = load(return_X_y=True)
    model = RandomForestClassifier(n_trees, max_depth=depth, random_state=0).fit(X[::2], y[::2])
    return model, X[1::2], y[1::2]


@BOARDS
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("order", ["depth-ie", "backward-squirrel"])
def test_interrupts_at_every_step_see_the_replayed_state(board: Board, layout: str, order: str, tmp_path):
    model, X, y = forest_and_rows(load_breast_cancer, 5, 5)
    anyt = scurry.anytime(model, X, y, order=order)
    to_c(anyt, tmp_path, layout=layout)
    lowered = lower(anyt, LAYOUTS[layout])
    rows = make_probes(anyt.forest, 6, rows=X)
    compare(sweep(board, tmp_path, lowered, rows, stride=1), lowered, rows)


@BOARDS
@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "int16-node8"])
def test_several_classes(board: Board, layout: str, tmp_path):
    model, X, y = forest_and_rows(load_digits, 4, 4)
    anyt = scurry.anytime(model, X, y, order="forward-squirrel", readout="weighted")
    to_c(anyt, tmp_path, layout=layout)
    lowered = lower(anyt, LAYOUTS[layout])
    rows = make_probes(anyt.forest, 3, rows=X)
    compare(sweep(board, tmp_path, lowered, rows, stride=1), lowered, rows)


def other_model(kind: str) -> tuple[scurry.Predictor, np.ndarray]:
    """Return a predictor of a kind that early versions did not export, and rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5)).astype(np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2]
    if kind in ("sentinels", "cells"):
        model = GradientBoostingClassifier(n_estimators=24, random_state=0).fit(X[:500], score[:500] > 0)
        if kind == "cells":
            return scurry.early_exit(model, promise=scurry.promises.Certain()), X
        return scurry.early_exit(model, X[500:], max_disagreement=0.05, method="sentinels", random_state=0), X
    if kind in ("values", "variance"):
        grow = GradientBoostingRegressor if kind == "values" else RandomForestRegressor
        model = grow(n_estimators=24, max_depth=4, random_state=0).fit(X[:500], score[:500])
        return scurry.early_exit(model, X[500:], promise=scurry.promises.Values(0.6, 0.1), random_state=0), X
    if kind == "categories":
        X[:, 0] = rng.integers(0, 50, len(X))
        model = HistGradientBoostingClassifier(max_iter=8, categorical_features=[0])
        forest = scurry.from_model(model.fit(X, X[:, 0] % 3 == 0))
        return scurry.Predictor.full(forest), as_rows(forest, X)
    if kind == "levels":
        forest = symmetric_forest(20, 5, 5, 2)
        return scurry.Predictor.full(forest), X
    if kind == "integers":
        X = (1000 * X).astype(np.int16)
    grow = RandomForestClassifier if kind == "integers" else RandomForestRegressor
    model = grow(8, max_depth=6, random_state=0).fit(X, score > 0 if kind == "integers" else score)
    return scurry.Predictor.full(scurry.from_model(model)), X


@BOARDS
@pytest.mark.parametrize("method", ["minimixed", "qwyc", "fan", "several classes", "every tree"])
def test_models_that_stop_by_themselves(board: Board, method: str, tmp_path):
    model, X, _ = forest_and_rows(load_digits if method == "several classes" else load_breast_cancer, 31, 6)
    if method == "every tree":
        pred = scurry.Predictor.full(scurry.from_model(model))
    else:
        name = "minimixed" if method == "several classes" else method
        pred = scurry.early_exit(model, X, max_disagreement=0.05, method=name, confidence=None, random_state=0)
    rows = make_probes(pred.forest, 60, rows=X)
    for layout in ("float32", "int16-uint16", "int16-uint8"):
        to_c(pred, tmp_path, layout=layout)
        lowered = lower(pred, LAYOUTS[layout])
        draw = ", 0" if "uint16_t draw" in (tmp_path / "model.h").read_text() else ""
        raw = board.run(tmp_path, lowered, rows, "outcomes", f"INIT(state)=model_init(state{draw})")
        records = np.frombuffer(raw, np.int32).reshape(len(rows), -1)
        codes, sums, trees = replay.run_trees(lowered, rows)
        np.testing.assert_array_equal(np.delete(records, 2, axis=1), np.column_stack([codes, trees, sums]))


@BOARDS
@pytest.mark.parametrize("kind", KINDS)
def test_other_models_that_stop_by_themselves(board: Board, kind: str, tmp_path):
    pred, X = other_model(kind)
    inputs = "int16" if kind == "integers" else "float32"
    rows = make_probes(pred.forest, 60, rows=X, integers=kind == "integers")
    for layout in ("int16-uint16", "int16-uint8") if kind == "integers" else ("float32", "int16-uint16"):
        export = to_c(pred, tmp_path, layout=layout, inputs=inputs)
        lowered = lower(pred, LAYOUTS[layout], inputs)
        defines = ["INIT(state)=model_init(state)", *(["WHOLE_ROWS"] if kind == "integers" else [])]
        raw = board.run(tmp_path, lowered, rows, "outcomes", *defines)
        records = np.frombuffer(raw, np.int32).reshape(len(rows), -1)
        codes, sums, trees = replay.run_trees(lowered, rows)
        np.testing.assert_array_equal(np.delete(records, 2, axis=1), np.column_stack([codes, trees, sums]))
        assert board.undefined_symbols(tmp_path) == []
        if board is ARM:
            taken = records[:, 2].max() * board.tick_ns / INSTRUCTION_NS
            assert taken <= export.sizes.max_instructions
            assert taken >= 0.5 * export.sizes.max_instructions or trees.max() < lowered.n_trees
            assert export.sizes.table_bytes < board.flash_bytes(tmp_path) <= export.sizes.flash_bytes


def any_model(kind: str) -> tuple[scurry.Predictor, np.ndarray]:
    """Return a predictor of any kind, and rows."""
    if kind in KINDS:
        return other_model(kind)
    model, X, y = forest_and_rows(load_digits if "classes" in kind else load_breast_cancer, 12, 6)
    if "anytime" in kind:
        return scurry.anytime(model, X, y, order="forward-squirrel"), X
    if "every tree" in kind:
        return scurry.Predictor.full(scurry.from_model(model)), X
    method = "minimixed" if "classes" in kind else kind
    return scurry.early_exit(model, X, max_disagreement=0.05, method=method, confidence=None, random_state=0), X


ANY = [*KINDS, "minimixed", "qwyc", "fan", "classes", "classes, every tree", "anytime", "classes, anytime"]


@pytest.mark.parametrize("core", [M4, M0], ids=["m4", "m0"])
@pytest.mark.parametrize("kind", ANY)
def test_no_row_takes_more_cycles_than_what_it_does_costs(core: Core, kind: str, tmp_path):
    """Rows are compared with the price of their own trees and tests, which is sharper than the most of any row."""
    pred, X = any_model(kind)
    inputs = "int16" if kind == "integers" else "float32"
    rows, n_layouts = make_probes(pred.forest, 8, rows=X, integers=kind == "integers"), 0
    for name, layout in LAYOUTS.items():
        if layout.float_thresholds and (core is M0 or kind == "integers"):
            continue
        try:
            export, lowered = to_c(pred, tmp_path, layout=name, inputs=inputs), lower(pred, layout, inputs)
        except scurry.errors.ScurryError:  # a layout that this model does not have
            continue
        n_layouts += 1
        prices = [estimate_time(count_work(lowered))] * len(rows)
        if not lowered.is_anytime:
            draws = np.zeros(len(rows), np.int64) if lowered.takes_draw else None
            trees = replay.run_trees(lowered, rows, draws).trees
            n_tests = count_tests(lowered, rows, trees)
            prices = [estimate_time(count_work(lowered, *each)) for each in zip(trees, n_tests, strict=True)]
        instructions, cycles = trace(core, tmp_path, lowered, rows, name_answer(pred.forest))
        price = np.array([(price.instructions, price.m4 if core is M4 else price.m0) for price in prices])
        assert (cycles <= price[:, 1]).all()
        assert (cycles / price[:, 1]).max() > 0.5  # short rows may skip most of a test that stops them
        assert core is M0 or (instructions <= price[:, 0]).all()
        assert price[:, 1].max() <= (export.sizes.max_cycles if core is M4 else export.sizes.max_cycles_m0)
    assert n_layouts >= 2


@pytest.mark.parametrize("kind", KINDS)
def test_no_model_needs_floating_point(kind, tmp_path):
    """On a core without any, only multiplications of 64 bits are called, by plans whose estimates need them."""
    pred, _ = other_model(kind)
    to_c(pred, tmp_path, layout="int16-uint16", inputs="int16" if kind == "integers" else "float32")
    without = replace(ARM, name="arm-m0", flags=("-mcpu=cortex-m0", "-mthumb", "-mfloat-abi=soft"))
    called = set(without.undefined_symbols(tmp_path)) - {"U"}
    assert called <= ({"__aeabi_lmul"} if kind in ("values", "variance") else set())


@BOARDS
@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_outside_the_model_is_called(board: Board, layout: str, tmp_path):
    model, X, y = forest_and_rows(load_breast_cancer, 5, 5)
    to_c(scurry.anytime(model, X, y), tmp_path, layout=layout)
    assert board.undefined_symbols(tmp_path) == []


def test_quantised_layouts_need_no_floating_point(tmp_path):
    """A core without it would call functions for every float in the code."""
    model, X, y = forest_and_rows(load_breast_cancer, 5, 5)
    without = replace(ARM, name="arm-m0", flags=("-mcpu=cortex-m0", "-mthumb", "-mfloat-abi=soft"))
    called = {}
    for layout in LAYOUTS:
        to_c(scurry.anytime(model, X, y), tmp_path, layout=layout)
        called[layout] = without.undefined_symbols(tmp_path)
    assert any("fcmp" in symbol for symbol in called.pop("float32"))
    assert set(map(len, called.values())) == {0}


@pytest.fixture(scope="module")
def adult():
    """10 trees of depth 10, as in Figure 3 of the squirrel paper, and rows of the test part."""
    try:
        data = scurry.datasets.load("adult")
    except scurry.errors.ScurryError as error:
        pytest.skip(f"adult is not available: {error}")
    X = np.nan_to_num(data.X, nan=-1.0)
    train, ordering, test = np.split(np.random.default_rng(0).permutation(len(X)), [len(X) // 2, 3 * len(X) // 4])
    model = RandomForestClassifier(10, max_depth=10, random_state=0).fit(X[train], data.y[train])
    return model, X[ordering], data.y[ordering], X[test]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_flash_of_adult(adult, layout, tmp_path):
    model, X, y, X_test = adult
    export = to_c(scurry.anytime(model, X, y, order="backward-squirrel"), tmp_path, layout=layout, X_cal=X_test[:2000])
    most_bytes = {"int16-node8": 33_000, "int16-uint16": 48_000}
    for optimise in ("-O2", "-Os"):
        assert ARM.flash_bytes(tmp_path, optimise) <= most_bytes.get(layout, 100_000)
        assert export.sizes.table_bytes < ARM.flash_bytes(tmp_path, optimise) <= export.sizes.flash_bytes


@pytest.mark.parametrize("order", ["depth-ie", "breadth-ie"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_instructions_per_step_of_adult(adult, layout, order, tmp_path):
    model, X, y, X_test = adult
    anyt = scurry.anytime(model, X, y, order=order)
    export = to_c(anyt, tmp_path, layout=layout)
    lowered, rows = lower(anyt, LAYOUTS[layout]), X_test[:40]
    result = sweep(ARM, tmp_path, lowered, rows, stride=10_000)
    instructions = (result.full_ns - result.empty_ns) / INSTRUCTION_NS
    assert instructions.mean() / len(lowered.order) == pytest.approx(export.sizes.instructions_per_step, rel=0.15)
    if layout == "breadcrumb" and order == "depth-ie":
        moves = (np.diff(replay_nodes(lowered, rows), axis=1) != 0).any(axis=2).sum(axis=1)
        # Only steps that move are counted: at a leaf this layout pays nothing.
        assert instructions.sum() / moves.sum() <= 7


@pytest.mark.parametrize("order", ["backward-squirrel", "depth-ie", "breadth-ie", "random"])
def test_figure_3_steps_are_linear_in_time(adult, order, tmp_path):
    model, X, y, X_test = adult
    anyt = scurry.anytime(model, X, y, order=order, random_state=0)
    to_c(anyt, tmp_path, layout="int16-uint16")
    lowered, rows = lower(anyt, LAYOUTS["int16-uint16"]), X_test[:10]
    result = sweep(ARM, tmp_path, lowered, rows, stride=40)
    compare_answers(result, lowered, rows)
    periods, shares = mean_steps(result, len(anyt.plan.order))
    assert np.corrcoef(periods, shares)[0, 1] ** 2 >= 0.99


def compare(result: Sweep, lowered: Lowered, rows: np.ndarray) -> None:
    """Check that every answer is that of the replay, and that every state was interrupted."""
    compare_answers(result, lowered, rows)
    states = replay_nodes(lowered, rows)
    for row in range(len(rows)):
        mine = result.fired & (result.row == row)
        assert {tuple(nodes) for nodes in result.nodes[mine]} == {tuple(nodes) for nodes in states[row]}
        if not lowered.layout.if_else:
            assert set(result.position[mine]) >= set(range(len(lowered.order)))


def compare_answers(result: Sweep, lowered: Lowered, rows: np.ndarray) -> None:
    states = replay_nodes(lowered, rows)
    sums = np.stack([after for after, _ in replay.walk_steps(lowered, rows)], axis=1)
    labels = np.stack([lowered.values.labels(sums[:, step]) for step in range(sums.shape[1])], axis=1)
    ends = np.cumsum([0, *(last - first for _, first, last in lowered.runs)])
    units = ends if lowered.layout.if_else else np.arange(len(lowered.order) + 1)
    assert result.fired.any()
    for at in np.flatnonzero(result.fired):
        row, position = int(result.row[at]), int(result.position[at])
        # The interrupt may come between the store of a node and that of the position.
        possible = np.arange(units[position], units[min(position + 1, len(units) - 1)] + 1)
        equal = possible[(states[row, possible] == result.nodes[at]).all(axis=1)]
        assert len(equal) > 0
        assert result.label[at] == labels[row, equal[0]]
        np.testing.assert_array_equal(result.sums[at], sums[row, equal[0]])
    np.testing.assert_array_equal(result.last_label, labels[result.row, units[result.last_position]])
    assert (result.last_position[~result.fired] == len(units) - 1).all()
    assert (result.last_position >= np.where(result.fired, result.position, 0)).all()
