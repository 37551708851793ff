"""The account of what rows bought, and the budget of one row."""

import threading
from functools import partial

import numpy as np
import pytest

import scurry
from scurry.errors import InputError
from scurry.pruning import feature_uses
from scurry.runners.acquisition.ledger import Ledger
from support.acquisition_cases import WINE, WINE_FOREST, from_table, simulate


def test_each_acquisition_has_its_own():
    X, predictor = WINE[0], scurry.Predictor.full(WINE_FOREST)
    one, two = predictor.acquire(from_table(X), 3), predictor.acquire(from_table(X), 2)
    assert (one.ledger.n_rows, two.ledger.n_rows) == (3, 2)
    assert one.ledger.total_cost == one.costs.sum()


def test_one_may_continue():
    X, predictor, ledger = WINE[0], scurry.Predictor.full(WINE_FOREST), Ledger()
    assert ledger.mean_cost == 0
    one, two = (predictor.acquire(from_table(X), n, ledger=ledger) for n in (3, 2))
    assert one.ledger is two.ledger is ledger
    assert ledger.n_rows == 5
    assert ledger.total_cost == one.costs.sum() + two.costs.sum() == 5 * ledger.mean_cost
    assert {purchase.row for purchase in ledger.purchases} == {0, 1, 2, 3, 4}
    assert sum(ledger.features.values()) == len(ledger.purchases)
    ledger.clear()
    assert (ledger.n_rows, ledger.purchases) == (0, [])


def test_threads_share_it():
    X, predictor, ledger = WINE[0], scurry.Predictor.full(WINE_FOREST), Ledger()
    work = partial(predictor.acquire, from_table(X), 20, ledger=ledger)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.n_rows == 80
    assert ledger.total_cost == 4 * (feature_uses(WINE_FOREST, X[:20]) > 0).sum()


def test_one_that_raises_loses_nothing():
    X = WINE[0]
    used = int(np.bincount(WINE_FOREST.feature[~WINE_FOREST.is_leaf]).argmax())
    trouble = ConnectionError("no answer")

    def ask(row, feature):
        if row == 1 and feature == used:
            raise trouble
        return X[row][feature]

    predictor = scurry.Predictor.full(WINE_FOREST)
    out = predictor.acquire(ask, 3)
    expected = WINE_FOREST.predict(X[:3])
    assert out.errors == {1: trouble}
    assert out.stop_reason.tolist() == ["complete", "failed", "complete"]
    assert out.labels[[0, 2]].tolist() == expected[[0, 2]].tolist()
    assert not out.bought[1, used]
    assert out.bought[1].any()
    paid = [purchase for purchase in out.ledger.purchases if purchase.row == 1]
    assert len(paid) == out.bought[1].sum() == out.costs[1]
    costs = {**dict.fromkeys(range(13), 0), used: 1}
    at, _ = simulate(WINE_FOREST, X[1], range(12), costs, max_cost=0, by_step=False)
    np.testing.assert_allclose(out.scores[1], WINE_FOREST.value[at].mean(axis=0))


def test_a_failed_feature_is_asked_for_once_a_row():
    calls = []

    def ask(row, feature):
        calls.append((row, feature))
        raise TimeoutError

    for order in ("plan", "cheapest"):
        calls.clear()
        out = scurry.Predictor.full(WINE_FOREST).acquire(ask, 2, order=order)
        assert len(calls) == len(set(calls))
        assert {row for row, _ in calls} == {0, 1}
        assert (out.stop_reason == "failed").all()
        roots = WINE_FOREST.value[WINE_FOREST.tree_offset[:-1]]
        np.testing.assert_allclose(out.scores, np.tile(roots.mean(axis=0), (2, 1)))


def test_missing_values_go_where_the_model_sends_them():
    X = WINE[0][:10].copy()
    X[:, 6] = np.nan
    for missing in (np.nan, None):
        predictor = scurry.Predictor.full(WINE_FOREST)
        out = predictor.acquire(lambda row, f, missing=missing: missing if f == 6 else X[row][f], 10)
        assert (out.labels == WINE_FOREST.predict(X)).all()
        assert (out.n_missing == out.bought[:, 6]).all()
        assert out.n_missing.any()
        assert (out.stop_reason == "complete").all()
        assert out.ledger.features[6] == out.bought[:, 6].sum()


@pytest.mark.parametrize("answer", ["high", [1.0, 2.0], {"alcohol": 1.0}])
def test_nonsense_is_a_failure_that_names_the_feature(answer):
    out = scurry.Predictor.full(WINE_FOREST).acquire(lambda row, feature: answer)
    assert out.stop_reason.tolist() == ["failed"]
    assert isinstance(out.errors[0], InputError)
    assert repr(out.errors[0]).strip()


def test_several_values_at_once_are_kept_and_paid_for_when_used():
    X, calls = WINE[0], []

    def panel(row, feature):
        calls.append(feature)
        return dict(enumerate(X[row]))

    out = scurry.Predictor.full(WINE_FOREST).acquire(panel)
    assert len(calls) == 1
    assert out.labels[0] == WINE_FOREST.predict(X[:1])[0]
    np.testing.assert_array_equal(out.bought, feature_uses(WINE_FOREST, X[:1]) > 0)


def test_each_feature_is_asked_for_once():
    X, calls = WINE[0], []

    def ask(row, feature):
        calls.append((row, feature))
        return X[row][feature]

    scurry.Predictor.full(WINE_FOREST).acquire(ask, 30)
    assert len(calls) == len(set(calls))


def test_interrupt_keeps_the_ledger():
    X = WINE[0]

    def ask(row, feature):
        if row == 2:
            raise KeyboardInterrupt
        return X[row][feature]

    ledger = Ledger()
    with pytest.raises(KeyboardInterrupt):
        scurry.Predictor.full(WINE_FOREST).acquire(ask, 5, ledger=ledger)
    assert ledger.n_rows == 3
    assert ledger.total_cost == (feature_uses(WINE_FOREST, X[:2]) > 0).sum()
