import json
import re
import subprocess
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry import Forest, Plan, Predictor
from scurry.errors import InfeasibleError, InputError, UnsupportedModelError
from scurry.export import LAYOUTS, replay, to_c, verify
from scurry.export.lowered import lower
from scurry.forest import reference
from scurry.plan import StepRule
from support.anytime_oracle import anytime_of, depth_steps, labels_of, nodes_after, scores_of
from support.strategies import adversarial_rows, complete_forest, forests

QUANTISED = [name for name in LAYOUTS if name != "float32"]


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return RandomForestClassifier(8, max_depth=5, random_state=0).fit(X[::2], y[::2]), X[1::2], y[1::2]


@pytest.fixture(scope="module")
def anyt(cancer):
    model, X, y = cancer
    return scurry.anytime(model, X, y, order="backward-squirrel")


def test_what_is_written(anyt, cancer, tmp_path):
    export = to_c(anyt, tmp_path / "deep" / "down", name="Heart_2", layout="int16-uint8", X_cal=cancer[1])
    folder = tmp_path / "deep" / "down"
    assert {path.name for path in folder.iterdir()} == {
        "Heart_2.h", "Heart_2.c", "Heart_2_selftest.h", "Heart_2.json", "Heart_2.scurry", "README.md",
    }  # fmt: skip
    readme, shown = (folder / "README.md").read_text(), str(export)
    for number in (f"{export.sizes.flash_bytes:,}", f"{export.sizes.ram_bytes:,}"):
        assert number in readme
        assert number in shown
    assert json.loads((folder / "Heart_2.json").read_text())["agreement"] == export.agreement.tolist()
    assert len(export.agreement) == len(anyt.plan.order) + 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_only_stdint_is_included_and_quantised_layouts_have_no_float(anyt, layout, tmp_path):
    to_c(anyt, tmp_path, layout=layout)
    for file in ("model.h", "model.c", "model_selftest.h"):
        text = (tmp_path / file).read_text()
        assert set(re.findall(r"#include (.*)", text)) <= {"<stdint.h>", '"model.h"'}
        assert not re.search(r"\b(malloc|calloc|free|memcpy|double)\b", text)
        code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        assert ("float" in code) == (layout == "float32")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("optimise", ["-O0", "-O3"])
