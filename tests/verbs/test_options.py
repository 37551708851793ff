"""Requests that make no sense say what would.

Rows that a promise must not be tested on are noticed: those that fit, copies, groups, and those of the training.
"""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.ensemble import (
    RandomForestClassifier,
    RandomForestRegressor,
)

import scurry
from scurry.errors import InfeasibleError, InputError, ScurryWarning
from scurry.stopping.guarantee import hash_rows
from scurry.verbs.options import with_threshold
from support.calibration_rows import two_classes
from support.strategies import complete_forest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": 1.5}, "threshold must be a probability between 0 and 1, got 1.5"),
        ({"threshold": 0.3, "method": "minimean"}, 'votes, which have no threshold; use "qwyc"'),
        ({"costs": "steps", "method": "minimean"}, 'in random order, whatever they cost; use "qwyc"'),
        ({"costs": "euros"}, 'costs must be "trees", "steps" or a number per tree'),
        ({"costs": [1.0, 2.0]}, r"costs must be one number or one per model \(31\)"),
        ({"costs": ["cheap"] * 31}, "costs must be numbers"),
    ],
)
def test_thresholds_and_costs_that_make_no_sense(forest, arguments, message):
    X, _ = two_classes(500, 14)
    with pytest.raises(InputError, match=message):
        scurry.early_exit(forest, X, **arguments)


def test_a_threshold_is_for_two_classes(three_classes):
    model, X = three_classes
    with pytest.raises(InputError, match="threshold is for two classes, the model has 3"):
        scurry.early_exit(model, X[:500], threshold=0.3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_disagreement": 5}, r"must be in \[0, 1\), got 5\. Did you mean 0\.05 \(5 %\)\?"),
        ({"max_disagreement": -0.1}, r"must be in \[0, 1\)"),
        ({"confidence": 95}, r"confidence must be in \(0, 1\), got 95\. Did you mean 0\.95\?"),
        ({"method": "best"}, 'method must be one of "auto", "minimax"'),
        ({"shuffle": "all"}, 'shuffle must be one of "fixed", "row"'),
        ({"keep_scores": "all"}, 'keep_scores must be None or "positive"'),
        ({"method": "minimean", "keep_scores": "positive"}, 'use method="qwyc"'),
        ({"method": "fan", "keep_scores": "positive"}, 'use method="qwyc"'),
        ({"order": "natural"}, '\'auto\' finds or draws its own order; use "qwyc" or "fan"'),
        ({"order": "natural", "method": "minimean"}, "'minimean' finds or draws its own order"),
        ({"order": "best", "method": "qwyc"}, 'order must be one of "natural", "random"'),
        ({"order": [0, 1], "method": "qwyc"}, "order must name each of the 31 models 0 to 30 once"),
        ({"order": [0, 1], "method": "fan"}, "order must name each of the 31 models 0 to 30 once"),
        ({"gamma": 2.0, "method": "qwyc"}, "gamma is for method=\"fan\", got method='qwyc'"),
        ({"gamma": -1, "method": "fan"}, "gamma must be a number of at least 0"),
        ({"bin_width": 0.1}, "bin_width is for method=\"fan\", got method='auto'"),
        ({"bin_width": 0, "method": "fan"}, "bin_width must be a number above 0"),
    ],
)
def test_arguments_that_make_no_sense(forest, arguments, message):
    X, _ = two_classes(500, 14)
    with pytest.raises(InputError, match=message):
        scurry.early_exit(forest, X, **arguments)


def test_scores_are_kept_for_the_promised_class(forest):
    X, y = two_classes(500, 14)
    message = r'keep_scores="positive" keeps the scores of rows of 1, the second class, and the promise is about 0'
    with pytest.raises(InputError, match=message):
        scurry.early_exit(forest, X, y, promise=scurry.promises.Recall(0, 0.2), keep_scores="positive")


