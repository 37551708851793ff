"""Labels of models around models, and of IsolationForest, on rows made to find differences from scikit-learn.

    python benchmarks/wrappers_exact.py --jobs 16 --seconds 3000 --seed 1 --out wrappers.json    # see exactness.py
    python benchmarks/wrappers_exact.py --timing              # IsolationForest beside scikit-learn, taking turns

Rows stand on thresholds and next to them, some with missing values; models are small and coarse, so that means and
votes tie. Times go to benchmarks/results/wrappers-exact.json.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import scurry
from report import RESULTS, commit, machine

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.strategies import adversarial_rows

RESULT = RESULTS / "wrappers-exact.json"
Draw = Callable[[np.random.Generator], Any]


def draw_tree(rng: np.random.Generator) -> Any:
    return DecisionTreeClassifier(max_depth=int(rng.integers(1, 6)), random_state=int(rng.integers(1000)))


def draw_forest(rng: np.random.Generator) -> Any:
    kind = RandomForestClassifier if rng.random() < 0.6 else ExtraTreesClassifier
    return kind(
        int(rng.integers(1, 9)),
        max_depth=int(rng.integers(1, 6)),
        min_samples_leaf=int(rng.choice([1, 20])),
        random_state=int(rng.integers(1000)),
    )


def draw_boosted(rng: np.random.Generator) -> Any:
    n, seed = int(rng.integers(1, 8)), int(rng.integers(1000))
    match int(rng.integers(4)):
        case 0:
            return GradientBoostingClassifier(n_estimators=n, random_state=seed)
        case 1:
            return HistGradientBoostingClassifier(max_iter=n, min_samples_leaf=5, random_state=seed)
        case 2:
            from xgboost import XGBClassifier

            return XGBClassifier(n_estimators=n, max_depth=3, n_jobs=1, random_state=seed)
        case _:
            from lightgbm import LGBMClassifier

            return LGBMClassifier(n_estimators=n, min_child_samples=5, n_jobs=1, verbose=-1, random_state=seed)


def draw_model(rng: np.random.Generator) -> Any:
    return (draw_tree, draw_forest, draw_forest, draw_boosted)[int(rng.integers(4))](rng)


def draw_bagged(rng: np.random.Generator) -> Any:
    return BaggingClassifier(
        draw_model(rng),
        n_estimators=int(rng.integers(1, 7)),
        max_features=float(rng.choice([0.5, 1.0])),
        max_samples=float(rng.choice([0.2, 1.0])),
        random_state=0,
    )


def draw_voting(rng: np.random.Generator) -> Any:
    models = [(f"model{at}", draw_model(rng)) for at in range(int(rng.integers(1, 5)))]
    weights = rng.integers(1, 4, len(models)).tolist() if rng.random() < 0.5 else None
    return VotingClassifier(models, voting=str(rng.choice(["soft", "hard"])), weights=weights)


def draw_adaboost(rng: np.random.Generator) -> Any:
    rate = float(rng.choice([0.1, 1.0]))
    return AdaBoostClassifier(draw_tree(rng), n_estimators=int(rng.integers(1, 20)), learning_rate=rate, random_state=0)


def draw_calibrated(rng: np.random.Generator) -> Any:
    inside = draw_voting(rng).set_params(voting="soft") if rng.random() < 0.15 else draw_model(rng)
    method = str(rng.choice(["sigmoid", "isotonic", "temperature"]))
    return CalibratedClassifierCV(inside, method=method, ensemble=bool(rng.random() < 0.5), cv=2)


def draw_threshold(rng: np.random.Generator) -> Any:
    inside = draw_calibrated(rng) if rng.random() < 0.3 else draw_model(rng)
    if rng.random() < 0.4:
        return TunedThresholdClassifierCV(inside, cv=2, thresholds=20)
    threshold = float(rng.choice([0.5, 0.25, rng.random()]))
    return FixedThresholdClassifier(inside, threshold=threshold, pos_label=int(rng.integers(2)))


def draw_one_vs_rest(rng: np.random.Generator) -> Any:
    return OneVsRestClassifier(draw_calibrated(rng) if rng.random() < 0.2 else draw_model(rng))


def draw_isolation(rng: np.random.Generator) -> Any:
    return IsolationForest(
        n_estimators=int(rng.integers(1, 40)),
        max_samples=int(rng.choice([1, 16, 128])),
        max_features=float(rng.choice([0.5, 1.0])),
        contamination="auto" if rng.random() < 0.3 else float(rng.uniform(0.02, 0.5)),
        random_state=0,
    )


def draw_outputs(rng: np.random.Generator) -> Any:
    """Return a model of several targets, which each have a forest."""
    if rng.random() < 0.3:
        return MultiOutputClassifier(draw_model(rng))
    if rng.random() < 0.5:
        from xgboost import XGBClassifier

        strategy = str(rng.choice(["multi_output_tree", "one_output_per_tree"]))
        n = int(rng.integers(1, 8))
        return XGBClassifier(n_estimators=n, max_depth=3, n_jobs=1, tree_method="hist", multi_strategy=strategy)
    return draw_forest(rng) if rng.random() < 0.7 else draw_tree(rng)


FAMILIES: dict[str, Draw] = {
    "bagging": draw_bagged,
    "voting": draw_voting,
    "adaboost": draw_adaboost,
    "calibrated": draw_calibrated,
    "thresholds": draw_threshold,
    "one-vs-rest": draw_one_vs_rest,
    "isolation": draw_isolation,
    "outputs": draw_outputs,
}


def compare(family: str, seed: int, n_rows: int) -> dict[str, Any]:
    """Return what one random model of a family gave: rows compared, labels that differ, the largest difference."""
    rng = np.random.default_rng([list(FAMILIES).index(family), seed])
    n_classes = 2 if family in ("thresholds", "isolation", "outputs") else int(rng.integers(2, 5))
    X, y = make_classification(300, 6, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=seed)
    X[:, ::2] = np.round(X[:, ::2], 1)
    if family == "outputs":
        y = np.column_stack([y, X[:, 1] > 0.3, X[:, 2] + X[:, 0] > 0]).astype(int)
    model = FAMILIES[family](rng)
    try:
        model.fit(X, y)
    except ValueError:  # too few rows of a class in a part, which is the model's own affair
        return {"not fitted": 1}
    try:
        forest = scurry.from_model(model, output="all" if family == "outputs" else None)
    except scurry.errors.UnsupportedModelError as error:
        return {"refused": 1, "why": str(error)}
    of_rows = forest if family != "outputs" else forest[seed % len(forest)]  # whose thresholds rows are next to
    rows = adversarial_rows(of_rows, X, n_rows, seed=seed, special=False)
    rows[~np.isfinite(rows) | (np.abs(rows) > 3e38)] = 0.0
    rows = with_missing(model, rows, rng)
    rows = rows.astype(np.float32) if rng.random() < 0.3 else rows
    n_changed = int((np.asarray(forest.predict(rows)) != model.predict(rows)).reshape(len(rows), -1).any(axis=1).sum())
    found: dict[str, Any] = {"models": 1, "rows": len(rows), "differing labels": n_changed}
    if family == "isolation":
        found["largest difference"] = float(np.abs(forest.score_samples(rows) - model.score_samples(rows)).max())
    elif family != "outputs" and hasattr(model, "predict_proba"):
        found["largest difference"] = float(np.abs(forest.predict_proba(rows) - model.predict_proba(rows)).max())
    return found


def with_missing(model: Any, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return rows with missing values, if the model takes them."""
    holes = np.where(rng.random(rows.shape) < 0.05, np.nan, rows)
    try:
        model.predict(np.full((1, rows.shape[1]), np.nan))
    except ValueError:
        return rows
    return holes


