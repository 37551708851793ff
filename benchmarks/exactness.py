"""Labels of imported models on rows made to find differences from their frameworks, by a pool of processes.

    python benchmarks/exactness.py --jobs 16 --seconds 3000 --seed 1 --out exactness.json
    python benchmarks/exactness.py --kinds pipelines onnx --rows 1000000

Every kind gets random models, one for each seed, each with `--rows-per-model` rows on thresholds and next to them,
until it has `--rows` rows or the time is over. The file is complete after every model, and another run of the same
commit goes on from it: models of later seeds, until a kind has its rows. A problem names its kind and
seed; repeat it by
``--kinds KIND --seed SEED --models 1``. Scores of CatBoost are compared to the last bit too.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import scurry
from jobs import run_jobs
from report import RESULTS, commit, machine
from wrappers_exact import FAMILIES
from wrappers_exact import compare as compare_wrapper

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from attack.findings import Findings
from support.strategies import adversarial_rows

Found = dict[str, Any]
Compare = Callable[[int, int], Found]
"""Compares the model of a seed on so many rows; returns models, rows and problems, and what else it counts."""
_NOT_ADDED = "largest difference"


def compare_pipeline(seed: int, n_rows: int) -> Found:
    """Compare a pipeline of `tests/attack`."""
    from attack.pipelines import attack

    return _count(attack(1, seed, n_rows), "pipeline rows")


def compare_catboost(features: str, seed: int, n_rows: int) -> Found:
    """Compare a model of CatBoost of `tests/attack`."""
    from attack.catboost import attack

    return _count(attack(1, seed, n_rows, features), "rows compared with CatBoost")


def _count(findings: Findings, rows: str) -> Found:
    counts = dict(findings.counts)
    return counts | {"models": 1, "rows": counts.pop(rows, 0), "problems": findings.problems}


def compare_onnx(seed: int, n_rows: int) -> Found:
    """Compare a model with what scurry reads of the ONNX file that it writes, in both versions of the operators."""
    from attack.sources import draw

    rng = np.random.default_rng([11, seed])
    source = draw(rng)
    try:
        forest = source.model if isinstance(source.model, scurry.Forest) else scurry.from_model(source.model)
    except (scurry.errors.UnsupportedModelError, scurry.errors.FormatError):  # such as categories beyond 2^24
        return {"refused by scurry": 1}
    with tempfile.TemporaryDirectory() as folder:
        try:
            written = scurry.export.to_onnx(forest, Path(folder) / "model.onnx")
        except scurry.errors.InputError:
            return {"refused by to_onnx": 1}
        again = scurry.from_model(written.path)
    with np.errstate(over="ignore"):
        rows = adversarial_rows(forest, source.X, n_rows, seed).astype(forest.input_dtype)
    # The file asks for whole codes in these columns: LightGBM truncates others, which no set of ONNX has.
    coded = [column for column in range(forest.n_features) if forest.name_of(column) in written.coded]
    rows[:, coded] = np.trunc(rows[:, coded])
    n_changed = int((again.predict(rows) != forest.predict(rows)).sum())
    found: Found = {"models": 1, "rows": len(rows), "differing labels": n_changed}
    if not isinstance(source.model, scurry.Forest) and forest.is_classifier:
        rows = rows[source.accepts(rows)]
        found["rows compared with the framework"] = len(rows)
        n_changed = int((again.predict(rows) != source.model.predict(rows)).sum()) if len(rows) else 0
        found["differing labels"] += n_changed
    return found


KINDS: dict[str, Compare] = {
    **{family: partial(compare_wrapper, family) for family in FAMILIES},
    "pipelines": compare_pipeline,
    "catboost numbers": partial(compare_catboost, "numbers"),
    "catboost categories": partial(compare_catboost, "categories"),
    "catboost combinations": partial(compare_catboost, "combinations"),
    "onnx": compare_onnx,
}


_rows_of = get_context("fork").Array("q", len(KINDS))
"""Rows that each kind has; all processes see them."""


def compare(n_enough: int, n_rows: int, job: tuple[str, int]) -> Found | None:
    """Compare one model, unless its kind has rows enough."""
    kind, seed = job
    at = list(KINDS).index(kind)
    if _rows_of[at] >= n_enough:
        return None
    with threadpool_limits(1), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = KINDS[kind](seed, n_rows)
    with _rows_of.get_lock():
        _rows_of[at] += found.get("rows", 0)
    return found | {"process": os.getpid()}


def add(total: Found, found: Found, seed: int) -> None:
    """Add what the model of a seed gave to what its kind gave."""
    if found.get("differing labels"):
        problems = [f"{found['differing labels']} of {found['rows']} labels differ"]
        found = found | {"problems": [*found.get("problems", []), *problems]}
    for name, value in found.items():
        if name == "problems":
            total["problems"] += [f"seed {seed}: {problem}" for problem in value]
        elif name == _NOT_ADDED:
            total[name] = max(total.get(name, 0.0), value)
        elif isinstance(value, int) and name != "process":
            total[name] = total.get(name, 0) + value


def run(kinds: Sequence[str], options: argparse.Namespace) -> bool:
    """Run a pool, write what it finds, and return whether there was no problem."""
    faulthandler.enable()  # a process that crashes says where; its model is missing in the counts
    begun = time.monotonic()
    found: Found = {kind: {"models": 0, "rows": 0, "differing labels": 0, "problems": []} for kind in kinds}
    before = json.loads(options.out.read_text()) if options.models is None and options.out.exists() else {}
    if before.get("commit") == commit():
        found |= before["kinds"]
        begun -= before["seconds"]
    n_seeds = options.models or 4 * -(-options.rows // options.rows_per_model)
    first = {kind: found[kind].get("last seed", options.seed - 1) + 1 for kind in kinds}
    jobs = [(kind, first[kind] + at) for at in range(n_seeds) for kind in kinds]
    for at, kind in enumerate(KINDS):
        _rows_of[at] = found.get(kind, {}).get("rows", 0)
    result: Found = {
        "title": "Labels on hostile rows",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "machine": machine(),
        "jobs": options.jobs,
        "first seed": options.seed,
        "rows per model": options.rows_per_model,
        "kinds": found,
    }
    n_enough = options.rows if options.models is None else 2**62
    processes = set()
    for (kind, seed), one, error in run_jobs(
        partial(compare, n_enough, options.rows_per_model), jobs, options.jobs, options.seconds
    ):
        if one is None and not error:
            continue
        one = {"problems": [error]} if error else one
        add(found[kind], one, seed)
        processes.add(one.get("process", 0))
        found[kind]["last seed"] = max(seed, found[kind].get("last seed", seed))
        result["seconds"] = round(time.monotonic() - begun)
        options.out.write_text(json.dumps(result, indent=1) + "\n")
        for problem in one.get("problems", []):
            print(f"{kind} {seed}: {problem}", flush=True)
    for kind, total in found.items():
        print(kind, total, flush=True)
    # A pool replaces a process that dies, and never ends the model it was at.
    n_died = max(len(processes - {0}) - options.jobs, 0)
    result["processes that died"] = n_died
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    return not n_died and not any(total["problems"] for total in found.values())


def parse(description: str, out: Path) -> argparse.ArgumentParser:
    """Return a parser of the options that every run has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, help="Processes.")
    parser.add_argument("--seconds", type=float, default=600.0, help="Stop after this time.")
    parser.add_argument("--seed", type=int, default=0, help="Of the first model of every kind.")
    parser.add_argument("--rows", type=int, default=10_000_000, help="Rows for each kind.")
    parser.add_argument("--rows-per-model", type=int, default=50_000)
    parser.add_argument("--models", type=int, help="So many models of each kind, whatever their rows.")
    parser.add_argument("--out", type=Path, default=out, help="Where the counts are written, as JSON.")
    return parser


def main() -> None:
    parser = parse(__doc__, RESULTS / "exactness.json")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    options = parser.parse_args()
    sys.exit(not run(options.kinds, options))


if __name__ == "__main__":
    main()
