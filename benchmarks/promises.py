"""Promises of every kind on known pools: trees per row, and how often a promise is broken.

Each cell is a data set, a model and a promise. A refit draws a new split into training rows, rows that fit the rule and
a pool, and trains a new model. Then calibration sets are drawn from the pool with replacement, so that the pool is the
population and the truth is exact. At most 5 % of the certificates may break their promise, but for chance. Refits are
kept in ``results/promises.json`` as they come; a run that was interrupted goes on where it was.

    python benchmarks/promises.py --refits 1 --draws 3 --only "adult"
    python benchmarks/promises.py --refits 20 --draws 10 --jobs 16 --seconds 500
    python benchmarks/promises.py --anew --jobs 16    # replaces what other commits found

With SCURRY_PROMISES_DATA set to a folder, data are read from files that ``--export`` wrote there, which needs numpy
only.
"""

from __future__ import annotations

import argparse
import json
import os
import pkgutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes share the cores

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import scurry
from jobs import run_jobs
from report import RESULTS, commit
from scurry import promises
from scurry.errors import InfeasibleError

KEPT = RESULTS / "promises.json"
DATA = "SCURRY_PROMISES_DATA"
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Cell:
    """A model on a data set, and what is promised.

    Attributes
    ----------
    kind : str
        Which function below draws its certificates.
    data : str
    model : {"lightgbm", "forest"}
    ask : tuple
        What the kind asks for, such as the largest loss.
    n_rows : int
        Calibration rows of a draw; all of a smaller pool.
    asked_trees : float or None
        The figure to reach.
    threshold : float or None
    """

    kind: str
    data: str
    model: str
    ask: tuple[float, ...]
    n_rows: int
    asked_trees: float | None = None
    threshold: float | None = None

    @property
    def name(self) -> str:
        asked = "/".join(f"{value:g}" for value in self.ask)
        return f"{self.kind} {asked}, {self.data}, {self.model}, {self.n_rows:,} rows"


@dataclass(frozen=True)
class Pool:
    """A model, rows that fit rules, and the population."""

    forest: scurry.Forest
    fit: NDArray[np.float32]
    X: NDArray[np.float32]
    y: NDArray[Any]
    full: NDArray[Any]


CELLS = (
    Cell("per class", "diabetes130", "lightgbm", (0.02, 0.002), 20_000, 43, threshold=0.25),
    Cell("per class", "census_income_kdd", "lightgbm", (0.02, 0.002), 20_000, 12),
    Cell("per class", "cdc_diabetes", "lightgbm", (0.02, 0.002), 20_000, 12.5),
    Cell("per class", "adult", "lightgbm", (0.02, 0.01), 10_000),
    Cell("recall", "census_income_kdd", "lightgbm", (0.02, 0.002), 20_000),
    Cell("recall", "cdc_diabetes", "lightgbm", (0.02, 0.002), 20_000),
    Cell("recall", "diabetes130", "lightgbm", (0.02, 0.002), 20_000, threshold=0.25),
    Cell("recall", "adult", "lightgbm", (0.02, 0.01), 10_000),
    Cell("accuracy", "adult", "lightgbm", (0.003,), 10_000, 20),
    Cell("accuracy", "magic", "lightgbm", (0.003,), 10_000, 26),
    Cell("accuracy", "nomao", "lightgbm", (0.003,), 10_000, 12.5),
    Cell("accuracy", "cdc_diabetes", "lightgbm", (0.003,), 10_000, 3.2),
    Cell("accuracy", "adult", "forest", (0.003,), 10_000, 5),
    Cell("accuracy", "adult", "lightgbm", (0.01,), 10_000, 4),
    Cell("costs", "adult", "lightgbm", (0.01,), 10_000),
    Cell("costs", "magic", "lightgbm", (0.01,), 10_000),
    Cell("costs", "nomao", "lightgbm", (0.01,), 10_000),
    Cell("costs", "cdc_diabetes", "lightgbm", (0.01,), 10_000),
)


def main() -> None:
    run(__doc__, CELLS, KEPT, draw_cell, export)