def test_a_low_threshold_is_about_the_second_class(forest):
    X, y = two_classes(4000, 14)
    promise = scurry.promises.Recall(0, 0.2)
    with pytest.warns(ScurryWarning, match=r"about 1, the second class.*P\(0\) >= 0.3, pass 0.7"):
        scurry.early_exit(forest, X, y, promise=promise, threshold=0.3)
    fast = scurry.early_exit(forest, X, y, promise=promise, threshold=0.7)
    assert "Here the model answers 1 where P(1) >= 0.7." in fast.certificate.statement()


def test_numbers_of_any_type(forest):
    X, _ = two_classes(4000, 33)
    asked = {"max_disagreement": np.float32(0.125), "confidence": np.float32(0.5), "threshold": np.float32(0.25)}
    fast = scurry.early_exit(forest, X, random_state=0, **asked)
    same = scurry.early_exit(forest, X, max_disagreement=0.125, confidence=0.5, threshold=0.25, random_state=0)
    assert fast.digest == same.digest


def test_data_that_makes_no_sense(forest, boosted):
    X, y = two_classes(500, 15)
    with pytest.raises(InputError, match="X_cal has one row, and one part of the rows fits what the other certifies"):
        scurry.early_exit(forest, X[:1])
    with pytest.raises(InputError, match="the model knows only the class 'same'"):
        scurry.early_exit(RandomForestClassifier(2).fit(X, np.full(500, "same")), X)
    with pytest.raises(InputError, match="X_cal has no rows"):
        scurry.early_exit(forest, X[:0])
    with pytest.raises(InputError, match="X_fit has no rows; leave it out"):
        scurry.early_exit(forest, X, X_fit=X[:0])
    with pytest.raises(InputError, match=r"y_cal has shape \(3,\), X_cal has 500 rows"):
        scurry.early_exit(forest, X, y[:3])
    with pytest.raises(InputError, match="7 columns"):
        scurry.early_exit(forest, np.zeros((5, 7)))
    with pytest.raises(InputError, match=r"is a regressor; pass promise=scurry.promises.Values"):
        scurry.early_exit(RandomForestRegressor(3).fit(X, y), X)
    with pytest.raises(InputError, match='adds or averages scores; use "qwyc"'):
        scurry.early_exit(boosted, X, method="minimax")


@pytest.mark.parametrize("method", ["qwyc", "sentinels", "auto"])
@pytest.mark.parametrize("label", [0, 1])
def test_a_model_that_answers_one_label_stops_at_once(boosted, method, label):
    X, _ = two_classes(4000, 29)
    same = X[boosted.predict(X) == label]
    fast = scurry.early_exit(boosted, same, method=method, max_disagreement=0.01)
    assert f"The model answers {label} to all {len(same):,} calibration rows." in fast.summary()
    run = fast.run(same)
    assert run.mean_trees <= (2 if method == "sentinels" else 1)
    assert (run.labels != label).mean() <= (0.01 if method == "sentinels" else 0)
    # Rows of the other class are counted where there are some, and the promise is refused or kept.
    others = pytest.warns(UserWarning, match="are among those of X_fit too")
    with others:
        fast = scurry.early_exit(boosted, X, X_fit=same[: len(same) // 2], method=method, max_disagreement=0.05)
    assert (fast.predict(X) != boosted.predict(X)).mean() <= 0.05


def test_of_several_classes_one_may_be_the_only_answer(three_classes):
    model, X = three_classes
    forest = scurry.from_model(model)
    same = X[forest.predict(X) == forest.classes[1]]
    fast = scurry.early_exit(forest, same[:400], max_disagreement=0.05, method="qwyc")
    assert f"to all {len(same[:400])} calibration rows" in fast.summary()
    assert fast.run(same).mean_trees < 0.5 * forest.n_trees
    assert (fast.predict(same) != forest.predict(same)).mean() <= 0.05


def test_fan_says_which_rows_are_missing(boosted):
    X, _ = two_classes(2000, 29)
    with pytest.raises(InputError, match="nothing can be learnt from one class"):
        scurry.early_exit(boosted, X[boosted.predict(X) == 1], method="fan")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "schwing"}, "'schwing' is for two classes, the model has 3; use \"minimixed\""),
        ({"method": "minimean", "confidence": None}, "'minimean' without a confidence is for two classes"),
        ({"method": "minimixed", "shuffle": "row"}, 'shuffle="row" is for two classes'),
        ({"method": "fan"}, 'decides between two classes, the model has 3; use "qwyc"'),
        ({"method": "qwyc", "keep_scores": "positive"}, "needs a model with two classes"),
    ],
)
def test_what_several_classes_cannot_have(three_classes, arguments, message):
    model, X = three_classes
    with pytest.raises(InputError, match=message):
        scurry.early_exit(model, X[:500], **arguments)


