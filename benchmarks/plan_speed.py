"""How much of the trees that a promise saves is saved as time, and what threads add.

Efficiency is the speed-up over the same forest's full evaluation times the share of trees evaluated: 1 if a tree takes
as long as it does in the full evaluation. Each row has to be encoded and answered, however few of its trees are
evaluated. With `e` the share of the full evaluation that this takes and `s` the share of trees, no plan can be more
efficient than s / (e + (1 - e) s), the bound beside each figure. `e` is estimated as what is left of the time of the
first quarter of the trees, less a quarter of the time of all; of the first half, if a quarter has another loop. Part of
a forest has fewer thresholds, among which rows are ranked faster, so that the bound is rather too high. In forests that
are walked it counts a copy by columns that early exits do not make (loops.py measures without it). Where the full
evaluation slices trees, its time if it walked them is measured too, by one more tree that is too large to be sliced.
``--sizes`` compares larger models.

Plans are those that `scurry.early_exit` gives for a promise of each kind, on rows that trained nothing. All predict
20,000 float32 rows on one thread, taking turns, and the least CPU time of several rounds counts. ``--threads`` instead
times 4,000,000 rows on 1, 2, 4, … threads, by the clock.

Data are the ``.npz`` files of ``promises_values.py --convert``, in the folder SCURRY_NPZ.

    python benchmarks/plan_speed.py --only values
    python benchmarks/plan_speed.py --sizes
    python benchmarks/plan_speed.py --threads

writes benchmarks/results/plan-speed.json, part by part.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Self

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

import scurry
from loops import walk
from promises_values import fit_model, read
from report import RESULTS, commit, machine
from scurry.compression.weakest_links import keep_trees
from scurry.errors import InfeasibleError
from scurry.promises import Accuracy, Certain, Labels, LabelsPerClass, Promise, TopK, Values

N_TIMED, N_ROUNDS, N_QUERY = 20_000, 30, 50
N_MANY = 4_000_000

# A promise may depend on the error of a regressor.
KINDS: dict[str, Callable[[float], Promise]] = {
    "labels 0.5 %": lambda rmse: Labels(0.005),
    "labels 0.1 %": lambda rmse: Labels(0.001),
    "labels per class 2 %, 0.2 %": lambda rmse: LabelsPerClass({1: 0.02, 0: 0.002}),
    "accuracy 0.3 points": lambda rmse: Accuracy(0.003),
    "probabilities 0.02": lambda rmse: Values(0.02, of="probability"),
    "values rmse/4": lambda rmse: Values(rmse / 4),
    "top 10 of 50": lambda rmse: TopK(10, 0.05),
    "certain": lambda rmse: Certain(),
}
CELLS = [
    *(
        (data, "lightgbm-200", kind)
        for data in ("adult", "magic", "nomao", "cdc")
        for kind in KINDS
        if not kind.startswith("values")
    ),
    *(
        (data, model, "values rmse/4")
        for data in ("housing", "bike")
        for model in ("lightgbm-300", "xgboost-200", "forest-100")
    ),
    ("adult", "forest-101", "labels 0.5 %"),
    ("magic", "forest-101", "labels 0.5 %"),
]
SIZES = [
    *(("adult", f"lightgbm-{n}", kind) for n in (500, 1000) for kind in ("labels 0.1 %", "probabilities 0.02")),
    ("housing", "lightgbm-1000", "values rmse/4"),
]


class Rows:
    """A model, and rows for each purpose that trained nothing but it."""

    def __init__(self, data: str, model: str) -> None:
        X, y = read(data)
        order = np.random.default_rng(0).permutation(len(X))[:100_000]
        rows, targets = X[order].astype(np.float32), y[order]
        if model.startswith("forest"):
            rows = np.nan_to_num(rows)
        n_train = min(15_000, int(0.4 * len(rows)))
        self.forest = fit_model(model, rows[:n_train], targets[:n_train], 0)
        rest, y_rest = rows[n_train:], targets[n_train:]
        n_fit = len(rest) // 3
        self.fit, self.y_fit = rest[:n_fit], y_rest[:n_fit]
        self.cal, self.y_cal = rest[n_fit : 2 * n_fit], y_rest[n_fit : 2 * n_fit]
        self.new = repeat(rest[2 * n_fit :], N_TIMED)
        # Boosted trees are refitted on their training rows as well; forests agree too much on those.
        self.with_training = self.fit if model.startswith("forest") else rows[: n_train + n_fit]
        self.rmse = 0.0
        if self.forest.classes is None:
            self.rmse = float(np.sqrt(np.square(self.forest.predict(self.fit) - self.y_fit).mean()))


def repeat(rows: NDArray[Any], n: int) -> NDArray[Any]:
    return np.ascontiguousarray(np.tile(rows, (n // len(rows) + 1, 1))[:n])


def calibrate(rows: Rows, promise: Promise) -> scurry.Predictor:
    if isinstance(promise, Certain):
        return scurry.early_exit(rows.forest, promise=promise, X_fit=rows.fit)
    if isinstance(promise, TopK):
        n = len(rows.cal) // N_QUERY * N_QUERY
        return scurry.early_exit(rows.forest, rows.cal[:n], promise=promise, groups=np.arange(n) // N_QUERY)
    labels = {"y_cal": rows.y_cal} if isinstance(promise, Accuracy) else {}
    return scurry.early_exit(rows.forest, rows.cal, X_fit=rows.with_training, promise=promise, **labels)


@dataclass(frozen=True)
class Case:
    """A forest, a plan of it, and rows to time them on."""

    forest: scurry.Forest
    fast: scurry.Predictor
    rows: NDArray[Any]

    @classmethod
    def make(cls, rows: Rows, kind: str) -> Self:
        return cls(rows.forest, calibrate(rows, KINDS[kind](rows.rmse)), rows.new)

    @classmethod
    def load(cls, folder: Path) -> Self:
        forest, fast = scurry.load(folder / "forest.scurry"), scurry.load(folder / "plan.scurry")
        return cls(forest, fast, np.load(folder / "rows.npy"))

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.forest.save(folder / "forest.scurry")
        self.fast.save(folder / "plan.scurry")
        np.save(folder / "rows.npy", self.rows)


def measure(case: Case, kind: str) -> dict[str, Any]:
    """Return the speed-up of a promise over all trees, the share of trees, and the bound of its efficiency."""
    forest, fast = case.forest, case.fast
    more = {"groups": np.arange(N_TIMED) // N_QUERY} if kind.startswith("top") else {}

    def answer(predictor: Any, **more: Any) -> Callable[[], object]:
        if kind.startswith("top") and isinstance(predictor, scurry.Forest):
            return lambda: predictor.scores(case.rows)
        predict = predictor.predict_proba if kind.startswith("probabilities") else predictor.predict
        return lambda: predict(case.rows, **more)

    share = float(fast.run(case.rows, **more).mean_trees / forest.n_trees)
    loop, few = forest.engine.loop, keep_trees(forest, forest.n_trees // 4)
    if few.engine.loop != loop:
        few = keep_trees(forest, forest.n_trees // 2)
    calls = {"all": answer(forest), "plan": answer(fast, **more), "part": answer(few)}
    if loop == "sliced":
        calls["walked"] = answer(walk(forest))
    seconds = dict.fromkeys(calls, np.inf)
    for _ in range(N_ROUNDS):
        for name, call in calls.items():
            seconds[name] = min(seconds[name], cpu_time(call))
    # Time is a + b n for n trees: the two give a, here as a share of the time of all trees.
    part = few.n_trees / forest.n_trees
    per_row = max((seconds["part"] / seconds["all"] - part) / (1 - part), 0.0)
    figures = {
        "method": "" if fast.certificate is None else fast.certificate.method,
        "loop": loop,
        "share_of_trees": round(share, 4),
        "speed_up": round(seconds["all"] / seconds["plan"], 2),
        "efficiency": round(seconds["all"] / seconds["plan"] * share, 3),
        "ns_per_row": {name: round(taken / N_TIMED * 1e9, 1) for name, taken in seconds.items()},
    }
    if few.engine.loop == loop:
        bound = share / (per_row + (1 - per_row) * share)
        figures["time_beside_trees"], figures["bound_estimate"] = round(per_row, 3), round(bound, 3)
        figures["share_of_bound"] = round(figures["efficiency"] / bound, 3)
    if loop == "sliced":
        figures["efficiency_over_walked"] = round(seconds["walked"] / seconds["plan"] * share, 3)
    return figures


def cpu_time(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def measure_threads(model: str) -> dict[str, Any]:
    """Return rows per second by number of threads, of all trees and of an early exit."""
    rows = Rows("adult", model)
    fast = calibrate(rows, Labels(0.005))
    many = repeat(rows.new, N_MANY)
    n_cores, counts = os.cpu_count() or 1, [1]
    while counts[-1] * 2 <= n_cores:
        counts.append(counts[-1] * 2)
    best: dict[str, dict[int, float]] = {"all trees": {}, "early exit": {}}
    for name, predict in (("all trees", rows.forest.predict), ("early exit", fast.predict)):
        for _ in range(2):
            for n in counts:
                start = time.perf_counter()
                predict(many, n_threads=n)
                speed = N_MANY / (time.perf_counter() - start)
                best[name][n] = max(best[name].get(n, 0.0), speed)
    return {
        name: {str(n): {"krows_per_s": round(v / 1e3), "speed_up": round(v / by[1], 2)} for n, v in by.items()}
        for name, by in best.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="cells whose name holds this")
    parser.add_argument("--folder", type=Path, help="where models and plans are kept for the next time")
    parser.add_argument("--sizes", action="store_true", help="time larger models instead")
    parser.add_argument("--threads", action="store_true", help="time threads instead")
    parser.add_argument("--json", type=Path, default=RESULTS / "plan-speed.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, Any] = json.loads(options.json.read_text()) if options.json.exists() else {}

    def keep(part: str, name: str, figures: dict[str, Any]) -> None:
        about = {"machine": machine(), "commit": commit(), "date": date.today().isoformat()}
        found.setdefault(part, {})[name] = figures | about
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(name, figures, flush=True)

    if options.threads:
        for model in ("forest-101", "lightgbm-200"):
            keep("threads, 4,000,000 adult rows", model, measure_threads(model))
        return
    made: dict[tuple[str, str], Rows] = {}
    for data, model, kind in SIZES if options.sizes else CELLS:
        name = f"{data}, {model}, {kind}"
        if options.only in name:
            kept = options.folder / name.translate(str.maketrans(" /%,", "____")) if options.folder else None
            if kept is None or not (kept / "rows.npy").exists():
                if (data, model) not in made:
                    made = {(data, model): Rows(data, model)}
                try:
                    case = Case.make(made[data, model], kind)
                except InfeasibleError as error:
                    keep("efficiency", name, {"refused": str(error)[:200]})
                    continue
                if kept is not None:
                    case.save(kept)
            else:
                case = Case.load(kept)
            keep("efficiency", name, measure(case, kind))


if __name__ == "__main__":
    main()
