"""Anytime prediction under a real clock: the cost of a step and of looking at the clock, deadlines kept, steps per µs.

Times are those of single rows, measured in the core from the start of a row's work to its answer. Orders take turns and
each row's best of several rounds counts, except where it is the distribution that matters (deadlines): there every run
of every row counts. How much of it is the machine's doing is shown by a loop that does nothing but read a clock until
the same deadline, in short turns with the rows: the share of both that is late by more than 2 µs, and "p99, net", the
99th percentile that is left when as many of the latest rows are left out as the bare clock has late ones.

Steps against time are fitted from the first step on: over deadlines spread evenly between the time of a row that takes
one step and that of a row that takes all. Before that, every row answers from the roots.

    python benchmarks/anytime.py --quick
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

import scurry
from report import Report, subplots
from scurry import Plan, Predictor, datasets
from scurry.display import AnytimeDisplay
from scurry.errors import ScurryError
from scurry.plan import StepRule
from scurry.runners.runner import AbortFlag
from scurry.verbs.anytime import step_costs

CASES = {
    "adult-10": ("adult", 10, 10),
    "adult-101": ("adult", 101, 10),
    "letter-101": ("letter", 101, 10),
    "adult-500": ("adult", 500, 10),
}
N_ROWS = 2_000
N_ORDERING_ROWS = 4_000
FEW_ROWS = 8  # so many are walked one by one without any budget
SHARES = np.linspace(0.05, 0.95, 15)  # deadlines, in shares of the time between the first step and the last
PERCENTILES = (50, 90, 99, 99.9, 100)
LATE_US = 2
ROWS_PER_TURN = 100
N_MOMENTS = 40  # at which the accuracy of orders is compared


@dataclass(frozen=True)
class Case:
    """A fitted forest, and rows to order and to time."""

    title: str
    forest: scurry.Forest
    X_order: NDArray[np.float32]
    y_order: NDArray[Any]
    X: NDArray[np.float32]
    y: NDArray[Any]


def main() -> None:
    arguments = _arguments()
    report = Report(
        "anytime",
        "Anytime prediction under a real clock",
        f"Random forests on 50 % of a dataset, orders found on {N_ORDERING_ROWS:,} rows, {N_ROWS:,} others timed, one "
        f"thread, best of {arguments.rounds} interleaved rounds per row.",
        ["scikit-learn"],
    )
    for dataset, n_trees, depth in (CASES[name] for name in arguments.cases):
        try:
            case = _fit(dataset, n_trees, depth)
        except ScurryError as error:
            report.say(f"{dataset} skipped: {error}")
            continue
        predictors = _predictors(case)
        report.say(f"## {case.title}")
        _cost_of_steps(report, case, predictors, arguments.rounds)
        _deadlines(report, case, predictors, arguments.rounds)
        _linearity(report, case, predictors, arguments.rounds)
        _objectives(report, case, predictors, arguments.rounds)
    report.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_const", const=5, dest="rounds")
    return parser.parse_args()


def _fit(dataset: str, n_trees: int, depth: int) -> Case:
    data = datasets.load(dataset)
    X = np.nan_to_num(data.X, nan=-1.0)
    shuffled = np.random.default_rng(0).permutation(len(X))
    train, ordering, test = np.split(shuffled, [len(X) // 2, 3 * len(X) // 4])
    ordering = ordering[:N_ORDERING_ROWS]
    model = RandomForestClassifier(n_trees, max_depth=depth, random_state=0).fit(X[train], data.y[train])
    title = f"{dataset}, {n_trees} trees × depth {depth}"
    rows = test[:N_ROWS]
    return Case(title, scurry.from_model(model), X[ordering], data.y[ordering], X[rows], data.y[rows])


def _predictors(case: Case) -> dict[str, Predictor]:
    forest = case.forest
    by_tree = np.repeat(np.arange(forest.n_trees, dtype=np.int32), forest.tree_depth)
    level = np.concatenate([np.arange(depth) for depth in forest.tree_depth])
    orders = {
        "tree by tree": by_tree,
        "level by level": by_tree[np.argsort(level, kind="stable")],
        "random": np.random.default_rng(0).permutation(by_tree),
    }
    found = {
        f"auto, {objective}": scurry.anytime(forest, case.X_order, case.y_order, objective=objective, readout="plain")
        for objective in ("steps", "time")
    }
    return {name: Predictor(forest, Plan(order=order, stop=StepRule())) for name, order in orders.items()} | found


def _row_times_us(predictor: Predictor, X: NDArray[np.float32], **budget: Any) -> NDArray[np.float64]:
    """What each row takes without its answer; rows are walked one by one whatever the budget."""
    runner = predictor._runner
    times_us = np.empty(len(X))
    limits = {"max_steps": runner.n_steps, "time_us": np.inf, "abort": None} | budget
    for first in range(0, len(X), FEW_ROWS):
        rows = slice(first, first + FEW_ROWS)
        runner._native.run(X[rows], 1, *limits.values(), times_us=times_us[rows])
    return times_us


def _cost_of_steps(report: Report, case: Case, predictors: Mapping[str, Predictor], n_rounds: int) -> None:
    near_us = {name: 2 * _median_us(predictor, case.X) for name, predictor in predictors.items()}
    budgets = {
        name: {
            "none": {},
            "abort flag": {"abort": AbortFlag()},
            "far deadline": {"time_us": 1e9},
            "near deadline": {"time_us": near_us[name]},
            "no step": {"max_steps": 0},
        }
        for name in predictors
    }
    best = {(name, kind): np.full(len(case.X), np.inf) for name in predictors for kind in budgets[name]}
    for _ in range(n_rounds):
        for (name, kind), times_us in best.items():
            np.minimum(times_us, _row_times_us(predictors[name], case.X, **budgets[name][kind]), out=times_us)
    lines = []
    for name, predictor in predictors.items():
        begun = best[name, "no step"].mean()
        ns = {kind: 1000 * (best[name, kind].mean() - begun) / len(predictor.plan.order) for kind in budgets[name]}
        shares = [f"{ns[kind] / ns['none'] - 1:+.1%}" for kind in ("abort flag", "far deadline", "near deadline")]
        lines.append([name, f"{len(predictor.plan.order):,}", f"{ns['none']:.2f}", *shares, f"{1000 * begun:.0f}"])
    same, other = step_costs(case.forest, case.X)
    header = ["order", "steps", "ns per step", "flag", "far deadline", "twice the time", "ns before the first step"]
    report.table("A step, and what looking at a flag or the clock between steps adds to it", header, lines)
    report.say(
        f"As measured for the objective: {1000 * same:.2f} ns in the same tree as the step before, "
        f"{1000 * other:.2f} ns in another."
    )


def _deadlines(report: Report, case: Case, predictors: Mapping[str, Predictor], n_rounds: int) -> None:
    lines = []
    for name, predictor in predictors.items():
        complete_us = _median_us(predictor, case.X)
        for share in (0.25, 0.5, 0.75, 1.0):
            time_us = share * complete_us
            steps, late, bare = _lateness_us(predictor, case.X, time_us, n_rounds)
            n_interrupted = int((bare > LATE_US).sum())
            net = np.percentile(np.sort(late)[: len(late) - n_interrupted], 99)
            shown = [np.percentile(late, PERCENTILES), [net], np.percentile(bare, PERCENTILES[2:])]
            numbers = [f"{late_us:+.2f}" for late_us in np.concatenate(shown)]
            shares = [f"{(of > LATE_US).mean():.2%}" for of in (late, bare)]
            lines.append([name, f"{time_us:.1f}", f"{steps:.0f}", *shares, *numbers])
    names = [f"p{percent:g}" if percent < 100 else "max" for percent in PERCENTILES]
    late_names = [f"> {LATE_US} µs late", f"bare clock > {LATE_US} µs late"]
    bare_names = [f"bare clock {name}" for name in names[2:]]
    header = ["order", "deadline µs", "steps", *late_names, *names, "p99, net", *bare_names]
    report.table("µs by which answers come after (+) or before (−) the deadline", header, lines)


def _lateness_us(
    predictor: Predictor, X: NDArray[np.float32], time_us: float, n_rounds: int
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Mean steps, how late every answer is, and how late a bare clock is, in turns of a few rows each."""
    late, bare, steps = [], [], []
    for first in np.tile(np.arange(0, len(X), ROWS_PER_TURN), n_rounds):
        run = predictor.run(X[first : first + ROWS_PER_TURN], time_us=time_us)
        late.append(run.time_us - time_us)
        steps.append(run.mean_steps)
        bare.append(_bare_clock_late_us(time_us, len(late[-1])))
    return float(np.mean(steps)), np.concatenate(late), np.concatenate(bare)