@pytest.mark.parametrize("method", ["auto", "qwyc", "sentinels"])
def test_orders_by_row_are_for_votes(boosted, method):
    X, _ = two_classes(400, 3)
    with pytest.raises(InputError, match=r'shuffle="row" is for methods on votes \(minimax, .*got method='):
        scurry.early_exit(boosted, X, method=method, shuffle="row")


def test_a_promise_in_the_place_of_labels(boosted):
    X, _ = two_classes(400, 3)
    with pytest.raises(InputError, match=r"y_cal must hold labels or targets, got Labels\(.*; pass promise=Labels"):
        scurry.early_exit(boosted, X, scurry.promises.Labels(0.01))


def test_groups_may_be_a_column(boosted):
    """Of pandas, polars and Arrow; other names are refused."""
    X, _ = two_classes(3000, 3)
    groups = np.arange(len(X)) // 2
    names = [f"x{i}" for i in range(X.shape[1])]
    forest = scurry.from_model(boosted).replace(feature_names=names)
    frame = pd.DataFrame(X, columns=names).assign(patient=groups)
    asked = {"max_disagreement": 0.05, "random_state": 0}
    wanted = scurry.early_exit(forest, X, groups=groups, **asked).certificate
    for table in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        found = scurry.early_exit(forest, table, groups="patient", **asked).certificate
        assert (found.n_rows, found.n_broken, found.unit) == (wanted.n_rows, wanted.n_broken, "group")
    with pytest.raises(InputError, match="groups='ward' must be the name of a column of the rows: they have x0, "):
        scurry.early_exit(forest, frame, groups="ward", **asked)
    with pytest.raises(InputError, match="they are no frame; pass a value per row"):
        scurry.early_exit(forest, X, groups="ward", **asked)


@pytest.mark.parametrize("scale", [1.0, 2.0, 0.3])
def test_a_threshold_is_a_probability_whatever_the_scale_of_the_link(scale):
    forest = complete_forest(
        8, 3, 4, 1, classes=["no", "yes"], base_score=[-3.0], aggregation="sum", link="logistic", link_scale=scale
    )
    X = np.random.default_rng(0).normal(size=(500, 4))
    probability = forest.predict_proba(X)[:, 1]
    for threshold in np.quantile(probability, [0.1, 0.5, 0.9]) + 1e-9:
        labels = with_threshold(forest, float(threshold)).predict(X)
        np.testing.assert_array_equal(labels == "yes", probability >= threshold)
        assert len(set(labels)) == 2


def test_models_that_answer_with_numbers_are_told_what_to_promise():
    X, y = two_classes(50, 0)
    ranker = RandomForestRegressor(3).fit(X, y)
    with pytest.raises(
        InputError, match=r"Values\(max_error\).*ranks rows, pass promise=.*TopK\(10, 0\.01\) and groups="
    ):
        scurry.early_exit(ranker, X)


