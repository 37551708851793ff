"""Early exit in wall-clock time, beside full evaluation by scurry, the model's own framework and oneDAL.

Forests of 101 trees stop their vote at α = 0.001; boosted ensembles of 500 trees stop their sum at 0.5 % differences,
beside LightGBM's own ``pred_early_stop`` at equal differences. All engines take turns on the same held-out rows, one
thread, and the best of several rounds counts. Efficiency is speed-up × share of trees evaluated: 1 would be ideal. On a
loaded machine ``--cpu-time`` counts the time a process runs, not the time it waits for its turn.

    python benchmarks/early_exit.py --quick
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import boosted
import scurry
from engines import LightGBM, OneDAL, Refused, ScikitLearn, build
from race import Race, race
from report import Report
from scurry import datasets
from scurry.errors import InfeasibleError, ScurryError

N_BATCH_ROWS = 20_000
MAX_TRAIN_ROWS = 40_000
FOREST_DATASETS = {
    "adult": "adult",
    "magic": "magic",
    "covertype-binary": "covertype",
    "census": "census_income_kdd",
}
MARGINS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
FREQUENCIES = (1, 10, 50)
PACKAGES = ["scikit-learn", "lightgbm", "scikit-learn-intelex", "treelite"]


@dataclass(frozen=True)
class Case:
    """A fitted model, rows to calibrate on and rows to time, with the promises to compare."""

    title: str
    model: Any
    calibration: NDArray[np.float32]
    batch: NDArray[np.float32]
    max_disagreement: float
    seed: int
    predictors: dict[str, dict[str, Any]]  # name to what is asked of scurry.early_exit


def main() -> None:
    arguments = _arguments()
    # Frameworks that were fitted on arrays warn at each prediction that arrays have no column names.
    warnings.filterwarnings("ignore", category=UserWarning)
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    report = Report(
        "early-exit",
        "Early exit in wall-clock time",
        f"Batches of {N_BATCH_ROWS:,} held-out rows (repeated where there are fewer), seed {arguments.seed}, one "
        f"thread, engines take turns, the shortest of {arguments.rounds} rounds counts, in "
        f"{'CPU' if arguments.cpu_time else 'wall-clock'} time. Changed: labels unlike the full vote (votes) or the "
        "model's own (scores). Efficiency: speed-up over scurry's full evaluation × share of trees evaluated.",
        PACKAGES,
    )
    for name in arguments.cases:
        try:
            case = CASES[name](arguments.seed)
            if arguments.max_disagreement is not None:
                case = dataclasses.replace(case, max_disagreement=arguments.max_disagreement)
        except ScurryError as error:
            report.say(f"{name} skipped: {error}")
        else:
            _compare(report, case, partial(race, n_rounds=arguments.rounds, clock=clock))
    report.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=25, metavar="N", help="of which the best counts")
    parser.add_argument("--quick", action="store_true", help="five rounds: for trying out, not for figures")
    parser.add_argument("--seed", type=int, default=0, help="of the split of rows, the forest and the order of trees")
    parser.add_argument("--max-disagreement", type=float, metavar="SHARE", help="another one than the case's own")
    parser.add_argument("--cpu-time", action="store_true", help="for a loaded machine")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds = 5
    return arguments


def _forest_case(title: str, dataset: str, seed: int) -> Case:
    """The largest class against the rest, by a forest of 101 trees of depth 10."""
    from sklearn.ensemble import RandomForestClassifier

    data = datasets.load(dataset)
    labels, counts = np.unique(data.y, return_counts=True)
    X, y = np.nan_to_num(data.X, nan=-1.0), (data.y == labels[counts.argmax()]).astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(X))
    n_train = min(MAX_TRAIN_ROWS, len(X) // 2)
    train, rest = order[:n_train], order[n_train:]
    calibration, new = np.split(rest, [min(len(rest) // 2, MAX_TRAIN_ROWS)])
    model = RandomForestClassifier(101, max_depth=10, n_jobs=-1, random_state=seed).fit(X[train], y[train])
    predictors = {
        "votes, promised": {"method": "minimean"},
        "votes, no promise": {"method": "minimean", "confidence": None},
        "auto": {"method": "auto"},
    }
    batch = X[np.resize(new, N_BATCH_ROWS)]
    return Case(f"{title}, forest of 101 trees", model, X[calibration], batch, 1e-3, seed, predictors)


def _boosted_case(name: str, seed: int) -> Case:
    rows = boosted.load(name)
    model = rows.fit()
    X = np.random.default_rng(seed).permutation(np.nan_to_num(rows.X_test, nan=-1.0))
    calibration, new = X[: len(X) // 2], X[len(X) // 2 :]
    predictors = {
        "auto, promised": {"method": "auto"},
        "qwyc, promised": {"method": "qwyc"},
        "qwyc, no promise": {"method": "qwyc", "confidence": None},
    }
    batch = new[np.resize(np.arange(len(new)), N_BATCH_ROWS)]
    return Case(f"{name}, LightGBM of {boosted.N_TREES} trees", model, calibration, batch, 5e-3, seed, predictors)


CASES: dict[str, Callable[[int], Case]] = {
    **{f"{title}/forest": partial(_forest_case, title, dataset) for title, dataset in FOREST_DATASETS.items()},
    **{f"{name}/lightgbm": partial(_boosted_case, name) for name in ("adult", "nomao")},
}


@dataclass(frozen=True)
class _Exit:
    """A predictor ready to time, and what it does to the batch."""

    predict: Callable[[], Any]
    share: float
    changed: float
    note: str


def _compare(report: Report, case: Case, timed: Race) -> None:
    forest = scurry.from_model(case.model)
    exits, notes = _exits(case, forest)
    calls: dict[str, Callable[[], Any]] = {"scurry, all trees": partial(forest.predict, case.batch)}
    calls |= {name: found.predict for name, found in exits.items()}
    native = LightGBM if hasattr(case.model, "booster_") else ScikitLearn
    for engine in (native, OneDAL):
        try:
            call = build(engine, case.model).with_threads(1)
            call(case.batch[:64])
            calls[engine.name] = partial(call, case.batch)
        except Refused as reason:
            notes.append(f"{engine.name}: {reason}.")
    stopped = _lightgbm_stops(case) if native is LightGBM else {}
    calls |= {name: found.predict for name, found in stopped.items()}
    _report(report, case, timed(calls), exits | stopped, notes)


def _exits(case: Case, forest: scurry.Forest) -> tuple[dict[str, _Exit], list[str]]:
    exits, notes = {}, []
    for name, asked in case.predictors.items():
        try:
            predictor = scurry.early_exit(
                forest, case.calibration, max_disagreement=case.max_disagreement, random_state=case.seed, **asked
            )
        except InfeasibleError as error:
            notes.append(f"{name}: {error}.")
            continue
        run = predictor.run(case.batch)
        changed = float((run.labels != _reference(forest, case.batch, predictor.plan.method)).mean())
        if why := predictor.certificate.why:
            notes.append(f"{name} takes {predictor.plan.method!r}: {why}.")
        predict = partial(predictor.predict, case.batch)
        exits[name] = _Exit(predict, run.mean_trees / forest.n_trees, changed, predictor.plan.method)
    return exits, notes


def _reference(forest: scurry.Forest, rows: NDArray[np.float32], method: str) -> NDArray[Any]:
    """What the promise is about: the full vote, or the model's own labels."""
    if method not in ("minimean", "minimixed", "minimax", "schwing") or forest.classes is None:
        return forest.predict(rows)
    votes = (forest.value.argmax(axis=1) == 1)[forest.apply(rows)].sum(axis=1)
    return forest.classes[(2 * votes > forest.n_trees).astype(np.intp)]