def test_strict_compilers_accept_it_and_nothing_is_called(anyt, layout, optimise, tmp_path):
    to_c(anyt, tmp_path, layout=layout)
    warnings = [
        "all",
        "extra",
        "pedantic",
        "error",
        "conversion",
        "sign-conversion",
        "shadow",
        "cast-qual",
        "cast-align",
    ]
    warnings += ["strict-prototypes", "missing-prototypes", "undef", "float-equal", "double-promotion"]
    command = ["gcc", "-std=c99", optimise, *(f"-W{warning}" for warning in warnings)]
    subprocess.run([*command, "-ffreestanding", "-c", "model.c", "-o", "model.o"], cwd=tmp_path, check=True)
    undefined = subprocess.run(["nm", "-u", "model.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert set(undefined.split()) <= {"U", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"}
    as_cpp = ["g++", "-std=c++17", "-Wall", "-Werror", "-Wno-unused-function", "-fsyntax-only", "-x", "c++"]
    subprocess.run([*as_cpp, "model_selftest.h"], cwd=tmp_path, check=True)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(forest=forests(), seed=st.integers(0, 99), layout=st.sampled_from(list(LAYOUTS)))
def test_float_thresholds_and_steps_as_an_independent_evaluator_has_them(forest, seed, layout):
    """The replay, which the C is compared with, is itself compared: nodes from the leaves up, values as floats."""
    if not forest.is_classifier or forest.max_depth == 0:
        return
    steps = np.random.default_rng(seed).permutation(depth_steps(forest)).astype(np.int32)
    pred = anytime_of(forest, steps)
    with np.errstate(over="ignore"):
        rows = adversarial_rows(forest, np.zeros((1, forest.n_features)), 40, seed).astype(np.float32)
    if layout == "int16-node8" and forest.n_classes > 2 and forest.aggregation != "vote":
        with pytest.raises(InputError, match="one number"):
            lower(pred, LAYOUTS[layout])
        return
    lowered = lower(pred, LAYOUTS[layout])
    if layout != "float32":
        rows = rows[settled(forest, rows)]
    leaves = reference.apply(forest, rows)
    for n_steps, (sums, _) in enumerate(replay.walk_steps(lowered, rows)):
        scores = scores_of(forest, nodes_after(forest, steps, n_steps, leaves))
        two = np.sort(scores, axis=1)[:, -2:]
        clear = two[:, 1] - two[:, 0] > 2 * lowered.values.unit
        got = forest.classes[lowered.values.labels(sums)]
        np.testing.assert_array_equal(got[clear], labels_of(forest, scores)[clear])


def settled(forest: Forest, rows: np.ndarray) -> np.ndarray:
    """Rows whose every value is either a threshold of its feature or well away from all, so that 16 bits tell them."""
    far = np.ones(len(rows), bool)
    for node in np.flatnonzero(forest.left >= 0):
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.abs(rows[:, forest.feature[node]].astype(np.float64) - forest.threshold[node])
        far &= ~((distance > 0) & (distance < 1e-3))
    return far


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


def test_adverse_names(anyt, tmp_path):
    hostile = [
        "", "a b", "a-b", "../up", "a/b", "x;int main", "2nd", "_x", "a__b", "a_", "int", "AUX", "Class", "stdint",
        "MATH", "é", "a" * 21, 'x"', "x\n", "main", None, 3, "%s", "$name",
    ]  # fmt: skip
    for name in hostile:
        with pytest.raises(InputError, match="name must"):
            to_c(anyt, tmp_path / "never", name=name)
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("layout", ["int16-uint16", "breadcrumb"])
def test_names_of_the_code_itself(anyt, layout, tmp_path):
    """A name as prefix must not make one of the identifiers that every exported model has."""
    to_c(anyt, tmp_path, layout=layout)
    text = (tmp_path / "model.h").read_text() + (tmp_path / "model_selftest.h").read_text()
    endings = set(re.findall(r"\bmodel(_[a-z]+)\b", text))
    assert {"_init", "_run", "_state", "_step", "_selftest"} <= endings
    own = set(re.findall(r"\b[a-z][a-z_]*\b", (tmp_path / "model.c").read_text())) - {"uint8_t", "uint16_t"}
    assert not [word for word in own if not word.startswith("model_") and any(map(word.endswith, endings))]


def test_adverse_class_labels(tmp_path):
    labels = ["*/ int x = 1; /*", "// ??/\n#error", 'a"b\\', "|`<b>"]
    forest = complete_forest(3, 3, 4, 4, classes=np.array(labels))
    pred = anytime_of(forest)
    to_c(pred, tmp_path, layout="int16-uint16")
    assert verify(tmp_path, np.zeros((1, 4)), n_adversarial=20)
    assert "#error" not in re.sub(r"/\*.*?\*/", "", (tmp_path / "model.h").read_text(), flags=re.DOTALL)
    assert "<b>" not in (tmp_path / "README.md").read_text()


def test_adverse_feature_names_in_the_order_of_a_row(cancer, tmp_path):
    names = ["age", "a | b `c` <b>\n*/", *(f"x{j}" for j in range(28))]
    to_c(scurry.from_model(cancer[0], feature_names=names), tmp_path, X_cal=cancer[1])
    listed = [line for line in (tmp_path / "README.md").read_text().split("`row[…]`")[1].splitlines() if "`" in line]
    assert listed[0] == '| 0 | `"age"` |'
    assert listed[1] == '| 1 | `"a \\u007c b \\u0060c\\u0060 \\u003cb>\\n*/"` |'
    assert len(listed) == 30


@pytest.mark.parametrize("plan", ["anytime", "mixed", "whole"])
def test_the_code_in_the_readme_compiles(anyt, cancer, tmp_path, plan):
    model, X, _ = cancer
    mixed = partial(scurry.early_exit, model, X, max_disagreement=0.1, method="minimixed", confidence=None)
    pred = {"anytime": lambda: anyt, "mixed": mixed, "whole": lambda: scurry.from_model(model)}[plan]()
    to_c(pred, tmp_path)
    snippet = re.search(r"```c\n(.*?)```", (tmp_path / "README.md").read_text(), flags=re.DOTALL)[1]
    include, code = snippet.split("\n", 1)
    (tmp_path / "main.c").write_text(f"{include}\nint main(void)\n{{\n{code}\nreturn label;\n}}\n")
    flags = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wno-uninitialized", "-Wno-maybe-uninitialized"]
    subprocess.run(["cc", *flags, "-c", "main.c", "model.c"], cwd=tmp_path, check=True)


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


def test_auto_takes_the_best_agreement_within_the_budget(anyt, cancer, tmp_path):
    X = cancer[1]
    every = {name: to_c(anyt, tmp_path / name, layout=name, X_cal=X) for name in LAYOUTS}
    for budget in sorted(export.sizes.flash_bytes for export in every.values()):
        chosen = to_c(anyt, tmp_path / "auto", X_cal=X, flash_budget=budget)
        fitting = [export for export in every.values() if export.sizes.flash_bytes <= budget]
        assert chosen.sizes.flash_bytes <= budget
        assert chosen.agreement.min() == max(export.agreement.min() for export in fitting)
    smallest = min(export.sizes.flash_bytes for export in every.values())
    with pytest.raises(InfeasibleError, match="needs") as error:
        to_c(anyt, tmp_path / "never", flash_budget=smallest - 1)
    assert error.value.achievable == smallest
    assert to_c(anyt, tmp_path / "auto").layout == "int16-uint16"
    assert chosen.candidates[0].layout.name == chosen.layout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layout": "int8"}, "layout must be"),
        ({"flash_budget": 0}, "flash_budget must be"),
        ({"X_cal": np.empty((0, 30))}, "no rows"),
        ({"layout": "breadcrumb", "pred": "forest"}, "for plans of scurry.anytime"),
    ],
)
def test_what_is_refused(anyt, change, message, tmp_path):
    pred = anyt.forest if change.pop("pred", None) else anyt
    with pytest.raises(InputError, match=message):
        to_c(pred, tmp_path, **change)


