"""Step orders for anytime forests: the published claims and figures beside what scurry obtains.

Random forests on 50 % of nine datasets, orders found on 25 %, accuracies measured on the other 25 %. Forests of 4 to 7
trees and depth 4 to 7 have the Optimal Order too; forests of 5, 10, 20 trees and depth 2, 5, 10, 20 do not. Orders are
also found with every tree padded to the depth of the deepest, as in the paper's graph of (d + 1)^t states. Finished
forests are kept on disk, so that a run that was interrupted, or is asked for more seeds, goes on where it was. Without
``--quick``, the claims of the paper are stored in ``papers/results``.

    python benchmarks/papers/squirrel.py --quick
    python benchmarks/papers/squirrel.py --seeds 10

Ten seeds take about eight hours of one core (--jobs divides them), --quick takes ten seconds.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import scurry
from jobs import run_jobs
from kept import Kept
from paper_claims import FOLDER
from report import RESULTS, Report
from scurry import Forest, Plan, Predictor, datasets
from scurry.errors import ScurryError
from scurry.orders import StepOrder, accuracy_curve, find, nma
from scurry.plan import StepRule
from squirrel_claims import CHOSEN, OURS, PAPER_ORDERS, Run, describe, result_of

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
# To see whether rows matter; on so few only what the shares of the highest NMA need is found.
FEWER_ROWS = {
    "adult": 4_000,
    "covertype": 3_000,
    "letter": 2_500,
    "magic": 4_000,
    "mnist": 2_500,
    "satimage": 3_000,
    "sensorless": 2_500,
    "wearable_body_postures": 3_000,
}
QUICK_ROWS, ADULT_ROWS = 2_500, 4_000  # the latter for Figures 3 and 4
N_TIMED, N_ROUNDS = 20, 25  # repeats of Figure 3 and rounds of each, as other work disturbs times
SMALL = [(n_trees, depth) for n_trees in (4, 5, 6, 7) for depth in (4, 5, 6, 7)]
LARGE = [(n_trees, depth) for n_trees in (5, 10, 20) for depth in (2, 5, 10, 20)]
QUICK_SMALL, QUICK_LARGE = [(4, 4), (5, 5), (6, 6)], [(5, 5), (10, 5), (20, 5), (10, 10)]
CURVE_OF = ("letter", 7, 7)  # Figure 5
OWN = {"own": True}  # cells of the same forests with scurry's own orders
TIMED_ORDERS = ("backward-squirrel", "forward-squirrel", "random", "depth-ie", "breadth-ie")


def main() -> None:
    arguments = _arguments()
    quick = arguments.quick
    rows_of = dict.fromkeys(arguments.datasets, QUICK_ROWS if quick else 0)
    seeds = range(1 if quick else arguments.seeds)
    sizes = {True: QUICK_SMALL if quick else SMALL, False: QUICK_LARGE if quick else LARGE}
    end = time.monotonic() + (1e9 if arguments.seconds is None else arguments.seconds)
    kept = Kept("squirrel-quick", RESULTS) if quick else Kept("squirrel", FOLDER)
    forests = _forests(rows_of, seeds, sizes)
    fewer = [] if quick else _forests({name: FEWER_ROWS.get(name, 0) for name in rows_of}, seeds, sizes)
    own = [cell | OWN for cell in forests]
    for cells in (forests, fewer, own):
        _make(kept, cells, arguments.jobs, end - time.monotonic())
    if arguments.only_forests:
        return
    n_repeats = 2 if quick else 10
    timer = [_timer(kept, repeat) for repeat in range(2 if quick else N_TIMED)]
    generation = [_generation(kept, seed, 6 if quick else 8) for seed in range(n_repeats)]
    runs = _runs(kept, forests)
    report = Report(
        "squirrel",
        "Step orders: published against obtained",
        f"Seeds {seeds.start} to {seeds.stop - 1}; {f'at most {QUICK_ROWS:,} rows' if quick else 'all rows'} of "
        f"{', '.join(rows_of)}, split 50/25/25. "
        "NMA: mean test accuracy over all states, the first included, over that of the last.",
        ["scikit-learn"],
        quick=quick,
    )
    ten_trees = None if quick else kept.get({"figure": 4, "trees": 10}, _find_ten_trees)
    result = result_of(runs, _runs(kept, fewer), timer, generation, ten_trees)
    describe(report, runs, result)
    report.close()
    if not quick and set(arguments.datasets) == set(DATASETS):
        print(f"Stored in {result.store()}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed, few sizes, a part of each dataset")
    parser.add_argument("--seeds", type=int, default=10, metavar="N")
    parser.add_argument(
        "--datasets",
        nargs="+",
        choices=DATASETS,
        default=DATASETS,
        metavar="NAME",
        help="make forests of these alone, and store no claims",
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="number of processes")
    parser.add_argument("--seconds", type=float, metavar="N", help="stop after so long, with the forests there are")
    parser.add_argument("--only-forests", action="store_true", help="make the forests' cells, and no claims yet")
    return parser.parse_args()


def _forests(
    rows_of: Mapping[str, int], seeds: Sequence[int], sizes: Mapping[bool, Sequence[tuple[int, int]]]
) -> list[dict[str, Any]]:
    """Return the cells of all forests, by seed; zero rows are all of them."""
    return [
        {"forest": name, "rows": n_rows, "trees": n_trees, "depth": depth, "seed": seed, "optimal": optimal}
        for seed in seeds
        for name, n_rows in rows_of.items()
        for optimal, shapes in sizes.items()
        for n_trees, depth in shapes
    ]


def _make(kept: Kept, cells: Sequence[dict[str, Any]], n_processes: int, seconds: float) -> None:
    """Make the forests that are not kept yet and whose data can be found, those that take longest first."""
    missing = [cell for cell in cells if cell not in kept]
    n_rows = dict[str, int]()
    for name in dict.fromkeys(cell["forest"] for cell in missing):
        try:
            n_rows[name] = len(_load(name, 0)[0])  # here, so that the processes share it
        except ScurryError as error:
            print(f"{name} skipped: {error}")

    def work(cell: dict[str, Any]) -> float:
        searched = cell["optimal"] and "own" not in cell
        n_states = (cell["depth"] + 1) ** cell["trees"] if searched else cell["depth"] * cell["trees"]
        return n_states * min(cell["rows"] or np.inf, n_rows[cell["forest"]])

    missing = sorted((cell for cell in missing if cell["forest"] in n_rows), key=work, reverse=True)
    for cell, value, error in run_jobs(_compare, missing, n_processes, seconds):
        if error:
            print(f"{cell}: {error}", flush=True)
        else:
            kept.get(cell, lambda value=value: value)
            print(f"{cell}: {value['cpu_seconds']:.1f} CPU s", flush=True)


def _runs(kept: Kept, cells: Sequence[dict[str, Any]]) -> list[Run]:
    """Return the forests that are kept."""
    return [
        Run.load(cell, kept.find(cell), kept.find(cell | OWN)["nma"] if cell | OWN in kept else {})
        for cell in cells
        if cell in kept
    ]


@cache
def _load(name: str, max_rows: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
    data = datasets.load(name)
    chosen = np.random.default_rng(0).permutation(len(data.X))[: max_rows or None]
    return np.nan_to_num(data.X[chosen], nan=-1.0), data.y[chosen]


class _Split:
    """A forest, the rows to order it on and the rows to judge it by."""

    def __init__(self, name: str, max_rows: int, seed: int, n_trees: int, depth: int) -> None:
        X, y = _load(name, max_rows)
        shuffled = np.random.default_rng(seed).permutation(len(X))
        train, order, test = np.split(shuffled, [len(X) // 2, 3 * len(X) // 4])
        model = RandomForestClassifier(n_trees, max_depth=depth, random_state=seed).fit(X[train], y[train])
        # A class too rare to be in the training rows cannot be answered; its rows are left out.
        order, test = (rows[np.isin(y[rows], model.classes_)] for rows in (order, test))
        self.forest = scurry.from_model(model)
        self.X_order, self.y_order, self.X_test, self.y_test = X[order], y[order], X[test], y[test]

    def find(self, order: str, forest: Forest | None = None, readout: str = "plain", seed: int = 0) -> StepOrder:
        chosen = self.forest if forest is None else forest
        return find(chosen, self.X_order, self.y_order, order=order, readout=readout, random_state=seed)

    def curve(self, order: StepOrder, forest: Forest | None = None) -> NDArray[np.float64]:
        """Return the test accuracy before the first step and after each."""
        chosen = self.forest if forest is None else forest
        return accuracy_curve(chosen, order.steps, self.X_test, self.y_test, readout=order.readout)


def pad_trees(forest: Forest) -> Forest:
    """Return the forest with a level of steps in every tree for each of the deepest.

    The deepest leaf of a shallower tree is continued by splits that change no answer. A step there moves no row to
    another answer, but it counts, as in the paper's graph of (d + 1)^t states.
    """
    trees = []
    for tree, (first, past) in enumerate(zip(forest.tree_offset[:-1], forest.tree_offset[1:], strict=True)):
        part = {name: list(getattr(forest, name)[first:past]) for name in ("feature", "threshold", "value")}
        children = {side: getattr(forest, side)[first:past] for side in ("left", "right")}
        sides = {side: np.where(found < 0, -1, found - first).tolist() for side, found in children.items()}
        at = int(np.argmax(forest.node_depth[first:past]))
        for _ in range(int(forest.tree_depth.max() - forest.tree_depth[tree])):
            past_end = len(part["feature"])
            part["feature"][at], part["threshold"][at] = 0, 0.0
            sides["left"][at], sides["right"][at] = past_end, past_end + 1
            for side in sides.values():
                side += [-1, -1]
            part["feature"] += [-1, -1]
            part["threshold"] += [0.0, 0.0]
            part["value"] += [part["value"][at]] * 2
            at = past_end
        trees.append(part | sides | {"value": np.array(part["value"])})
    return Forest.from_trees(trees, classes=forest.classes, n_features=forest.n_features)


def _compare(cell: dict[str, Any]) -> dict[str, Any]:
    """NMA on the test rows: of the paper's orders, without and with padded trees, or of scurry's own."""
    started = time.process_time()
    seed = cell["seed"]
    split = _Split(cell["forest"], cell["rows"], seed, cell["trees"], cell["depth"])
    value = _find_own(split, seed) if cell.get("own") else _find_published(split, cell)
    return value | {"cpu_seconds": round(time.process_time() - started, 2)}


def _find_own(split: _Split, seed: int) -> dict[str, Any]:
    found = {title: split.find(order, readout=readout, seed=seed) for title, (order, readout) in OURS.items()}
    nmas = {title: nma(split.curve(order)) for title, order in found.items()}
    nmas[CHOSEN] = nmas[max(("auto", "auto, weighted"), key=lambda name: found[name].curve.mean())]
    return {"nma": _rounded(nmas)}


def _find_published(split: _Split, cell: dict[str, Any]) -> dict[str, Any]:
    seed, whole = cell["seed"], not cell["rows"]
    left_out: tuple[str, ...] = () if cell["optimal"] else ("optimal", "unoptimal")
    if not whole:
        left_out += ("unoptimal",)
    if split.forest.n_classes != 2:
        left_out += ("depth-qwyc", "breadth-qwyc")
    chosen = [order for order in PAPER_ORDERS if order not in left_out]
    found = {order: split.find(order, seed=seed) for order in chosen}
    curves = {name: split.curve(order) for name, order in found.items()}
    value: dict[str, Any] = {"nma": _rounded({name: nma(curve) for name, curve in curves.items()})}
    if split.forest.tree_depth.min() < split.forest.tree_depth.max():
        forest = pad_trees(split.forest)
        padded = {order: nma(split.curve(split.find(order, forest, seed=seed), forest)) for order in chosen}
        value["padded"] = _rounded(padded)
    if (cell["forest"], cell["trees"], cell["depth"]) == CURVE_OF and whole:
        value["curves"] = {name: curve.round(5).tolist() for name, curve in curves.items()}
    if "optimal" in chosen:
        value["optimal_seconds"] = round(found["optimal"].seconds, 3)
    return value | {"final": round(float(curves["random"][-1]), 6)}


def _rounded(found: Mapping[str, float]) -> dict[str, float]:
    return {order: round(value, 7) for order, value in found.items()}


def _generation(kept: Kept, seed: int, largest: int) -> dict[str, dict[str, list[float]]]:
    """Figure 4: CPU seconds to find an order and its mean test accuracy, by order and number of trees of depth 8."""

    def measure(order: str, n_trees: int) -> list[float]:
        split = _Split("adult", ADULT_ROWS, seed, n_trees, 8)
        started = time.process_time()
        found = split.find(order)
        return [time.process_time() - started, float(split.curve(found).mean())]

    # Beyond the largest forest that has an Optimal Order, one seed shows how time goes on.
    sizes = {"optimal": largest, "backward-squirrel": largest if seed else 20, "auto": 0 if seed else 20}
    cells: dict[str, dict[str, list[float]]] = {}
    for order, most in sizes.items():
        for n_trees in range(2, most + 1, 2):
            cell = {"figure": 4, "order": order, "trees": n_trees, "seed": seed}
            value = kept.get(cell, lambda order=order, n_trees=n_trees: measure(order, n_trees))
            cells.setdefault(order, {})[str(n_trees)] = value
    return cells


def _find_ten_trees() -> dict[str, float]:
    """CPU seconds and memory of a process that finds the Optimal Order of ten trees of depth 8."""
    with get_context("fork").Pool(1) as pool:
        return pool.apply(_measure_ten_trees)


def _measure_ten_trees() -> dict[str, float]:
    split = _Split("adult", ADULT_ROWS, 0, 10, 8)
    started = time.process_time()
    split.find("optimal")
    seconds = time.process_time() - started
    return {"seconds": seconds, "bytes": 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}


def _timer(kept: Kept, repeat: int) -> dict[str, list[list[float]]]:
    """Figure 3: timers in µs and the share of steps taken before them, by order, for 10 trees of depth 10 on adult.

    Timers lie between the time of one step, with its answer, and that of all. What counts is the mean over rows in the
    median round: orders and timers take turns in each round, so that moments in which other work disturbs the machine
    spoil some rounds, but no timer in all of them. The two ends are found in the same way.
    """

    def measure() -> dict[str, list[list[float]]]:
        split = _Split("adult", ADULT_ROWS, 0, 10, 10)
        rows = split.X_test[:500]
        orders = {order: split.find(order).steps for order in TIMED_ORDERS}
        predictors = {
            order: Predictor(split.forest, Plan(order=steps, stop=StepRule())) for order, steps in orders.items()
        }

        def time_steps(order: str, n_steps: int) -> float:
            return float(np.median(predictors[order].run(rows, max_steps=n_steps, time_us=1e9).time_us))

        ends = [[[time_steps(order, n) for n in (1, len(orders[order]))] for order in orders] for _ in range(N_ROUNDS)]
        times_us = {
            order: np.linspace(*found, 16)[1:-1] for order, found in zip(orders, np.median(ends, axis=0), strict=True)
        }
        taken: dict[str, list[list[float]]] = {order: [] for order in predictors}
        for _ in range(N_ROUNDS):
            for order, predictor in predictors.items():
                taken[order].append([predictor.run(rows, time_us=float(time)).mean_steps for time in times_us[order]])
        return {
            order: [
                times_us[order].round(4).tolist(),
                (np.median(taken[order], axis=0) / len(orders[order])).round(5).tolist(),
            ]
            for order in predictors
        }

    return kept.get({"figure": 3, "repeat": repeat}, measure)


if __name__ == "__main__":
    main()
