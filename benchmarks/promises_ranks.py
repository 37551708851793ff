"""The promise about the k best of queries on known pools: trees per document, and how often it is broken.

Each cell is a data set of queries and what is kept of their k best. A refit draws a new split of the queries into those
that train a model, those that fit the rule besides, and a pool. Calibration queries are drawn from the pool with
replacement, so that the pool is the population and the truth is exact. At most 5 % of the certificates may break their
promise, but for chance. Refits are kept in ``results/promises-ranks.json`` as they come; a run that was interrupted
goes on where it was.

    python benchmarks/promises_ranks.py --refits 1 --draws 3 --only electricity set
    python benchmarks/promises_ranks.py --refits 20 --draws 10 --jobs 16

With SCURRY_PROMISES_DATA set to a folder, data are read from files that ``--export`` wrote there, which needs numpy
only. Two of the data sets are read as Parquet files in the folder SCURRY_DATA.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import scurry
from promises import CONFIDENCE, DATA, run
from report import RESULTS, commit
from scurry.errors import InfeasibleError
from scurry.promises import TopK

KEPT = RESULTS / "promises-ranks.json"
N_QUERIES = 400  # of a draw


@dataclass(frozen=True)
class Cell:
    """Queries of a data set, and what is kept of their k best.

    Attributes
    ----------
    data : str
    k : int
    keep : {"order", "set"}
    max_changed : float
    asked_trees : float or None
        The figure to reach.
    """

    data: str
    k: int
    keep: str
    max_changed: float
    asked_trees: float | None = None

    @property
    def name(self) -> str:
        return f"top {self.k} {self.keep} {self.max_changed:g}, {self.data}, {N_QUERIES} queries"


@dataclass(frozen=True)
class Documents:
    """Rows, what they are trained on, and the query of each, from 0 on; those of a query are next to each other."""

    X: NDArray[np.float32]
    y: NDArray[Any]
    query: NDArray[np.int64]

    def of(self, queries: NDArray[np.int64]) -> Documents:
        """Return the documents of some queries in this order, each a query of its own however often it is named."""
        begin, end = (np.searchsorted(self.query, queries, side) for side in ("left", "right"))
        rows = np.concatenate([np.arange(*ends) for ends in zip(begin, end, strict=True)])
        return Documents(self.X[rows], self.y[rows], np.repeat(np.arange(len(queries)), end - begin))


N_POOL = {"lightgbm_lambdarank": 110, "electricity_full": 404, "cdc_diabetes": 700, "bike_sharing_hour": 365}
CELLS = (
    Cell("lightgbm_lambdarank", 10, "order", 0.01, 87),
    Cell("lightgbm_lambdarank", 10, "set", 0.01, 51),
    Cell("electricity_full", 10, "order", 0.01, 79),
    Cell("electricity_full", 10, "set", 0.01, 59),
    Cell("cdc_diabetes", 10, "order", 0.01, 60),
    Cell("cdc_diabetes", 10, "set", 0.01, 57),
    Cell("bike_sharing_hour", 5, "order", 0.01),
    Cell("bike_sharing_hour", 5, "set", 0.01),
)


def main() -> None:
    run(__doc__, CELLS, KEPT, draw_cell, export)


def draw_cell(job: tuple[Cell, int, int]) -> dict[str, Any]:
    """Return the trees and the margin of each draw: below 0 where the promise is broken; None if infeasible."""
    cell, refit, n_draws = job
    documents = load(cell.data)
    n_queries, n_pool = int(documents.query[-1]) + 1, N_POOL[cell.data]
    order = np.random.default_rng([29, refit]).permutation(n_queries)
    n_train = 2 * (n_queries - n_pool) // 3
    # The training rows fit the rule too: no label is needed for that.
    train, fit, pool = (documents.of(part) for part in (order[:n_train], order[:-n_pool], order[-n_pool:]))
    model = _train(cell.data, train, refit)
    full = scurry.from_model(model).scores(pool.X)[:, 0]
    promise, draws = TopK(cell.k, cell.max_changed, keep=cell.keep, confidence=CONFIDENCE), list[Any]()
    for draw in range(n_draws):
        drawn = pool.of(np.random.default_rng([refit, draw]).integers(n_pool, size=N_QUERIES))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # queries drawn with replacement repeat, which is as it should be here
            try:
                # By name, as "auto" evaluates all trees where comparing documents takes longer than that.
                fast = scurry.early_exit(
                    model, drawn.X, X_fit=fit.X, groups=drawn.query, promise=promise, method="sentinels"
                )
            except InfeasibleError:
                draws.append(None)
                continue
        run = fast.run(pool.X, groups=pool.query)
        changed = np.mean([
            _best(full[at], cell) != _best(run.scores[at], cell)
            for at in np.split(np.arange(len(full)), np.searchsorted(pool.query, np.arange(1, n_pool)))
        ])  # fmt: skip
        draws.append({"trees": run.mean_trees, "margin": float(cell.max_changed - changed)})
    return {"commit": commit(), "n_trees": fast.forest.n_trees if any(draws) else None, "draws": draws}


def _best(scores: NDArray[np.float64], cell: Cell) -> list[int]:
    best: list[int] = np.argsort(-scores, kind="stable")[: cell.k].tolist()
    return best if cell.keep == "order" else sorted(best)


def _train(data: str, train: Documents, seed: int) -> Any:
    from lightgbm import LGBMClassifier, LGBMRanker, LGBMRegressor

    options: dict[str, Any] = {"learning_rate": 0.05, "num_leaves": 31, "n_jobs": 1, "verbose": -1}
    options["random_state"] = seed
    if data == "lightgbm_lambdarank":
        return LGBMRanker(n_estimators=100, **options).fit(train.X, train.y, group=np.bincount(train.query))
    kind = LGBMRegressor if data == "bike_sharing_hour" else LGBMClassifier
    return kind(n_estimators=200, **options).fit(train.X, train.y)


def load(name: str) -> Documents:
    """Return the documents of a data set: days, batches of 100 patients, or the queries it comes with."""
    folder = os.environ.get(DATA)
    if folder:
        with np.load(Path(folder) / f"ranks-{name}.npz") as arrays:
            return Documents(arrays["X"], arrays["y"], arrays["query"])
    if name in ("lightgbm_lambdarank", "bike_sharing_hour"):
        import pandas as pd

        frame = pd.read_parquet(Path(os.environ["SCURRY_DATA"]) / f"{name}.parquet")
        target, days = frame.pop("target"), frame.pop("dteday" if "dteday" in frame else "query")
        query = np.unique(days.astype(str), return_inverse=True)[1]
        if "split" in frame:
            query = np.unique(query * 2 + (frame.pop("split") == "test").to_numpy(), return_inverse=True)[1]
        at = np.argsort(query, kind="stable")
        return Documents(frame.to_numpy(np.float32)[at], target.to_numpy()[at], query[at])
    from scurry import datasets

    data = datasets.load(name)
    y = (data.y == np.unique(data.y)[-1]).astype(np.int64)
    if name == "electricity_full":
        return Documents(data.X, y, np.arange(len(y)) // 48)
    chosen = np.random.default_rng(5).permutation(len(y))[:110_000]
    return Documents(data.X[chosen], y[chosen], np.arange(len(chosen)) // 100)


def export(folder: Path) -> None:
    """Write the data of all cells as arrays."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted({cell.data for cell in CELLS}):
        documents = load(name)
        np.savez_compressed(folder / f"ranks-{name}.npz", X=documents.X, y=documents.y, query=documents.query)
        print(f"{name}: {documents.query[-1] + 1:,} queries, {len(documents.y):,} documents")


if __name__ == "__main__":
    main()