def _lightgbm_stops(case: Case) -> dict[str, _Exit]:
    """LightGBM's margin and frequency that are fastest on calibration rows within the allowed differences."""
    booster = case.model.booster_
    full = booster.predict(case.calibration, num_threads=1) > 0.5
    allowed = {}
    for margin, frequency in itertools.product(MARGINS, FREQUENCIES):
        stop = {"pred_early_stop": True, "pred_early_stop_margin": margin, "pred_early_stop_freq": frequency}
        predict = partial(booster.predict, num_threads=1, **stop)
        if ((predict(case.calibration) > 0.5) != full).mean() <= case.max_disagreement:
            allowed[f"margin {margin:g}, every {frequency}"] = predict
    if not allowed:
        return {}
    head = case.calibration[:2000]
    seconds = race({title: partial(predict, head) for title, predict in allowed.items()}, 3, time.process_time)
    title = min(seconds, key=seconds.__getitem__)
    changed = (allowed[title](case.batch) > 0.5) != (booster.predict(case.batch, num_threads=1) > 0.5)
    return {"pred_early_stop": _Exit(partial(allowed[title], case.batch), np.nan, float(changed.mean()), title)}


def _report(report: Report, case: Case, seconds: dict[str, float], exits: dict[str, _Exit], notes: list[str]) -> None:
    full = seconds["scurry, all trees"]
    rows = []
    for name, taken in seconds.items():
        found = exits.get(name)
        share = np.nan if found is None else found.share
        against = {
            other: seconds[other] / taken for other in ("scikit-learn", "LightGBM", "oneDAL") if other in seconds
        }
        rows.append(
            [
                f"{name} ({found.note})" if found else name,
                f"{1e6 * taken / len(case.batch):.4f}",
                "–" if np.isnan(share) else f"{share:.1%}",
                f"{found.changed:.3%}" if found else "0",
                f"{full / taken:.2f}",
                "–" if np.isnan(share) else f"{full / taken * share:.2f}",
                " ".join(f"{ratio:.1f}" for ratio in against.values()),
            ]
        )
        if found and not np.isnan(share) and full / taken * share < (0.7 if share >= 0.1 else 0.55):
            notes.append(_why_inefficient(name, share, full / taken))
    framework = " / ".join(name for name in ("scikit-learn", "LightGBM", "oneDAL") if name in seconds)
    header = ["predict", "µs per row", "trees", "changed", "speed-up", "efficiency", f"× {framework}"]
    report.table(f"{case.title}, at most {case.max_disagreement:g}", header, rows)
    for note in notes:
        report.say(f"- {note}")


def _why_inefficient(name: str, share: float, speed_up: float) -> str:
    asked, reached = 0.7 if share >= 0.1 else 0.55, speed_up * share
    if speed_up < 1:
        return f"{name} does not pay: with {share:.0%} of the trees evaluated, checks cost more than the trees saved."
    return (
        f"{name}: efficiency {reached:.2f}, under {asked:g}. The cost of a row beside its trees (reading it, checking, "
        f"moving survivors) is {(1 / speed_up - share) / share:.0%} of the trees' own."
    )


if __name__ == "__main__":
    main()
