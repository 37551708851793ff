"""How long importing a model of a million nodes takes, for each framework.

    python benchmarks/imports.py

Models are fitted to random labels until they have about a million nodes. What is timed is `scurry.from_model` on the
object, and on the file where the framework has one: the least CPU time of several calls. Says next to it how long the
engine takes, which the first prediction builds, and how many labels differ. Writes benchmarks/results/imports.json.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import functools
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import scurry
from report import RESULTS, commit

RESULT = RESULTS / "imports.json"
N_NODES = 1_000_000


def rows_and_labels(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n_rows, 10)).astype(np.float32), rng.integers(0, 2, n_rows)


def forests(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield names, and functions that fit a model and return it, or the file it was saved to."""
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier

    X, y = rows_and_labels(10_000)

    def boosted_rows() -> tuple[np.ndarray, np.ndarray]:
        return rows_and_labels(30_000)

    @functools.cache
    def random_forest() -> Any:
        return RandomForestClassifier(175, random_state=0, n_jobs=2).fit(X, y)

    @functools.cache
    def lightgbm() -> Any:
        import lightgbm

        if (saved_before := folder / "lightgbm.txt").exists():
            return lightgbm.Booster(model_file=str(saved_before))
        X, y = boosted_rows()
        return lightgbm.LGBMClassifier(
            n_estimators=500, num_leaves=1000, min_child_samples=5, learning_rate=0.02, verbose=-1, random_state=0
        ).fit(X, y)

    @functools.cache
    def xgboost() -> Any:
        import xgboost

        X, y = boosted_rows()
        return xgboost.XGBClassifier(
            n_estimators=350, max_leaves=1500, max_depth=0, grow_policy="lossguide", learning_rate=0.02, random_state=0
        ).fit(X, y)

    @functools.cache
    def catboost() -> Any:
        import catboost

        return catboost.CatBoostClassifier(
            iterations=980, depth=9, verbose=0, allow_writing_files=False, random_seed=0, border_count=128
        ).fit(X, y)

    def saved(make: Callable[[], Any], name: str, save: Callable[[Any, str], object]) -> Callable[[], str]:
        def call() -> str:
            path = folder / name
            if not path.exists():
                save(make(), str(path))
            return str(path)

        return call

    def onnx_of(make: Callable[[], Any], opset: int) -> Callable[[], str]:
        def save(model: Any, path: str) -> object:
            return scurry.export.to_onnx(scurry.from_model(model), path, opset=opset)

        return saved(make, f"forest-{opset}.onnx", save)

    yield "scikit-learn RandomForest", random_forest
    yield "scikit-learn ExtraTrees", lambda: ExtraTreesClassifier(130, random_state=0, n_jobs=2).fit(X, y)
    yield (
        "scikit-learn HistGradientBoosting",
        lambda: HistGradientBoostingClassifier(
            max_iter=500, max_leaf_nodes=1000, min_samples_leaf=5, early_stopping=False, random_state=0
        ).fit(*boosted_rows()),
    )
    yield "LightGBM", lightgbm
    yield (
        "LightGBM, text file",
        saved(lightgbm, "lightgbm.txt", lambda model, path: getattr(model, "booster_", model).save_model(path)),
    )
    yield "XGBoost", xgboost
    yield "XGBoost, JSON file", saved(xgboost, "xgboost.json", lambda model, path: model.save_model(path))
    yield "XGBoost, UBJSON file", saved(xgboost, "xgboost.ubj", lambda model, path: model.save_model(path))
    yield "CatBoost", catboost
    yield "CatBoost, cbm file", saved(catboost, "catboost.cbm", lambda model, path: model.save_model(path))
    yield "ONNX file of the RandomForest", onnx_of(random_forest, 5)
    yield "ONNX file of the RandomForest, opset 3", onnx_of(random_forest, 3)


def measure(model: Any, n_rounds: int) -> dict[str, Any]:
    seconds = np.inf
    for _ in range(n_rounds):
        begun = time.process_time()
        forest = scurry.from_model(model)
        seconds = min(seconds, time.process_time() - begun)
    begun = time.process_time()
    _ = forest.engine
    engine = time.process_time() - begun
    found = {"nodes": forest.n_nodes, "import, s": round(seconds, 2), "engine, s": round(engine, 2)}
    found["a million nodes, s"] = round(seconds * N_NODES / forest.n_nodes, 2)
    if hasattr(model, "classes_"):
        X = rows_and_labels(12_000)[0][-2000:]
        found["differing labels"] = int((np.ravel(model.predict(X)) != forest.predict(X)).sum())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="*", help="Names of frameworks.")
    parser.add_argument("--folder", type=Path, help="Where files of models are kept, and found again.")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.exists() else {"title": "Imports"}
    found |= {"date": str(datetime.date.today()), "commit": commit()}
    found["conditions"] = f"one process, least CPU time of {options.rounds} calls"
    with tempfile.TemporaryDirectory() as folder:
        for name, make in forests(options.folder or Path(folder)):
            if fnmatch.fnmatch(name, options.only):
                found[name] = measure(make(), options.rounds)
                print(name, found[name], flush=True)
                RESULT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