def _bare_clock_late_us(time_us: float, n: int) -> NDArray[np.float64]:
    """How late a loop notices a deadline that does nothing but read the clock, for each of n deadlines."""
    clock, late_ns = time.perf_counter_ns, np.empty(n)
    for i in range(n):
        deadline = clock() + int(1000 * time_us)
        while (now := clock()) < deadline:
            pass
        late_ns[i] = now - deadline
    return late_ns / 1000


def _linearity(report: Report, case: Case, predictors: Mapping[str, Predictor], n_rounds: int) -> None:
    figure, axes = subplots(1, 1, (6, 4))
    lines, deadlines, first_us = [], {}, {}
    for name, predictor in predictors.items():
        first_us[name] = _median_us(predictor, case.X, max_steps=1)
        deadlines[name] = first_us[name] + SHARES * (_median_us(predictor, case.X) - first_us[name])
    most = {(name, at): np.zeros(len(case.X)) for at in range(len(SHARES)) for name in predictors}
    for _ in range(n_rounds):
        for (name, at), steps_of_row in most.items():
            run = predictors[name].run(case.X, time_us=float(deadlines[name][at]))
            np.maximum(steps_of_row, run.steps, out=steps_of_row)
    for name, predictor in predictors.items():
        steps = [most[name, at].mean() for at in range(len(SHARES))]
        slope, offset = np.polyfit(deadlines[name], steps, 1)
        r_squared = np.corrcoef(deadlines[name], steps)[0, 1] ** 2
        lines.append([name, f"{r_squared:.4f}", f"{slope:.0f}", f"{-offset / slope:.2f}", f"{first_us[name]:.2f}"])
        axes[0, 0].plot(deadlines[name], np.array(steps) / len(predictor.plan.order), "o-", label=name)
    header = ["order", "R²", "steps per µs", "µs of no step, fitted", "µs of one step and the answer"]
    report.table(f"Steps against time, {len(SHARES)} deadlines", header, lines)
    axes[0, 0].set(xlabel="deadline (µs)", ylabel="share of steps taken", title=case.title)
    axes[0, 0].legend()
    report.figure(f"steps-{case.forest.n_trees}-{case.forest.n_classes}", figure)


