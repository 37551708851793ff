"""The verb `scurry.cascade`: what it promises, what it chooses, and what it refuses.

Bands against a count by hand, and the promise on a population that is known.
"""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier

import scurry
from scurry.cascades.cascade import CheapAnswers
from scurry.errors import InfeasibleError, InputError, ScurryWarning
from scurry.promises import Accuracy, Certain, Labels, LabelsPerClass, Recall, Values
from scurry.verbs.cascade import LIMITS, BandTest

X, Y = make_classification(6000, 8, n_informative=5, random_state=0)
X = X.astype(np.float32)
NAMES = np.array(["no", "yes"])
TRAIN, FIT, CAL, NEW = slice(0, 1000), slice(1000, 2000), slice(2000, 4500), slice(4500, 6000)
PROMISE = Labels(0.03)


@pytest.fixture(scope="module")
def expensive():
    return RandomForestClassifier(60, random_state=0).fit(X[TRAIN], NAMES[Y[TRAIN]])


@pytest.fixture(scope="module")
def cheap():
    return GradientBoostingClassifier(n_estimators=12, random_state=0).fit(X[TRAIN], NAMES[Y[TRAIN]])


@pytest.fixture(scope="module")
def both(cheap, expensive):
    return scurry.cascade(cheap, expensive, X[CAL], promise=PROMISE)


def test_it_keeps_its_promise_and_most_rows(both, expensive):
    run = both.run(X[NEW])
    full = expensive.predict(X[NEW])
    assert 0.02 < run.share_passed_on < 0.6
    assert (run.labels != full).mean() < 0.035  # 1,500 rows of a rate of at most 3 %
    assert run.labels.dtype == full.dtype
    certificate = both.certificate
    assert (both.promise, certificate.n_rows, certificate.unit) == (PROMISE, 2500, "row")
    assert certificate.bound <= 0.03
    kept, full = ~both.passes_on(X[CAL]), expensive.predict(X[CAL])
    assert certificate.n_broken == (both.cheap.predict(X[CAL])[kept] != full[kept]).sum()
    assert certificate.measured.kept == kept.mean()
    assert certificate.measured.expensive_us > 0
    assert certificate.recipe == f"scurry.cascade(cheap, expensive, X_cal, promise=scurry.promises.{PROMISE!r})"
    for text in ("at most 3 % of new rows", "the expensive one", "rows kept", "time per row"):
        assert text in both.summary()


def test_models_functions_and_recorded_answers_give_the_same_cascade(both, cheap, expensive):
    called = scurry.cascade(cheap, lambda rows: list(expensive.predict(rows)), X[CAL], promise=PROMISE, batch_size=99)
    recorded = scurry.cascade(cheap, expensive.predict(X[CAL]).astype(object), X[CAL], promise=PROMISE)
    assert both.min_certainty == called.min_certainty == recorded.min_certainty
    np.testing.assert_array_equal(called.predict(X[NEW]), both.predict(X[NEW]))
    assert recorded.certificate.measured.expensive_us is None
    with pytest.raises(InputError, match="rows must be passed on"):
        recorded.predict(X[NEW])


def test_rows_of_any_order_and_kind_give_the_same_cascade(both, cheap, expensive):
    order = np.random.default_rng(0).permutation(2500)
    assert scurry.cascade(cheap, expensive, X[CAL][order], promise=PROMISE).min_certainty == both.min_certainty


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_tables_of_all_kinds_give_the_same_cascade(both, cheap, expensive, kind):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    def make_table(rows):
        frame = pd.DataFrame(rows, columns=[f"column {j}" for j in range(rows.shape[1])])
        return {"pandas": frame, "polars": pl.from_pandas(frame), "arrow": pa.Table.from_pandas(frame)}[kind]

    def answer(rows):  # gets rows of the same kind of table
        assert type(rows) is type(make_table(X[:2]))
        values = rows.to_pandas() if kind == "arrow" else rows
        return expensive.predict(values.to_numpy())

    seen = scurry.cascade(cheap, answer, make_table(X[CAL]), promise=PROMISE)
    assert seen.min_certainty == both.min_certainty
    run, expected = seen.run(make_table(X[NEW])), both.run(X[NEW])
    np.testing.assert_array_equal(run.labels, expected.labels)
    np.testing.assert_array_equal(run.passed_on, expected.passed_on)


