"""Speed of folded pipelines beside the pipelines themselves, and beside the forest alone on rows already transformed.

    python benchmarks/pipelines.py

Prints, for each pipeline, how many times faster the folded forest answers one row and 20,000 rows, what that takes
beside the forest alone, how long importing takes, and how many labels differ (which must be 0).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, PowerTransformer, StandardScaler

import scurry
from scurry.timing import race

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


def compare(name: str, pipeline: Pipeline, is_numeric: bool, n_rounds: int) -> str:
    """Return a line of figures."""
    frame, y = make_rows(N_ROWS + 4000)
    X: Any = frame.iloc[:, :8].to_numpy() if is_numeric else frame
    pipeline.fit(X[N_ROWS:], y[N_ROWS:])
    begun = time.perf_counter()
    forest = scurry.from_model(pipeline)
    seconds = time.perf_counter() - begun
    batch, one = X[:N_ROWS], X[:1]
    alone = scurry.from_model(pipeline[-1])
    made = pipeline[:-1].transform(batch)
    made = np.ascontiguousarray(made.toarray() if hasattr(made, "toarray") else made)
    raw = batch if is_numeric else forest.encoder(batch)(batch)
    n_changed = int((forest.predict(batch) != pipeline.predict(batch)).sum())
    full, folded, encoded, trees = race(
        n_rounds,
        lambda: pipeline.predict(batch),
        lambda: forest.predict(batch),
        lambda: forest.predict(raw),
        lambda: alone.predict(made),
    )
    one_full, one_folded = race(20 * n_rounds, lambda: pipeline.predict(one), lambda: forest.predict(one))
    return (
        f"{name:28} one row {one_full / one_folded:6.0f} x ({one_folded * 1e6:.1f} us), {N_ROWS:,} rows "
        f"{full / folded:5.1f} x, beside the forest alone {folded / trees:.2f} (encoded rows {encoded / trees:.2f}), "
        f"imported in {seconds:.2f} s, nodes {forest.n_nodes / alone.n_nodes:.2f} x, {n_changed} labels differ"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, pipeline, is_numeric in pipelines():
        print(compare(name, pipeline, is_numeric, arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
