"""What budgets cost new patients, with a promise and without, and what each order of tests is worth.

Two sets of medical tests with real prices, 20 random splits of each: 40 % of the rows train a forest, 20 % choose its
prunings, 20 % certify them, 20 % are new patients. ``path.at(max_cost=B)`` keeps the budget on the rows that chose the
pruning; ``path.at(promise=Cost(B), X_cal=…)`` promises it for new ones with confidence 0.95. Prunings are chosen
without labels, so that they spend what they may: with labels they are often much cheaper than the budget. The mean over
the new patients of one split scatters by itself, so a mean over the budget is not yet a broken promise.

The second part orders tests one by one for the unpruned forest, with a limit for each patient, in the three orders that
`Predictor.start_row` has.

Run it with `python benchmarks/cost_promise.py`; it writes `benchmarks/results/cost-promise.json`.
"""

import json
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import balanced_accuracy_score

import scurry

N_SPLITS, CONFIDENCE = 20, 0.95
BUDGETS = {"heart_cleveland_cost": (50, 150, 300), "thyroid_ann_cost": (20, 30, 40)}
LIMITS = {"heart_cleveland_cost": (20, 110, 220), "thyroid_ann_cost": (12, 25, 50)}
N_ORDERED = 60  # new patients of each split whose tests are ordered one by one
RESULTS = Path(__file__).parent / "results" / "cost-promise.json"


def split(data, seed):
    """Return a forest, and the rows that choose its prunings, that certify them, and that are new."""
    rows = np.random.default_rng(seed).permutation(len(data.y))
    train, choose, certify, new = np.split(rows, (np.array([0.4, 0.6, 0.8]) * len(rows)).astype(int))
    model = RandomForestClassifier(40, max_depth=8, max_features=None, random_state=seed)
    return scurry.from_model(model.fit(data.X[train], data.y[train])), choose, certify, new


def describe(forests, costs, data, splits, budget):
    """Return what the forests of all splits cost new patients, and how right they are."""
    paid = np.array([costs.of_rows(forest, data.X[new]).mean() for forest, new in zip(forests, splits, strict=True)])
    scores = [
        balanced_accuracy_score(data.y[new], forest.predict(data.X[new]))
        for forest, new in zip(forests, splits, strict=True)
    ]
    return {
        "mean_cost": round(float(paid.mean()), 2),
        "standard_error": round(float(paid.std(ddof=1) / np.sqrt(len(paid))), 2),
        "splits_over_budget": int((paid > budget).sum()),
        "balanced_accuracy": round(float(np.mean(scores)), 4),
    }


def measure_budgets(name):
    """Return the costs of budgets with and without a promise."""
    data = scurry.datasets.load(name)
    prices = {"feature_costs": data.feature_costs, "groups": data.groups, "group_costs": data.group_costs}
    plain = {budget: [] for budget in BUDGETS[name]}
    promised = {budget: [] for budget in BUDGETS[name]}
    splits = []
    for seed in range(N_SPLITS):
        forest, choose, certify, new = split(data, seed)
        path = scurry.prune(forest, data.X[choose], **prices)
        splits.append(new)
        for budget in BUDGETS[name]:
            plain[budget].append(path.at(max_cost=budget))
            promise = scurry.promises.Cost(budget, confidence=CONFIDENCE)
            promised[budget].append(path.at(promise=promise, X_cal=data.X[certify]).forest)
    costs = path.problem.costs
    return [
        {
            "data": name,
            "n_certify": len(certify),
            "budget": budget,
            "max_cost": describe(plain[budget], costs, data, splits, budget),
            "promise": describe(promised[budget], costs, data, splits, budget),
        }
        for budget in BUDGETS[name]
    ]


def measure_orders(name):
    """Return how right answers are with a limit for each patient, in every order."""
    data = scurry.datasets.load(name)
    prices = {"feature_costs": data.feature_costs, "groups": data.groups, "group_costs": data.group_costs}
    right = {(limit, order): [] for limit in LIMITS[name] for order in ("plan", "cheapest", "informative")}
    for seed in range(N_SPLITS):
        forest, _, _, new = split(data, seed)
        X, y = data.X[new[:N_ORDERED]], data.y[new[:N_ORDERED]]
        predictor = scurry.Predictor.full(forest)
        for (limit, order), shares in right.items():
            out = predictor.acquire(lambda row, test, X=X: X[row, test], len(X), max_cost=limit, order=order, **prices)
            shares.append(float(np.mean(out.labels == y)))
    return [
        {"data": name, "max_cost": limit, "order": order, "accuracy": round(float(np.mean(shares)), 4)}
        for (limit, order), shares in right.items()
    ]


def main():
    """Measure, print and store."""
    cells = [cell for name in BUDGETS for cell in measure_budgets(name)]
    orders = [cell for name in LIMITS for cell in measure_orders(name)]
    for cell in cells + orders:
        print(cell)
    found = {"n_splits": N_SPLITS, "confidence": CONFIDENCE, "budgets": cells, "orders": orders}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