def test_models_that_c_cannot_be(anyt, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        to_c(anyt, tmp_path / "file")
    with pytest.raises(InputError, match="Predictor or a Forest"):
        to_c(RandomForestClassifier(), tmp_path)
    regressor = complete_forest(2, 2, 3, 1)
    with pytest.raises(UnsupportedModelError, match="regressor"):
        to_c(regressor, tmp_path)
    leaf = {"feature": [0], "threshold": [0.0], "left": [-1], "right": [-1], "value": [[0.25, 0.75]]}
    still = Forest.from_trees([leaf, leaf], n_features=1)
    for pred in (still, Predictor(still, Plan(order=np.empty(0, np.int32), stop=StepRule()))):
        with pytest.raises(InputError, match="no tree of the forest has a split"):
            to_c(pred, tmp_path)


def test_categories_and_zero_as_missing_are_refused(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 8, 400), rng.normal(size=400)])
    y = (X[:, 0] % 3 == 0).astype(int)
    for options, message in (({"categorical_feature": [0]}, "categories"), ({"zero_as_missing": True}, "zero")):
        params = {"objective": "binary", "verbose": -1, "num_leaves": 4, "min_data_in_leaf": 5}
        data = lightgbm.Dataset(X, y, categorical_feature=options.pop("categorical_feature", "auto"))
        with pytest.raises(UnsupportedModelError, match=message):
            to_c(scurry.from_model(lightgbm.train(params | options, data, 3)), tmp_path)
