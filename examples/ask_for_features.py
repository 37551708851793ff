"""Order medical tests one by one, and compare what a thyroid diagnosis costs in seven ways.

The thyroid data come with scurry. They include the price of every test, and a discount for tests from the same blood
sample. The forest does not get the test results beforehand: it orders a test when a node first needs its result.

    python examples/ask_for_features.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.growing import BudgetedForestClassifier

N_PATIENTS = 400


def main() -> None:
    data = scurry.datasets.load("thyroid_ann_cost")
    rows = np.random.default_rng(0).permutation(len(data.y))
    train, validation, patients = np.split(rows, [3000, 5000])
    X, y = data.X[patients[:N_PATIENTS]], data.y[patients[:N_PATIENTS]]
    prices = {"feature_costs": data.feature_costs, "groups": data.groups, "group_costs": data.group_costs}

    model = RandomForestClassifier(30, random_state=0).fit(data.X[train], data.y[train])
    thrifty = BudgetedForestClassifier(30, criterion="entropy", feature_costs=_alone(data), random_state=0)
    thrifty = thrifty.fit(data.X[train], data.y[train])
    full, grown = (scurry.Predictor.full(scurry.from_model(forest)) for forest in (model, thrifty))
    exit_early = scurry.early_exit(model, data.X[validation], max_disagreement=0.01, random_state=0)
    pruned = scurry.Predictor.full(scurry.prune(thrifty, data.X[validation], **prices).at(max_cost=25))

    def order_test(patient: int, test: Any) -> float:
        return float(X[patient, test])

    print(f"{'':<56}{'a patient':>10}{'wrong':>8}")
    for title, predictor, limits in (
        ("random forest", full, {}),
        ("random forest, at most 70 a patient, in the forest's order", full, {"max_cost": 70}),
        ("random forest, at most 70 a patient, cheapest first", full, {"max_cost": 70, "order": "cheapest"}),
        ("random forest, early exit", exit_early, {}),
        ("forest grown for cheap tests", grown, {}),
        ("forest grown for cheap tests, at most 25 a patient", grown, {"max_cost": 25}),
        ("forest grown for cheap tests, pruned to a mean of 25", pruned, {}),
    ):
        out = predictor.acquire(order_test, len(X), **prices, **limits)
        print(f"{title:<56}{out.mean_cost:>10.2f}{np.mean(out.labels != y):>8.2%}")
    print(f"\nThe pruned forest's ledger: {out.ledger}")
    for feature, n_rows in out.ledger.features.most_common(4):
        print(f"  {data.feature_names[feature]}: {n_rows / N_PATIENTS:.0%} of patients")


def _alone(data: scurry.datasets.Dataset) -> NDArray[np.float64]:
    """Return what each test costs if no other test of its group is made."""
    shared = np.append(data.group_costs, 0.0)[data.groups]
    return data.feature_costs + shared


if __name__ == "__main__":
    main()