def test_a_promise_of_a_cost_leads_to_prune():
    X, y = two_classes(50, 0)
    model = RandomForestClassifier(3).fit(X, y)
    with pytest.raises(InputError, match=r"early_exit cannot promise Cost.*scurry\.prune\(.*\)\.at\(promise="):
        scurry.early_exit(model, X, promise=scurry.promises.Cost(10))


@pytest.mark.parametrize("verb", [scurry.early_exit, scurry.anytime, scurry.prune, scurry.compress])
def test_a_predictor_given_as_a_model_is_told_of_its_forest(verb):
    X, y = two_classes(50, 0)
    small = scurry.Predictor.full(scurry.from_model(RandomForestClassifier(3).fit(X, y)))
    with pytest.raises(InputError, match=r"pass its forest, predictor\.forest") as error:
        verb(small, X, y)
    assert error.value.argument == "model"


ASKED = {"max_disagreement": 0.02, "random_state": 0}


@pytest.fixture(autouse=True)
def _unexpected_warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


class TestRowsThatFit:
    @pytest.mark.parametrize("method", ["auto", "qwyc", "fan", "minimean"])
    def test_shared_rows_are_left_out_and_counted(self, forest, method):
        X, _ = two_classes(4000, 50)
        with pytest.warns(UserWarning, match=r"1,000 of 3,000 rows of X_cal are among those of X_fit too.*left out"):
            shared = scurry.early_exit(forest, X[:3000], X_fit=X[2000:], method=method, **ASKED)
        apart = scurry.early_exit(forest, X[:2000], X_fit=X[2000:], method=method, **ASKED)
        assert shared.certificate.n_shared_rows == 1000
        assert (shared.certificate.n_rows, shared.certificate.n_calibration_rows) == (2000, 3000)
        assert "1,000 left out because they fit it too" in str(shared.summary())
        np.testing.assert_array_equal(shared.plan.order, apart.plan.order)
        assert shared.certificate.measured == apart.certificate.measured

    def test_a_certificate_needs_other_rows(self, forest):
        X, _ = two_classes(2000, 51)
        with pytest.raises(InputError, match=r"all 2,000 rows of X_cal are among those of X_fit.*Leave X_fit out"):
            scurry.early_exit(forest, X, X_fit=X, **ASKED)

    def test_rows_that_repeat_by_themselves_may_be_shared(self, forest):
        """Two draws from 300 kinds of rows share nearly all of them."""
        kinds, _ = two_classes(300, 52)
        draw = np.random.default_rng(0).integers
        fast = scurry.early_exit(forest, kinds[draw(0, 300, 4000)], X_fit=kinds[draw(0, 300, 4000)], **ASKED)
        assert (fast.certificate.n_shared_rows, fast.certificate.n_rows) == (0, 4000)

    def test_without_a_promise_any_rows_will_do(self, forest):
        X, _ = two_classes(1000, 53)
        scurry.early_exit(forest, X, X_fit=X, confidence=None, **ASKED)

    @pytest.mark.parametrize("container", ["array", "frame"])
    def test_an_estimator_keeps_copies_together(self, container):
        """Oversampled rows: a copy must not calibrate what another trained."""
        X, y = two_classes(3000, 54)
        rare = np.flatnonzero(y == 1)[:400]
        chosen = np.concatenate([np.flatnonzero(y == 0), np.repeat(rare, 4)])
        table = X[chosen] if container == "array" else pd.DataFrame(X[chosen], columns=list("abcdef"))
        model = RandomForestClassifier(21, max_depth=6)
        fast = scurry.EarlyExitClassifier(model, max_disagreement=0.05, calibration_size=0.4, random_state=0)
        with pytest.warns(UserWarning, match="rows of X_cal are copies of others"):
            fast.fit(table, y[chosen])
        calibration, certificate = fast._calibration, fast.predictor_.certificate
        trained = hash_rows(calibration.training_rows, "float32")
        assert not np.isin(hash_rows(calibration.rows, "float32"), trained).any()
        assert len(calibration.rows) + len(calibration.training_rows) == len(chosen)
        assert certificate.unit == "distinct row"


