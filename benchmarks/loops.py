"""Loops of the core: boosted models sliced beside the same models walked, forests, plans, and one row at a time.

What makes a boosted model walked is one more tree, of 200 leaves that all add 0: it is too large for the sliced loop.
Scores must be equal to the last bit. A plan is an early exit with at most 0.5 % differences; its efficiency is its
speed-up times the share of trees evaluated, over the walked forest and over the forest in its own loop, each called
after another; warm is that of a second call in a row. The bound is that over the walked one if only the time beside
trees were paid in full (see plan_speed.py). Forests and plans take turns on the same 20,000 rows, on one thread, and
the least CPU time of several rounds counts. Single rows are timed as calls from Python, the least median of the rounds,
less what reading the clock takes. With `--before`, the same files also run with another build, taking turns with this
one; with `--walked`, with a build of the same commit that does not slice the top levels of walked trees (kRankingOfTop
= 0 in core/kernels/sliced.cc): what efficiency over the walked forest is over. On a machine with other work, a plan
that is called after a forest finds the caches full of that work: run this with a higher priority (`nice -n -10`).

    python benchmarks/loops.py --cells "adult*"
    python benchmarks/loops.py --before ../other/src --before-commit fd21dc3

writes benchmarks/results/loops.json; with `--cells`, the lines of other models are kept. The exit code is 1 if a score
or a label differs.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import scurry
from cells import MAX_TRAIN_ROWS, N_BATCH_ROWS, load
from scurry import datasets
from scurry.plan import ExitRule, LeaderRule

LEVELS = ("avx512", "avx2", "portable")
RESULTS = Path(__file__).parent / "results" / "loops.json"
N_SINGLE_ROWS = 256
MAX_CALIBRATION_ROWS = 40_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", default="*", help="Models to run (default: all).")
    parser.add_argument("--rounds", type=int, default=9, help="Number of rounds (default: 9).")
    parser.add_argument("--folder", type=Path, help="Where models are kept for the next time (default: nowhere).")
    parser.add_argument("--before", help="Folder of another build of the package.")
    parser.add_argument("--before-commit", help="What that build was made from.")
    parser.add_argument("--walked", help="Folder of a build of this commit that slices no top levels.")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker)
        return 0
    builds = {"now": os.environ.get("PYTHONPATH", "")} | ({"before": arguments.before} if arguments.before else {})
    builds |= {"walked": arguments.walked} if arguments.walked else {}
    names = fnmatch.filter(MODELS, arguments.cells)
    kept = (
        json.loads(RESULTS.read_text(encoding="utf-8"))["rows"] if arguments.cells != "*" and RESULTS.exists() else []
    )
    rows, exact = [row for row in kept if row["model"] not in names], True
    for name in names:
        with tempfile.TemporaryDirectory() as temporary:
            folder = (arguments.folder or Path(temporary)) / name.replace(" ", "-")
            if not (folder / "rows.npy").exists():
                make(name, folder)
            for level, row in race(folder, arguments.rounds, builds).items():
                commits = {"commit": commit()} | ({"before": arguments.before_commit} if arguments.before else {})
                rows.append({"model": name, "instruction_set": level} | row | commits)
                exact &= row["same_answers"]
                print(rows[-1], flush=True)
        result = {
            "title": "The loops of the core",
            "date": datetime.now(tz=UTC).date().isoformat(),
            "conditions": "20,000 rows, one thread, processes and forests taking turns, least CPU time of the rounds",
            "command": "python benchmarks/loops.py",
            "rows": rows,
        }
        RESULTS.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if exact else 1


def commit() -> str:
    return subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip()


def xgboost(n_trees: int, depth: int, X: Any, y: Any) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=n_trees, max_depth=depth, learning_rate=0.05, random_state=0).fit(X, y)


def lightgbm(n_trees: int, X: Any, y: Any, **options: Any) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=n_trees, random_state=0, verbose=-1, **options).fit(X, y)


def random_forest(depth: int | None, X: Any, y: Any) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(101, max_depth=depth, random_state=0, n_jobs=-1).fit(X, y)


DEPTH_6 = {"max_depth": 6, "num_leaves": 64, "learning_rate": 0.05}
EXIT = partial(scurry.early_exit, max_disagreement=0.005, random_state=0)
Plans = Callable[[scurry.Forest, Any], scurry.Predictor]
MODELS: dict[str, tuple[str, Callable[[Any, Any], Any], Plans | None]] = {
    "adult XGBoost 500 x 6": ("adult", partial(xgboost, 500, 6), EXIT),
    "adult LightGBM 500 x 6": ("adult", partial(lightgbm, 500, **DEPTH_6), EXIT),
    "adult LightGBM 500, 31 leaves": ("adult", partial(lightgbm, 500), None),
    "adult LightGBM 300, 31 leaves, categories": ("adult", partial(lightgbm, 300), None),
    "adult XGBoost 50 x 4": ("adult", partial(xgboost, 50, 4), None),
    "covertype XGBoost 70 x 7 x 6": ("covertype", partial(xgboost, 70, 6), None),
    "covertype LightGBM 70 x 7 x 6": ("covertype", partial(lightgbm, 70, **DEPTH_6), EXIT),
    "adult RF 101 x 10": ("adult", partial(random_forest, 10), EXIT),
    "census RF 101 x 10": ("census_income_kdd", partial(random_forest, 10), EXIT),
    "nomao RF 101 x 10": ("nomao", partial(random_forest, 10), EXIT),
    "covertype RF 101 x 10": ("covertype", partial(random_forest, 10), EXIT),
    "letter RF 101 x 10": ("letter", partial(random_forest, 10), None),
    "digits RF 101 x 10": ("digits", partial(random_forest, 10), None),
    "adult RF 101 unlimited": ("adult", partial(random_forest, None), None),
    "covertype RF 101 unlimited": ("covertype", partial(random_forest, None), None),
    "letter RF 101 unlimited": ("letter", partial(random_forest, None), None),
}


def make(name: str, folder: Path) -> None:
    """Train a model; save its forest, the walked one, its plan, and rows that none of them has seen."""
    folder.mkdir(parents=True, exist_ok=True)
    dataset, train, plan = MODELS[name]
    if "categories" in name:
        data = datasets.load(dataset)
        frame = data.frame()
        texts = [column for column in frame.columns if frame[column].dtype.kind not in "fi"]
        frame = frame.astype(dict.fromkeys(texts, "category"))
        order = np.random.default_rng(0).permutation(len(frame))
        model = train(frame.iloc[order[:MAX_TRAIN_ROWS]], data.y[order[:MAX_TRAIN_ROWS]])
        forest = scurry.from_model(model)
        rows = forest.encoder(frame[:10])(frame.iloc[np.resize(order[MAX_TRAIN_ROWS:], N_BATCH_ROWS)])
        rows = np.asarray(rows, np.float64)
    else:
        X, y = load(dataset)
        order = np.random.default_rng(0).permutation(len(X))
        training, rest = np.split(order, [min(MAX_TRAIN_ROWS, len(X) // 2)])
        seen, new = np.split(rest, [min(len(rest) // 2, MAX_CALIBRATION_ROWS)])
        forest, rows = scurry.from_model(train(X[training], y[training])), X[np.resize(new, N_BATCH_ROWS)]
        if plan is not None:
            plan(forest, X[seen]).save(folder / "plan.scurry")
    forest.save(folder / "forest.scurry")
    (walk(forest) if forest.engine.loop == "sliced" else forest).save(folder / "walked.scurry")
    np.save(folder / "rows.npy", rows)


def walk(forest: scurry.Forest) -> scurry.Forest:
    """Return the forest with one more round of trees, the first of which has 200 leaves, that add 0."""
    n_leaves, n_more = 200, forest.trees_per_round
    parts = {name: getattr(forest, name) for name in ("feature", "threshold", "left", "right", "default_left", "value")}
    inner = np.arange(2 * n_leaves - 1) < n_leaves - 1
    left = np.where(inner, 2 * np.arange(2 * n_leaves - 1) + 1, -1)
    sizes = [2 * n_leaves - 1, *[1] * (n_more - 1)]
    tiny = np.arange(2 * n_leaves - 1) * 1.5e-45  # values that differ, also in float32, and add nothing
    more = {
        "feature": np.where(inner, 0, -1),
        "threshold": np.where(inner, np.arange(2.0 * n_leaves - 1), 0.0),
        "left": np.where(inner, left + forest.n_nodes, -1),
        "right": np.where(inner, left + 1 + forest.n_nodes, -1),
        "default_left": np.zeros(2 * n_leaves - 1, bool),
        "value": np.repeat(tiny[:, None], forest.value.shape[1], axis=1),
    }
    leaf = {"feature": -1, "threshold": 0.0, "left": -1, "right": -1, "default_left": False, "value": 0.0}
    joined = {}
    for name, array in parts.items():
        rest = np.full((n_more - 1, *array.shape[1:]), leaf[name])
        joined[name] = np.concatenate([array, more[name], rest])
    n_new = sum(sizes)
    return forest.replace(
        **joined,
        tree_offset=np.concatenate([forest.tree_offset, forest.n_nodes + np.cumsum(sizes)]),
        cover=np.concatenate([forest.cover, np.full(n_new, np.nan)]),
        missing=np.concatenate([forest.missing, np.zeros(n_new, forest.missing.dtype)]),
        category_set=np.concatenate([forest.category_set, np.full(n_new, -1)]),
        tree_output=np.concatenate([forest.tree_output, forest.tree_output[:n_more]]),
    )


def race(folder: Path, n_rounds: int, builds: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return what each instruction set did, with each build."""
    workers = {
        (level, build): subprocess.Popen(
            [sys.executable, __file__, "--worker", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"SCURRY_ISA": level, "PYTHONPATH": path},
        )
        for level in LEVELS
        for build, path in builds.items()
    }
    about = {key: json.loads(worker.stdout.readline()) for key, worker in workers.items()}
    best: dict[tuple[str, str], dict[str, float]] = {key: {} for key in workers}
    for _ in range(n_rounds):
        for key, worker in workers.items():
            worker.stdin.write("go\n")
            worker.stdin.flush()
            for name, value in json.loads(worker.stdout.readline()).items():
                best[key][name] = min(best[key].get(name, np.inf), value)
    for worker in workers.values():
        worker.communicate()
    rows = {}
    for level in LEVELS:
        row, times = about[level, "now"], best[level, "now"]
        if "walked" in builds:
            times["walked_s"] = best[level, "walked"]["walked_s"]
        digests = {about[level, build].pop("digest") for build in builds}
        row["same_answers"] = row["same_answers"] and len(digests) == 1
        row["krows_per_s"], row["krows_per_s_walked"] = (round(20 / times[name]) for name in ("forest_s", "walked_s"))
        row["factor"] = round(times["walked_s"] / times["forest_s"], 2)
        if "plan_s" in times:
            row["krows_per_s_plan"] = round(20 / times["plan_s"])
            for name, over in (("walked", "walked_s"), ("own_loop", "forest_s")):
                row[f"efficiency_over_{name}"] = round(times[over] / times["plan_s"] * row["share_of_trees"], 3)
            warm = times["walked_s"] / min(times["plan_again_s"], times["plan_s"])
            row["efficiency_over_walked_warm"] = round(warm * row["share_of_trees"], 3)
            # What a row takes beside its trees, of the time of all trees: that of a plan of one tree, less a tree's.
            share = row["share_of_trees"]
            beside = max(times["one_tree_s"] / times["walked_s"] - row.pop("share_of_one"), 0.0)
            row["time_beside_trees"] = round(beside, 4)
            row["bound_estimate"] = round(share / (beside + (1 - beside) * share), 3)
        row |= {name: round(value, 2) for name, value in times.items() if name.endswith("_us")}
        if "before" in builds:
            before = best[level, "before"]
            row["speed_over_before"] = {name: round(before[name] / times[name], 2) for name in times if name in before}
        rows[level] = row
    return rows


