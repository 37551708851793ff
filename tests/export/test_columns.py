"""Columns: the tests of exported nodes are the source's, on categories, zeros that are missing, and integers."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from threadpoolctl import threadpool_limits

import scurry
from scurry import Forest
from scurry.errors import InputError, UnsupportedModelError
from scurry.export import LAYOUTS, to_c, verify
from scurry.export.c.model import make_probes
from scurry.export.columns import CategorySets, check_integers
from scurry.export.lowered import lower
from scurry.export.replay import find_leaves

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
