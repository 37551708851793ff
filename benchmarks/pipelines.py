"""Speed of folded pipelines beside the pipelines themselves, and beside the forest alone on rows already transformed.

    python benchmarks/pipelines.py

Says for each pipeline how many times faster the folded forest answers one row and 20,000 rows, what that takes beside
the forest alone, how long importing takes, and how many labels differ (which must be 0). The forest alone is the last
step, imported by itself, on the matrix that the other steps make of the same rows: float64 too, without their time.
"folded" gets what the pipeline gets: an array, or a table of pandas with columns of texts. The forest alone never sees
a text, so that "folded, encoded rows" compares like with like: there the table was read before, as the matrix was made.
Times are CPU times of one thread, the least of several rounds that take turns. Each call is made once just before it is
timed, so that no task pays for the caches that another one emptied. Writes benchmarks/results/pipelines.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, PowerTransformer, StandardScaler
from threadpoolctl import threadpool_limits

import scurry
from report import RESULTS, commit

RESULT = RESULTS / "pipelines.json"
N_ROWS = 20_000


def make_rows(n_rows: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table of numbers, some missing, and texts, with labels that depend on some of them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"number{at}": rng.lognormal(size=n_rows) for at in range(8)})
    frame.iloc[rng.random(n_rows) < 0.1, 0] = np.nan
    for at in range(4):
        frame[f"text{at}"] = rng.choice([f"value {value}" for value in range(3 + 5 * at)], n_rows)
    score = frame.number1 + frame.number2 * (frame.text0 == "value 1") + 2 * (frame.text1 < "value 4")
    return frame, (score + rng.normal(size=n_rows) > 3).to_numpy().astype(int)


def pipelines() -> Iterator[tuple[str, Pipeline, bool]]:
    """Yield names, pipelines, and whether they take arrays of numbers."""
    forest = RandomForestClassifier(100, max_depth=12, n_jobs=1, random_state=0)
    boosted = HistGradientBoostingClassifier(max_iter=100, random_state=0)
    numbers, texts = [f"number{at}" for at in range(8)], [f"text{at}" for at in range(4)]
    mixed = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), numbers),
            ("texts", OneHotEncoder(handle_unknown="ignore"), texts),
        ]
    )
    ordinal = ColumnTransformer(
        [("numbers", PowerTransformer(), numbers), ("texts", OrdinalEncoder(), texts)], sparse_threshold=0
    )
    yield "scaler, forest", make_pipeline(SimpleImputer(), StandardScaler(), forest), True
    yield "log, boosted", make_pipeline(FunctionTransformer(np.log1p), boosted), True
    yield "scaler and one-hot, forest", make_pipeline(mixed, forest), False
    yield "power and ordinal, boosted", make_pipeline(ordinal, boosted), False


def race(n_rounds: int, n_calls: int, tasks: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the least CPU time of a call of each task, in seconds; they take turns."""
    best = dict.fromkeys(tasks, np.inf)
    for _ in range(n_rounds):
        for name, task in tasks.items():
            task()
            begun = time.process_time()
            for _ in range(n_calls):
                task()
            best[name] = min(best[name], (time.process_time() - begun) / n_calls)
    return best


def compare(pipeline: Pipeline, is_numeric: bool, n_rounds: int) -> dict[str, Any]:
    """Return the figures of one pipeline."""
    frame, y = make_rows(N_ROWS + 4000)
    X: Any = frame.iloc[:, :8].to_numpy() if is_numeric else frame
    pipeline.fit(X[N_ROWS:], y[N_ROWS:])
    begun = time.process_time()
    forest = scurry.from_model(pipeline)
    seconds = time.process_time() - begun
    batch, one = X[:N_ROWS], X[:1]
    alone = scurry.from_model(pipeline[-1])
    made = pipeline[:-1].transform(batch)
    made = np.ascontiguousarray(made.toarray() if hasattr(made, "toarray") else made)
    raw = batch if is_numeric else forest.encoder(batch)(batch)
    many = race(
        n_rounds,
        1,
        {
            "pipeline": lambda: pipeline.predict(batch),
            "folded": lambda: forest.predict(batch),
            "folded, encoded rows": lambda: forest.predict(raw),
            "forest alone": lambda: alone.predict(made),
        },
    )
    single = race(n_rounds, 20, {"pipeline": lambda: pipeline.predict(one)})
    single |= race(5 * n_rounds, 200, {"folded": lambda: forest.predict(one)})
    return {
        "ms": {name: round(1e3 * time_, 2) for name, time_ in many.items()},
        "one row, us": {name: round(1e6 * time_, 1) for name, time_ in single.items()},
        "one row, times faster": round(single["pipeline"] / single["folded"]),
        f"{N_ROWS} rows, times faster": round(many["pipeline"] / many["folded"], 1),
        "beside the forest alone": round(many["folded"] / many["forest alone"], 2),
        "beside the forest alone, encoded rows": round(many["folded, encoded rows"] / many["forest alone"], 2),
        "import, s": round(seconds, 2),
        "nodes, times": round(forest.n_nodes / alone.n_nodes, 2),
        "loops": [forest.engine.loop, alone.engine.loop],
        "differing labels": int((forest.predict(batch) != pipeline.predict(batch)).sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {"title": "Folded pipelines", "date": str(datetime.date.today()), "commit": commit()}
    found |= {"conditions": f"{N_ROWS:,} float64 rows, seed 0, one thread, least CPU time of {arguments.rounds} rounds"}
    for name, pipeline, is_numeric in pipelines():
        with threadpool_limits(1):  # scikit-learn's boosting would take all cores, whose waiting counts as CPU time
            found[name] = compare(pipeline, is_numeric, arguments.rounds)
        print(name, found[name], flush=True)
    RESULT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
