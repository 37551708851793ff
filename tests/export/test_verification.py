import subprocess
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

import scurry
from scurry.errors import FormatError, InputError, MissingDependencyError
from scurry.export import LAYOUTS, comparisons, lowered, to_c, verify
from scurry.export.c.model import make_probes
from scurry.export.replay import find_leaves, run_trees
from scurry.export.verification import _DRAW_STEP
from scurry.forest import reference
from scurry.predictor import Predictor
from support.anytime_oracle import anytime_of
from support.strategies import complete_forest


def exported(pred, X, folder, layout: str, n_adversarial: int = 150, sanitize: bool = False):
    to_c(pred, folder, layout=layout, X_cal=X)
    return verify(folder, X, n_adversarial=n_adversarial, sanitize=sanitize)


def halves(load):
    X, y = load(return_X_y=True)
    return X[::2], y[::2], X[1::2][:150], y[1::2][:150]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("order", ["depth-ie", "backward-squirrel", "random"])
def test_anytime_two_classes(layout, order, tmp_path):
    X_fit, y_fit, X, y = halves(load_breast_cancer)
    model = RandomForestClassifier(6, max_depth=5, random_state=0).fit(X_fit, y_fit)
    anyt = scurry.anytime(model, X, y, order=order, random_state=0)
    result = exported(anyt, X, tmp_path, layout, sanitize=order == "backward-squirrel")
    assert result
    assert result.n_mismatches == 0
    if layout != "breadcrumb":
        assert result.n_answers == 300 * (len(anyt.plan.order) + 2)


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "int16-node8"])
@pytest.mark.parametrize("readout", ["plain", "weighted"])
def test_anytime_several_classes(layout, readout, tmp_path):
    X_fit, y_fit, X, y = halves(load_digits)
    model = ExtraTreesClassifier(5, max_depth=6, random_state=0).fit(X_fit, y_fit)
    anyt = scurry.anytime(model, X, y, order="forward-squirrel", readout=readout)
    assert exported(anyt, X, tmp_path, layout, sanitize=layout == "int16-uint16")


@pytest.mark.parametrize("method", ["minimax", "minimean", "qwyc", "fan", "schwing"])
def test_early_exit_two_classes(method, tmp_path):
    X_fit, y_fit, X, _ = halves(load_breast_cancer)
    model = RandomForestClassifier(25, max_depth=6, random_state=0).fit(X_fit, y_fit)
    fast = scurry.early_exit(model, X, max_disagreement=0.05, method=method, confidence=None, random_state=0)
    for layout in ("float32", "int16-uint16", "int16-uint8", "int16-node8"):
        assert exported(fast, X, tmp_path, layout, sanitize=layout == "int16-uint16")


@pytest.mark.parametrize(("method", "boosted"), [("minimixed", False), ("qwyc", False), ("qwyc", True)])
def test_early_exit_several_classes(method, boosted, tmp_path):
    X_fit, y_fit, X, _ = halves(load_digits)
    X_fit, y_fit = X_fit[:300], y_fit[:300]
    model = (
        HistGradientBoostingClassifier(max_iter=4, max_depth=3, random_state=0)
        if boosted
        else RandomForestClassifier(25, max_depth=6, random_state=0)
    ).fit(X_fit, y_fit)
    fast = scurry.early_exit(model, X, max_disagreement=0.05, method=method, confidence=None, random_state=0)
    for layout in ("float32", "int16-uint16"):
        assert exported(fast, X, tmp_path, layout, sanitize=layout == "int16-uint16")


