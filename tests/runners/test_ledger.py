"""The account a predictor keeps of the features it was given."""

import threading

import scurry
from scurry.pruning import feature_uses
from scurry.runners.ledger import Ledger
from support.acquisition_cases import WINE, WINE_FOREST, from_table


def test_it_lives_with_the_predictor():
    X, predictor = WINE[0], scurry.Predictor.full(WINE_FOREST)
    assert isinstance(predictor.ledger, Ledger)
    assert predictor.ledger.mean_cost == 0
    one, two = predictor.acquire(from_table(X), 3), predictor.acquire(from_table(X), 2)
    ledger = predictor.ledger
    assert ledger.n_rows == 5
    assert ledger.total_cost == one.costs.sum() + two.costs.sum() == 5 * ledger.mean_cost
    assert {purchase.row for purchase in ledger.purchases} == {0, 1, 2, 3, 4}
    assert sum(ledger.features.values()) == len(ledger.purchases)
    ledger.clear()
    assert (ledger.n_rows, ledger.purchases) == (0, [])


def test_threads_share_it():
    X, predictor = WINE[0], scurry.Predictor.full(WINE_FOREST)
    threads = [threading.Thread(target=predictor.acquire, args=(from_table(X), 20)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert predictor.ledger.n_rows == 80
    assert predictor.ledger.total_cost == 4 * (feature_uses(WINE_FOREST, X[:20]) > 0).sum()
