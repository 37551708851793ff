"""Speed of scurry beside other engines on real data, and the labels each of them changes.

Every cell fits a model and gives it to each engine; they take turns, and the best of several rounds counts. Tables are
printed and written to ``benchmarks/results``. With ``--store``, figures go to one file for each kind of machine and
instruction set there, which the documentation is made of; cells that are not run keep what they had. The exit code is 1
if scurry changes a label.

    python benchmarks/peers.py --cells 'adult/*' letter/rf --repeats 15 --store
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import re
import sys
import warnings
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import tables
from cells import CELLS, N_BATCH_ROWS, Cell, fit
from report import commit, cpu_model, version
from scurry import _core
from scurry.errors import ScurryError
from timing import MAX_BATCH_S, N_SINGLE_ROWS, Result, compare

FOLDER = Path(__file__).parent
PACKAGES = ["scurry", "scikit-learn", "scikit-learn-intelex", "treelite", "onnxruntime", "skl2onnx", "onnxmltools"]
PACKAGES += ["lleaves", "llvmlite", "lightgbm", "xgboost-cpu", "catboost", "hessboost", "tl2cgen", "snapml", "ydf"]
PACKAGES += ["nvforest-cu12", "numpy"]
SMALLER = {"avx512": ("avx2",)}  # instruction sets that a better processor runs as well


def main() -> int:
    arguments = _arguments()
    n_repeats, n_row_calls = (3, 64) if arguments.quick else (arguments.repeats, N_SINGLE_ROWS)
    # Frameworks that were fitted on arrays warn at each prediction that arrays have no column names.
    warnings.filterwarnings("ignore", category=UserWarning)
    header = _header(n_repeats, n_row_calls)
    path = FOLDER / "results" / f"peers-{header['date'][:16].replace(':', '')}-{header['commit']}"
    results: dict[Cell, Result] = {}
    skipped: dict[str, str] = {}
    texts = [_heading(header)]
    print(texts[0], flush=True)
    for cell in arguments.cells:
        try:
            task = fit(cell)
        except (ScurryError, ImportError) as error:
            skipped[cell.name] = str(error)
            texts.append(f"### {cell.title}\n\n" + tables.wrapped(f"- skipped: {error}", indent="  "))
        else:
            # A batch of a million rows takes as long as many rounds.
            n_rounds = max(2, n_repeats * N_BATCH_ROWS // cell.n_rows)
            results[cell] = compare(task, n_rounds, n_row_calls, SMALLER.get(_core.kernels(), ()))
            texts.append(tables.cell_text(cell.title, results[cell]))
            if arguments.store:
                _store(cell, header | {"n_repeats": n_rounds}, results[cell])
        print(f"\n{texts[-1]}", flush=True)
        _write(path, header | {"skipped": skipped}, texts, results)
    print(f"\n{_summary(results)}\n\nWritten to {path}.md and .json")
    exact = all("scurry" in r.speeds and r.speeds["scurry"].n_changed == 0 for r in results.values())
    return 0 if exact else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ", ".join(cell.name for cell in CELLS)
    parser.add_argument("--cells", nargs="+", default=["*"], metavar="NAME", help=f"patterns are allowed; all: {names}")
    parser.add_argument("--repeats", type=int, default=15, metavar="N", help="rounds, of which the best counts")
    parser.add_argument("--store", action="store_true", help="keep the figures for the documentation")
    parser.add_argument("--quick", action="store_true", help="three short rounds: for trying out, not for figures")
    arguments = parser.parse_args()
    unknown = [wanted for wanted in arguments.cells if not any(fnmatchcase(cell.name, wanted) for cell in CELLS)]
    if unknown:
        parser.error(f"no cell is called {unknown[0]}; there are {names}")
    if arguments.repeats < 1:
        parser.error(f"--repeats must be at least 1, got {arguments.repeats}")
    arguments.cells = [c for c in CELLS if any(fnmatchcase(c.name, wanted) for wanted in arguments.cells)]
    return arguments


def _header(n_repeats: int, n_row_calls: int) -> dict[str, Any]:
    """When, where and how the figures were measured."""
    return {
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": cpu_model(),
        "n_cores": os.cpu_count(),
        "kernels": _core.kernels(),
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "load_average_at_start": os.getloadavg()[0],
        "versions": {package: version(package) for package in PACKAGES},
        "n_repeats": n_repeats,
        "n_row_calls": n_row_calls,
    }


def _heading(header: dict[str, Any]) -> str:
    machine = (
        f"{header['cpu']}, {header['n_cores']} cores, scurry's {header['kernels']} kernels; {header['system']}; "
        f"{header['date']}, commit {header['commit']}; load average {header['load_average_at_start']:.1f} at the start."
    )
    versions = ", ".join(f"{package} {version}" for package, version in header["versions"].items())
    protocol = (
        f"Batches of {N_BATCH_ROWS:,} held-out rows, repeated where a dataset has fewer, as float32, NaN coded -1. "
        f"Engines take turns; the shortest of {header['n_repeats']} rounds counts: of wall time, and with one thread "
        f"also of CPU time, which other work hardly touches. After {MAX_BATCH_S:.0f} s an engine leaves out the other "
        f"rounds. One row: {header['n_row_calls']} calls from "
        f"Python a round, over {N_SINGLE_ROWS} different rows; the lowest p50 and p99 of the rounds. Where an engine "
        "returns probabilities, turning them into labels is not timed. Labels changed: against the source model's own "
        "predict, on the held-out rows."
    )
    paragraphs = map(tables.wrapped, (machine, f"{versions}.", protocol))
    return "\n\n".join(["# Speed beside other engines", *paragraphs])


def _summary(results: dict[Cell, Result]) -> str:
    legend = (
        "krows/s, × own framework, × oneDAL, × the best of all others: one thread, by CPU time. 2 threads: over one, "
        "by wall time. p50: one row from Python; ÷ best: its share of the best other engine's. Changed: labels."
    )
    table = tables.summary_text({cell.name: result for cell, result in results.items()})
    return "\n\n".join(["## scurry in one table", table, tables.wrapped(legend)])


def _write(path: Path, header: dict[str, Any], texts: list[str], results: dict[Cell, Result]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".md").write_text("\n\n".join([*texts, _summary(results)]) + "\n", encoding="utf-8")
    cells = {}
    for cell, result in results.items():
        found = tables.ratios(result.speeds)
        cells[cell.name] = dataclasses.asdict(result) | {"ratios": found and dataclasses.asdict(found)}
    document = header | {"load_average_at_end": os.getloadavg()[0], "cells": cells}
    path.with_suffix(".json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _store(cell: Cell, header: dict[str, Any], result: Result) -> None:
    """Put a cell into the files of this kind of machine, one for each instruction set."""
    kind = re.sub(r"[^a-z0-9]+", "-", header["cpu"].lower()).strip("-")
    ours = {header["kernels"]: result.speeds.get("scurry")} | result.smaller
    for level, speed in ours.items():
        path = FOLDER / "results" / f"speed-{kind}-{level}.json"
        stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"cells": {}}
        speeds = result.speeds if speed is None else result.speeds | {"scurry": speed}
        told = {name: header[name] for name in ("date", "commit", "load_average_at_start", "n_repeats", "versions")}
        stored["cells"][cell.name] = (
            {"title": cell.title, "n_rows": cell.n_rows}
            | told
            | {"speeds": {name: dataclasses.asdict(one) for name, one in speeds.items()}, "refused": result.refused}
        )
        order = [one.name for one in CELLS]
        document = {
            "title": "Speed beside other engines",
            "machine": header["cpu"],
            "n_cores": header["n_cores"],
            "instruction_set": level,
            "command": "make bench BENCH_FLAGS=--store",
            "cells": dict(sorted(stored["cells"].items(), key=lambda item: order.index(item[0]))),
        }
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
