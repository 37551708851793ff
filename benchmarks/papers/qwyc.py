"""Quit When You Can: the paper's tables, figures and claims beside what scurry obtains.

500 LightGBM trees on adult and nomao, rules fitted on training rows and compared at equal differences on test rows;
public data of the same size and kind in place of the paper's private sets; and small instances on which every order can
be tried. Evaluation times are the matter of ``qwyc_times.py``, promises that of ``certified_scores.py`` and
``promise.py``. Each finished cell is kept on disk, so that a run that was interrupted, or is asked for more repeats,
goes on where it was. Without ``--quick``, the claims of the paper are stored in ``papers/results``.

    python benchmarks/papers/qwyc.py --quick
    python benchmarks/papers/qwyc.py --repeats 10

Estimated: ten repeats take about 25 minutes of one free core, --quick takes two.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kept import Kept
from paper_claims import FOLDER
from qwyc_claims import Found, describe, result_of
from qwyc_ensembles import (
    READINGS,
    SEARCHED,
    curve,
    overfit,
    read_otherwise,
    rows_of_table_1,
    small_instance,
    stand_in,
)
from report import RESULTS, Report
from scurry.errors import ScurryError

QUICK = (
    "full",
    "QWYC*",
    "Alg. 2, GBT order",
    "Fan, individual MSE",
    "Alg. 2, individual MSE",
    "smaller ensemble",
    "smaller ensemble, retuned",
)
REPEATED = (
    *QUICK,
    "Fan, individual MSE, bins of 0.01",
    "Fan, GBT order",
    "Alg. 2, random",
    "Fan, random",
    "Alg. 2, greedy MSE",
    "Fan, greedy MSE",
    "Fan, GBT order, bins of 0.03",
    "Fan, individual MSE, bins of 0.03",
    "Fan, random, bins of 0.03",
    "Fan, greedy MSE, bins of 0.03",
)
METHODS = (*REPEATED, "QWYC*, as published")  # of the first repeat
N_READ_OTHERWISE, N_SEARCHED = 10, 3  # repeats of other readings, which no claim counts
PARTS = ("table", "instances", "overfitting", "curves", "stand-ins", "readings")
FEW_ROWS, N_DRAWS = (250, 500, 1000, 2000, 4000), 10
STAND_INS = (("2", "independently"), ("1", "independently"), ("1", "jointly"), ("2", "jointly"))


def main() -> None:
    arguments = _arguments()
    quick, n_repeats = arguments.quick, 1 if arguments.quick else arguments.repeats
    end = time.monotonic() + (1e9 if arguments.seconds is None else arguments.seconds)
    kept, found = Kept("qwyc-quick", RESULTS) if quick else Kept("qwyc", FOLDER), Found()
    for cell, make in _cells(arguments.parts, n_repeats, quick):
        if time.monotonic() > end and cell not in kept:
            continue
        started, is_new = time.process_time(), cell not in kept
        try:
            found.add(cell, kept.get(cell, make))
        except ScurryError as error:
            print(f"{cell} skipped: {error}")
            continue
        if is_new:
            print(f"{cell}: {time.process_time() - started:.1f} CPU s", flush=True)
    if arguments.only_cells:
        return
    report = Report(
        "qwyc",
        "Quit when you can: published against obtained",
        "LightGBM, 500 trees, learning rate 0.05, 2^depth leaves, at least 20 rows per leaf; adult depth 5, in the "
        "first repeat with UCI's split, nomao depth 9 with the 8 features of most gain and an 80/20 split.",
        ["lightgbm"],
        quick=quick,
    )
    result = result_of(found)
    describe(report, result)
    report.close()
    if not quick:
        print(f"Stored in {result.store()}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one repeat, fewer methods and instances")
    parser.add_argument("--repeats", type=int, default=10, metavar="N")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--seconds", type=float, metavar="N", help="stop after so long, with the cells there are")
    parser.add_argument("--only-cells", action="store_true", help="make the cells, and no claims yet")
    return parser.parse_args()


def _cells(parts: list[str], n_repeats: int, quick: bool) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield every cell and what makes it: the first repeat of everything, then the second, and so on."""
    if "instances" in parts:
        for n_models in (3, 4, 5):
            for seed in range(20 if quick else 200):
                yield {"instance": n_models, "seed": seed}, lambda n=n_models, seed=seed: small_instance(n, seed)
    if "table" in parts:
        for name in ("adult", "nomao"):
            yield {"table": 1, "dataset": name}, lambda name=name: rows_of_table_1(name)
    if "overfitting" in parts:
        for seed in range(1 if quick else N_DRAWS):
            for n_rows in FEW_ROWS:
                yield {"overfit": n_rows, "seed": seed}, lambda n_rows=n_rows, seed=seed: overfit(n_rows, seed)
    for seed in range(n_repeats):
        if "curves" in parts:
            for name in ("nomao", "adult"):
                for method in QUICK if quick else REPEATED if seed else METHODS:
                    cell = {"curve": method, "dataset": name, "seed": seed}
                    yield cell, lambda name=name, method=method, seed=seed: curve(name, seed, method)
        if "stand-ins" in parts:
            for which, trained in STAND_INS[:2] if quick else STAND_INS:
                cell = {"stand-in": which, "trained": trained, "seed": seed}
                yield cell, lambda which=which, trained=trained, seed=seed: stand_in(which, trained, seed)
    if "readings" in parts and not quick:
        for seed in range(min(n_repeats, N_READ_OTHERWISE)):
            for reading in (*READINGS, *(SEARCHED if seed < N_SEARCHED else ())):
                cell = {"reading": reading, "seed": seed}
                yield cell, lambda reading=reading, seed=seed: read_otherwise(reading, seed)


if __name__ == "__main__":
    main()
