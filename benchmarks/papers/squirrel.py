"""Step orders for anytime forests: the published claims and figures beside what scurry obtains.

Random forests on 50 % of nine datasets, orders found on 25 %, accuracies measured on the other 25 %. Forests of 4 to 7
trees and depth 4 to 7 have the Optimal Order too; forests of 5, 10, 20 trees and depth 2, 5, 10, 20 do not. "As high as
the highest" is an order's NMA over the highest NMA of the paper's own orders in the same experiment, averaged.

    python benchmarks/papers/squirrel.py --quick
    python benchmarks/papers/squirrel.py --datasets adult letter --first-seed 1000

Everything takes about an hour of one core. With ``--keep FILE`` finished experiments are kept and never repeated, so
that the work can be done in parts.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import scurry
from report import Report, subplots
from scurry import Forest, Plan, Predictor, datasets
from scurry.errors import ScurryError
from scurry.orders import ORDERS, StepOrder, accuracy_curve, find, nma
from scurry.plan import StepRule

DATASETS = (
    "adult",
    "covertype",
    "letter",
    "magic",
    "mnist",
    "satimage",
    "sensorless",
    "spambase",
    "wearable_body_postures",
)
MAX_ROWS = 24_000
SMALL = [(n_trees, depth) for n_trees in (4, 5, 6, 7) for depth in (4, 5, 6, 7)]
LARGE = [(n_trees, depth) for n_trees in (5, 10, 20) for depth in (2, 5, 10, 20)]
QUICK_SMALL, QUICK_LARGE = [(4, 4), (5, 5), (6, 6)], [(5, 5), (10, 5), (20, 5), (10, 10)]
QUICK_DATASETS = ("adult", "letter", "magic", "satimage", "sensorless", "spambase")
PAPER_ORDERS = [order for order in ORDERS if order != "auto"]
OURS = {
    "auto": ("auto", "plain"),
    "auto, weighted": ("auto", "weighted"),
    "backward-squirrel, weighted": ("backward-squirrel", "weighted"),
}
CHOSEN = "auto, chosen"  # of the two read-outs the one that does better on the ordering rows
CLAIMS = [
    ("with Optimal", "optimal", 0.97),
    ("with Optimal", "backward-squirrel", 0.94),
    ("without Optimal", "backward-squirrel", 0.99),
]


@dataclass(frozen=True)
class Split:
    """A forest, the rows to order it on and the rows to judge it by."""

    forest: Forest
    X_order: NDArray[np.float32]
    y_order: NDArray[Any]
    X_test: NDArray[np.float32]
    y_test: NDArray[Any]


@dataclass(frozen=True)
class Experiment:
    """NMA on the test rows by order, and what finding each order took."""

    dataset: str
    max_rows: int
    n_trees: int
    depth: int
    seed: int
    optimal: bool
    nma: dict[str, float]
    seconds: dict[str, float]

    @property
    def key(self) -> tuple[Any, ...]:
        return self.dataset, self.max_rows, self.n_trees, self.depth, self.seed, self.optimal

    def share_of_best(self, order: str) -> float:
        """The order's NMA over the highest of the paper's orders."""
        return self.nma[order] / max(self.nma[name] for name in PAPER_ORDERS if name in self.nma)

    def ratio(self, order: str, other: str) -> float:
        return self.nma[order] / self.nma[other]


class Kept:
    """Experiments done before, one JSON object a line."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        self.known = {experiment.key: experiment for experiment in (Experiment(**json.loads(line)) for line in lines)}

    def add(self, experiment: Experiment) -> None:
        self.known[experiment.key] = experiment
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(experiment)) + "\n")