def test_files_keep_the_certificate(both, expensive, tmp_path):
    both.save(tmp_path / "both.scurry")
    again = scurry.Cascade.load(tmp_path / "both.scurry", expensive)
    np.testing.assert_array_equal(again.predict(X[NEW]), both.predict(X[NEW]))
    assert again.certificate.to_json() == both.certificate.to_json()
    assert again.summary() == both.summary()


def test_early_exits_are_certified_together(cheap, expensive):
    fast = scurry.early_exit(cheap, X[FIT], max_disagreement=0.01, method="qwyc", confidence=None)
    both = scurry.cascade(fast, expensive, X[CAL], promise=PROMISE)
    kept, full = ~both.passes_on(X[CAL]), expensive.predict(X[CAL])
    assert both.cheap is fast
    assert fast.run(X[CAL]).mean_trees < 12
    assert both.certificate.n_broken == (fast.predict(X[CAL])[kept] != full[kept]).sum()


@pytest.mark.parametrize("X_fit", [X[FIT], None])
def test_of_several_models_the_cheaper_way_is_taken(cheap, expensive, X_fit):
    poor = GradientBoostingClassifier(n_estimators=1, max_depth=1).fit(X[TRAIN], NAMES[Y[TRAIN]])
    both = scurry.cascade([poor, cheap], expensive, X[CAL], promise=PROMISE, X_fit=X_fit, expensive_us=1e5)
    assert both.cheap.forest.n_trees == 12
    certificate = both.certificate
    assert certificate.n_fit_rows == (1000 if X_fit is not None else 1250)
    assert certificate.n_rows == (2500 if X_fit is not None else 1250)
    assert "µs per row on rows that certify nothing: 1 trees, 3 nodes: " in certificate.why
    assert ("with early exits" in certificate.why) == (X_fit is not None)


def test_rows_that_fit_exits_serve_recorded_answers_too(cheap, expensive):
    both = scurry.cascade(cheap, expensive.predict(X[CAL]), X[CAL], promise=PROMISE, X_fit=X[FIT])
    assert both.cheap.plan.exits_early
    with pytest.raises(InputError, match="only those to X_cal are recorded"):
        scurry.cascade([cheap, cheap], expensive.predict(X[CAL]), X[CAL], promise=PROMISE, X_fit=X[FIT])


def test_rows_that_fitted_certify_nothing(cheap, expensive):
    with pytest.warns(UserWarning, match=r"1,500 of 2,500 rows of X_cal are among those of X_fit"):
        both = scurry.cascade(cheap, expensive, X[CAL], promise=PROMISE, X_fit=X[3000:4500])
    assert both.certificate.n_rows == 1000
    assert both.certificate.n_shared_rows == 1500


