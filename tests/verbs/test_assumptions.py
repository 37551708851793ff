"""Rows that a promise must not be tested on are noticed: those that fit, copies, groups, and those of the training."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.errors import InfeasibleError, InputError
from scurry.stopping.independence import hash_rows
from support.calibration_rows import two_classes

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
        with pytest.warns(UserWarning, match=r"4,500 rows, 900 of them different.*groups="):
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


@pytest.fixture
def misuse(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import misuse

    return misuse


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
