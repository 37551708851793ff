"""What plans are expected to take, and what is said of those that save trees but no time."""

from __future__ import annotations

import numpy as np
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.errors import InfeasibleError
from scurry.plan import Plan
from scurry.promises import Certain, Certificate, ExitMeasurement, Values
from scurry.verbs.options import Calibration, ExitOptions
from scurry.verbs.planners.by_scores import try_sentinels
from scurry.verbs.planners.speed import certify_in_turn, expected_time, explain_choice, explain_speed, least_spent

N = 1500


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 6)).astype(np.float32)
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=len(X)) > 0).astype(int)


@pytest.fixture(scope="module")
def boosted(rows):
    X, y = rows
    forest = scurry.from_model(LGBMClassifier(n_estimators=80, verbose=-1, n_jobs=1).fit(X[:N], y[:N]))
    assert forest.engine.loop == "sliced"
    return forest


def plan_of(forest, rows, method):
    return scurry.early_exit(forest, rows[0][N:], method=method, max_disagreement=0.02, confidence=None).plan


def test_fewer_trees_take_less_time_and_rows_that_stop_nowhere_most(boosted, rows):
    exits, sentinels = (plan_of(boosted, rows, method) for method in ("qwyc", "sentinels"))
    for plan in (exits, sentinels):
        times = [expected_time(boosted, plan, np.full(10, trees)) for trees in (5, 20, 60)]
        assert times == sorted(times)
        assert times[-1] > 1
    assert expected_time(boosted, sentinels, np.full(10, 5)) < 1
    # Part of what these need is evaluated again at sentinels, but not in an early exit.
    half = np.array([20, 60])
    apart = [expected_time(boosted, sentinels, np.array([a, b])) for a, b in ((0, 80), (1, 79))]
    assert apart[0] > 1.1 * apart[1]
    assert expected_time(boosted, exits, half) == pytest.approx(expected_time(boosted, exits, np.full(2, 40)))


def test_bins_after_every_tree_are_slow_and_the_summary_says_so(boosted, rows):
    fast = scurry.early_exit(boosted, rows[0][N:], method="fan", max_disagreement=0.02)
    assert fast.run(rows[0]).mean_trees < 0.6 * 80
    assert "trees, and evaluating all of them takes no longer in batches" in str(fast.summary())


def test_plans_that_save_no_time_say_so(rows):
    X, y = rows
    regressor = scurry.from_model(LGBMRegressor(n_estimators=80, verbose=-1, n_jobs=1).fit(X[:N], X[:N, 0] * X[:N, 1]))
    precise = scurry.early_exit(regressor, X[N:4000], X_fit=X[4000:], promise=Values(1e-4))
    assert "takes no longer" in str(precise.summary())
    rough = scurry.early_exit(regressor, X[N:4000], X_fit=X[4000:], promise=Values(2.0))
    assert "takes no longer" not in str(rough.summary())
    forest = scurry.from_model(RandomForestClassifier(40, random_state=0).fit(X[:N], y[:N]))
    fast = scurry.early_exit(forest, X[N:], max_disagreement=0.05)
    assert "takes no longer" not in str(fast.summary())


def test_certain_labels_say_that_all_trees_take_less_time(boosted, rows):
    certain = scurry.early_exit(boosted, promise=Certain(), X_fit=rows[0][N:])
    assert "so that labels come from all of them" in str(certain.summary())
    # Nothing is known of rows, and so nothing is said.
    unknown = scurry.early_exit(boosted, promise=Certain())
    assert "takes no longer" not in str(unknown.summary())


def test_full_plans_are_said_nothing_of(boosted, rows):
    plan = plan_of(boosted, rows, "sentinels")
    assert explain_speed(boosted, plan, np.full(5, 3)) == ""
    assert not Plan.full(boosted).exits_early