@pytest.mark.parametrize("kind", ["sentinels", "cells", "values", "variance", "anytime", "whole"])
def test_plans_of_boosted_models_and_regressors(kind, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 5)).astype(np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2]
    if kind in ("sentinels", "cells"):
        model = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(X[:400], score[:400] > 0)
        promise = scurry.promises.Certain() if kind == "cells" else scurry.promises.Labels(0.05)
        options = {} if kind == "cells" else {"X_cal": X[400:], "method": "sentinels"}
        pred = scurry.early_exit(model, promise=promise, random_state=0, **options)
    else:
        grow = GradientBoostingRegressor if kind == "values" else RandomForestRegressor
        model = grow(n_estimators=20, max_depth=4, random_state=0).fit(X[:400], score[:400])
        pred = scurry.from_model(model)
        if kind == "anytime":
            pred = scurry.anytime(model, X[:100], score[:100], order="random", random_state=0)
        elif kind != "whole":
            pred = scurry.early_exit(model, X[400:], promise=scurry.promises.Values(0.6, 0.1), random_state=0)
    for layout in ("float32", "int16-uint8"):
        export = to_c(pred, tmp_path, layout=layout, X_cal=X[400:])
        proof = verify(tmp_path, X[:200], n_adversarial=150, sanitize=layout == "int16-uint8")
        assert proof
        assert export.agreement[-1] > 0.98
        assert (proof.max_error is None) == (proof.n_changed_labels is not None) == (kind in ("sentinels", "cells"))
        if kind in ("values", "variance") and layout == "float32":
            share = np.mean(np.abs(pred.predict(X[400:]) - model.predict(X[400:])) <= 0.6)
            assert export.kept == pytest.approx(share, abs=0.003)
    assert proof.n_answers >= 350


