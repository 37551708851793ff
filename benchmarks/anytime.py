"""Anytime prediction under a real clock: the cost of a step and of looking at the clock, deadlines kept, steps per µs.

Times are those of single rows, measured in the core from the start of a row's work to its answer. Orders take turns and
each row's best of several rounds counts, except where it is the distribution that matters (deadlines): there every run
of every row counts, and what the system's other work adds is shown, not hidden.

    python benchmarks/anytime.py --quick
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

import scurry
from report import Report, subplots
from scurry import Plan, Predictor, datasets
from scurry.anytime_run import AbortFlag
from scurry.deadline import step_costs
from scurry.display import AnytimeDisplay
from scurry.errors import ScurryError
from scurry.plan import StepRule

N_ROWS = 2_000
N_ORDERING_ROWS = 4_000
FEW_ROWS = 8  # so many are walked one by one without any budget
SHARES = np.linspace(0.25, 0.95, 15)  # deadlines, in shares of a complete row's time
PERCENTILES = (1, 50, 90, 99, 99.9)
INTERRUPTED_US = 20.0  # a row so late was interrupted by the system


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
    for dataset, n_trees, depth in (("adult", 101, 10), ("letter", 101, 10), ("adult", 10, 10), ("adult", 500, 10)):
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
        _objectives(report, case, predictors)
    report.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
    budgets = {
        "none": {},
        "abort flag": {"abort": AbortFlag()},
        "deadline": {"time_us": 1e9},
        "no step": {"max_steps": 0},
    }
    best = {(name, kind): np.full(len(case.X), np.inf) for name in predictors for kind in budgets}
    for _ in range(n_rounds):
        for (name, kind), times_us in best.items():
            np.minimum(times_us, _row_times_us(predictors[name], case.X, **budgets[kind]), out=times_us)
    lines = []
    for name, predictor in predictors.items():
        begun = best[name, "no step"].mean()
        ns = {kind: 1000 * (best[name, kind].mean() - begun) / len(predictor.plan.order) for kind in budgets}
        shares = [f"{ns[kind] / ns['none'] - 1:+.1%}" for kind in ("abort flag", "deadline")]
        lines.append([name, f"{len(predictor.plan.order):,}", f"{ns['none']:.2f}", *shares, f"{1000 * begun:.0f}"])
    same, other = step_costs(case.forest, case.X)
    header = ["order", "steps", "ns per step", "with a flag", "with a deadline", "ns before the first step"]
    report.table("A step, and looking at a flag or the clock between steps", header, lines)
    report.say(
        f"As measured for the objective: {1000 * same:.2f} ns in the same tree as the step before, "
        f"{1000 * other:.2f} ns in another."
    )


def _deadlines(report: Report, case: Case, predictors: Mapping[str, Predictor], n_rounds: int) -> None:
    lines = []
    for name, predictor in predictors.items():
        complete_us = _complete_us(predictor, case.X)
        for share in (0.25, 0.5, 0.75):
            time_us = share * complete_us
            runs = [predictor.run(case.X, time_us=time_us) for _ in range(n_rounds)]
            late = np.concatenate([(run.time_us - time_us)[run.stop_reason == "time"] for run in runs])
            interrupted = float((late > INTERRUPTED_US).mean())
            percentiles = [f"{late_us:+.2f}" for late_us in np.percentile(late, PERCENTILES)]
            steps = np.mean([run.mean_steps for run in runs])
            lines.append([name, f"{time_us:.1f}", f"{steps:.0f}", *percentiles, f"{interrupted:.2%}"])
    header = ["order", "deadline µs", "steps", *(f"p{percent:g}" for percent in PERCENTILES), "interrupted"]
    report.table("µs by which answers come after (+) or before (−) the deadline", header, lines)


def _linearity(report: Report, case: Case, predictors: Mapping[str, Predictor], n_rounds: int) -> None:
    figure, axes = subplots(1, 1, (6, 4))
    lines = []
    deadlines = {name: SHARES * _complete_us(predictor, case.X) for name, predictor in predictors.items()}
    most = {(name, at): np.zeros(len(case.X)) for at in range(len(SHARES)) for name in predictors}
    for _ in range(n_rounds):
        for (name, at), steps_of_row in most.items():
            run = predictors[name].run(case.X, time_us=float(deadlines[name][at]))
            np.maximum(steps_of_row, run.steps, out=steps_of_row)
    for name, predictor in predictors.items():
        deadlines_us = deadlines[name]
        steps = [most[name, at].mean() for at in range(len(SHARES))]
        slope, offset = np.polyfit(deadlines_us, steps, 1)
        r_squared = np.corrcoef(deadlines_us, steps)[0, 1] ** 2
        lines.append([name, f"{r_squared:.4f}", f"{slope:.0f}", f"{-offset / slope:.2f}"])
        axes[0, 0].plot(deadlines_us, np.array(steps) / len(predictor.plan.order), "o-", label=name)
    header = ["order", "R²", "steps per µs", "µs before the first step"]
    report.table(f"Steps against time, {len(SHARES)} deadlines", header, lines)
    axes[0, 0].set(xlabel="deadline (µs)", ylabel="share of steps taken", title=case.title)
    axes[0, 0].legend()
    report.figure(f"steps-{case.forest.n_trees}-{case.forest.n_classes}", figure)


def _objectives(report: Report, case: Case, predictors: Mapping[str, Predictor]) -> None:
    figure, axes = subplots(1, 2, (6, 4))
    lines = {name: [name] for name in predictors}
    for ax, against in zip(axes[0], ("steps", "time"), strict=True):
        shown = AnytimeDisplay.from_predictors(predictors, case.X, case.y, against=against, ax=ax)
        horizon = min(spent[-1] for spent, _ in shown.curves.values())
        for name, (spent, accuracy) in shown.curves.items():
            grid = np.linspace(0, horizon, 200)
            lines[name].append(f"{np.interp(grid, spent, accuracy).mean():.4f}")
    report.table("Mean accuracy over steps, and over the same time", ["order", "steps", "time"], list(lines.values()))
    report.figure(f"accuracy-{case.forest.n_trees}-{case.forest.n_classes}", figure)


def _complete_us(predictor: Predictor, X: NDArray[np.float32]) -> float:
    return min(float(np.median(predictor.run(X, time_us=1e9).time_us)) for _ in range(9))


if __name__ == "__main__":
    main()
