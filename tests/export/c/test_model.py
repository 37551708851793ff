import json
import re
import subprocess
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_classification, make_friedman1
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier

import scurry
from scurry import Forest, Plan, Predictor
from scurry.errors import InfeasibleError, InputError, ScurryError, ScurryWarning
from scurry.export import LAYOUTS, to_c, verify
from scurry.export.c.model import MIN_AGREEMENT, Candidate, Sizes, choose, list_candidates, make_probes
from scurry.export.replay import Kept, in_percent
from scurry.plan import StepRule
from support.anytime_oracle import anytime_of
from support.strategies import complete_forest


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


def test_a_compressed_forest_is_not_called_the_model(tmp_path):
    X, y = make_classification(1500, random_state=0)
    model = RandomForestClassifier(15, min_samples_leaf=5, random_state=0).fit(X[:400], y[:400])
    small = scurry.compress(model, X[400:], promise=scurry.promises.Labels(0.2))
    export = to_c(small, tmp_path, X_cal=X[400:])
    readme = (tmp_path / "README.md").read_text()
    assert "of the calibration rows the compressed forest's label." in readme
    assert small.certificate.statement() in readme
    assert f"It gave {in_percent(small.certificate.measured.changed)} of its calibration rows another label" in readme
    assert "The C gives" not in readme
    assert export.kept is None


def test_adverse_names(anyt, tmp_path):
    hostile = [
        "", "a b", "a-b", "../up", "a/b", "x;int main", "2nd", "_x", "a__b", "a_", "int", "AUX", "Class", "stdint",
        "MATH", "é", "a" * 21, 'x"', "x\n", "main", None, 3, "%s", "$name",
    ]  # fmt: skip
    for name in hostile:
        with pytest.raises(InputError, match="name must"):
            to_c(anyt, tmp_path / "never", name=name)
    assert not (tmp_path / "never").exists()


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
    with pytest.raises(ScurryError, match="not fitted"):
        to_c(RandomForestClassifier(), tmp_path)
    with pytest.raises(InputError, match=r'inputs must be .*"float32".*"int16"|inputs'):
        to_c(anyt, tmp_path, inputs="int32")
    leaf = {"feature": [0], "threshold": [0.0], "left": [-1], "right": [-1], "value": [[0.25, 0.75]]}
    still = Forest.from_trees([leaf, leaf], n_features=1)
    for pred in (still, Predictor(still, Plan(order=np.empty(0, np.int32), stop=StepRule()))):
        with pytest.raises(InputError, match="no tree of the forest has a split"):
            to_c(pred, tmp_path)