def test_groups_count_once(cheap, expensive):
    both = scurry.cascade(cheap, expensive, X[CAL], promise=Labels(0.05), groups=np.arange(2500) // 2)
    assert (both.certificate.n_rows, both.certificate.unit) == (1250, "group")
    assert both.promise.holds == "groups"


LABELS = {
    "objects": lambda y: NAMES.astype(object)[y],
    "texts of pandas": lambda y: pytest.importorskip("pandas").Series(NAMES[y], dtype="str"),
    "Python texts in a Series": lambda y: pytest.importorskip("pandas").Series(NAMES[y], dtype=object),
    "categories": lambda y: pytest.importorskip("pandas").Series(NAMES[y], dtype="category"),
    "texts of numpy": lambda y: NAMES[y],
    "numbers": lambda y: y + 1,
    "bools": lambda y: y == 1,
}


@pytest.mark.parametrize("kind", ["a model", "a function", "labels"])
@pytest.mark.parametrize("given", LABELS)
def test_labels_are_compared_by_their_values(given, kind):
    labels = LABELS[given]
    cheap = RandomForestClassifier(9, max_depth=6, random_state=1).fit(X[TRAIN], labels(Y[TRAIN]))
    model = RandomForestClassifier(20, max_depth=9, random_state=0).fit(X[TRAIN], labels(Y[TRAIN]))

    def answer(rows):
        return labels((model.predict(rows) == model.classes_[1]).astype(int))

    expensive = {"a model": model, "a function": answer, "labels": answer(X[CAL])}[kind]
    promise = LabelsPerClass(dict.fromkeys(model.classes_.tolist(), 0.05))
    both = scurry.cascade(cheap, expensive, X[CAL], promise=promise)
    found = Recall(model.classes_[1], 0.1, max_changed=0.1)
    assert scurry.cascade(cheap, expensive, X[CAL], labels(Y[CAL]), promise=found).promise == found
    full = model.predict(X[NEW])
    run = both.run(X[NEW], recorded=answer(X[NEW]))
    assert 0 < run.share_passed_on < 1
    assert run.labels.dtype == cheap.classes_.dtype
    assert {type(label) for label in run.labels} == {type(label) for label in cheap.classes_}
    assert (run.labels[run.passed_on] == full[run.passed_on]).all()
    assert (run.labels[~run.passed_on] == cheap.predict(X[NEW])[~run.passed_on]).all()


def test_answers_of_other_types_become_the_labels_of_the_cheap_model():
    cheap = RandomForestClassifier(9, max_depth=6, random_state=1).fit(X[TRAIN], Y[TRAIN] == 1)
    both = scurry.cascade(cheap, lambda rows: cheap.predict(rows).astype(float), X[CAL], promise=PROMISE)
    both.min_certainty = 0.5
    assert both.run(X[NEW]).share_passed_on > 0
    np.testing.assert_array_equal(both.predict(X[NEW]), cheap.predict(X[NEW]), strict=True)


def test_a_column_of_groups_is_not_passed_on():
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    models = GradientBoostingClassifier(n_estimators=12, random_state=0), RandomForestClassifier(30, random_state=0)
    cheap, expensive = (model.fit(frame[TRAIN], NAMES[Y[TRAIN]]) for model in models)
    named = frame.assign(pat=np.arange(6000) // 2)
    by_value = scurry.cascade(cheap, expensive, frame[CAL], promise=Labels(0.05), groups=named.pat[CAL])
    for X_fit in (None, named[FIT]):
        both = scurry.cascade(cheap, expensive, named[CAL], promise=Labels(0.05), X_fit=X_fit, groups="pat")
        assert (both.certificate.n_rows, both.certificate.unit) == (1250, "group")
        assert "groups=groups" in both.certificate.recipe
        if X_fit is None:
            assert both.certificate.recipe == by_value.certificate.recipe
    with pytest.raises(InputError, match="groups='patient' must be the name of a column"):
        scurry.cascade(cheap, expensive, named[CAL], groups="patient")


def test_opposite_models_keep_nothing_and_say_so(cheap):
    forest = scurry.from_model(cheap)
    with pytest.warns(ScurryWarning, match="no row stays with the cheap model"):
        both = scurry.cascade(forest, lambda rows: NAMES[::-1][forest.codes_of(forest.predict(rows))], X[CAL])
    assert both.run(X[NEW]).share_passed_on == 1


def test_equal_models_keep_everything(cheap):
    assert not scurry.cascade(cheap, cheap, X[CAL]).passes_on(X[NEW]).any()


def test_regressors():
    y = X[:, 0] ** 2 + X[:, 1]
    cheap = GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X[TRAIN], y[TRAIN])
    promise = Values(0.5, 0.1)
    both = scurry.cascade(cheap, lambda rows: rows[:, 0] ** 2 + rows[:, 1], X[CAL], promise=promise)
    run = both.run(X[NEW])
    assert 0.1 < run.share_passed_on < 0.9
    assert (np.abs(run.labels - y[NEW]) > 0.5).mean() < 0.12
    assert (both.certificate.n_rows, both.certificate.n_fit_rows) == (1250, 1250)
    again = scurry.cascade(cheap, y[CAL], X[CAL], promise=promise)
    assert again.min_certainty == both.min_certainty


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"promise": Certain()}, "promise of a cascade must be one of Labels"),
        ({"promise": 0.01}, "promise of a cascade must be one of"),
        ({"promise": Labels(0.0)}, "max_changed must be above 0"),
        ({"promise": Labels(0.01, against="vote")}, "leave `against` and `holds`"),
        ({"promise": Values(0.1)}, "cheap must be a regressor"),
        ({"promise": Accuracy(0.01)}, "y_cal is needed"),
        ({"promise": Accuracy(0.01), "y_cal": [1, 2]}, r"y_cal has shape \(2,\)"),
        ({"expensive": Y[CAL]}, "the two models have different labels: expensive answers"),
        ({"expensive": np.full(2500, "x")}, "no label in common"),
        ({"expensive": NAMES[Y[FIT]]}, r"must have shape \(2500,\), got \(1000,\)"),
        ({"X_fit": X[:0]}, "X_fit has no rows"),
        ({"X_cal": X[:0], "expensive": []}, "X_cal has no rows"),
        ({"cheap": []}, "at least one model"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"expensive_us": -1}, "expensive_us must be"),
    ],
)
def test_misuse(cheap, wrong, message):
    arguments = {"cheap": cheap, "expensive": NAMES[Y[CAL]], "X_cal": X[CAL], "promise": PROMISE} | wrong
    with pytest.raises(InputError, match=message):
        scurry.cascade(**arguments)