class TestCopies:
    @pytest.mark.parametrize("method", ["auto", "qwyc", "minimean"])
    def test_a_copy_proves_nothing(self, forest, method):
        X, _ = two_classes(900, 55)
        with pytest.warns(UserWarning, match=r"4,500 rows, 900 without copies.*groups="):
            fast = scurry.early_exit(forest, np.repeat(X, 5, axis=0), method=method, **ASKED)
        certificate = fast.certificate
        assert certificate.unit == "distinct row"
        assert certificate.n_rows <= 900
        assert "distinct rows that had no part in the fit" in str(fast.summary())

    def test_too_few_rows_remain_too_few(self, forest):
        X, _ = two_classes(100, 56)
        with pytest.warns(UserWarning, match="copies"), pytest.raises(InfeasibleError):
            scurry.early_exit(forest, np.repeat(X, 50, axis=0), method="qwyc", **ASKED)

    def test_what_is_certified_does_not_depend_on_the_number_of_copies(self, forest):
        X, _ = two_classes(2000, 57)
        found = []
        for n_copies in (3, 7):
            with pytest.warns(UserWarning, match="copies"):
                found.append(scurry.early_exit(forest, np.repeat(X, n_copies, axis=0), method="qwyc", **ASKED))
        assert found[0].certificate.n_rows == found[1].certificate.n_rows == 1000


def oversample(y, n_drawn, n_distinct, seed):
    """Return indices of all rows of class 0, and of `n_drawn` rows drawn from a few of class 1."""
    of_rare = np.flatnonzero(y == 1)[:n_distinct]
    return np.concatenate([np.flatnonzero(y == 0), np.random.default_rng(seed).choice(of_rare, n_drawn)])


class TestOversampledClass:
    """Rows of one class drawn with replacement: each occurs as often as chance has it."""

    def test_its_rows_count_once(self, forest):
        X, y = two_classes(6000, 58)
        chosen = oversample(y, 2500, 150, 0)
        promise = scurry.promises.Recall(1, 0.02)
        with (
            pytest.warns(UserWarning, match="rows of X_cal are copies of others"),
            pytest.raises(InfeasibleError, match="distinct rows of this kind"),
        ):
            scurry.early_exit(forest, X[chosen], y[chosen], promise=promise)
        assert scurry.early_exit(forest, X, y, promise=promise).promise.label == 1

    def test_it_is_noticed_by_the_labels_of_the_model_alone(self, forest):
        X, _ = two_classes(6000, 59)
        chosen = oversample(forest.predict(X), 2500, 150, 1)
        with pytest.warns(UserWarning, match="copies"), pytest.raises(InfeasibleError):
            scurry.early_exit(forest, X[chosen], promise=scurry.promises.LabelsPerClass({0: 0.02, 1: 0.02}))

    def test_so_are_subgroups(self, forest):
        X, _ = two_classes(6000, 60)
        place = np.repeat([0, 1], 3000)
        chosen = oversample(place, 2500, 100, 2)
        with pytest.warns(UserWarning, match="copies"), pytest.raises(InfeasibleError):
            scurry.early_exit(forest, X[chosen], by=place[chosen], promise=scurry.promises.Labels(0.02))

    def test_an_estimator_keeps_copies_together(self):
        X, y = two_classes(4000, 62)
        chosen = oversample(y, 1800, 200, 5)
        fast = scurry.EarlyExitClassifier(
            RandomForestClassifier(21, max_depth=6), max_disagreement=0.05, random_state=0
        )
        with pytest.warns(UserWarning, match="rows of X_cal are copies of others"):
            fast.fit(X[chosen], y[chosen])
        calibration = fast._calibration
        trained = hash_rows(calibration.training_rows, "float32")
        assert not np.isin(hash_rows(calibration.rows, "float32"), trained).any()