def test_numpy_may_raise_at_underflow(tmp_path):
    """Some packages ask numpy for that when they are imported. The thresholds are at the end of the floats."""
    tiny = float(np.finfo(np.float32).smallest_subnormal)
    stump = {"feature": [0, -1, -1], "threshold": [tiny, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
             "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}  # fmt: skip
    deeper = stump | {"threshold": [1e-300, 0, 0]}
    X = np.array([[0.0], [1.0], [-1.0]])
    with np.errstate(all="raise"):
        for layout in ("float32", "int16-uint16", "auto"):
            to_c(Forest.from_trees([stump, deeper]), tmp_path / layout, layout=layout, X_cal=X)


def test_a_model_is_exported_as_its_forest(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    model = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y)
    to_c(model, tmp_path / "model")
    to_c(scurry.from_model(model), tmp_path / "forest")
    assert (tmp_path / "model/model.c").read_text() == (tmp_path / "forest/model.c").read_text()
    with pytest.raises(InfeasibleError, match=r"smaller with scurry\.compress"):
        to_c(model, tmp_path, flash_budget=10)


def test_auto_lists_every_layout_that_fits(anyt):
    assert [c.layout.name for c in list_candidates(anyt, "model", "auto", None)] == list(LAYOUTS)
    whole = list_candidates(Predictor.full(anyt.forest), "model", "auto", None)
    assert [c.layout.name for c in whole] == [name for name in LAYOUTS if name != "breadcrumb"]
    three_classes = list_candidates(anytime_of(complete_forest(2, 2, 3, 3)), "model", "auto", None)
    assert [c.layout.name for c in three_classes] == [name for name in LAYOUTS if name != "int16-node8"]


def test_a_layout_that_does_not_fit_is_an_error(anyt):
    with pytest.raises(InputError, match=r"for plans of scurry\.anytime"):
        list_candidates(Predictor.full(anyt.forest), "model", "breadcrumb", None)
    with pytest.raises(InputError, match="layout must be one of") as error:
        list_candidates(anyt, "model", "int8", None)
    assert error.value.argument == "layout"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n_trees", [2, 3])
def test_ram_is_what_a_compiler_says(layout, n_trees, tmp_path):
    anyt = anytime_of(complete_forest(n_trees, 3, 5, 2))
    assert to_c(anyt, tmp_path, layout=layout).sizes.ram_bytes == ram_of(tmp_path)
    if layout != "breadcrumb":
        estimate = to_c(anyt.forest, tmp_path, layout=layout).sizes.ram_bytes
        assert estimate - 4 <= ram_of(tmp_path) <= estimate  # a plan that mixes policies has 4 bytes more


def ram_of(folder) -> int:
    """Bytes of one state and one row of columns, as compiled."""
    size = "(unsigned)(sizeof(model_state) + MODEL_N_COLUMNS * sizeof(model_input))"
    code = f'#include <stdio.h>\n#include "model.h"\nint main(void) {{ return printf("%u", {size}) < 0; }}\n'
    (folder / "size.c").write_text(code)
    subprocess.run(["cc", "-std=c99", "size.c", "-o", "size"], cwd=folder, check=True)
    return int(subprocess.run([folder / "size"], check=True, capture_output=True, text=True).stdout)


def test_auto_takes_the_best_agreement_within_the_budget(anyt, cancer, tmp_path):
    X = cancer[1]
    every = {name: to_c(anyt, tmp_path / name, layout=name, X_cal=X) for name in LAYOUTS}
    for budget in sorted(export.sizes.flash_bytes for export in every.values()):
        chosen = to_c(anyt, tmp_path / "auto", X_cal=X, flash_budget=budget)
        fitting = [export for export in every.values() if export.sizes.flash_bytes <= budget]
        assert chosen.sizes.flash_bytes <= budget
        least = [export.candidates[0].least_agreement for export in fitting]
        assert chosen.candidates[0].least_agreement == max(least)
    smallest = min(export.sizes.flash_bytes for export in every.values())
    with pytest.raises(InfeasibleError, match="needs") as error:
        to_c(anyt, tmp_path / "never", flash_budget=smallest - 1)
    assert error.value.achievable == smallest
    assert to_c(anyt, tmp_path / "auto").layout == "shared16"  # the answers of int16-uint16 in fewer bytes
    assert chosen.candidates[0].layout.name == chosen.layout


class _Option:
    """A layout with made-up figures, as `choose` sees it."""

    preference = (True, 2, 0)

    def __init__(self, agreement, flash_bytes, n_broken=None):
        self.agreement, self.sizes = np.array(agreement), Sizes(0, flash_bytes, 0, 1.0, 0, 0, 0, None)
        self.kept = None if n_broken is None else Kept("labels", 1000, n_broken, 0.002, 0.01)
        self.least_agreement = Candidate.least_agreement.fget(self)
        self.faith = Candidate.faith.fget(self)


def test_the_answer_before_the_first_step_has_no_part_in_the_choice():
    # All rows have the answer of the roots there: rounding changes it for all of them or for none.
    small, large = _Option([0.0, 1.0, 1.0], 100), _Option([1.0, 0.99, 1.0], 200)
    assert small.least_agreement == 1.0
    assert choose([large, small], 1000) is small
    assert choose([large, small], None) is small
    assert _Option([0.25], 1).least_agreement == 0.25  # of a model without steps


def test_of_equally_bad_layouts_the_smallest_is_taken():
    large, small = _Option([0.998], 200), _Option([0.998], 100)
    assert choose([large, small], None) is small


def test_a_layout_that_keeps_the_promise_is_taken_before_a_smaller_one():
    small, middle, large = _Option([0.9999], 100, 11), _Option([0.9995], 200, 10), _Option([1.0], 300, 2)
    assert choose([large, middle, small], None) is middle
    assert choose([large, middle, small], 250) is middle
    assert choose([large, small], 250) is small  # which nothing else fits
    assert choose([_Option([0.9999], 100, 40), worse := _Option([0.5], 300, 12)], None) is worse


@pytest.fixture(scope="module")
def tight():
    """A regressor whose values may differ by little more than what eight bits round away."""
    X, y = make_friedman1(6000, noise=1.0, random_state=0)
    model = GradientBoostingRegressor(n_estimators=100, max_depth=4, random_state=0).fit(X[:1500], y[:1500])
    promise = scurry.promises.Values(0.03)
    return scurry.early_exit(model, X[1500:], X_fit=X[:1500], promise=promise, random_state=0), X[1500:]


def test_the_layout_keeps_a_promise_about_values(tight, tmp_path):
    fast, X = tight
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export = to_c(fast, tmp_path, X_cal=X)
    errors = np.abs(fast.predict(X) - fast.forest.predict(X))
    assert export.keeps_promise
    assert export.kept >= min(0.95, (errors <= 0.03).mean())
    by_agreement = [option for option in export.candidates if option.least_agreement >= MIN_AGREEMENT]
    smallest = min(by_agreement, key=lambda option: option.sizes.flash_bytes)
    assert not smallest.kept.is_enough  # or this model would show nothing
    assert verify(tmp_path, X[:200])


def test_a_broken_promise_is_warned_of_and_written_down(tight, tmp_path):
    fast, X = tight
    with pytest.warns(ScurryWarning, match=r'breaks the promise on X_cal.*promised are 95\.000 %.*layout="auto"'):
        export = to_c(fast, tmp_path, X_cal=X, layout="int16-uint8")
    assert export.keeps_promise is False
    assert export.kept < 0.9
    assert "PROMISE IS BROKEN" in str(export)
    assert "**The promise is broken here.**" in (tmp_path / "README.md").read_text()
    assert json.loads((tmp_path / "model.json").read_text())["keeps_promise"] is False
    with pytest.warns(ScurryWarning, match=r"breaks the promise.*keeps it and needs [\d,]+ bytes of flash"):
        to_c(fast, tmp_path, X_cal=X, flash_budget=export.sizes.flash_bytes)
    with pytest.warns(ScurryWarning, match="was not measured: pass rows"):
        assert to_c(fast, tmp_path).keeps_promise is None


def test_a_budget_that_is_too_small_names_what_all_trees_need(tight, tmp_path):
    fast, _ = tight
    whole = min(option.sizes.flash_bytes for option in list_candidates(Predictor.full(fast.forest), "m", "auto", None))
    with pytest.raises(
        InfeasibleError, match=rf"all trees without the plan need {whole:,} .*size_of=scurry.export.flash_bytes"
    ):
        to_c(fast, tmp_path, flash_budget=100)


@pytest.mark.parametrize(
    ("inputs", "size_of"),
    [
        ("float32", "size_of=scurry.export.flash_bytes)"),
        ("int16", 'size_of=functools.partial(scurry.export.flash_bytes, inputs="int16"))'),
    ],
)
def test_a_budget_that_is_too_small_names_the_inputs_it_counts(tight, tmp_path, inputs, size_of):
    with pytest.raises(InfeasibleError) as caught:
        to_c(tight[0].forest, tmp_path, flash_budget=100, inputs=inputs)
    assert f"scurry.compress(…, max_bytes=100, {size_of}" in str(caught.value)


def test_a_budget_that_costs_agreement_is_warned_of(tmp_path):
    X, y = make_classification(
        400, 5, n_informative=5, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    model = RandomForestClassifier(5, max_depth=6, random_state=0).fit(X, y)
    anyt = scurry.anytime(model, X, y)
    every = list_candidates(anyt, "model", "auto", scurry.forest.as_rows(anyt.forest, X))
    smallest = min(every, key=lambda option: option.sizes.flash_bytes)
    assert smallest.least_agreement < MIN_AGREEMENT  # 8 bits change some labels of this model
    with pytest.warns(UserWarning, match=r"agrees with the source only to .* needs [\d,]+ bytes"):
        to_c(anyt, tmp_path, X_cal=X, flash_budget=smallest.sizes.flash_bytes)


def count_mismatches(folder) -> int:
    """Compile the self-test and return what it returns."""
    (folder / "main.c").write_text('#include "model_selftest.h"\nint main(void) { return model_selftest(); }\n')
    subprocess.run(["cc", "-std=c99", "main.c", "model.c", "-o", "main"], cwd=folder, check=True)
    return subprocess.run([folder / "main"], check=False).returncode


@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_passes_until_a_label_is_changed(anyt, cancer, layout, tmp_path):
    to_c(anyt, tmp_path, layout=layout, X_cal=cancer[1])
    assert count_mismatches(tmp_path) == 0
    header = tmp_path / "model_selftest.h"
    before, labels = header.read_text().split(" labels[8][5] = {")
    changed = labels.replace("{ 0", "{ 2", 1) if "{ 0" in labels else labels.replace("{ 1", "{ 2", 1)
    header.write_text(f"{before} labels[8][5] = {{{changed}")
    assert count_mismatches(tmp_path) == 1


@pytest.mark.parametrize("n_classes", [2, 10])
def test_its_rows_have_all_classes(n_classes, tmp_path):
    X, y = load_digits(return_X_y=True)
    model = RandomForestClassifier(10, max_depth=8, random_state=0).fit(X, y % n_classes)
    for made in (Predictor.full(scurry.from_model(model)), scurry.anytime(model, X, y % n_classes)):
        to_c(made, tmp_path, X_cal=X)
        assert count_mismatches(tmp_path) == 0
        labels = (tmp_path / "model_selftest.h").read_text().split(" labels[")[1].split("= {")[1].split("};")[0]
        rows = [row.split(",") for row in re.findall(r"\{([^}]*)\}", labels)]
        assert len(rows) == max(8, n_classes)
        assert len({row[-1].strip() for row in rows}) == n_classes


def test_probes_lie_on_and_next_to_thresholds(anyt, cancer):
    forest = anyt.forest
    probes = make_probes(forest, 400, rows=cancer[1])
    assert probes.dtype == np.float32
    assert np.isnan(probes).any()
    assert np.isinf(probes).any()
    feature = forest.feature[~forest.is_leaf][0]
    thresholds = forest.threshold[~forest.is_leaf & (forest.feature == feature)].astype(np.float32)
    near = [thresholds, *(np.nextafter(thresholds, np.float32(side)) for side in (-np.inf, np.inf))]
    for cells in near:
        assert np.isin(probes[:, feature], cells).any()
    assert np.isin(probes[:, feature], near).mean() > 0.5


def test_probes_repeat_and_can_be_finite(anyt, cancer):
    holes = np.where(cancer[1] > 20, np.nan, cancer[1])
    first, second = (make_probes(anyt.forest, 50, rows=holes, special=False, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert np.isfinite(first).all()


def test_it_is_said_if_no_layout_agrees_enough(tmp_path):
    """Rows whose best two classes are about equal change when leaves are rounded, and integers have no float layout."""
    stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1]}
    trees = [
        stump | {"value": [[0.3, 0.4, 0.3], [share, 0.4, 0.6 - share], [0.0, 0.0, 1.0]]} for share in (0.3, 0.4, 0.5)
    ]
    X = np.arange(10.0, dtype=np.float32)[:, None] - 5
    with pytest.warns(
        UserWarning, match=r"no layout agrees with the source on 99.900 % of X_cal; the best, '.*', does on"
    ):
        export = to_c(scurry.Forest.from_trees(trees), tmp_path, X_cal=X, inputs="int16")
    assert max(option.least_agreement for option in export.candidates) < MIN_AGREEMENT
    assert f"{export.sizes.max_cycles:,} cycles on a Cortex-M4" in str(export)