def test_sentinels_are_not_tried_in_symmetric_trees(boosted, rows):
    catboost = pytest.importorskip("catboost")
    X, y = rows
    model = catboost.CatBoostClassifier(iterations=30, depth=4, verbose=0, thread_count=1, random_seed=0)
    forest = scurry.from_model(model.fit(X[:N], y[:N]))
    assert forest.engine.loop == "symmetric"
    assert try_sentinels(boosted)
    assert not try_sentinels(forest)
    fast = scurry.early_exit(forest, X[N:], max_disagreement=0.02)
    assert fast.certificate.method in ("qwyc", "natural", "full")
    named = scurry.early_exit(forest, X[N:], max_disagreement=0.02, method="sentinels")
    assert "takes no longer in batches" in str(named.summary())


def test_sentinels_come_first_where_they_spend_not_much_more():
    assert least_spent({"qwyc": 10.0, "natural": 30.0, "sentinels": 14.9}) == "sentinels"
    assert least_spent({"qwyc": 10.0, "natural": 30.0, "sentinels": 15.1}) == "qwyc"
    assert least_spent({"qwyc": 10.0, "natural": 9.0}) == "natural"
    assert least_spent({"qwyc": np.inf, "sentinels": np.inf}) == "qwyc"


@pytest.fixture
def certify(boosted, rows):
    """Certify methods that take so many trees, or are refused, and return the plan, the shares of risk, and by what."""

    def run(expected, trees, *, is_enough=True):
        shares = {}

        def one(calibration, method):
            shares[method] = calibration.risk_share
            if trees[method] is None:
                raise InfeasibleError(f"{method} is refused")
            measured = ExitMeasurement(changed=0.0, mean_trees=trees[method])
            return Plan.full(boosted, Certificate(method=method, measured=measured)), trees[method]

        calibration = Calibration.of(boosted, rows[0][N:], None, None, ExitOptions())
        plan, spent = certify_in_turn(calibration, expected, one, lambda shared: is_enough)
        assert spent == trees[plan.certificate.method]
        return plan.certificate, shares

    return run


def test_the_second_method_is_tested_if_the_first_spends_more_than_expected(certify):
    expected = {"qwyc": 2.0, "natural": 3.0, "fan": 9.0}
    certificate, shares = certify(expected, {"qwyc": 2.5, "natural": 1.0, "fan": 1.0})
    assert certificate.method == "qwyc"
    assert shares == {"qwyc": 0.8}
    certificate, shares = certify(expected, {"qwyc": 20.0, "natural": 4.0, "fan": 1.0})
    assert certificate.method == "natural"
    assert "on the rows that test the promise (qwyc 20.0, natural 4.0; on rows set aside" in certificate.why
    assert shares == {"qwyc": 0.8, "natural": pytest.approx(0.2)}
    assert certify(expected, {"qwyc": 20.0, "natural": 40.0})[0].method == "qwyc"
    assert certify(expected, {"qwyc": None, "natural": 40.0})[0].method == "natural"
    assert certify(expected, {"qwyc": 50.0, "natural": None})[0].method == "qwyc"
    with pytest.raises(InfeasibleError, match="qwyc is refused"):
        certify(expected, {"qwyc": None, "natural": None})


def test_the_first_method_has_all_of_the_risk_if_there_is_no_second(certify):
    for expected, is_enough in (
        ({"qwyc": 2.0, "natural": 3.0}, False),
        ({"qwyc": 2.0, "natural": np.inf}, True),
        ({"qwyc": np.inf}, True),
        ({"qwyc": 2.0}, True),
    ):
        certificate, shares = certify(expected, {"qwyc": 20.0, "natural": 1.0}, is_enough=is_enough)
        assert certificate.method == "qwyc"
        assert shares == {"qwyc": 1.0}


def test_the_choice_is_explained_in_one_sentence():
    spent = {"qwyc": 33.4, "sentinels": 11.5}
    why = "it took the fewest trees per row on rows set aside for comparing methods (qwyc 33.4, sentinels 11.5)"
    assert explain_choice("trees", spent, "sentinels") == why
    assert "its one threshold" in explain_choice("trees", {"qwyc": 10.0, "sentinels": 11.5}, "sentinels")
    assert "on the rows that fitted them" in explain_choice(
        "trees", {"qwyc": 33.4}, "qwyc", "the rows that fitted them"
    )
    assert "too few rows" in explain_choice("trees", {"qwyc": np.inf}, "qwyc")
