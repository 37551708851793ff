"""How good probabilities are after an early exit: AUC and log-loss next to the full model's, on rows nothing has seen.

Each model is trained on 40 % of the rows, and 40 % calibrate its early exit. The rest are measured: how often
`predict_proba` speaks for another class than `predict` answers, AUC (with more classes the mean of each against the
rest) and log-loss. "Limit" is what a gradient-boosted regression makes of the same partial scores, positions and sides:
no map of them can be expected to do much better, because the trees not evaluated know more than the partial score.

    SCURRY_DATA=data python benchmarks/score_maps.py            # --only adult: models whose name holds the word
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.metrics import log_loss, roc_auc_score
from xgboost import XGBClassifier

import scurry
from jobs import run_jobs
from report import RESULTS, commit
from scurry.errors import InfeasibleError
from scurry.evaluation import ScoreQuality, score_quality
from scurry.runners.exits import stops_of

PROMISES = (0.005, 0.001)
# What is asked for: the largest loss of AUC, and the largest growth of log-loss.
ASKED = {0.005: (0.01, 0.08), 0.001: (0.003, 0.025)}


def boosted(n_trees: int, max_depth: int) -> LGBMClassifier:
    return LGBMClassifier(n_estimators=n_trees, max_depth=max_depth, n_jobs=1, random_state=0, verbose=-1)


@dataclass(frozen=True)
class Case:
    """A model, its data, and what is asked of the early exit."""

    title: str
    data: str
    make: Callable[[], Any]
    options: dict[str, Any] = field(default_factory=dict)
    positive: Any = None  # one class against the rest
    max_rows: int = 60_000


CASES = (
    Case("adult, LightGBM 300 × depth 6", "adult", lambda: boosted(300, 6)),
    Case("adult, LightGBM 300 × depth 6, threshold 0.3", "adult", lambda: boosted(300, 6), {"threshold": 0.3}),
    Case(
        "adult, LightGBM 300 × depth 6, positives in full",
        "adult",
        lambda: boosted(300, 6),
        {"keep_scores": "positive"},
    ),
    Case("adult, random forest 101 × depth 10", "adult", lambda: RandomForestClassifier(101, max_depth=10)),
    Case(
        "adult, random forest 101 × depth 10, votes",
        "adult",
        lambda: RandomForestClassifier(101, max_depth=10),
        {"method": "minimean"},
    ),
    Case("census-KDD, LightGBM 300, threshold 0.1", "census_income_kdd", lambda: boosted(300, 6), {"threshold": 0.1}),
    Case("census-KDD, XGBoost 300 × depth 6", "census_income_kdd", lambda: XGBClassifier(n_estimators=300, n_jobs=1)),
    Case("CDC diabetes, LightGBM 300 × depth 6", "cdc_diabetes", lambda: boosted(300, 6)),
    Case("bank marketing, LightGBM 200 × depth 4", "grinsztajn_bank_marketing", lambda: boosted(200, 4)),
    Case("magic, random forest 200", "magic", lambda: RandomForestClassifier(200)),
    Case("magic, XGBoost 200 × depth 4", "magic", lambda: XGBClassifier(n_estimators=200, max_depth=4, n_jobs=1)),
    Case("nomao, extra trees 200", "nomao", lambda: ExtraTreesClassifier(200)),
    Case(
        "electricity, extra trees 200 × depth 12", "electricity_full", lambda: ExtraTreesClassifier(200, max_depth=12)
    ),
    Case(
        "electricity, histogram boosting 200", "electricity_full", lambda: HistGradientBoostingClassifier(max_iter=200)
    ),
    Case(
        "covertype 2 against the rest, XGBoost 300 × depth 6",
        "covertype",
        lambda: XGBClassifier(n_estimators=300, n_jobs=1),
        positive=2,
    ),
    Case(
        "CDC diabetes, random forest 100 × depth 12", "cdc_diabetes", lambda: RandomForestClassifier(100, max_depth=12)
    ),
    Case(
        "census-KDD, histogram boosting 200", "census_income_kdd", lambda: HistGradientBoostingClassifier(max_iter=200)
    ),
    Case(
        "bank marketing, XGBoost 300 × depth 6",
        "grinsztajn_bank_marketing",
        lambda: XGBClassifier(n_estimators=300, n_jobs=1),
    ),
    Case("nomao, LightGBM 300 × depth 6", "nomao", lambda: boosted(300, 6)),
    Case("credit cards, LightGBM 300 × depth 6", "grinsztajn_default_of_credit_card_clients", lambda: boosted(300, 6)),
    Case("covertype, LightGBM 100 × 7", "covertype", lambda: LGBMClassifier(n_estimators=100, n_jobs=1, verbose=-1)),
    Case("letter, random forest 100", "letter", lambda: RandomForestClassifier(100)),
    Case(
        "letter, LightGBM 60 × 26",
        "letter",
        lambda: LGBMClassifier(n_estimators=60, num_leaves=15, n_jobs=1, verbose=-1),
    ),
)


def load(case: Case) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Return shuffled rows, and labels as numbers from 0 on."""
    data = scurry.datasets.load(case.data)
    some = np.random.default_rng(0).permutation(len(data.y))[: case.max_rows]
    X, y = np.asarray(data.X, np.float32)[some], np.asarray(data.y)[some]
    return X, (y == case.positive).astype(int) if case.positive is not None else np.unique(y, return_inverse=True)[1]


