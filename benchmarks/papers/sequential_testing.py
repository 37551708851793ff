"""Early stopping of a majority vote: the published table and figures beside what scurry obtains.

Random forests of 101 trees, 70/10/20 of the rows to train, test and calibrate, the largest class positive. Runtime,
disagreement and error are exact given the number of positive votes, weighted by the test rows, as in the paper. The
promise of ``confidence=0.95`` is then put to the test on independent simulated draws of calibration rows.

    python benchmarks/papers/sequential_testing.py --quick
    python benchmarks/papers/sequential_testing.py --repeats 30
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import scurry
from promise import N_DRAWS, noisy_rows, simulate_draws, violations_row
from report import Report, subplots
from scurry import datasets
from scurry.errors import InfeasibleError, ScurryError
from scurry.plan import ExitRule
from scurry.stopping import VotePolicy, VoteRule, solve
from scurry.stopping.vote_policy import outcomes

N_TREES = 101
ALPHA = 1e-3
QUICK_ROWS = 30_000
CURVE_ALPHAS = [0.0, *np.geomspace(1e-6, 1e-1, 11)]
APPROACHES = {
    "minimax": ("minimax", False),
    "minimean, calibrated": ("minimean", True),
    "minimean, flat": ("minimean", False),
    "minimixed, calibrated": ("minimixed", True),
    "minimixed, flat": ("minimixed", False),
    "Schwing et al.": ("schwing", False),
}


@dataclass(frozen=True)
class Published:
    """A column of Table 4, in percent."""

    dataset: str
    runtime: float
    base_error: float
    error: float


TABLE_4 = {
    "Ground Cover": Published("covertype", 13.02, 4.05, 4.07),
    "Income": Published("census_income_kdd", 7.17, 4.52, 4.54),
    "Diabetes": Published("cdc_diabetes", 16.50, 14.17, 14.16),
    "Skin": Published("skin_segmentation", 1.15, 0.04, 0.12),
    "Sepsis": Published("sepsis_survival", 0.99, 7.39, 7.46),
    "Dota2": Published("dota2", 71.32, 42.43, 42.43),
    "Hospitalization": Published("diabetes130", 57.58, 35.90, 35.90),
    "Shuttle": Published("shuttle", 1.03, 0.15, 0.21),
}


@dataclass(frozen=True)
class Repeat:
    """One split: rows by their number of positive votes, each an array of shape (N_TREES + 1,)."""

    calibration: NDArray[np.int64]
    test_negative: NDArray[np.int64]
    test_positive: NDArray[np.int64]
    promised: tuple[NDArray[np.float64], NDArray[np.float64]] | None  # outcomes with confidence=0.95, if feasible


@dataclass(frozen=True)
class Performance:
    """Means over test rows: share of trees asked, share of answers unlike the full vote, share of wrong answers."""

    runtime: float
    disagreement: float
    error: float


def main() -> None:
    arguments = _arguments()
    n_repeats = 1 if arguments.quick else arguments.repeats
    max_rows = QUICK_ROWS if arguments.quick else None
    report = Report(
        "sequential-testing",
        "Stopping a vote: published against obtained",
        f"{n_repeats} repeat(s) of split, forest and rules; "
        + (f"only {QUICK_ROWS:,} rows of each dataset (--quick): forests are weaker." if max_rows else "all rows."),
        ["scikit-learn"],
    )
    _envelopes(report)
    found: dict[str, list[Repeat]] = {}
    for title in arguments.datasets:
        try:
            data = _binary(TABLE_4[title].dataset, max_rows)
        except ScurryError as error:
            report.say(f"{title} skipped: {error}")
            continue
        found[title] = [_repeat(*data, seed) for seed in range(n_repeats)]
        print(f"{title}: {_runtime_line(found[title])}", flush=True)
    _table_4(report, found)
    _curves(report, found)
    _histograms(report, found)
    _promise(report, arguments.draws)
    report.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one repeat on a part of each dataset")
    parser.add_argument("--repeats", type=int, default=30, metavar="N")
    parser.add_argument("--draws", type=int, default=N_DRAWS, metavar="N", help="simulated draws of calibration rows")
    parser.add_argument("--datasets", nargs="+", choices=list(TABLE_4), default=list(TABLE_4))
    return parser.parse_args()


def _binary(name: str, max_rows: int | None) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The rows the paper uses, missing values as -1, the largest class against the rest."""
    data = datasets.load(name)
    X, y = data.X, data.y
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
    model = RandomForestClassifier(N_TREES, n_jobs=-1, random_state=seed).fit(X[train], y[train])
    forest = scurry.from_model(model)
    return Repeat(
        _counts(forest, X[calibration]),
        _counts(forest, X[test[y[test] == 0]]),
        _counts(forest, X[test[y[test] == 1]]),
        _promised_outcomes(forest, X[calibration], seed),
    )


