"""Malformed calls of every public function end in an answer, or in an error of scurry, TypeError or ValueError."""

import inspect
import os

import pytest

import scurry
from support.malformed_calls import Call, attempt, entries, list_calls

# An attack draws more of them: SCURRY_CALLS=8000 SCURRY_SEED=7 pytest tests/test_malformed_calls.py
N_CALLS, SEED = int(os.environ.get("SCURRY_CALLS", "250")), int(os.environ.get("SCURRY_SEED", "0"))
# Results of other functions, which nobody makes by hand, and functions without arguments or that need a cluster.
NOT_CALLED = {
    "AnswerRule", "AnswerStopper", "PluralityFit", "CostMeasurement", "Visit", "Certain", "Count", "GroupTest",
    "Outcomes", "Mean", "CascadeMeasurement", "CascadeRun", "Watch", "OnnxFile",
    "Drift", "Explanation", "History", "PartState", "Selection", "State", "Tally",
    "BudgetMeasurement", "RankMeasurement", "Offer", "Offers", "App", "create_app", "serve",
    "AbortFlag", "PruningPath", "PruningProblem", "PrunedPoint", "FeatureCosts", "StepOrder", "Export", "Verification",
    "Certificate", "ExitMeasurement", "StepMeasurement", "ValueMeasurement", "RowSummary", "Promise", "Dataset",
    "cache_folder", "names", "SizeMeasurement", "SizePoint", "CompressionDisplay", "Audit", "AuditPart",
    "Report", "FeatureBill", "ExactOptimum", "FanFit", "FanRule", "LeadRule", "LeaderFit", "MarginFit", "MarginRule",
    "OrderFit", "PluralityRule", "ScoreFit", "ScoreRule", "VoteFit", "VotePolicy", "VotePromise", "VoteRule", "METHODS",
    "AnytimeDisplay", "FeatureUsageDisplay", "PruningPathDisplay", "verify", "distributed.anytime",
    "distributed.early_exit", "distributed.find_order", "distributed.prune", "distributed.score",
}  # fmt: skip


def public_functions():
    for module in [scurry, *(getattr(scurry, name) for name in scurry.__all__)]:
        if inspect.ismodule(module) and module is not scurry.errors:
            prefix = module.__name__.removeprefix("scurry").removeprefix(".")
            for name in getattr(module, "__all__", ()):
                if callable(getattr(module, name)):
                    yield f"{prefix}.{name}".removeprefix(".")


def test_every_public_function_is_called():
    called = {entry.name.split(",")[0] for entry in entries()}
    missing = {name for name in public_functions() if not {name, name.split(".")[-1]} & (called | NOT_CALLED)}
    assert not missing, "add them to support/malformed_calls.py"


def test_what_is_replaced_works():
    for entry in entries():
        assert attempt(Call(entry, ())) == "accepted", entry.name


def test_malformed_calls():
    outcomes = {str(call): attempt(call) for call in list_calls(N_CALLS, SEED)}
    wrong = {call: outcome for call, outcome in outcomes.items() if outcome not in ("accepted", "refused")}
    assert not wrong, f"SCURRY_SEED={SEED}"


@pytest.mark.parametrize(
    ("name", "argument", "nonsense"),
    [
        # Found by drawing; most of them were silently ignored, or ended in an error that says nothing.
        ("prune", "y_val", "['a']"),
        ("prune", "y_val", "Odd"),
        ("prune", "feature_costs", "dates"),
        ("prune", "lambdas", repr(10**400)[:30]),
        ("prune", "lambdas", repr(-(10**400))[:30]),
        ("stopping.qwyc", "y", "Odd"),
        ("stopping.qwyc", "y", "[1, 2]"),
        ("stopping.qwyc", "negative_only", "'no'"),
        ("stopping.qwyc", "random_state", "'x'"),
        ("stopping.qwyc", "progress", "1"),
        ("stopping.fan", "random_state", "'x'"),
        ("stopping.preset_order", "y", "[1, 2]"),
        ("orders.find", "max_memory", "'no'"),
        ("orders.find", "random_state", "Odd"),
        ("orders.find", "progress", "0.5"),
        ("anytime", "random_state", "'x'"),
        ("early_exit", "y_cal", "['a']"),
        ("early_exit", "costs", "durations"),
        ("early_exit", "random_state", "'x'"),
        ("from_model", "categories", "1"),
        ("stopping.solve", "n_voters", "2147483648"),
        ("Forest.predict", "n_threads", "9223372036854775808"),
        ("Forest", "n_features", "1.5"),
        ("Encoder", "forest", "False"),
        ("Forest", "encode_numbers", "'no'"),
        ("Forest", "feature_names", "'x'"),
        ("Predictor.acquire", "ledger", "[]"),
        ("Predictor.acquire", "get_feature", "1"),
        ("EarlyExitClassifier", "estimator", "'x'"),
        ("report.write", "title", "1.5"),
    ],
)
def test_arguments_that_are_refused(name, argument, nonsense):
    entry = next(entry for entry in entries() if entry.name == name)
    assert attempt(Call(entry, ((argument, nonsense),))) == "refused"
