"""Early stopping of a majority vote: the published table and figures beside what scurry obtains.

Random forests of 101 trees, 70/10/20 of the rows to train, test and calibrate, the largest class positive. Runtime,
disagreement and error are exact given the number of positive votes, weighted by the test rows, as in the paper. With a
promise they are those of the predictor handed over, on the test rows. The votes of each repeat are kept in
``papers/results``, so that a run that was interrupted, or is asked for more repeats, goes on where it was, and a reader
can compute everything again. Without ``--quick``, the claims of the paper are stored there too, with as many repeats as
there are.

    python benchmarks/papers/sequential_testing.py --quick
    python benchmarks/papers/sequential_testing.py --repeats 30 --jobs 16 --seconds 500
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import scurry
from jobs import run_jobs
from kept import Kept
from paper_claims import FOLDER
from paper_pages import claim_cells
from report import RESULTS, Report
from scurry import datasets
from sequential_claims import (
    ALPHA,
    N_TREES,
    TABLE_4,
    Found,
    Performance,
    Repeat,
    measure,
    result_of,
    table_figures,
)

QUICK_ROWS = 30_000
# Smaller seeds were those of repeats whose votes were not kept, and of Shuttle with 7 columns.
FIRST_SEED, SEEDS = 30, range(100)
# Of the nineteen further sets of Figure 5 those at hand: two in their original form, six as Grinsztajn et al. cut them.
FURTHER = {
    "electricity": "grinsztajn_electricity",
    "california": "grinsztajn_california",
    "bank marketing": "grinsztajn_bank_marketing",
    "magic telescope": "grinsztajn_magictelescope",
    "credit": "grinsztajn_credit",
    "credit card clients": "grinsztajn_default_of_credit_card_clients",
    "phoneme": "phoneme",
    "Higgs": "higgs_12k",
}
DATASETS = {title: published.dataset for title, published in TABLE_4.items()} | FURTHER
# The paper's Table 3 has 7 columns for Shuttle, the file has 9; it does not say which are left out. Of all 36 pairs of
# columns, without 1 and 2 the error of the full vote was nearest to the published one. A file of ten columns read with
# the eight names that UCI gives (those of the seven classes, and the class) loses the first two, which pandas takes for
# an index. Dota2 has 115 and 116 columns; the first is the region, a code of 47 values, and 26 a hero whom nobody took.
SEVEN = ("Shuttle without 0 and 1", "Shuttle without 1 and 2")
FEWER_COLUMNS = {f"Shuttle without {a} and {b}": [a, b] for a in range(9) for b in range(a + 1, 9)}
FEWER_COLUMNS |= {f"Dota2 without {column}": [column] for column in (0, 1, 2, 26)}
DATASETS |= {title: DATASETS[title.partition(" without ")[0]] for title in FEWER_COLUMNS}


def main() -> None:
    arguments = _arguments()
    max_rows = QUICK_ROWS if arguments.quick else None
    kept = Kept("sequential-testing-quick", RESULTS) if arguments.quick else Kept("sequential-testing", FOLDER)
    _make_repeats(kept, arguments, max_rows)
    found = _find(kept, arguments.datasets, max_rows)
    for title, repeats in found.repeats.items():
        trees = np.mean(table_figures(title, repeats)["share of trees evaluated"])
        print(f"{title}: {len(repeats)} repeats, {trees:.2f} % of the trees", flush=True)
    n_repeats = 1 if arguments.quick else arguments.repeats
    result = result_of(found, _column_notes(found), n_repeats)
    report = Report(
        "sequential-testing",
        "Stopping a vote: published against obtained",
        f"only {QUICK_ROWS:,} rows of each dataset (--quick): forests are weaker." if max_rows else "All rows.",
        ["scikit-learn"],
        quick=arguments.quick,
    )
    header = ["", "published", "obtained", "repeats", "interval", "verdict", "why"]
    report.table("Claims", header, [claim_cells(claim) for claim in (*result.claims, *result.readings)])
    for table in result.tables:
        report.table(table.title, table.header, table.rows)
    report.close()
    if not arguments.quick and set(arguments.datasets) == set(DATASETS):
        print(f"Stored in {result.store()}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one repeat on a part of each dataset")
    parser.add_argument("--repeats", type=int, default=30, metavar="N")
    parser.add_argument(
        "--datasets",
        nargs="+",
        choices=list(DATASETS),
        default=list(DATASETS),
        metavar="NAME",
        help="make repeats of these alone, and store no claims",
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="number of processes")
    parser.add_argument("--seconds", type=float, metavar="N", help="stop after so long, with the repeats there are")
    return parser.parse_args()


def _make_repeats(kept: Kept, arguments: argparse.Namespace, max_rows: int | None) -> None:
    """Make the repeats that are not kept yet: the first of all datasets, then the second, and so on."""
    jobs = []
    for title in arguments.datasets:
        n_wanted = int(title not in FEWER_COLUMNS) if arguments.quick else min(arguments.repeats, _most_repeats(title))
        cells = [_cell(title, seed, max_rows) for seed in SEEDS]
        n_wanted -= sum(cell in kept for cell in cells) + (0 if arguments.quick else _n_earlier(kept, title))
        missing = [cell["seed"] for cell in cells[FIRST_SEED:] if cell not in kept]
        jobs += [(seed, title, max_rows) for seed in missing[: max(n_wanted, 0)]]
    jobs.sort(key=lambda job: job[0])
    for (seed, title, _), repeat, error in run_jobs(_make_repeat, jobs, arguments.jobs, arguments.seconds):
        print(f"{title}, seed {seed}: {error or 'done'}", flush=True)
        if not error:
            kept.get(_cell(title, seed, max_rows), repeat.to_json)


def _most_repeats(title: str) -> int:
    """How many repeats are worth their time: the paper's 30 for its table, one for each other pair of columns."""
    ten = title in FURTHER or title in SEVEN or title == "Dota2 without 0"
    return 30 if title in TABLE_4 else 10 if ten else 1


