"""What promises about labels and values save, and whether they hold: trees per row, and broken promises.

A cell is a data set, a kind of model and a promise. For each of several splits the model is fitted anew, and the rest
of the rows is divided into fitting rows and a pool. Calibration rows are drawn from the pool with replacement, so that
the pool is the population and what is true of it is known exactly. Each draw fits and certifies a predictor from the
beginning. With confidence 0.95, at most 5 % of the draws may break their promise, up to the scatter of so many draws.

Data are ``.npz`` files with arrays ``X`` (numbers, NaN for missing) and ``y``, in the folder SCURRY_NPZ. With pandas at
hand, ``--convert`` makes them from the files that `scurry.datasets` reads.

    python benchmarks/promises_values.py --convert
    python benchmarks/promises_values.py --quick
    python benchmarks/promises_values.py --only housing,bike
    python benchmarks/promises_values.py --only labels --splits 3 --draws 3 --jobs 16 --seconds 300

Each split of a cell is kept as it comes; a run that was interrupted goes on where it was. Cells named "without
sentinels" are what ``method="auto"`` was before it had them; the table at the end compares the two.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes share the cores

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

import scurry
from jobs import run_jobs
from promises import is_missing, shared_fits
from report import RESULTS, Report, commit
from scurry.errors import InfeasibleError
from scurry.promises import Labels, Promise, Values

NPZ = Path(os.environ.get("SCURRY_NPZ", "npz"))
FILES = {
    "adult": "adult",
    "magic": "magic",
    "nomao": "nomao",
    "cdc": "cdc_diabetes",
    "census": "census_income_kdd",
    "higgs": "higgs_12k",
    "spambase": "spambase",
    "electricity": "electricity_full",
    "covertype": "covertype",
    "diabetes130": "diabetes130",
    "bank": "grinsztajn_bank_marketing",
    "credit": "grinsztajn_credit",
    "default": "grinsztajn_default_of_credit_card_clients",
    "california": "grinsztajn_california",
    "phoneme": "phoneme",
    "dota2": "dota2",
    "housing": "california_housing",
    "bike": "bike_sharing_hour",
}

BEFORE = "without sentinels"


@dataclass(frozen=True)
class Cell:
    """A data set, a model and a promise; `asked` are the trees per row that are the goal."""

    data: str
    model: str
    promise: str
    asked: float | None = None
    method: str = "auto"

    @property
    def name(self) -> str:
        return f"{self.data}, {self.model}, {self.promise}" + ("" if self.method == "auto" else f", {self.method}")


CELLS = [
    *(
        Cell(data, "lightgbm-200", promise, asked if method == "auto" else None, method)
        for data, low, high in [
            ("adult", 16.9, 31.0),
            ("magic", 26.0, 43.0),
            ("nomao", 7.7, 20.0),
        ]
        for promise, asked in (("labels 0.5%", low), ("labels 0.1%", high))
        for method in ("auto", BEFORE)
    ),
    *(
        Cell(data, "lightgbm-200", "labels 0.5%", None, method)
        for data in FILES
        if data not in ("adult", "magic", "nomao", "housing", "bike")
        for method in ("auto", BEFORE)
    ),
    Cell("housing", "lightgbm-300", "values rmse/4", 102),
    Cell("bike", "lightgbm-300", "values rmse/4", 116),
    Cell("housing", "xgboost-200", "values rmse/4"),
    Cell("bike", "xgboost-200", "values rmse/4", 95),
    Cell("housing", "forest-100", "values rmse/4", 41),
    Cell("bike", "forest-100", "values rmse/4", 46),
    *(
        Cell(data, "lightgbm-200", "probabilities 0.02", asked)
        for data, asked in [("adult", 73), ("cdc", 68), ("census", 29), ("magic", 107)]
    ),
    Cell("adult", "forest-101", "probabilities 0.02"),
    Cell("magic", "forest-101", "probabilities 0.02"),
]


@dataclass(frozen=True)
class Draw:
    """What one predictor does to the pool."""

    broken: bool
    trees: float
    lost: float  # of the RMSE, as a share, or of the AUC
    method: str


def fit_model(kind: str, X: NDArray[Any], y: NDArray[Any], seed: int) -> scurry.Forest:
    """Return the fitted model of a kind such as "lightgbm-200"."""
    name, n_trees = kind.split("-")
    is_classifier = y.dtype.kind in "biu"
    options: dict[str, Any] = {"n_estimators": int(n_trees), "random_state": seed, "n_jobs": 1}
    if name == "lightgbm":
        import lightgbm

        make = lightgbm.LGBMClassifier if is_classifier else lightgbm.LGBMRegressor
        options |= {"learning_rate": 0.05, "num_leaves": 31, "verbose": -1}
    elif name == "xgboost":
        import xgboost

        make = xgboost.XGBClassifier if is_classifier else xgboost.XGBRegressor
        options |= {"learning_rate": 0.05, "max_depth": 6}
    else:
        from sklearn import ensemble

        make = ensemble.RandomForestClassifier if is_classifier else ensemble.RandomForestRegressor
        X = np.nan_to_num(X)
    return scurry.from_model(make(**options).fit(X, y))


def read(data: str) -> tuple[NDArray[Any], NDArray[Any]]:
    with np.load(NPZ / f"{data}.npz") as arrays:
        X, y = arrays["X"].astype(np.float64), arrays["y"]
    if data in ("housing", "bike"):
        return X, y.astype(np.float64)
    if data == "covertype":
        return X, (y == 4).astype(np.int64)
    return X, (y == np.unique(y)[-1]).astype(np.int64)


def draw_split(job: tuple[Cell, int, int]) -> list[dict[str, Any]]:
    """Return the draws of one split of a cell."""
    cell, seed, n_draws = job
    warnings.simplefilter("ignore")
    X, y = read(cell.data)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))[:100_000]
    rows, targets = X[order], y[order]
    n_train, n_fit = min(15_000, int(0.4 * len(rows))), min(15_000, int(0.2 * len(rows)))
    forest = fit_model(cell.model, rows[:n_train], targets[:n_train], seed)
    rows = np.nan_to_num(rows) if cell.model.startswith("forest") else rows
    # Forests agree too much on the rows that trained them; boosted trees are refitted on these as well.
    first = n_train if cell.model.startswith("forest") else 0
    fit, pool, y_pool = rows[first : n_train + n_fit], rows[n_train + n_fit :], targets[n_train + n_fit :]
    full = forest.predict(pool)
    rmse = float(np.sqrt(np.square(full - y_pool).mean())) if forest.classes is None else 0.0
    promise = make_promise(cell.promise, rmse)
    n_chosen = min(len(pool), 10_000 if forest.is_classifier else 5_000)
    draws = [rng.integers(len(pool), size=n_chosen) for _ in range(n_draws)]
    with shared_fits():
        return [asdict(judge(cell, forest, fit, pool, y_pool, full, chosen, promise)) for chosen in draws]


def make_promise(text: str, rmse: float) -> Promise:
    what, how_much = text.split()
    if what == "labels":
        return Labels(float(how_much.rstrip("%")) / 100)
    return Values(rmse / 4) if what == "values" else Values(float(how_much), of="probability")


def judge(
    cell: Cell,
    forest: scurry.Forest,
    fit: NDArray[Any],
    pool: NDArray[Any],
    y: NDArray[Any],
    full: NDArray[Any],
    chosen: NDArray[np.intp],
    promise: Promise,
) -> Draw:
    """Calibrate on a draw, and return what is true of the pool."""
    method = "auto" if cell.method == BEFORE else cell.method
    targets = y[chosen] if forest.classes is None else None  # those of regressors tell by how much the RMSE grows
    may_refit = (
        patch("scurry.verbs.early_exit.try_sentinels", return_value=False) if cell.method == BEFORE else nullcontext()
    )
    try:
        with may_refit:
            # Draws with replacement have copies by construction, which are independent here: groups say so.
            fast = scurry.early_exit(
                forest, pool[chosen], targets, X_fit=fit, promise=promise, method=method, groups=np.arange(len(chosen))
            )
    except InfeasibleError:
        return Draw(False, float(forest.n_trees), 0.0, "infeasible")
    run = fast.run(pool)
    method = "" if fast.certificate is None else fast.certificate.method
    if isinstance(promise, Labels):
        rate, limit, lost = (run.labels != full).mean(), promise.max_changed, 0.0
    elif forest.classes is None:
        rate, limit = (np.abs(run.labels - full) > promise.max_error).mean(), promise.max_share
        lost = float(np.sqrt(np.mean((run.labels - y) ** 2) / np.mean((full - y) ** 2)) - 1)
    else:
        quality = scurry.evaluation.score_quality(fast, pool, y)
        p, own = fast.predict_proba(pool)[:, 1], forest.predict_proba(pool)[:, 1]
        rate, limit = (np.abs(p - own) > promise.max_error).mean(), promise.max_share
        lost = quality.full_auc - quality.fast_auc
    return Draw(bool(rate > limit), run.mean_trees, lost, method)


def convert() -> None:
    """Write the data as ``.npz`` files."""
    import pandas as pd

    NPZ.mkdir(exist_ok=True)
    for name, file in FILES.items():
        if (NPZ / f"{name}.npz").exists():
            continue
        if name in ("housing", "bike"):
            frame = pd.read_parquet(Path(os.environ["SCURRY_DATA"]) / f"{file}.parquet").drop(
                columns="dteday", errors="ignore"
            )
            y = frame.pop("target").to_numpy(np.float64)
            codes = {one: frame[one].cat.codes for one in frame if frame[one].dtype.name == "category"}
            X = frame.assign(**codes).to_numpy(np.float64)
        else:
            data = scurry.datasets.load(file)
            X, y = np.asarray(data.X, np.float64), np.unique(np.asarray(data.y), return_inverse=True)[1]
        np.savez_compressed(NPZ / f"{name}.npz", X=X.astype(np.float32), y=y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--convert", action="store_true", help="write the .npz files and end")
    parser.add_argument("--quick", action="store_true", help="one split, two draws")
    parser.add_argument("--only", default="", help="parts of the names of cells, with commas between them")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--seconds", type=float, help="stop after so long, with what there is")
    parser.add_argument("--anew", action="store_true", help="replace splits that were kept from other commits")
    parser.add_argument("--json", type=Path, default=RESULTS / "promises-values.json")
    options = parser.parse_args()
    if options.convert:
        convert()
        return
    n_splits, n_draws = (1, 2) if options.quick else (options.splits, options.draws)
    cells = [cell for cell in CELLS if any(part in cell.name for part in options.only.split(","))]
    report = Report(
        "promises-values",
        "Promises about labels and values",
        f"{n_splits} splits, {n_draws} draws each; trees per row of the pool, mean and range over splits.",
        ("scikit-learn", "lightgbm", "xgboost"),
    )
    kept: dict[str, dict[str, Any]] = json.loads(options.json.read_text()) if options.json.exists() else {}
    jobs = [
        (cell, split, n_draws)
        for split in range(n_splits)
        for cell in cells
        if is_missing(kept.get(cell.name, {}).get(str(split), {}), n_draws, options.anew)
    ]
    for (cell, split, _), draws, error in run_jobs(draw_split, jobs, options.jobs, options.seconds):
        kept.setdefault(cell.name, {})[str(split)] = {"error": error} if error else {"commit": commit(), "draws": draws}
        options.json.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(error or " | ".join(summarise(cell, kept[cell.name])), flush=True)
    lines = [summarise(cell, kept[cell.name]) for cell in cells if cell.name in kept]
    report.table("Trees", ["cell", "asked", "measured", "broken", "lost (RMSE share, AUC)", "method"], lines)
    if compared := compare(cells, kept):
        header = ["cell", "splits", "auto", "without sentinels", "share"]
        report.table("Labels by auto, and by what it was without sentinels, on the same draws", header, compared)
    report.close()


def summarise(cell: Cell, splits: dict[str, Any]) -> list[str]:
    """Return the mean trees of a cell next to the figure to reach, and its broken promises."""
    found = [split["draws"] for split in splits.values() if "draws" in split]
    asked, n_errors = "" if cell.asked is None else f"{cell.asked:g}", len(splits) - len(found)
    if not found:
        return [cell.name, asked, f"{n_errors} errors", "", "", ""]
    draws = [draw for split in found for draw in split]
    trees = np.array([np.mean([draw["trees"] for draw in split]) for split in found])
    most = int(binom.ppf(0.99, len(draws), 0.05))
    return [
        cell.name,
        asked,
        f"{trees.mean():.1f} ({trees.min():.1f} to {trees.max():.1f})" + (f", {n_errors} errors" if n_errors else ""),
        f"{sum(draw['broken'] for draw in draws)} of {len(draws)} (at most {most})",
        f"{np.mean([draw['lost'] for draw in draws]):.4f}",
        ", ".join(sorted({draw["method"] for draw in draws})),
    ]


def compare(cells: list[Cell], kept: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Return, for each cell about labels, the trees of auto with and without sentinels over the same splits."""
    lines = []
    for cell in (cell for cell in cells if cell.method == "auto"):
        pair = [kept.get(one.name, {}) for one in (cell, replace(cell, asked=None, method=BEFORE))]
        both = [split for split in pair[0] if all("draws" in one.get(split, {}) for one in pair)]
        if both:
            now, before = (
                float(np.mean([draw["trees"] for split in both for draw in one[split]["draws"]])) for one in pair
            )
            lines.append([cell.name, str(len(both)), f"{now:.1f}", f"{before:.1f}", f"{now / before:.3f}"])
    return lines


if __name__ == "__main__":
    main()