def main() -> None:
    arguments = _arguments()
    seeds = range(arguments.first_seed, arguments.first_seed + (1 if arguments.quick else arguments.seeds))
    names = arguments.datasets or (QUICK_DATASETS if arguments.quick else DATASETS)
    rows_of = {name: 8_000 if arguments.quick else _rows_of(name, arguments.max_rows) for name in names}
    sizes = {
        "with Optimal": QUICK_SMALL if arguments.quick else SMALL,
        "without Optimal": QUICK_LARGE if arguments.quick else LARGE,
    }
    found: dict[str, list[Experiment]] = {kind: [] for kind in sizes}
    kept = Kept(arguments.keep)
    for name in names:
        try:
            X, y = _load(name, rows_of[name])
        except ScurryError as error:
            print(f"{name} skipped: {error}")
            del rows_of[name]
            continue
        for kind, cells in sizes.items():
            optimal = kind == "with Optimal"
            experiments = list(_experiments(name, (X, y), rows_of[name], seeds, cells, kept, optimal=optimal))
            found[kind] += experiments
            print(f"{name}, {kind}: {_progress_line(experiments)}", flush=True)
    if arguments.only_experiments:
        return
    report = Report(
        "squirrel",
        "Step orders: published against obtained",
        f"Seeds {seeds.start} to {seeds.stop - 1}; at most so many rows, split 50/25/25 (0 is all): "
        f"{', '.join(f'{name} {rows:,}' for name, rows in rows_of.items())}. "
        "NMA: mean test accuracy over all states, the first included, over that of the last.",
        ["scikit-learn"],
    )
    _claims(report, found)
    _ours(report, found)
    _figure_6(report, found)
    if "adult" in rows_of:
        _figure_3(report, *_load("adult", rows_of["adult"]), n_rounds=5 if arguments.quick else 20)
    _figures_4_and_5(report, rows_of, quick=arguments.quick)
    report.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed, few sizes, a part of six datasets")
    parser.add_argument("--seeds", type=int, default=5, metavar="N")
    parser.add_argument("--first-seed", type=int, default=0, metavar="SEED")
    parser.add_argument(
        "--max-rows", nargs="+", default=[str(MAX_ROWS)], metavar="N", help="of each dataset, or NAME=N; 0 is all"
    )
    parser.add_argument("--datasets", nargs="+", choices=DATASETS)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where experiments are kept, and not repeated")
    parser.add_argument("--only-experiments", action="store_true", help="no tables and figures; for use with --keep")
    return parser.parse_args()


def _rows_of(name: str, max_rows: Sequence[str]) -> int:
    given = {dataset: int(n_rows) for dataset, _, n_rows in (item.rpartition("=") for item in max_rows)}
    return given.get(name, given.get("", MAX_ROWS))


def _experiments(
    dataset: str,
    data: tuple[NDArray[np.float32], NDArray[Any]],
    max_rows: int,
    seeds: Iterable[int],
    cells: Sequence[tuple[int, int]],
    kept: Kept,
    *,
    optimal: bool,
) -> Iterator[Experiment]:
    for seed in seeds:
        for n_trees, depth in cells:
            key = (dataset, max_rows, n_trees, depth, seed, optimal)
            if key not in kept.known:
                kept.add(Experiment(*key, *_compare(_split(*data, seed, n_trees, depth), seed, optimal=optimal)))
            yield kept.known[key]


