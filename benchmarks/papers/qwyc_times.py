"""Quit When You Can: evaluation times like the paper's Tables 2 to 5, on public data instead of its private sets.

Ensembles of 5 and of 500 trees, trained jointly (LightGBM) or independently (a random forest), on adult, nomao and
electricity. Predictors are fitted on training rows and half of the test rows, chosen as in the paper by their
differences on the others, which are timed; they are kept on disk, so that they can be prepared before the machine is
quiet.

    python benchmarks/papers/qwyc_times.py --prepare && python benchmarks/papers/qwyc_times.py
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import scurry
from boosted import N_TREES, Rows, load
from race import Race, race
from report import RESULTS, Report, commit
from scurry.errors import InfeasibleError, ScurryError

DATASETS = ("adult", "nomao", "electricity")
DIFFERENCE = 0.005
PROMISES = (0.006, 0.009, 0.013)


def main() -> None:
    arguments = _arguments()
    # Frameworks that were fitted on arrays warn at each prediction that arrays have no column names.
    warnings.filterwarnings("ignore", category=UserWarning)
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    n_rounds = 5 if arguments.quick else 25
    timed = None if arguments.prepare else partial(race, n_rounds=n_rounds, clock=clock)
    report = Report(
        "qwyc-times",
        "Quit when you can: evaluation times",
        f"{'CPU' if arguments.cpu_time else 'Wall-clock'} time of predict on all rows at once, one thread, calls in "
        f"turn, best of {n_rounds}. Speed-up: over scurry's own full evaluation of the same ensemble.",
        ["lightgbm", "scikit-learn"],
    )
    for name in arguments.datasets:
        _timings(report, name, timed)
    report.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--prepare", action="store_true", help="make the predictors, and time nothing")
    parser.add_argument("--quick", action="store_true", help="nomao only, fewer rounds")
    parser.add_argument("--cpu-time", action="store_true", help="for a loaded machine")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.datasets = ["nomao"]
    return arguments


def _timings(report: Report, name: str, timed: Race | None) -> None:
    """Tables like 2 to 5: ensembles of 5 and of 500 trees, trained jointly (boosting) or independently (a forest)."""
    try:
        rows = load(name)
    except ScurryError as error:
        report.say(f"{name} skipped: {error}")
        return
    X = np.nan_to_num(rows.X_test, nan=-1.0)
    calibration, new = X[: len(X) // 2], np.ascontiguousarray(X[len(X) // 2 :])
    table, commits = [], set[str]()
    for title, fit in _ensembles(rows).items():
        full, predictors, made_at = _kept_predictors(name, title, fit, rows, calibration, new)
        commits.add(made_at)
        if timed is not None:
            lines = _timing_lines(full, predictors, new, timed)
            table += [[title if at == 0 else "", *line] for at, line in enumerate(lines)]
    if timed is None:
        return
    report.table(
        f"{name}: evaluation times at about {DIFFERENCE:.1%} differences",
        ["ensemble", "algorithm", "% changed", "mean trees", "µs per row", "speed-up"],
        table,
    )
    report.say(f"{len(new):,} rows at once; predictors made at {', '.join(sorted(commits))}.")


def _ensembles(rows: Rows) -> dict[str, Callable[[], Any]]:
    from sklearn.ensemble import RandomForestClassifier

    X = np.nan_to_num(rows.X_train, nan=-1.0)

    def forest(n_trees: int) -> Any:
        return RandomForestClassifier(n_trees, max_depth=rows.depth, random_state=0).fit(X, rows.y_train)

    return {
        "jointly trained, 5 trees": lambda: rows.fit(5, 0.3),
        f"jointly trained, {N_TREES} trees": rows.fit,
        "independently trained, 5 trees": lambda: forest(5),
        f"independently trained, {N_TREES} trees": lambda: forest(N_TREES),
    }


def _kept_predictors(
    name: str, title: str, fit: Callable[[], Any], rows: Rows, calibration: Any, new: Any
) -> tuple[scurry.Forest, dict[str, scurry.Predictor], str]:
    """The full ensemble, its early exits, and the commit they were made at; from disk if they were made before."""
    folder = RESULTS / "qwyc-predictors" / f"{name}-{title}".replace(" ", "-")
    asked: dict[str, dict[str, Any]] = {
        "QWYC*": {"method": "qwyc"},
        "QWYC*, negative only": {"method": "qwyc", "keep_scores": "positive"},
        "Fan*": {"method": "fan"},
    }
    if not (folder / "commit").exists():
        folder.mkdir(parents=True, exist_ok=True)
        forest = scurry.from_model(fit())
        forest.save(folder / "full.scurry")
        X_fit = np.nan_to_num(rows.X_train, nan=-1.0)
        for algorithm, options in asked.items():
            predictor = _nearest(forest, calibration, new, X_fit=X_fit, **options)
            predictor.save(folder / f"{algorithm}.scurry".replace("*", "-star"))
        (folder / "commit").write_text(commit(), encoding="utf-8")
        print(f"{name}, {title}: made", flush=True)
    predictors = {algorithm: scurry.load(folder / f"{algorithm}.scurry".replace("*", "-star")) for algorithm in asked}
    return scurry.load(folder / "full.scurry"), predictors, (folder / "commit").read_text(encoding="utf-8")


def _nearest(forest: scurry.Forest, calibration: Any, new: Any, **asked: Any) -> scurry.Predictor:
    """Of several promises, the rule whose differences on new rows are nearest to 0.5 %: as the paper chose it."""
    full = forest.predict(new)
    found = []
    for promised in PROMISES:
        with suppress(InfeasibleError):
            found.append(scurry.early_exit(forest, calibration, max_disagreement=promised, **asked))
    return min(found, key=lambda predictor: abs((predictor.predict(new) != full).mean() - DIFFERENCE))


def _timing_lines(
    full: scurry.Forest, predictors: Mapping[str, scurry.Predictor], new: Any, timed: Race
) -> list[list[str]]:
    labels = full.predict(new)
    calls = {"full": partial(full.predict, new)}
    calls |= {name: partial(predictor.predict, new) for name, predictor in predictors.items()}
    seconds = timed(calls)
    lines = [["full", "0", str(full.n_trees), f"{1e6 * seconds['full'] / len(new):.3f}", "1.0"]]
    for name, predictor in predictors.items():
        run = predictor.run(new)
        lines.append(
            [
                name,
                f"{(run.labels != labels).mean():.2%}",
                f"{run.mean_trees:.2f}",
                f"{1e6 * seconds[name] / len(new):.3f}",
                f"{seconds['full'] / seconds[name]:.1f}",
            ]
        )
    return lines


if __name__ == "__main__":
    main()