def measure_isolation(n_rounds: int) -> None:
    """Time IsolationForest next to scikit-learn: CPU time of one thread, taking turns."""
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    result["isolation timing"] = []
    for n_features, n_trees in ((8, 100), (20, 100), (20, 300)):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(20_000, n_features)).astype(np.float32)
        model = IsolationForest(n_estimators=n_trees, contamination=0.02, random_state=0).fit(X[:5000])
        forest = scurry.from_model(model)
        fast = scurry.early_exit(forest, X[5000:15_000], max_disagreement=0.005, random_state=0)
        tasks: dict[str, Callable[[], object]] = {
            "scikit-learn labels": lambda m=model, rows=X: m.predict(rows),
            "scikit-learn scores": lambda m=model, rows=X: m.score_samples(rows),
            "labels": lambda m=forest, rows=X: m.predict(rows),
            "scores": lambda m=forest, rows=X: m.score_samples(rows),
            "early exit": lambda m=fast, rows=X: m.predict(rows),
        }
        best = dict.fromkeys(tasks, np.inf)
        for _ in range(n_rounds):
            for name, task in tasks.items():
                task()  # none pays for the caches that another one emptied
                begun = time.process_time()
                task()
                best[name] = min(best[name], time.process_time() - begun)
        result["isolation timing"].append(
            {
                "n_features": n_features,
                "n_trees": n_trees,
                "ms": {name: round(1e3 * seconds, 2) for name, seconds in best.items()},
                "labels, times faster": round(best["scikit-learn labels"] / best["labels"], 1),
                "scores, times faster": round(best["scikit-learn scores"] / best["scores"], 1),
                "early exit at 0.5 % of labels, times faster": round(
                    best["scikit-learn labels"] / best["early exit"], 1
                ),
                "early exit, trees per row": round(fast.run(X).mean_trees, 1),
                "differing labels": int((forest.predict(X) != model.predict(X)).sum()),
            }
        )
        print(result["isolation timing"][-1])
    result |= {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "commit": commit(), "machine": machine()}
    conditions = "20,000 float32 rows, one thread, taking turns, least CPU time of the rounds"
    result["conditions"] = f"{conditions}; each is called once before it is timed"
    RESULT.write_text(json.dumps(result, indent=1) + "\n")


def main() -> None:
    from exactness import parse, run  # which compares the families here, among others

    parser = parse(__doc__, RESULTS / "exactness-wrappers.json")
    parser.add_argument("--timing", action="store_true", help="Time IsolationForest instead.")
    parser.add_argument("--rounds", type=int, default=7, help="Rounds of the timing.")
    options = parser.parse_args()
    if not options.timing:
        sys.exit(not run(list(FAMILIES), options))
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        measure_isolation(options.rounds)


if __name__ == "__main__":
    main()