def _load(name: str, max_rows: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
    data = datasets.load(name)
    chosen = np.random.default_rng(0).permutation(len(data.X))[: max_rows or None]
    return np.nan_to_num(data.X[chosen], nan=-1.0), data.y[chosen]


def _split(X: NDArray[np.float32], y: NDArray[Any], seed: int, n_trees: int, depth: int) -> Split:
    shuffled = np.random.default_rng(seed).permutation(len(X))
    train, order, test = np.split(shuffled, [len(X) // 2, 3 * len(X) // 4])
    model = RandomForestClassifier(n_trees, max_depth=depth, random_state=seed).fit(X[train], y[train])
    # A class too rare to be in the training rows cannot be answered; its rows are left out.
    order, test = (rows[np.isin(y[rows], model.classes_)] for rows in (order, test))
    return Split(scurry.from_model(model), X[order], y[order], X[test], y[test])


def _compare(split: Split, seed: int, *, optimal: bool) -> tuple[dict[str, float], dict[str, float]]:
    """NMA on the test rows, and seconds, by order."""
    orders = {order: (order, "plain") for order in PAPER_ORDERS} | OURS
    found: dict[str, StepOrder] = {}
    for name, (order, readout) in orders.items():
        if order in ("optimal", "unoptimal") and not optimal:
            continue
        if order.endswith("qwyc") and split.forest.n_classes != 2:
            continue
        found[name] = find(split.forest, split.X_order, split.y_order, order=order, readout=readout, random_state=seed)
    nmas = {
        name: nma(accuracy_curve(split.forest, order.steps, split.X_test, split.y_test, readout=order.readout))
        for name, order in found.items()
    }
    nmas[CHOSEN] = nmas[max(("auto", "auto, weighted"), key=lambda name: found[name].curve.mean())]
    return nmas, {name: order.seconds for name, order in found.items()}


def _progress_line(experiments: Sequence[Experiment]) -> str:
    means = [f"{name} {_mean(e.ratio(name, 'backward-squirrel') for e in experiments):.4f}" for name in (*OURS, CHOSEN)]
    return f"{len(experiments)} experiments, over backward-squirrel: {', '.join(means)}"


def _claims(report: Report, found: dict[str, list[Experiment]]) -> None:
    rows = []
    for kind, order, published in CLAIMS:
        obtained = f"{_mean(e.share_of_best(order) for e in found[kind]):.4f}" if found[kind] else "–"
        ours = [f"{_mean(e.share_of_best(name) for e in found[kind]):.4f}" for name in ("auto", CHOSEN)]
        rows.append([f"{order}, {kind}", f"~ {published:.2f}", obtained, *ours])
    header = ["NMA over the highest", "published", "obtained", "auto", CHOSEN]
    report.table("The paper's claims", header, rows)


def _ours(report: Report, found: dict[str, list[Experiment]]) -> None:
    rows = []
    for kind, experiments in found.items():
        for dataset in [*dict.fromkeys(e.dataset for e in experiments), "all"]:
            chosen = [e for e in experiments if dataset in ("all", e.dataset)]
            rows.append(
                [
                    f"{dataset}, {kind}",
                    *[f"{_mean(e.ratio(name, 'backward-squirrel') for e in chosen):.4f}" for name in (*OURS, CHOSEN)],
                    f"{_mean(e.ratio('auto', 'optimal') for e in chosen):.4f}" if "optimal" in chosen[0].nma else "–",
                    f"{sum(e.ratio('auto', 'backward-squirrel') >= 1 for e in chosen)} of {len(chosen)}",
                    f"{np.median([e.seconds['auto'] for e in chosen]):.2f}",
                ]
            )
    header = ["dataset", "auto", "auto, w.", "backward, w.", CHOSEN, "auto / optimal", "auto ≥ backward", "auto, s"]
    report.table("Ours over the Backward Squirrel Order, test NMA (w.: weighted read-out)", header, rows)


def _figure_6(report: Report, found: dict[str, list[Experiment]]) -> None:
    """NMA by data set and order: a table, and a point for each."""
    from matplotlib import colormaps

    figure, axes = subplots(1, len(found), (6.5, 6))
    for axis, (kind, experiments) in zip(axes[0], found.items(), strict=True):
        names = list(dict.fromkeys(e.dataset for e in experiments))
        rows = []
        for place, order in enumerate((*PAPER_ORDERS, *OURS, CHOSEN)):
            if not any(order in e.nma for e in experiments):
                continue
            cells = [[e.nma[order] for e in experiments if e.dataset == name and order in e.nma] for name in names]
            rows.append([order, *[f"{np.mean(values):.4f}" if values else "–" for values in cells]])
            shown = [(np.mean(values), row) for row, values in enumerate(cells) if values]
            marker = "*" if order in (*OURS, CHOSEN) else "o" if order.startswith("depth") else "s"
            axis.scatter(
                *zip(*shown, strict=True), label=order, marker=marker, color=colormaps["tab20"](place), alpha=0.8
            )
        report.table(f"Figure 6: mean NMA, {kind}", ["order", *names], rows)
        axis.set(yticks=range(len(names)), yticklabels=names, xlabel="mean NMA", title=f"Figure 6, {kind}")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    report.figure("figure-6", figure)


def _figure_3(report: Report, X: NDArray[np.float32], y: NDArray[Any], n_rounds: int) -> None:
    """Steps against the timer: the paper's forest of 10 trees, over in a fraction of a µs here, and one of 100.

    Timers lie between the time of one step, with its answer, and that of all. What counts is the mean over rows in the
    median round: orders and timers take turns in each round, so that moments in which other work disturbs the machine
    spoil some rounds, but no timer in all of them.
    """
    figure, axes = subplots(1, 2, (6.5, 4.5))
    lines = []
    for axis, n_trees in zip(axes[0], (10, 100), strict=True):
        split = _split(X, y, 0, n_trees, 10)
        rows = split.X_test[:2000]
        predictors, times_us = {}, {}
        for order in ("backward-squirrel", "forward-squirrel", "random", "depth-ie", "breadth-ie"):
            steps = find(split.forest, split.X_order, split.y_order, order=order, random_state=0).steps
            predictor = predictors[order] = Predictor(split.forest, Plan(order=steps, stop=StepRule()))
            first_us, complete_us = (
                min(np.median(predictor.run(rows, max_steps=n, time_us=1e9).time_us) for _ in range(9))
                for n in (1, len(steps))
            )
            times_us[order] = np.linspace(first_us, complete_us, 16)[1:-1]
            lines.append([f"{n_trees} trees, {order}", f"{first_us:.2f}", f"{complete_us:.2f}"])
        taken: dict[str, list[list[float]]] = {order: [] for order in predictors}
        for _ in range(n_rounds):
            for order, predictor in predictors.items():
                taken[order].append([predictor.run(rows, time_us=float(time)).mean_steps for time in times_us[order]])
        for order, line in zip(predictors, lines[-len(predictors) :], strict=True):
            shares = np.median(taken[order], axis=0) / len(predictors[order].plan.order)
            line.append(f"{np.corrcoef(times_us[order], shares)[0, 1] ** 2:.4f}")
            axis.plot(times_us[order], shares, marker=".", label=order)
        axis.set(
            xlabel="timer (µs)", ylabel="share of steps taken", title=f"Figure 3: adult, {n_trees} trees of depth 10"
        )
        axis.legend(fontsize="small")
    report.table("Figure 3: steps against the timer", ["order", "µs of one step", "of all", "R² of a line"], lines)
    report.figure("figure-3", figure)


def _figures_4_and_5(report: Report, rows_of: dict[str, int], *, quick: bool) -> None:
    figure, axes = subplots(1, 2, (6.5, 4.5))
    if "adult" in rows_of:
        _figure_4(report, axes[0, 0], *_load("adult", rows_of["adult"]), n_trees_optimal=6 if quick else 8)
    if "letter" in rows_of:
        _figure_5(axes[0, 1], *_load("letter", rows_of["letter"]), size=5 if quick else 7)
    report.figure("figures-4-and-5", figure)


def _figure_4(report: Report, axis: Any, X: NDArray[np.float32], y: NDArray[Any], n_trees_optimal: int) -> None:
    """Generation time and mean accuracy over the number of trees, depth 8."""
    rows, times = [], axis.twinx()
    for order, colour in (("optimal", "C0"), ("backward-squirrel", "C3"), ("auto", "C2")):
        sizes = [n for n in range(2, 21, 2) if order != "optimal" or n <= n_trees_optimal]
        accuracies, seconds = [], []
        for n_trees in sizes:
            split = _split(X, y, 0, n_trees, 8)
            taken, found = _timed(
                lambda split=split, order=order: find(split.forest, split.X_order, split.y_order, order=order)
            )
            accuracies.append(accuracy_curve(split.forest, found.steps, split.X_test, split.y_test).mean())
            seconds.append(taken)
            rows.append([f"{order}, {n_trees} trees", f"{accuracies[-1]:.4f}", f"{taken:.3f}"])
        axis.plot(sizes, accuracies, color=colour, marker=".", label=order)
        times.semilogy(sizes, seconds, color=colour, linestyle="dotted")
    axis.set(xlabel="trees of depth 8 (adult)", ylabel="mean test accuracy", title="Figure 4", xticks=range(2, 21, 2))
    times.set_ylabel("CPU seconds (dotted)")
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3, fontsize="small")
    report.table("Figure 4: adult, depth 8", ["order", "mean test accuracy", "CPU s"], rows)


def _figure_5(axis: Any, X: NDArray[np.float32], y: NDArray[Any], size: int) -> None:
    """Accuracy over steps for one forest of letter."""
    split = _split(X, y, 0, size, size)
    selection = ["optimal", "unoptimal", "backward-squirrel", "forward-squirrel", "depth-ie", "breadth-ie", "random"]
    for name, (order, readout) in ({order: (order, "plain") for order in selection} | OURS).items():
        found = find(split.forest, split.X_order, split.y_order, order=order, readout=readout, random_state=0)
        curve = accuracy_curve(split.forest, found.steps, split.X_test, split.y_test, readout=readout)
        axis.plot(curve, label=name, linestyle="dashed" if name in OURS else "solid")
    axis.set(xlabel="steps", ylabel="test accuracy", title=f"Figure 5: letter, {size} trees of depth {size}")
    axis.legend(fontsize="small")


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


if __name__ == "__main__":
    main()