def _cell(title: str, seed: int, max_rows: int | None) -> dict[str, Any]:
    return {"dataset": title, "rows": max_rows or "all", "seed": seed}


def _earlier_cell(title: str) -> dict[str, Any]:
    """The figures of Table 4 of repeats whose votes were not kept."""
    return {"dataset": title, "votes": "not kept"}


def _n_earlier(kept: Kept, title: str) -> int:
    cell = _earlier_cell(title)
    return len(next(iter(kept.find(cell).values()))) if cell in kept else 0


def _find(kept: Kept, titles: Sequence[str], max_rows: int | None) -> Found:
    repeats, earlier, fewer_columns = {}, {}, {}
    for title in titles:
        cells = [_cell(title, seed, max_rows) for seed in SEEDS]
        if found := [Repeat.from_json(kept.find(cell)) for cell in cells if cell in kept]:
            (fewer_columns if title in FEWER_COLUMNS else repeats)[title] = found
        else:
            print(f"{title} skipped: there is no repeat of it.")
        if max_rows is None and _earlier_cell(title) in kept:
            earlier[title] = kept.find(_earlier_cell(title))
    return Found(repeats, earlier, fewer_columns)


def _column_notes(found: Found) -> tuple[str, ...]:
    """Return what Shuttle's error is with two columns left out, if that was tried."""
    errors = {
        title: 100 * float(np.mean([measure(repeat, "minimax", 0.0).error for repeat in repeats]))
        for title, repeats in found.fewer_columns.items()
        if title.startswith("Shuttle")
    }
    if not errors:
        return ()
    ranked = sorted(errors, key=lambda title: abs(errors[title] - TABLE_4["Shuttle"].base_error))
    return (
        f"**Shuttle with 7 of its 9 columns.** The paper does not name the 7 columns. Over {len(errors)} of the 36 "
        f"pairs of columns left out, the error of the full vote is {min(errors.values()):.2f} % to "
        f"{max(errors.values()):.2f} %. UCI's import of this set has seven features, named after the seven classes; if "
        "the ten values of a line are read with those names and that of the class, pandas takes the first two for an "
        f"index. That leaves {SEVEN[0]}, whose error was {errors[SEVEN[0]]:.2f} % against the published "
        f"{TABLE_4['Shuttle'].base_error:.2f} %. The nearest of all pairs, {ranked[0]}, has {errors[ranked[0]]:.2f} %; "
        f"{SEVEN[1]} was chosen by its error before the other reason was known. Most pairs have one repeat, and one "
        "repeat scatters as much as 0.05 % to 0.3 %.",
    )