def limit(fast: scurry.Predictor, X_cal: Any, X: Any, y: NDArray[Any], full: ScoreQuality) -> dict[str, float]:
    """Return what any map of partial scores of two classes could reach, found by regression."""
    known, new = stops_of(fast.forest, fast.plan, X_cal), stops_of(fast.forest, fast.plan, X)
    if known is None or new is None or fast.forest.n_classes > 2:
        return {}
    tables = [np.column_stack([stops.partial, stops.positions, stops.groups]) for stops in (known, new)]
    wanted = fast.forest.predict_proba(X_cal)[:, 1]
    regression = HistGradientBoostingRegressor(min_samples_leaf=40, random_state=0)
    regression.fit(tables[0][~known.complete], wanted[~known.complete])
    found = regression.predict(tables[1]).clip(1e-4, 1 - 1e-4)
    positive = np.where(new.complete, fast.forest.predict_proba(X)[:, 1], found)
    growth = log_loss(y, positive) / full.full_log_loss - 1
    return {"auc_limit": roc_auc_score(y, positive) - full.full_auc, "log_loss_limit": growth}


def measure(case: Case) -> list[dict[str, Any]]:
    """Return a line for each promise."""
    X, y = load(case)
    n_train, n_cal = int(0.4 * len(y)), int(0.8 * len(y))
    if len(y) < 25_000:  # one promise in a thousand takes thousands of rows
        n_train = int(0.25 * len(y))
    model = case.make()
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    model.fit(X[:n_train], y[:n_train])
    X_cal, X_new, y_new = X[n_train:n_cal], X[n_cal:], y[n_cal:]
    rows = []
    for promise in PROMISES:
        try:
            fast = scurry.early_exit(model, X_cal, max_disagreement=promise, random_state=0, **case.options)
        except InfeasibleError:
            rows.append({"model": case.title, "promised": promise, "infeasible": True})
            continue
        if fast.plan.stop is None:
            rows.append({"model": case.title, "promised": promise, "infeasible": True})
            continue
        quality, run = score_quality(fast, X_new, y_new), fast.run(X_new)
        probabilities, labels = fast.predict_proba(X_new), fast.forest.codes_of(fast.predict(X_new))
        threshold = case.options.get("threshold")
        speaks_for = probabilities.argmax(axis=1) if threshold is None else probabilities[:, 1] >= threshold
        auc_loss, growth = ASKED[promise]
        auc, loss = quality.fast_auc - quality.full_auc, quality.fast_log_loss / quality.full_log_loss - 1
        rows.append(
            {
                "model": case.title,
                "promised": promise,
                "trees": float(run.mean_trees),
                "n_trees": fast.forest.n_trees,
                "n_rows": len(y_new),
                "labels_changed": float(np.mean(run.labels != fast.forest.predict(X_new))),
                "contradictions": int((speaks_for != labels).sum()),
                "full_auc": quality.full_auc,
                "auc": auc,
                "full_log_loss": quality.full_log_loss,
                "log_loss": loss,
                "kept": bool(auc >= -auc_loss and loss <= growth),
            }
            | limit(fast, X_cal, X_new, y_new, quality)
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="models whose name holds this word; nothing is stored")
    parser.add_argument("--machine", default="", help="how the stored result names the machine")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    asked = parser.parse_args()
    result: dict[str, Any] = {
        "title": "Probabilities of early exits",
        "machine": asked.machine,
        "date": f"{date.today():%Y-%m-%d}",
        "commit": commit(),
        "conditions": "no time was measured",
        "command": "python benchmarks/score_maps.py",
        "rows": [],
    }
    chosen = [at for at, case in enumerate(CASES) if asked.only in case.title]
    found: dict[int, list[dict[str, Any]]] = {}
    for at, rows, error in run_jobs(_measure_at, chosen, asked.jobs):
        found[at] = rows or []
        if error:
            print(f"{CASES[at].title}: {error}", flush=True)
        if not asked.only:  # complete after every model, so that an interrupted run keeps what it has
            result["rows"] = [row for case in sorted(found) for row in found[case]]
            (RESULTS / "score-maps.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _measure_at(place: int) -> list[dict[str, Any]]:
    return measure(CASES[place])


if __name__ == "__main__":
    main()