class TestGroups:
    def make_rows(self, n_groups, size, seed):
        """Rows of a group differ a little."""
        X, _ = two_classes(n_groups, seed)
        noise = np.random.default_rng(seed).normal(scale=1e-3, size=(n_groups * size, X.shape[1]))
        return np.repeat(X, size, axis=0) + noise, np.repeat(np.arange(n_groups), size)

    @pytest.mark.parametrize("method", ["auto", "qwyc", "minimean"])
    def test_groups_are_counted(self, forest, method):
        X, groups = self.make_rows(1000, 6, 58)
        certificate = scurry.early_exit(forest, X, method=method, groups=groups, **ASKED).certificate
        assert certificate.unit == "group"
        assert certificate.n_rows in (500, 800)
        assert certificate.promise.holds == "groups"
        assert "at most 2 % of new groups, with one row of each drawn at random, get" in certificate.statement()
        assert "groups that had no part in the fit" in certificate.describe()

    def test_names_of_groups_may_be_text(self, forest):
        X, groups = self.make_rows(600, 3, 59)
        names = np.array([f"patient {group}" for group in groups])
        named = scurry.early_exit(forest, X, method="qwyc", groups=names.astype(object), **ASKED)
        assert named.certificate.n_rows == 300

    def test_a_group_of_a_shared_row_is_left_out(self, forest):
        X, groups = self.make_rows(900, 4, 60)
        with pytest.warns(UserWarning, match="800 of 3,600 rows of X_cal"):
            fast = scurry.early_exit(forest, X, X_fit=X[:800:4], groups=groups, method="qwyc", **ASKED)
        assert fast.certificate.n_rows == 700

    def test_saved_certificates_keep_their_unit(self, forest, tmp_path):
        X, groups = self.make_rows(600, 3, 61)
        fast = scurry.early_exit(forest, X, groups=groups, **ASKED)
        fast.save(tmp_path / "fast.scurry")
        again = scurry.load(tmp_path / "fast.scurry").certificate
        assert (again.unit, again.promise) == ("group", fast.certificate.promise)

    @pytest.mark.parametrize(
        ("groups", "options", "message"),
        [
            (np.zeros(3), {}, r"groups has shape \(3,\), X_cal has 500 rows"),
            (np.full(500, np.nan), {}, "groups has missing values"),
            ([None] * 500, {}, "groups has missing values"),
            ([1, "a"] * 250, {}, "groups must be of one type|cannot be certified"),
            (np.arange(500), {"confidence": None}, "groups are for a promise"),
            (np.arange(500), {"shuffle": "row", "method": "minimean"}, 'groups need one order of trees.*"fixed"'),
        ],
    )
    def test_groups_that_make_no_sense(self, forest, groups, options, message):
        X, _ = two_classes(500, 62)
        with pytest.raises((InputError, InfeasibleError), match=message):
            scurry.early_exit(forest, X, groups=groups, max_disagreement=0.001, **options)


CASES = (
    "rows that fit certify",
    "half of the rows that fit certify",
    "400 rows, five copies of each",
    "800 rows, five copies of each",
    "rows that trained a forest, 1 %",
    "rows that trained a forest, by the estimator",
)


@pytest.mark.parametrize("case", CASES)
def test_misuse_is_noticed_in_every_draw(misuse, case):
    """Before, most of such draws broke their promise without a word."""
    found = misuse.tally(case, range(6))
    assert found.warned == 6
    assert found.broken <= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [*CASES, "independent rows, 600", "independent rows, 3,000", "independent rows, boosted, 3,000"]
)
def test_promises_hold_over_many_draws(misuse, case):
    found = misuse.tally(case, range(200))
    assert found.broken <= found.most
    assert found.warned == (0 if case.startswith("independent") else 200)