def _make_repeat(job: tuple[int, str, int | None]) -> Repeat:
    seed, title, max_rows = job
    return _repeat(*_binary(title, max_rows), seed)


@cache
def _binary(title: str, max_rows: int | None) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The rows the paper uses, missing values as -1, the largest class against the rest."""
    name = DATASETS[title]
    data = datasets.load(name)
    X, y = data.X, data.y
    if title in FEWER_COLUMNS:
        X = np.delete(X, FEWER_COLUMNS[title], axis=1)
    if name == "census_income_kdd" and data.split is not None:  # the paper has UCI's training file, weights included
        X = np.column_stack([X, data.extras["instance_weight"].astype(np.float32)])[data.split == "train"]
        y = y[data.split == "train"]
    if max_rows is not None and len(X) > max_rows:
        chosen = np.random.default_rng(0).choice(len(X), max_rows, replace=False)
        X, y = X[chosen], y[chosen]
    labels, counts = np.unique(y, return_counts=True)
    return np.nan_to_num(X, nan=-1.0), (y == labels[counts.argmax()]).astype(np.int64)


def _repeat(X: NDArray[np.float32], y: NDArray[np.int64], seed: int) -> Repeat:
    from sklearn.ensemble import RandomForestClassifier

    order = np.random.default_rng(seed).permutation(len(X))
    train, test, calibration = np.split(order, [int(0.7 * len(X)), int(0.8 * len(X))])
    model = RandomForestClassifier(N_TREES, n_jobs=1, random_state=seed).fit(X[train], y[train])
    forest = scurry.from_model(model)
    return Repeat(
        _counts(forest, X[calibration]),
        _counts(forest, X[test[y[test] == 0]]),
        _counts(forest, X[test[y[test] == 1]]),
        _promised(forest, X[calibration], X[test], y[test], seed),
    )


def _counts(forest: scurry.Forest, rows: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.bincount(_positive_votes(forest, rows), minlength=N_TREES + 1)


def _positive_votes(forest: scurry.Forest, rows: NDArray[np.float32]) -> NDArray[np.int64]:
    votes, positives = forest.value.argmax(axis=1) == 1, np.zeros(len(rows), np.int64)
    for start in range(0, len(rows), 20_000):
        positives[start : start + 20_000] = votes[forest.apply(rows[start : start + 20_000])].sum(axis=1)
    return positives


def _promised(
    forest: scurry.Forest,
    calibration: NDArray[np.float32],
    test: NDArray[np.float32],
    y: NDArray[np.int64],
    seed: int,
) -> Performance:
    predictor = scurry.early_exit(forest, calibration, max_disagreement=ALPHA, method="minimean", random_state=seed)
    full = 2 * _positive_votes(forest, test) > N_TREES
    runs = [predictor.run(part) for part in np.array_split(test, max(1, len(test) // 20_000))]
    labels = np.concatenate([run.labels for run in runs])
    trees = np.concatenate([run.trees for run in runs]).mean()
    return Performance(float(trees / N_TREES), float((labels != full).mean()), float((labels != y).mean()))


if __name__ == "__main__":
    main()