def work(folder: Path) -> None:
    """Time forests and the plan each time a line comes in."""
    rows = np.load(folder / "rows.npy")
    forest, walked = scurry.load(folder / "forest.scurry"), scurry.load(folder / "walked.scurry")
    answers = [forest.scores(rows), forest.predict(rows)]
    same = bool((answers[0] == walked.scores(rows)).all() and (answers[1] == walked.predict(rows)).all())
    about: dict[str, Any] = {"loop": forest.engine.loop}
    batches, single = {"forest_s": forest, "walked_s": walked}, [rows[at].copy() for at in range(N_SINGLE_ROWS)]
    calls = {"one_row_us": (forest.one_row(), single), "predict_us": (forest.predict, [row[None] for row in single])}
    if (folder / "plan.scurry").exists():
        plan = scurry.load(folder / "plan.scurry")
        run = plan.run(rows)
        same = same and bool((run.labels == plan.predict(rows)).all())
        answers += [run.labels, run.trees]
        about["share_of_trees"] = round(float(run.trees.mean()) / forest.n_trees, 4)
        one_tree = stop_at_once(plan)
        about["share_of_one"] = float(one_tree.run(rows).trees.mean()) / walked.n_trees
        batches["plan_s"], calls["plan_one_row_us"] = plan, (plan.one_row(), single)
        # After another forest, a plan finds its trees and rows in farther caches than after itself.
        batches["plan_again_s"], batches["one_tree_s"] = plan, one_tree
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(answer).tobytes() for answer in answers)).hexdigest()
    print(json.dumps(about | {"same_answers": same, "digest": digest}), flush=True)
    for _ in sys.stdin:
        times = {}
        for name, one in batches.items():
            start = time.process_time()
            one.predict(rows)
            times[name] = time.process_time() - start
        for name, (call, given) in calls.items():
            median_us(call, given)  # the batch above has filled the caches
            times[name] = median_us(call, given) - clock_us()
        print(json.dumps(times), flush=True)