def _counts(forest: scurry.Forest, rows: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.bincount(_positive_votes(forest, rows), minlength=N_TREES + 1)


def _positive_votes(forest: scurry.Forest, rows: NDArray[np.float32]) -> NDArray[np.int64]:
    votes, positives = forest.value.argmax(axis=1) == 1, np.zeros(len(rows), np.int64)
    for start in range(0, len(rows), 20_000):
        positives[start : start + 20_000] = votes[forest.apply(rows[start : start + 20_000])].sum(axis=1)
    return positives


def _promised_outcomes(
    forest: scurry.Forest, rows: NDArray[np.float32], seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    try:
        predictor = scurry.early_exit(forest, rows, max_disagreement=ALPHA, method="minimean", random_state=seed)
    except InfeasibleError:
        return None
    return vote_outcomes(predictor)


def vote_outcomes(predictor: scurry.Predictor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Expected trees and chance of disagreement of a vote predictor, by the number of positive votes."""
    rule = predictor.plan.stop
    if not isinstance(rule, ExitRule):
        raise TypeError(f"a predictor that stops votes is needed, got {predictor!r}")
    return outcomes(
        [VotePolicy(float(w), lo, up) for w, lo, up in zip(rule.weights, rule.lower, rule.upper, strict=True)]
    )


def _assess(votes: NDArray[np.float64], disagreement: NDArray[np.float64], repeat: Repeat) -> Performance:
    all_rows = repeat.test_negative + repeat.test_positive
    positive_vote = 2 * np.arange(N_TREES + 1) > N_TREES
    answers_positive = np.where(positive_vote, 1 - disagreement, disagreement)
    wrong = repeat.test_negative @ answers_positive + repeat.test_positive @ (1 - answers_positive)
    n_rows = all_rows.sum()
    return Performance(all_rows @ votes / n_rows / N_TREES, all_rows @ disagreement / n_rows, wrong / n_rows)


def _mean(performances: Sequence[Performance]) -> Performance:
    return Performance(*np.mean([(p.runtime, p.disagreement, p.error) for p in performances], axis=0))


@cache
def _flat_rule(method: str, alpha: float) -> VoteRule:
    return solve(N_TREES, alpha, method)


def _performance(repeats: Sequence[Repeat], approach: str, alpha: float) -> Performance:
    method, calibrated = APPROACHES[approach]
    found = []
    for repeat in repeats:
        rule = solve(N_TREES, alpha, method, repeat.calibration) if calibrated else _flat_rule(method, alpha)
        found.append(_assess(rule.expected_votes(), rule.disagreement(), repeat))
    return _mean(found)


def _promised(repeats: Sequence[Repeat]) -> Performance | None:
    found = [_assess(*repeat.promised, repeat) for repeat in repeats if repeat.promised is not None]
    return _mean(found) if len(found) == len(repeats) else None


def _runtime_line(repeats: Sequence[Repeat]) -> str:
    return f"{_performance(repeats, 'minimean, calibrated', ALPHA).runtime:.2%} of the trees"


def _table_4(report: Report, found: dict[str, list[Repeat]]) -> None:
    header = ["dataset", "runtime", "published", "disagreement", "base error", "published", "error", "published"]
    header += ["with promise: runtime", "disagreement"]
    rows = []
    for title, repeats in found.items():
        paper = TABLE_4[title]
        ours = _performance(repeats, "minimean, calibrated", ALPHA)
        base = _performance(repeats, "minimax", 0.0).error
        promised = _promised(repeats)
        rows.append(
            [
                title,
                f"{ours.runtime:.2%}",
                f"{paper.runtime:.2f}%",
                f"{ours.disagreement:.3%}",
                f"{base:.2%}",
                f"{paper.base_error:.2f}%",
                f"{ours.error:.2%}",
                f"{paper.error:.2f}%",
                *([f"{promised.runtime:.2%}", f"{promised.disagreement:.3%}"] if promised else ["infeasible", "–"]),
            ]
        )
    report.table(f"Table 4: minimean on calibration votes, α = {ALPHA:g}", header, rows)
    report.say("With promise: scurry.early_exit at confidence 0.95, which spends part of α on not knowing the rows.")


def _envelopes(report: Report) -> None:
    figure, axes = subplots(1, 3, (4.2, 3.6))
    for axis, method in zip(axes[0], ("minimax", "minimean", "minimixed"), strict=True):
        for alpha in (0.0, *np.geomspace(1e-6, 1e-1, 6)):
            axis.plot(_flat_rule(method, alpha).upper, label=f"α = {alpha:g}")
        axis.plot([0, N_TREES], [0, N_TREES / 2], color="grey", linestyle=":")
        axis.set(title=method, xlabel="trees asked", ylabel="positive votes needed to stop")
    axes[0][0].legend(fontsize="x-small")
    report.figure("figure-2-envelopes", figure)


def _curves(report: Report, found: dict[str, list[Repeat]]) -> None:
    """Figures 3 and 4 (three metrics against α) and Figure 5 (trees against error)."""
    if not found:
        return
    figure, axes = subplots(len(found), 3, (4.2, 2.6))
    trade, (trade_axes,) = subplots(1, 1, (6.0, 4.5))
    markers = dict(zip(APPROACHES, "os^vDx", strict=True))
    for at, (row, (title, repeats)) in enumerate(zip(axes, found.items(), strict=True)):
        for number, approach in enumerate(APPROACHES):
            curve = [_performance(repeats, approach, float(alpha)) for alpha in CURVE_ALPHAS]
            for axis, metric in zip(row, ("runtime", "disagreement", "error"), strict=True):
                axis.plot(CURVE_ALPHAS, [getattr(p, metric) for p in curve], label=approach, marker=".", markersize=3)
                axis.set_xscale("symlog", linthresh=1e-6)
                axis.set(title=f"{title}: {metric}", xlabel="allowed disagreement")
            late = [p for p, alpha in zip(curve, CURVE_ALPHAS, strict=True) if alpha >= 9e-4]
            trade_axes[0].scatter(
                [p.error for p in late],
                [N_TREES * p.runtime for p in late],
                marker=markers[approach],
                s=14,
                color=f"C{number}",
                label=approach if at == 0 else None,
            )
        row[1].plot(CURVE_ALPHAS, CURVE_ALPHAS, color="grey", linestyle=":")
    axes[0][0].legend(fontsize="xx-small")
    trade_axes[0].set(xlabel="error rate", ylabel="expected trees")
    trade_axes[0].legend(fontsize="x-small")
    report.figure("figure-3-curves", figure)
    report.figure("figure-5-trade-off", trade)


def _histograms(report: Report, found: dict[str, list[Repeat]]) -> None:
    if not found:
        return
    figure, axes = subplots((len(found) + 1) // 2, 2, (4.2, 2.2))
    for axis, (title, repeats) in zip(axes.flat, found.items(), strict=False):
        for label, color in (("test_negative", "C1"), ("test_positive", "C0")):
            share = sum(getattr(repeat, label) for repeat in repeats)
            axis.bar(range(N_TREES + 1), share / share.sum(), 1.0, alpha=0.6, color=color, label=label[5:])
        axis.set(title=title, xlabel="trees voting positive", yscale="log")
    axes[0][0].legend(fontsize="x-small")
    report.figure("figure-6-votes", figure)


def _promise(report: Report, n_draws: int) -> None:
    """Violations of α over draws of calibration rows: averaged over orders of trees, and in the one drawn."""
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    forest = scurry.from_model(RandomForestClassifier(N_TREES, max_depth=8, random_state=0).fit(*noisy_rows(rng, 4000)))
    new = noisy_rows(rng, 100_000)[0]
    positives = _positive_votes(forest, new)
    truth, full = np.bincount(positives, minlength=N_TREES + 1) / len(new), 2 * positives > N_TREES

    def over_orders(predictor: scurry.Predictor) -> tuple[float, float]:
        votes, changed = vote_outcomes(predictor)
        return float(truth @ changed), float(truth @ votes)

    def in_its_order(predictor: scurry.Predictor) -> tuple[float, float]:
        run = predictor.run(new)
        return float((run.labels != full).mean()), run.mean_trees

    measures = [
        ("over orders", over_orders, None),
        ("over orders", over_orders, 0.95),
        ("its order", in_its_order, 0.95),
    ]
    rows = []
    for alpha, n_rows in ((1e-2, 1000), (1e-2, 4000), (1e-3, 4000), (1e-3, 16_000)):
        for title, measure, confidence in measures:
            asked = {"max_disagreement": alpha, "method": "minimean", "confidence": confidence}
            draws = simulate_draws(forest, measure, n_draws, n_rows, **asked)
            rows.append([f"α = {alpha:g}, {n_rows:,} rows, {title}", *violations_row(draws, alpha, confidence)])
    report.table(
        f"The promise of minimean over {n_draws} independent draws of calibration rows",
        ["rule", "confidence", "α exceeded", "at most", "mean disagreement", "mean trees", "infeasible"],
        rows,
    )


if __name__ == "__main__":
    main()