def run(
    about: str | None,
    all_cells: Sequence[Any],
    path: Path,
    draw: Callable[[tuple[Any, int, int]], dict[str, Any]],
    write_data: Callable[[Path], None],
) -> None:
    """Draw the certificates that the command line asks for, and keep them in a file as they come."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--refits", type=int, default=20, metavar="N", help="splits and models of each cell")
    parser.add_argument("--draws", type=int, default=10, metavar="N", help="certificates of each refit")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="number of processes")
    parser.add_argument("--seconds", type=float, metavar="N", help="stop after so long, with what there is")
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD", help="cells whose names have all these words")
    parser.add_argument("--anew", action="store_true", help="replace refits that were kept from other commits")
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="write the data there as .npz, and nothing else")
    arguments = parser.parse_args()
    if arguments.export is not None:
        write_data(arguments.export)
        return
    cells = [cell for cell in all_cells if all(word in cell.name for word in arguments.only)]
    kept: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    jobs = [
        (cell, refit, arguments.draws)
        for refit in range(arguments.refits)
        for cell in cells
        if is_missing(kept.get(cell.name, {}).get(str(refit), {}), arguments.draws, arguments.anew)
    ]
    for (cell, refit, _), found, error in run_jobs(draw, jobs, arguments.jobs, arguments.seconds):
        # An error is kept as well, and this refit is tried again by the next run.
        kept.setdefault(cell.name, {})[str(refit)] = {"draws": [], "error": error} if error else found
        path.parent.mkdir(exist_ok=True)
        # One move, so that a run that is stopped leaves the old file or the new one.
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        temporary.replace(path)
        print(error or summarise(cell, kept[cell.name]), flush=True)
    print("\n".join(["", *(summarise(cell, kept[cell.name]) for cell in cells if cell.name in kept)]))


def is_missing(refit: dict[str, Any], n_draws: int, anew: bool) -> bool:
    """Return whether a refit has too few draws, or those of another commit, if they are to be made anew."""
    return len(refit.get("draws", [])) < n_draws or (anew and refit.get("commit") != commit())


@contextmanager
def shared_fits() -> Iterator[None]:
    """Make what is fitted to the same rows only once: all draws of a refit have the rows of X_fit in common.

    What is remembered depends on these rows, the model and what is asked for alone, so that results are the same.
    """
    planners = "scurry.verbs.planners"

    def rows_of(rows: NDArray[Any] | None) -> int:
        return hash(None if rows is None else (rows.shape, rows.tobytes()))

    def order_of(order: NDArray[Any] | None = None) -> bytes:
        return b"" if order is None else order.tobytes()

    # What each function is remembered by, and the model, which is kept so that no other takes its place in memory.
    keys: dict[str, Callable[..., tuple[Any, Any]]] = {
        f"{planners}.by_scores.fit_labels": lambda forest, rows: (forest, rows_of(rows)),
        f"{planners}.by_scores.ScoreSearch.fit": lambda search, method, rate, order=None: (
            search.calibration.forest,
            (rows_of(search.rows), search.is_tested, method, rate, order_of(order)),
        ),
        **{
            f"{where}.measure_spending": lambda _, choosing, method: (
                choosing.forest,
                (rows_of(choosing.fit_rows), repr(choosing.promise), method),
            )
            for where in (f"{planners}.by_scores", "scurry.verbs.early_exit")
        },
        f"{planners}.by_class._compare_families": lambda calibration, promise: (
            calibration.forest,
            (rows_of(calibration.fit_rows), repr(promise), calibration.sample.n_rows),
        ),
        f"{planners}.by_values._choose_family": lambda forest, promise, rows, full: (
            forest,
            (repr(promise), rows_of(rows)),
        ),
    }
    functions = {name: pkgutil.resolve_name(name) for name in keys}

    def remembered(name: str) -> Callable[..., Any]:
        known: dict[Any, Any] = {}

        def call(*arguments: Any) -> Any:
            forest, rest = keys[name](*arguments)
            if (id(forest), rest) not in known:
                known[id(forest), rest] = forest, functions[name](*arguments)
            return known[id(forest), rest][1]

        return call

    with ExitStack() as stack:
        for name in keys:
            stack.enter_context(patch(name, remembered(name)))
        yield


def draw_cell(job: tuple[Cell, int, int]) -> dict[str, Any]:
    """Return the trees and the margin of each draw: below 0 where the promise is broken; None if infeasible."""
    with shared_fits():
        return _draw_cell(*job)


def _draw_cell(cell: Cell, refit: int, n_draws: int) -> dict[str, Any]:
    pool, draws = make_pool(cell, refit), []
    promise = KINDS[cell.kind][0](cell, pool)
    for draw in range(n_draws):
        size = min(cell.n_rows, len(pool.X))
        at = np.random.default_rng([refit, draw]).integers(len(pool.X), size=size)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rows drawn with replacement repeat, which is as it should be here
            try:
                fast = scurry.early_exit(
                    pool.forest, pool.X[at], pool.y[at], X_fit=pool.fit, promise=promise, random_state=0
                )
            except InfeasibleError:
                draws.append(None)
                continue
        run = fast.run(pool.X)
        draws.append({"trees": run.mean_trees, "margin": float(KINDS[cell.kind][1](cell, pool, run.labels))})
    return {"commit": commit(), "n_trees": pool.forest.n_trees, "draws": draws}


# One pair of functions for each kind of promise: what is promised, and by how much the truth is better.


def _promise_per_class(cell: Cell, pool: Pool) -> promises.Promise:
    rare, other = pool.forest.classes[::-1].tolist()
    return promises.LabelsPerClass({rare: cell.ask[0], other: cell.ask[1]}, confidence=CONFIDENCE)


def _judge_per_class(cell: Cell, pool: Pool, labels: NDArray[Any]) -> float:
    changed, is_rare = labels != pool.full, pool.full == pool.forest.classes[1]
    return min(cell.ask[0] - changed[is_rare].mean(), cell.ask[1] - changed[~is_rare].mean())


def _promise_recall(cell: Cell, pool: Pool) -> promises.Promise:
    return promises.Recall(pool.forest.classes[1], *cell.ask, confidence=CONFIDENCE)


def _judge_recall(cell: Cell, pool: Pool, labels: NDArray[Any]) -> float:
    rare = pool.forest.classes[1]
    found, others = (pool.full == rare) & (pool.y == rare), pool.full != rare
    return min(cell.ask[0] - (labels != rare)[found].mean(), cell.ask[1] - (labels == rare)[others].mean())


def _promise_accuracy(cell: Cell, pool: Pool) -> promises.Promise:
    return promises.Accuracy(cell.ask[0], confidence=CONFIDENCE)


def _judge_accuracy(cell: Cell, pool: Pool, labels: NDArray[Any]) -> float:
    return cell.ask[0] - float((pool.full == pool.y).mean() - (labels == pool.y).mean())


def _costs() -> NDArray[np.float64]:
    return np.array([[0.0, 1.0], [2.0, 0.0]])  # missing a row of the second class costs twice


def _promise_costs(cell: Cell, pool: Pool) -> promises.Promise:
    return promises.Accuracy(cell.ask[0], error_costs=_costs(), confidence=CONFIDENCE)


def _judge_costs(cell: Cell, pool: Pool, labels: NDArray[Any]) -> float:
    true, full, own = (pool.forest.codes_of(given) for given in (pool.y, pool.full, labels))
    return cell.ask[0] - float((_costs()[true, own] - _costs()[true, full]).mean())


KINDS = {
    "per class": (_promise_per_class, _judge_per_class),
    "recall": (_promise_recall, _judge_recall),
    "accuracy": (_promise_accuracy, _judge_accuracy),
    "costs": (_promise_costs, _judge_costs),
}


def summarise(cell: Cell, refits: dict[str, Any]) -> str:
    """Return the mean trees of a cell next to the figure to reach, and its broken promises."""
    n_errors = sum("error" in refit for refit in refits.values())
    refits = {key: refit for key, refit in refits.items() if refit["draws"]}
    draws = [draw for refit in refits.values() for draw in refit["draws"]]
    found = [draw for draw in draws if draw is not None]
    n_broken = sum(draw["margin"] < 0 for draw in found)
    most = int(stats.binom.ppf(0.99, len(found), 1 - CONFIDENCE)) if found else 0
    trees = np.mean([draw["trees"] for draw in found]) if found else np.nan
    by_refit = [np.mean([d["trees"] for d in r["draws"] if d]) for r in refits.values() if any(r["draws"])]
    spread = np.std(by_refit) if by_refit else np.nan
    asked = "" if cell.asked_trees is None else f", asked {cell.asked_trees:g}"
    return (
        f"{cell.name}: {trees:.1f} trees (± {spread:.1f} over {len(refits)} refits){asked}; {n_broken} of {len(found)} "
        f"broken, at most {most} by chance; {len(draws) - len(found)} infeasible"
        + (f"; {n_errors} refits with errors" if n_errors else "")
    )


def make_pool(cell: Cell, refit: int) -> Pool:
    """Return a fresh split and the model of a refit."""
    X, y = load(cell.data)
    order = np.random.default_rng([17, refit]).permutation(len(y))
    X, y = X[order], y[order]
    # Of large data sets 40,000 rows are the pool and 15,000 fit rules, small ones are divided by shares.
    is_large = len(y) >= 100_000
    n_train, n_fit = (46_000, 15_000) if is_large else (int(0.4 * len(y)), int(0.2 * len(y)))
    X, y = X[: n_train + n_fit + 40_000], y[: n_train + n_fit + 40_000]
    model = _train(cell.model, X[:n_train], y[:n_train], refit)
    forest = scurry.from_model(model)
    if cell.threshold is not None:
        from scurry.verbs.options import with_threshold

        forest = with_threshold(forest, cell.threshold)
    fit, pool = X[n_train : n_train + n_fit], X[n_train + n_fit :]
    return Pool(forest, fit, pool, y[n_train + n_fit :], forest.predict(pool))


def _train(kind: str, X: NDArray[np.float32], y: NDArray[Any], seed: int) -> Any:
    if kind == "forest":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(101, max_depth=10, n_jobs=1, random_state=seed).fit(X, y)
    from lightgbm import LGBMClassifier

    options = {"n_estimators": 200, "num_leaves": 31, "learning_rate": 0.05}
    return LGBMClassifier(**options, n_jobs=1, random_state=seed, verbose=-1).fit(X, y)


def load(name: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return rows and labels 0 and 1, where 1 is the class that is rarer."""
    folder = os.environ.get(DATA)
    if folder:
        with np.load(Path(folder) / f"{name}.npz") as arrays:
            return arrays["X"], arrays["y"]
    from scurry import datasets

    data = datasets.load(name)
    values, counts = np.unique(data.y, return_counts=True)
    return data.X, (data.y == values[counts.argmin()]).astype(np.int64)


def export(folder: Path) -> None:
    """Write the data of all cells as arrays."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted({cell.data for cell in CELLS}):
        X, y = load(name)
        np.savez_compressed(folder / f"{name}.npz", X=X, y=y)
        print(f"{name}: {len(y):,} rows, {y.mean():.1%} positive")


if __name__ == "__main__":
    main()