def test_a_row_that_is_stopped_answers_by_the_trees_so_far(tmp_path):
    """Each tree that is left counts what it adds in the mean of the training rows."""
    X_fit, y_fit, *_ = halves(load_breast_cancer)
    forest = scurry.from_model(RandomForestRegressor(6, max_depth=4, random_state=0).fit(X_fit, y_fit))
    to_c(forest, tmp_path, layout="float32")
    tables = lowered.lower(Predictor.full(forest), LAYOUTS["float32"])
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "model.c"\nint main(void) { model_state s; model_raw row[30] = {0};\n'
        "model_input x[MODEL_N_COLUMNS]; model_quantize(row, x); model_init(&s);\n"
        'do printf("%d ", (int)model_predict(&s)); while (model_step(&s, x)); return 0; }\n'
    )
    subprocess.run(["cc", "-std=c99", "main.c", "-o", "main"], cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.split()
    zero = np.zeros((1, 30))
    reached = forest.value[forest.apply(zero)[0], 0]
    means = [
        np.average(forest.value[a:b, 0][forest.is_leaf[a:b]], weights=forest.cover[a:b][forest.is_leaf[a:b]])
        for a, b in zip(forest.tree_offset[:-1], forest.tree_offset[1:], strict=True)
    ]
    expected = [np.mean([*reached[:n], *means[n:]]) for n in range(7)]
    np.testing.assert_allclose(np.array(printed, float) * tables.values.unit, expected, atol=1e-6)


def test_exit_decisions_are_those_of_the_source(tmp_path):
    X_fit, y_fit, X, _ = halves(load_breast_cancer)
    model = RandomForestClassifier(25, max_depth=6, random_state=0).fit(X_fit, y_fit)
    fast = scurry.early_exit(model, X, max_disagreement=0.05, method="qwyc", confidence=None)
    for layout in ("float32", "int16-uint16"):
        assert to_c(fast, tmp_path, layout=layout, X_cal=X).agreement[0] == 1.0


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_boosted_models_with_missing_values(library, tmp_path):
    framework = pytest.importorskip(library)
    X_fit, y_fit, X, y = halves(load_breast_cancer)
    rng = np.random.default_rng(0)
    X_fit, X = (np.where(rng.random(part.shape) < 0.2, np.nan, part) for part in (X_fit, X))
    if library == "lightgbm":
        model = framework.LGBMClassifier(n_estimators=12, max_depth=4, n_jobs=1, verbose=-1).fit(X_fit, y_fit)
    else:
        model = framework.XGBClassifier(n_estimators=12, max_depth=4, n_jobs=1).fit(X_fit, y_fit)
    forest = scurry.from_model(model)
    for pred in (forest, scurry.anytime(forest, X, y)):
        for layout in ("float32", "int16-uint16", "int16-node8"):
            export = to_c(pred, tmp_path, layout=layout, X_cal=X.astype(np.float32))
            assert verify(tmp_path, X, n_adversarial=150)
            assert export.agreement[-1] == 1.0 or layout == "int16-node8"


def test_missing_values_are_seen_by_a_compiler_that_assumes_there_are_none(tmp_path):
    compiler = tmp_path / "fast-math"
    compiler.write_text('#!/bin/sh\nexec cc "$@" -O2 -ffast-math\n')
    compiler.chmod(0o755)
    to_c(anytime_of(complete_forest(5, 4, 3, 2)), tmp_path, layout="float32")
    holes = np.full((1, 3), np.nan, np.float32)
    assert verify(tmp_path, holes, n_adversarial=200, compiler=str(compiler))


def test_pruned_forest_with_uneven_trees(tmp_path):
    X_fit, y_fit, X, _ = halves(load_digits)
    model = RandomForestClassifier(10, min_samples_leaf=20, max_leaf_nodes=9, random_state=0).fit(X_fit, y_fit)
    forest = scurry.from_model(model)
    for layout in ("float32", "int16-uint16", "int16-uint8"):
        assert exported(forest, X, tmp_path, layout)


@pytest.mark.parametrize("n_columns", [255, 256, 300])
def test_many_columns(n_columns, tmp_path):
    forest = complete_forest(20, 5, n_columns, 2)
    for layout in ("int16-node8", "float32"):
        assert exported(
            anytime_of(forest),
            np.zeros((2, n_columns)),
            tmp_path,
            layout,
            n_adversarial=40,
            sanitize=layout == "float32",
        )


@pytest.mark.parametrize("n_trees", [256, 257])
def test_many_trees(n_trees, tmp_path):
    forest = complete_forest(n_trees, 2, 3, 3)
    assert exported(anytime_of(forest), np.zeros((2, 3)), tmp_path, "int16-uint16", n_adversarial=20)


class TestTheSourceForest:
    """What the tables were made from is compared too, not only what was made of them."""

    def test_thresholds_of_a_strict_comparison(self, tmp_path, monkeypatch):
        xgboost = pytest.importorskip("xgboost")
        X_fit, y_fit, X, _ = halves(load_breast_cancer)
        forest = scurry.from_model(xgboost.XGBClassifier(n_estimators=8, max_depth=4, n_jobs=1).fit(X_fit, y_fit))
        assert forest.comparison == "<"
        rows = _on_thresholds(forest, X)
        export = to_c(forest, tmp_path, layout="float32", X_cal=rows)
        assert export.agreement[0] == 1.0
        assert verify(tmp_path, rows).n_changed_labels == 0
        # A threshold that is not lowered sends rows on it to the wrong side. The C code and the tables still agree.
        monkeypatch.setattr(
            comparisons, "_round_down", lambda forest, nodes: forest.threshold[nodes].astype(np.float32)
        )
        to_c(forest, tmp_path, layout="float32")
        result = verify(tmp_path, rows)
        assert result.n_mismatches == 0
        assert result.n_wrong_leaves > 0
        assert not result

    @pytest.mark.parametrize("layout", ["float32", "int16-uint16"])
    def test_missing_values_that_are_read_as_zero(self, layout, tmp_path, monkeypatch):
        lightgbm = pytest.importorskip("lightgbm")
        X_fit, y_fit, X, _ = halves(load_breast_cancer)
        model = lightgbm.LGBMClassifier(n_estimators=8, num_leaves=8, use_missing=False, n_jobs=1, verbose=-1)
        forest = scurry.from_model(model.fit(X_fit - X_fit.mean(axis=0), y_fit))
        holes = np.where(np.random.default_rng(0).random(X.shape) < 0.5, np.nan, X - X_fit.mean(axis=0))
        holes = holes.astype(np.float32)
        export = to_c(forest, tmp_path, layout=layout, X_cal=holes)
        assert export.agreement[0] == 1.0
        assert verify(tmp_path, holes).n_wrong_leaves == 0
        right = lowered.lower_tests

        def misread(*arguments, **options):
            tests = right(*arguments, **options)
            missing = np.full_like(tests.columns.missing, 5.0)
            return tests._replace(columns=replace(tests.columns, missing=missing))

        monkeypatch.setattr(lowered, "lower_tests", misread)
        to_c(forest, tmp_path, layout=layout)
        result = verify(tmp_path, holes)
        assert result.n_mismatches == 0
        assert not result

    def test_rows_on_the_grid_are_not_rounded(self):
        forest = complete_forest(6, 5, 4, 2)
        tables = lowered.lower(Predictor.full(forest), LAYOUTS["int16-uint16"])
        rows = make_probes(forest, 400)
        moved = tables.columns.move_to_grid(rows)
        finite = np.isfinite(rows)
        assert (moved[finite] <= rows[finite]).all()
        np.testing.assert_array_equal(np.isnan(moved), np.isnan(rows))
        assert (moved[finite] != rows[finite]).any()
        np.testing.assert_array_equal(tables.source[find_leaves(tables, moved)], reference.apply(forest, moved))

    def test_labels_that_rounding_changes_are_counted(self, tmp_path):
        X_fit, y_fit, X, _ = halves(load_breast_cancer)
        forest = scurry.from_model(RandomForestClassifier(15, max_depth=6, random_state=0).fit(X_fit, y_fit))
        # Just above its thresholds a value has the code of the threshold itself.
        rows = _on_thresholds(forest, X, np.inf)
        export = to_c(forest, tmp_path, layout="int16-uint8", X_cal=rows)
        result = verify(tmp_path, rows, n_adversarial=20)
        assert result
        assert result.n_changed_labels == round((1 - export.agreement[0]) * len(rows)) > 0

    def test_plans_that_draw_are_not_compared_by_label(self, tmp_path):
        X_fit, y_fit, X, _ = halves(load_breast_cancer)
        model = RandomForestClassifier(15, max_depth=6, random_state=0).fit(X_fit, y_fit)
        mixed = scurry.early_exit(model, X, max_disagreement=0.1, method="minimixed", confidence=None, random_state=0)
        to_c(mixed, tmp_path)
        tables = lowered.lower(mixed, LAYOUTS["float32"])
        assert (verify(tmp_path, X, n_adversarial=5).n_changed_labels is None) == tables.takes_draw


def test_a_draw_that_equals_the_bound_of_a_policy(tmp_path):
    """The fourth row's draw is the bound itself: the second policy answers it, in C as in the replay."""
    X_fit, y_fit, X, _ = halves(load_breast_cancer)
    model = RandomForestClassifier(15, max_depth=6, random_state=0).fit(X_fit, y_fit)
    fast = scurry.early_exit(model, X, max_disagreement=0.2, method="qwyc", confidence=None, random_state=0)
    draw, rule = _DRAW_STEP * 3 % 2**16, fast.plan.stop
    never = rule.without_stops()
    both = {name: np.concatenate([getattr(rule, name), getattr(never, name)]) for name in ("lower", "upper")}
    mixed = replace(rule, **both, weights=np.array([draw, 2**16 - draw], float))
    to_c(Predictor(fast.forest, replace(fast.plan, stop=mixed, score_map=None)), tmp_path, layout="float32")
    stopping = X[fast.run(X).trees < 15]
    rows = np.tile(stopping[:1], (8, 1))
    assert verify(tmp_path, rows, n_adversarial=0)
    tables = lowered.lower(scurry.load(tmp_path / "model.scurry"), LAYOUTS["float32"])
    trees = run_trees(tables, rows, draws=np.array([draw - 1, draw] * 4)).trees
    assert (trees[::2] < 15).all()
    assert (trees[1::2] == 15).all()


def _on_thresholds(forest, X, beyond=None):
    """Rows whose values are thresholds of their features, or the floats next to them."""
    rng, rows = np.random.default_rng(0), X.astype(np.float32)
    inner = forest.left >= 0
    for feature in np.unique(forest.feature[inner]):
        near = rng.choice(forest.threshold[inner & (forest.feature == feature)].astype(np.float32), len(rows))
        rows[:, feature] = near if beyond is None else np.nextafter(near, np.float32(beyond))
    return rows


class TestMistakesAreFound:
    @pytest.fixture
    def folder(self, tmp_path):
        to_c(anytime_of(complete_forest(3, 4, 3, 2)), tmp_path, layout="int16-uint16")
        return tmp_path

    def alter(self, folder, old: str, new: str) -> None:
        source = folder / "model.c"
        text = source.read_text()
        assert old in text
        source.write_text(text.replace(old, new, 1))

    def test_a_wrong_comparison(self, folder):
        self.alter(folder, "> n->threshold", ">= n->threshold")
        (folder / "model_selftest.h").write_text("static int model_selftest(void) { return 0; }\n")
        result = verify(folder, np.zeros((1, 3)))
        assert result.n_mismatches > 0
        assert not result

    def test_a_wrong_sum_with_the_right_label(self, tmp_path):
        forest = scurry.Forest.from_trees(
            [
                {
                    "feature": [0, -1, -1],
                    "threshold": [0.5, 0, 0],
                    "left": [1, -1, -1],
                    "right": [2, -1, -1],
                    "value": [[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]],
                }
            ]
        )
        to_c(forest, tmp_path, layout="int16-uint16")
        source = (tmp_path / "model.c").read_text()
        altered = source.replace("0, 65534,", "0, 65533,")
        assert altered != source
        (tmp_path / "model.c").write_text(altered)
        result = verify(tmp_path, [[0.0], [1.0]], n_adversarial=10)
        assert result.n_mismatches > 0

    def test_a_failing_selftest(self, folder):
        self.alter(folder, "n->right : n->left", "n->left : n->right")
        with pytest.raises(FormatError, match="self-test"):
            verify(folder, np.zeros((1, 3)))

    def test_a_stop_flag_without_effect(self, folder):
        self.alter(folder, " && !*stop", "")
        with pytest.raises(FormatError, match=r"stop flag|does not compile"):
            verify(folder, np.zeros((1, 3)))

    def test_code_that_does_not_compile(self, folder):
        self.alter(folder, "return", "retrun")
        with pytest.raises(FormatError, match="does not compile"):
            verify(folder, np.zeros((1, 3)))

    def test_a_wrong_access(self, folder):
        self.alter(folder, "add(sums, state->node[tree])", "add(sums, 50u + state->node[tree])")
        (folder / "model_selftest.h").write_text("static int model_selftest(void) { return 0; }\n")
        with pytest.raises(FormatError, match="runtime error"):
            verify(folder, np.zeros((1, 3)), sanitize=True)

    def test_missing_and_broken_files(self, folder, tmp_path):
        with pytest.raises(InputError, match="0 exported models"):
            verify(tmp_path / "nothing", np.zeros((1, 3)))
        with pytest.raises(MissingDependencyError, match="no C compiler"):
            verify(folder, np.zeros((1, 3)), compiler="no-such-compiler")
        to_c(anytime_of(complete_forest(2, 2, 3, 2)), folder, name="other")
        with pytest.raises(InputError, match="2 exported models: model, other"):
            verify(folder, np.zeros((1, 3)))
        assert verify(folder, np.zeros((1, 3)), name="other", n_adversarial=10)
        (folder / "model.json").write_text('{"layout": "x"}')
        with pytest.raises(FormatError, match="not what to_c writes"):
            verify(folder, np.zeros((1, 3)), name="model")