def test_too_few_rows(cheap):
    with pytest.raises(InfeasibleError, match="at least 598 calibration rows") as caught:
        scurry.cascade(cheap, NAMES[Y[CAL]][:200], X[CAL][:200])
    assert caught.value.n_rows_needed == 598
    with pytest.raises(InfeasibleError, match="of each class"):
        scurry.cascade(
            cheap,
            np.full(2500, "yes"),
            X[CAL],
            promise=LabelsPerClass({"no": 0.1, "yes": 0.1}),
        )


def draw(n_rows, seed=0, n_classes=2):
    """Certainties, and two models that differ the more often the less certain the cheap one is."""
    rng = np.random.default_rng(seed)
    certainty = rng.beta(2, 1, n_rows)
    expensive = rng.integers(n_classes, size=n_rows)
    differs = rng.random(n_rows) < 0.3 * (1 - certainty) ** 2
    return CheapAnswers((expensive + differs) % n_classes, certainty), expensive


def chance_of_so_few(n_broken, n_rows, rate):
    return sum(math.comb(n_rows, k) * rate**k * (1 - rate) ** (n_rows - k) for k in range(n_broken + 1))


def test_limits_go_from_keeping_none_to_keeping_all():
    assert LIMITS[0] == 1
    assert LIMITS[-1] < 0
    assert (np.diff(LIMITS) < 0).all()
    assert np.abs(np.diff(LIMITS))[1:-1].max() < 0.0126


@pytest.mark.parametrize("seed", range(3))
def test_labels_against_a_count_by_hand(seed):
    said, expensive = draw(700, seed)
    band = BandTest(Labels(0.03), said, expensive, None, (0, 1)).find()
    wrong = said.answers != expensive
    allowed = [
        limit for limit in LIMITS if chance_of_so_few(int(wrong[said.certainty > limit].sum()), 700, 0.03) <= 0.05
    ]
    # Mistakes only become more, so the last limit that passes is the smallest that does.
    assert (said.certainty > band.limit).sum() == (said.certainty > min(allowed)).sum()
    kept = said.certainty > band.limit
    assert band.kept == kept.mean()
    assert band.n_broken == (wrong & kept).sum()
    assert band.changed == (wrong & kept).mean()
    assert band.cheap_changed == wrong.mean()
    assert band.bound < 0.03
    assert chance_of_so_few(band.n_broken, 700, band.bound) == pytest.approx(0.05)


