"""What runs of BudgetPrune's experiments say about the paper."""

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "papers")]

import budgetprune  # noqa: E402

import scurry  # noqa: E402
from budgetprune_claims import at_costs, gaps, make_result  # noqa: E402
from cost_curves import BUDGETS  # noqa: E402
from paper_claims import CLOSE, NOT_RUN, UNEXPLAINED  # noqa: E402


def _run(shift, full_cost=10.0):
    """A run in which the exact path errs less than CCP by a number of points at each budget, and GreedyPrune more."""
    costs, errors = (full_cost * BUDGETS).tolist(), 0.5 - 0.3 * BUDGETS
    curves = {
        "exact": [costs, errors.tolist()],
        "λ alone": [costs, errors.tolist()],
        "ccp": [costs, (errors + shift / 100).tolist()],
        "greedy-prune": [costs, (errors - 0.01).tolist()],
        "BudgetRF": [costs, [float("nan")] * 5 + (errors[5:] + 0.02).tolist()],
    }
    return {"curves": curves, "full_cost": full_cost, "unpruned": [full_cost, 0.2]}


def test_gaps_are_means_over_budgets_that_both_methods_answer():
    runs = [_run(1.0), _run(3.0)]
    assert gaps(runs, "ccp") == (1.0, 3.0)
    assert gaps(runs, "BudgetRF") == (2.0, 2.0)
    assert gaps(runs, "greedy-prune") == (-1.0, -1.0)


def test_forests_are_compared_at_equal_costs():
    cheap, dear = _run(1.0, 10.0), _run(1.0, 20.0)
    budgets = np.array([2.0, 3.0, 10.0, 15.0])
    assert at_costs(cheap, "exact", budgets) == pytest.approx([44, 41, 20, 20])
    assert at_costs(dear, "exact", budgets) == pytest.approx([47, 45.5, 35, 27.5])  # 3 and 15 lie between offers
    assert np.isnan(at_costs(dear, "exact", np.array([1.9]))).all()
    assert at_costs(cheap, "BudgetRF", np.array([5.0, 6.5])) == pytest.approx([np.nan, 32.5], nan_ok=True)


def test_what_most_runs_have_no_answer_to_is_not_run():
    runs = [_run(1.0) for _ in range(10)]
    result = make_result({"forest": runs, "forest, Pairs": runs}, 1.0, 10)
    claims = {claim.what: claim for claim in result.claims if claim.item.startswith("Figure 6 (b)")}
    missed = claims["BudgetRF: error of entropy minus that of Pairs up to 30 % of the cost"]
    assert missed.verdict == NOT_RUN
    assert missed.why == "in 10 of 10 runs one of the forests is not offered so cheaply"


def test_other_data_and_prices_are_not_counted():
    result = make_result({"nomao": [_run(1.0 + seed) for seed in range(10)]}, 1.0, 10)
    assert not any(claim.obtained for claim in result.claims)
    assert {claim.item for claim in result.stand_ins if claim.obtained} == {"Figure 2 (a): nomao for MiniBooNE"}
    assert {claim.item for claim in result.further} >= {"Five datasets with real prices", "The exact path"}


def test_claims_hold_where_the_interval_is_above_zero():
    result = make_result({"forest": [_run(1.0 + 0.1 * seed) for seed in range(10)]}, 0.1, 10)
    verdicts = {claim.what: claim.verdict for claim in result.claims if claim.item == "Figure 2 (b): Forest"}
    assert verdicts["error of CCP minus that of BudgetPrune"] == CLOSE
    assert verdicts["error of GreedyPrune minus that of BudgetPrune"] == UNEXPLAINED
    assert verdicts["error of GreedyMiser minus that of BudgetPrune"] == NOT_RUN
    assert all(claim.verdict == NOT_RUN for claim in result.claims if claim.what.startswith(("MiniBooNE", "Yahoo")))
    assert [picture.name for picture in result.pictures] == ["figure-2b"]


def test_a_ranking_is_judged_batch_by_batch(monkeypatch):
    monkeypatch.setattr(budgetprune, "BATCH", 2)
    stump = {
        "feature": [0, -1, -1],
        "threshold": [0.5, 0, 0],
        "left": [1, -1, -1],
        "right": [2, -1, -1],
        "value": [[0.5, 0.5], [0.9, 0.1], [0.1, 0.9]],
    }
    forest = scurry.Forest.from_trees([stump], n_features=1, classes=[False, True])
    X = np.array([[0], [1], [1], [0]], np.float32)
    assert budgetprune._ranking_loss(forest, (X, np.array([False, True, True, False]))) == pytest.approx(0)
    assert budgetprune._ranking_loss(forest, (X, np.array([True, False, True, False]))) == pytest.approx(0.25)


def test_prices_by_svm_weights_add_up_to_the_number_of_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)).astype(np.float32)
    costs = budgetprune._svm_costs(X, X[:, 2] > 0)
    assert costs.sum() == pytest.approx(4)
    assert costs.argmax() == 2
