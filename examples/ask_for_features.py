"""Order medical tests one by one: for one patient over several days, and for 400 patients in eight ways.

The thyroid data come with scurry. They include the price of every test, and a discount for tests from the same blood
sample. The forest does not get the test results beforehand: it orders a test when a node first needs its result.

    python examples/ask_for_features.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
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
    path = scurry.prune(thrifty, data.X[validation[:1000]], **prices)
    pruned = path.at(promise=scurry.promises.Cost(26), X_cal=data.X[validation[1000:]])

    with tempfile.TemporaryDirectory() as folder:
        follow_one_patient(pruned, X[0], data.feature_names, prices, Path(folder))

    def order_test(patient: int, test: Any) -> float:
        return float(X[patient, test])

    print(f"\n{'':<62}{'a patient':>10}{'wrong':>8}")
    for title, predictor, limits in (
        ("random forest", full, {}),
        ("random forest, at most 70 a patient, in the forest's order", full, {"max_cost": 70}),
        ("random forest, at most 70 a patient, cheapest first", full, {"max_cost": 70, "order": "cheapest"}),
        ("random forest, at most 70 a patient, most informative first", full, {"max_cost": 70, "order": "informative"}),
        ("random forest, early exit", exit_early, {}),
        ("forest grown for cheap tests", grown, {}),
        ("forest grown for cheap tests, at most 25 a patient", grown, {"max_cost": 25}),
        ("the same, pruned, with a promised mean of at most 26", pruned, {}),
    ):
        out = predictor.acquire(order_test, len(X), **prices, **limits)
        print(f"{title:<62}{out.mean_cost:>10.2f}{np.mean(out.labels != y):>8.2%}")
    print(f"\nThe pruned forest's ledger: {out.ledger}")
    for feature, n_rows in out.ledger.features.most_common(4):
        print(f"  {data.feature_names[feature]}: {n_rows / N_PATIENTS:.0%} of patients")


def follow_one_patient(
    predictor: scurry.Predictor, results: NDArray[Any], names: list[str], prices: Mapping[str, Any], folder: Path
) -> None:
    """Order one test at a time. Its result arrives another day, when only two files are left of the visit."""
    predictor.save(folder / "model.scurry")
    predictor.start_row({0: results[0], 1: results[1]}, **prices).save(folder / "patient.scurry")  # age and sex
    print("One patient, forest grown for cheap tests and pruned")
    for day in range(len(names) + 1):
        visit = scurry.Visit.load(folder / "patient.scurry", scurry.load(folder / "model.scurry"))
        if (test := visit.next_feature) is None:
            break
        print(f"  day {day + 1}: {names[test.name]} for {test.cost:.2f}: {test.why}")
        visit.give(test.name, float(results[test.name]))
        visit.save(folder / "patient.scurry")
    print(f"  answer: class {visit.answer.label} for {visit.answer.cost:.2f}: {visit.answer.why}")


def _alone(data: scurry.datasets.Dataset) -> NDArray[np.float64]:
    """Return what each test costs if no other test of its group is made."""
    shared = np.append(data.group_costs, 0.0)[data.groups]
    return data.feature_costs + shared


if __name__ == "__main__":
    main()
