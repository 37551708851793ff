"""FeatureBudgetClassifier next to simpler ways to spend a budget of feature costs, on five medical data sets.

In each of 20 random splits a third of the rows is kept for the test. `FeatureBudgetClassifier` gets the others. The
rest get three quarters of them to grow on and one quarter to choose by, and every choice a user would make by hand
(depth, class weights, alpha, trade-off) is made for them, by balanced accuracy on these validation rows:

- tree: a single tree of depth 2 to 6, with or without class weights;
- prune: a random forest, with or without class weights, pruned exactly;
- BudgetRF: both impurities, several alphas;
- early exit: a random forest, with or without class weights, whose trees are evaluated until the label is clear;
- selection: features are added one by one, whichever helps most, and a random forest is grown on them, with or without
  class weights.

Budgets are ten shares of the price of all features, and equal in what test rows really pay: of everything that a method
offers, the one that is best on the validation rows is taken among those whose test rows pay at most the budget. What
rows pay needs no labels. Nothing else is learnt from test rows.

Run ``python benchmarks/feature_budget.py`` (about half an hour on one core); splits already stored are not run again.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

import scurry
from report import RESULTS, commit, machine
from scurry.evaluation import feature_bill
from scurry.growing import BudgetedForestClassifier
from tables import table

DATA = {
    "thyroid": "thyroid_ann_cost",
    "heart": "heart_cleveland_cost",
    "pima": "pima_diabetes_cost",
    "hepatitis": "hepatitis_cost",
    "liver": "liver_bupa_cost",
}
OURS = "FeatureBudgetClassifier"
SHARES = np.arange(1, 11) / 10
WEIGHTS = (None, "balanced")
DISAGREEMENTS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
MAX_SELECTED = 6
OUTPUT = RESULTS / "feature-budget.json"


class Offered(NamedTuple):
    """What a method offers: its error on validation rows, and its cost and answers on test rows."""

    error: float
    cost: float
    answers: NDArray[Any]


class Split(NamedTuple):
    """Rows to grow on, to choose by and to test on, and what features cost."""

    X: NDArray[np.float32]
    y: NDArray[Any]
    X_val: NDArray[np.float32]
    y_val: NDArray[Any]
    X_test: NDArray[np.float32]
    y_test: NDArray[Any]
    terms: dict[str, Any]
    seed: int

    def offer(self, model: Any) -> Offered:
        error = 1 - balanced_accuracy_score(self.y_val, model.predict(self.X_val))
        return Offered(error, feature_bill(model, self.X_test, **self.terms).mean_cost, model.predict(self.X_test))


def load(name: str, seed: int) -> tuple[Split, float]:
    """Return a random split, and the price of all features."""
    data = scurry.datasets.load(DATA[name])
    X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=1 / 3, stratify=data.y, random_state=seed)
    # BudgetRF takes no missing values, so every method gets the median of the rows that are not for the test.
    middle = np.nanmedian(X, axis=0)
    X, X_test = (np.where(np.isnan(part), middle, part).astype(np.float32) for part in (X, X_test))
    grow, val, y_grow, y_val = train_test_split(X, y, test_size=0.25, stratify=y, random_state=seed)
    terms = {"feature_costs": data.feature_costs, "groups": data.groups, "group_costs": data.group_costs}
    total = float(np.sum(data.feature_costs) + np.sum(data.group_costs))
    return Split(grow, y_grow, val, y_val, X_test, y_test, terms, seed), total


def ours(split: Split) -> list[Offered]:
    X, y = np.concatenate([split.X, split.X_val]), np.concatenate([split.y, split.y_val])
    given = RandomForestClassifier(60, max_depth=8)
    found = scurry.FeatureBudgetClassifier(given, calibration_size=0.25, random_state=split.seed, **split.terms)
    found.fit(X, y)
    return [
        Offered(
            offer.error,
            feature_bill(offer.forest, split.X_test, **split.terms).mean_cost,
            offer.forest.predict(split.X_test),
        )
        for offer in found.offers_
    ]


def trees(split: Split) -> Iterator[Offered]:
    for depth in range(2, 7):
        for weight in WEIGHTS:
            tree = DecisionTreeClassifier(max_depth=depth, class_weight=weight, random_state=split.seed)
            yield split.offer(scurry.from_model(tree.fit(split.X, split.y)))


def forests(split: Split) -> Iterator[scurry.Forest]:
    for weight in WEIGHTS:
        forest = RandomForestClassifier(60, max_depth=8, class_weight=weight, random_state=split.seed)
        yield scurry.from_model(forest.fit(split.X, split.y))


def prunings(split: Split) -> Iterator[Offered]:
    for forest in forests(split):
        path = scurry.prune(forest, split.X_val, **split.terms)
        wanted = np.linspace(path.costs.min(), path.costs.max(), 41)
        for at in sorted({int(np.abs(path.costs - cost).argmin()) for cost in wanted}):
            yield split.offer(path[at])


def budgeted(split: Split) -> Iterator[Offered]:
    groups, group_costs = np.asarray(split.terms["groups"]), np.append(split.terms["group_costs"], 0.0)
    prices = np.asarray(split.terms["feature_costs"]) + group_costs[groups]
    alphas = {"pairs": (0, 1, 2, 4, 8, 16, 32), "entropy": (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)}
    for criterion, several in alphas.items():
        for alpha in several:
            grower = BudgetedForestClassifier(
                40, feature_costs=prices, criterion=criterion, alpha=alpha, random_state=split.seed
            )
            yield split.offer(grower.fit(split.X, split.y).forest_)


def exits(split: Split) -> Iterator[Offered]:
    for forest in forests(split):
        yield split.offer(forest)
        for rate in DISAGREEMENTS:
            try:
                yield split.offer(
                    scurry.early_exit(forest, split.X_val, max_disagreement=rate, confidence=None, random_state=0)
                )
            except scurry.errors.ScurryError:
                continue  # a method may have no rule for so few rows


def selections(split: Split) -> Iterator[Offered]:
    n_features = split.X.shape[1]
    chosen: list[int] = []

    def error(feature: int) -> float:
        some = [*chosen, feature]
        # With equal costs BudgetRF is a random forest, and it grows fast.
        small = BudgetedForestClassifier(20, criterion="entropy", max_features="sqrt", random_state=split.seed)
        answers = small.fit(split.X[:, some], split.y).predict(split.X_val[:, some])
        return 1 - float(balanced_accuracy_score(split.y_val, answers))

    for _ in range(min(n_features, MAX_SELECTED)):
        chosen.append(min(set(range(n_features)) - set(chosen), key=error))
        is_chosen = np.isin(np.arange(n_features), chosen)
        for weight in WEIGHTS:
            # Features that were not selected are constant, so that no tree splits on them.
            forest = RandomForestClassifier(60, max_depth=8, class_weight=weight, random_state=split.seed)
            yield split.offer(scurry.from_model(forest.fit(np.where(is_chosen, split.X, 0), split.y)))


METHODS = {
    OURS: ours,
    "tree": trees,
    "prune": prunings,
    "BudgetRF": budgeted,
    "early exit": exits,
    "selection": selections,
}


def within(offers: list[Offered], budget: float, split: Split) -> Offered:
    """Return the best offer by validation rows whose test rows pay at most the budget; a constant answer if none."""
    labels, counts = np.unique(split.y, return_counts=True)
    constant = Offered(1 - 1 / len(labels), 0.0, np.full(len(split.y_test), labels[counts.argmax()]))
    affordable = [constant, *(offer for offer in offers if offer.cost <= budget * (1 + 1e-9))]
    return min(affordable, key=lambda offer: (offer.error, offer.cost))


def measure(name: str, seed: int) -> dict[str, Any]:
    """Return the balanced accuracy of each method within each budget, and thyroid's figures at $40."""
    split, total = load(name, seed)
    result: dict[str, Any] = {"curves": {}}
    for method, offer in METHODS.items():
        offers = list(offer(split))
        taken = [within(offers, share * total, split) for share in SHARES]
        result["curves"][method] = [
            round(float(balanced_accuracy_score(split.y_test, one.answers)), 6) for one in taken
        ]
        if method == OURS and name == "thyroid":
            at_40 = within(offers, 40.0, split)
            ill = split.y_test != 3  # 1 and 2 are two forms of the illness
            result["at_40"] = {
                "cost": round(at_40.cost, 4),
                "accuracy": round(float((at_40.answers == split.y_test).mean()), 6),
                "ill_found": round(float((at_40.answers[ill] != 3).mean()), 6),
            }
    return result


def interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the mean, and half the width of its 95 % interval."""
    half = (
        student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    )
    return float(values.mean()), float(half)


def summarise(splits: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return mean differences with paired intervals, data set by data set."""
    summary: dict[str, Any] = {}
    for name, found in splits.items():
        means = {m: np.array([np.mean(one["curves"][m]) for one in found.values()]) for m in METHODS}
        summary[name] = {"n_splits": len(found), OURS: round(float(means[OURS].mean()), 4)}
        for method in METHODS:
            if method != OURS:
                mean, half = interval(means[OURS] - means[method])
                summary[name][method] = {
                    "mean": round(float(means[method].mean()), 4),
                    "difference": round(mean, 4),
                    "half_width": round(half, 4),
                }
        if name == "thyroid":
            of_40 = [one["at_40"] for one in found.values()]
            summary[name]["at_40"] = {key: round(float(np.mean([one[key] for one in of_40])), 5) for key in of_40[0]}
    return summary


def show(summary: dict[str, Any]) -> None:
    rows = [
        [name, f"{one[OURS]:.3f}"]
        + [f"{one[m]['difference']:+.3f} ± {one[m]['half_width']:.3f}" for m in METHODS if m != OURS]
        for name, one in summary.items()
    ]
    print(table(["data", "ours", *[f"minus {m}" for m in METHODS if m != OURS]], rows))
    if "thyroid" in summary:
        print("thyroid at $40:", summary["thyroid"]["at_40"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--data", nargs="*", default=list(DATA), choices=list(DATA))
    wanted = parser.parse_args()
    warnings.simplefilter("ignore", scurry.errors.ScurryWarning)
    stored = json.loads(OUTPUT.read_text(encoding="utf-8")) if OUTPUT.exists() else {"splits": {}}
    splits: dict[str, dict[str, Any]] = stored["splits"]
    for seed in range(wanted.splits):
        for name in wanted.data:
            if str(seed) in splits.setdefault(name, {}):
                continue
            splits[name][str(seed)] = measure(name, seed)
            result = {"machine": machine(), "commit": commit(), "summary": summarise(splits), "splits": splits}
            OUTPUT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            print(
                name,
                seed,
                {m: round(float(np.mean(c)), 3) for m, c in splits[name][str(seed)]["curves"].items()},
                flush=True,
            )
    show(summarise(splits))


if __name__ == "__main__":
    main()