def _objectives(report: Report, case: Case, predictors: Mapping[str, Predictor], n_rounds: int) -> None:
    figure, axes = subplots(1, 2, (6, 4))
    shown = AnytimeDisplay.from_predictors(predictors, case.X, case.y, against="steps", ax=axes[0, 0])
    AnytimeDisplay.from_predictors(predictors, case.X, case.y, against="time", ax=axes[0, 1])
    report.figure(f"accuracy-{case.forest.n_trees}-{case.forest.n_classes}", figure)
    horizon_us = min(_median_us(predictor, case.X) for predictor in predictors.values())
    moments_us = np.linspace(0, horizon_us, N_MOMENTS)
    over_time = {name: np.empty((n_rounds, N_MOMENTS)) for name in predictors}
    for at in np.ndindex(n_rounds, N_MOMENTS):
        for name, predictor in predictors.items():
            labels = predictor.predict(case.X, time_us=float(moments_us[at[1]]))
            over_time[name][at] = (labels == case.y).mean()
    lines = []
    for name, (_, accuracy) in shown.curves.items():
        of_round = over_time[name].mean(axis=1)
        lines.append([name, f"{accuracy.mean():.4f}", f"{of_round.mean():.4f}", f"{of_round.std():.4f}"])
    header = ["order", "over steps", "over time", "± between rounds"]
    report.table(f"Mean accuracy over all steps, and over deadlines up to {horizon_us:.1f} µs", header, lines)


def _median_us(predictor: Predictor, X: NDArray[np.float32], **budget: Any) -> float:
    """What a row takes with all steps or those of a budget, and its answer, when nothing stops it."""
    return min(float(np.median(predictor.run(X, time_us=1e9, **budget).time_us)) for _ in range(9))


if __name__ == "__main__":
    main()
