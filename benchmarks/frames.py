"""Frames: how long an early exit and the conversion before it take, beside those of another checkout of scurry.

A frame of 40 columns, 28 of them categorical, as pandas, polars and Arrow hold it. Two processes, one for each
checkout, take turns call by call, so that both see the same load of the machine; the least CPU time of each counts.

    git worktree add ../before <commit> && <build it>
    python benchmarks/frames.py --before ../before/src
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

N_ROWS, N_COLUMNS, N_TREES = 20_000, 40, 300
SIZES = (2, 3, 5, 9, 17, 24, 38, 52)  # categories of the categorical columns
HERE = Path(__file__).parent
WORK = {"rows": "conversion", "predict": "early exit"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="SRC", help="folder that holds the other scurry package")
    parser.add_argument("--rounds", type=int, default=15, metavar="N")
    parser.add_argument("--worker", metavar="MODEL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments.worker)
    if not arguments.before:
        parser.error("--before is needed")
    return compare(arguments.before, arguments.rounds)


def compare(before: str, n_rounds: int) -> None:
    import lightgbm

    from report import Report

    report = Report(
        "frames",
        "Frames",
        f"{N_COLUMNS} columns, 28 categorical; LightGBM of {N_TREES} trees, early exit at 0.5 %; least CPU time of "
        f"{n_rounds} rounds in which both checkouts take turns. Before: commit {_commit(before)}.",
        ["lightgbm", "pandas", "polars", "pyarrow"],
    )
    frames, labels = make_frames()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.txt")
        model = lightgbm.LGBMClassifier(n_estimators=N_TREES, n_jobs=1, verbose=-1).fit(
            frames["pandas category"][::2], labels[::2]
        )
        model.booster_.save_model(path)
        both = [Worker(source, path) for source in (before, str(HERE.parent / "src"))]
        for what, title in WORK.items():
            for n_rows in (N_ROWS, 1):
                table = []
                for name in frames:
                    times = [
                        min(times)
                        for times in zip(
                            *([worker.ask(what, name, n_rows) for worker in both] for _ in range(n_rounds)), strict=True
                        )
                    ]
                    table.append(
                        [name, f"{times[0] * 1e3:.3f}", f"{times[1] * 1e3:.3f}", f"{times[0] / times[1]:.2f} ×"]
                    )
                rows = "one row" if n_rows == 1 else f"{n_rows:,} rows"
                report.table(f"{title.capitalize()} of {rows}, ms", ["frame", "before", "now", "times faster"], table)
        answers = [worker.ask("digest", "pandas category", N_ROWS) for worker in both]
        same = "the same" if answers[0] == answers[1] else "DIFFERENT"
        report.say(f"Labels of all trees are {same} before and now; each checkout fits its own early exit.")
    report.close()


class Worker:
    """A process that imports one of the checkouts and answers with times in seconds."""

    def __init__(self, source: str, model: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker", model],
            env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, *question: Any) -> float:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process has no pipes")
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: float = json.loads(self._process.stdout.readline())
        return answer


def work(model: str) -> None:
    import scurry
    from scurry.forest import as_rows

    frames, _ = make_frames()
    forest = scurry.from_model(model)
    fast = scurry.early_exit(forest, frames["pandas category"][1::2], max_disagreement=0.005, random_state=0)
    calls = {"rows": partial(as_rows, forest), "predict": fast.predict}
    single = {name: frame.iloc[:1] if hasattr(frame, "iloc") else frame[:1] for name, frame in frames.items()}
    for line in sys.stdin:
        what, name, n_rows = json.loads(line)
        X = single[name] if n_rows == 1 else frames[name]
        if what == "digest":
            answer = float((forest.predict(X) * np.arange(1, len(X) + 1)).sum())
        else:
            answer = _shortest(partial(calls[what], X), 20 if n_rows == 1 else 1)
        print(json.dumps(answer), flush=True)


def _shortest(call: Any, n_calls: int) -> float:
    best = float("inf")
    for _ in range(n_calls):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def make_frames() -> tuple[dict[str, Any], Any]:
    """The same rows as each library holds them, and their labels."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    rng = np.random.default_rng(0)
    texts, numbers = {}, {}
    for column in range(N_COLUMNS):
        if column % 10 < 7:
            size = SIZES[column % len(SIZES)]
            texts[f"c{column}"] = rng.choice([f"{'category' * (1 + k % 2)} {k}" for k in range(size)], N_ROWS).astype(
                object
            )
        else:
            numbers[f"x{column}"] = np.where(rng.random(N_ROWS) < 0.02, np.nan, rng.normal(size=N_ROWS))
    objects = pd.DataFrame({**{name: pd.Series(values, dtype=object) for name, values in texts.items()}, **numbers})
    strings, categories = objects.astype(dict.fromkeys(texts, "str")), objects.astype(dict.fromkeys(texts, "category"))
    signal = np.nan_to_num(numbers["x7"]) + sum((values == values[0]) * 0.8 for values in texts.values())
    labels = (signal + rng.normal(size=N_ROWS) > np.median(signal)).astype(int)
    plain = pl.from_pandas(strings)
    frames = {
        "pandas category": categories,
        "pandas object": objects,
        "pandas str": strings,
        "polars categorical": plain.with_columns(pl.col(name).cast(pl.Categorical) for name in texts),
        "polars string": plain,
        "Arrow dictionary": pa.Table.from_pandas(categories, preserve_index=False),
        "Arrow string": pa.Table.from_pandas(strings, preserve_index=False),
    }
    return frames, labels


def _commit(folder: str) -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short=10", "HEAD"], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