def test_equal_models_keep_everything_and_opposite_ones_nothing():
    said, expensive = draw(1000)
    assert BandTest(Labels(0.005), CheapAnswers(expensive, said.certainty), expensive, None).find().kept == 1
    assert BandTest(Labels(0.005), CheapAnswers(1 - expensive, said.certainty), expensive, None).find().kept == 0


def test_too_few_rows_certify_nothing():
    said, expensive = draw(100)
    assert BandTest(Labels(0.005), said, expensive, None).find() is None


def test_without_confidence_the_rows_themselves_keep_the_rate():
    said, expensive = draw(400)
    band = BandTest(Labels(0.01, confidence=None), said, expensive, None).find()
    assert 0 < band.changed <= 0.01
    assert band.bound is None


def test_each_class_is_tested_apart():
    said, expensive = draw(4000, n_classes=3)
    promise = LabelsPerClass({0: 0.01, 1: 0.02, 2: 0.05})
    band = BandTest(promise, said, expensive, None, (0, 1, 2)).find()
    assert [test.n_rows for test in band.tests] == np.bincount(expensive).tolist()
    assert np.prod([test.confidence for test in band.tests]) == pytest.approx(0.95)
    for label, test in enumerate(band.tests):
        wrong = (said.answers != expensive) & (expensive == label) & (said.certainty > band.limit)
        assert test.n_broken == wrong.sum()
        assert chance_of_so_few(int(wrong.sum()), test.n_rows, test.max_rate) <= 1 - test.confidence
    # The strictest class alone would keep no fewer rows.
    alone = BandTest(Labels(0.05), said, expensive, None, (0, 1, 2)).find()
    assert band.kept < alone.kept


def test_recall_counts_the_rows_found():
    said, expensive = draw(4000)
    y = np.where(np.random.default_rng(1).random(4000) < 0.9, expensive, 1 - expensive)
    band = BandTest(Recall(1, 0.02, 0.03), said, expensive, y, (0, 1)).find()
    found, others = band.tests
    assert found.n_rows == ((expensive == 1) & (y == 1)).sum()
    assert others.n_rows == (expensive != 1).sum()


def test_gains_make_up_for_losses():
    said, expensive = draw(4000)
    y = np.where(np.random.default_rng(1).random(4000) < 0.5, expensive, said.answers)
    labels = BandTest(Labels(0.01), said, expensive, y, (0, 1)).find()
    accuracy = BandTest(Accuracy(0.01), said, expensive, y, (0, 1)).find()
    assert accuracy.kept > labels.kept
    assert accuracy.n_gained > 0
    assert accuracy.bound < 0.01
    costs = BandTest(Accuracy(0.05, error_costs=[[0, 1], [2, 0]]), said, expensive, y, (0, 1)).find()
    assert costs.kept > labels.kept
    assert costs.bound < 0.05


def test_values_are_compared_by_their_distance():
    rng = np.random.default_rng(0)
    certainty, expensive = rng.random(2000), rng.normal(size=2000)
    cheap = expensive + (1 - certainty) * rng.normal(size=2000)
    band = BandTest(Values(0.5, 0.05), CheapAnswers(cheap, certainty), expensive, None).find()
    beyond = np.abs(cheap - expensive) > 0.5
    assert 0 < band.kept < 1
    assert band.changed == (beyond & (certainty > band.limit)).mean()
    assert band.cheap_changed == beyond.mean()


def test_promises_are_rarely_broken_on_a_known_population():
    said, expensive = draw(20_000, seed=5)
    wrong, rng, n_broken = said.answers != expensive, np.random.default_rng(0), 0
    for _ in range(200):
        rows = rng.integers(20_000, size=500)
        band = BandTest(Labels(0.03), CheapAnswers(*(part[rows] for part in said)), expensive[rows], None).find()
        n_broken += (wrong & (said.certainty > band.limit)).mean() > 0.03
    assert n_broken <= 200 * 0.05 + 2 * math.sqrt(200 * 0.05 * 0.95)