def stop_at_once(predictor: scurry.Predictor) -> scurry.Predictor:
    """Return the predictor with a plan by which every row stops after its first round, or at the first sentinel."""
    rule = predictor.plan.stop
    if isinstance(rule, ExitRule):
        lower, upper = rule.lower.copy(), rule.upper.copy()
        lower[1:], upper[1:] = np.iinfo(np.int32).max - 1, np.iinfo(np.int32).max
        rule = replace(rule, lower=lower, upper=upper)
    elif isinstance(rule, LeaderRule):
        lead = rule.lead.copy()
        lead[1:] = 0
        rule = replace(rule, lead=lead)
    else:
        rule = replace(rule, limits=np.full_like(rule.limits, 1e300))
    return scurry.Predictor(predictor.forest, replace(predictor.plan, stop=rule))


def clock_us() -> float:
    """Return what reading the clock takes."""
    times = [-time.perf_counter_ns() + time.perf_counter_ns() for _ in range(N_SINGLE_ROWS)]
    return float(np.median(times)) / 1000


def median_us(call: Callable[[Any], Any], rows: list[Any]) -> float:
    """Return the median time of a call."""
    times = []
    for row in rows:
        start = time.perf_counter_ns()
        call(row)
        times.append(time.perf_counter_ns() - start)
    return float(np.median(times)) / 1000


if __name__ == "__main__":
    raise SystemExit(main())
