"""Instructions that the kernels execute per node visit on other processors, counted by qemu-user.

No other processor is at hand, so speed there cannot be measured; but a loop that a compiler takes apart shows in the
number of instructions. A program without Python (benchmarks/instruction_counts.cc) scores the same 1,024 rows with the
same forests. It is run one instruction at a time, and those at the addresses of kernels are counted, less those of a
run without rows: lowering a forest uses kernels too. qemu 7.2 has no AVX-512. The scores must be equal to the last bit.

    make aarch64

builds the programs and writes benchmarks/results/instruction-counts.json. The exit code is 1 if a score differs, or if
aarch64 takes more than twice the instructions of x86-64's portable kernels, whose registers are as long.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import scurry
from report import commit
from scurry import datasets

RESULTS = Path(__file__).parent / "results" / "instruction-counts.json"
N_ROWS, N_TREES = 1024, 50  # rows of the largest slice; few trees, because every instruction is logged
LEVELS = {"aarch64": ("aarch64", "portable"), "x86-64 portable": ("x86_64", "portable"), "avx2": ("x86_64", "avx2")}
MAX_RATIO = 2.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aarch64", type=Path, required=True, help="the program built for aarch64")
    parser.add_argument("--x86-64", type=Path, required=True, help="the program built for x86-64")
    arguments = parser.parse_args()
    programs = {"aarch64": arguments.aarch64, "x86_64": arguments.x86_64}
    rows, good = [], True
    for title, (model, X) in make_models().items():
        forest = scurry.from_model(model)
        n_visits = int(forest.node_depth[forest.apply(X)].sum())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "forest"
            path.write_bytes(pack(forest, X))
            nothing = Path(folder) / "no rows"
            nothing.write_bytes(pack(forest, X[:0]))
            found = {
                name: count_scoring(programs[machine], machine, isa, path, nothing)
                for name, (machine, isa) in LEVELS.items()
            }
        per_visit = {name: round(sum(counts.values()) / n_visits, 2) for name, (_, counts) in found.items()}
        ratio = per_visit["aarch64"] / per_visit["x86-64 portable"]
        same = len({said.split()[2] for said, _ in found.values()}) == 1
        good = good and same and ratio <= MAX_RATIO
        rows.append(
            {
                "model": title,
                "loop": found["aarch64"][0].split()[1],
                "node_visits_per_row": round(n_visits / N_ROWS, 1),
                "instructions_per_node_visit": per_visit,
                "aarch64_over_x86_64_portable": round(ratio, 2),
                "same_scores": same,
                "by_kernel": {name: dict(counts.most_common(5)) for name, (_, counts) in found.items()},
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    result = {
        "title": "Instructions per node visit",
        "date": datetime.now(tz=UTC).date().isoformat(),
        "commit": commit(),
        "conditions": f"{N_ROWS} rows, {N_TREES} trees, kernels only (encoding to sums, not lowering); qemu",
        "command": "make aarch64",
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if good else 1


def make_models() -> dict[str, tuple[Any, Any]]:
    """A forest, a boosted model and one of symmetric trees, each for one of the loops, and rows."""
    import catboost
    from sklearn.ensemble import RandomForestClassifier
    from xgboost import XGBClassifier

    data = datasets.load("adult")
    X, y = np.nan_to_num(data.X, nan=-1.0).astype(np.float32), data.y
    order = np.random.default_rng(0).permutation(len(X))
    train, held_out = order[:8000], order[8000 : 8000 + N_ROWS]
    options = {"depth": 6, "verbose": 0, "random_seed": 0, "allow_writing_files": False, "thread_count": 1}
    models = {
        f"random forest {N_TREES} × depth 10": RandomForestClassifier(N_TREES, max_depth=10, random_state=0),
        f"XGBoost {N_TREES} × depth 6": XGBClassifier(n_estimators=N_TREES, max_depth=6, random_state=0, n_jobs=1),
        f"CatBoost {N_TREES} × depth 6": catboost.CatBoostClassifier(iterations=N_TREES, **options),
    }
    codes = np.unique(y, return_inverse=True)[1]
    return {title: (model.fit(X[train], codes[train]), X[held_out]) for title, model in models.items()}


def pack(forest: scurry.Forest, X: Any) -> bytes:
    """The arrays of a forest and rows, as the program reads them."""
    if len(forest.category_bits):
        raise SystemExit("forests with categories are not counted")
    header = [
        forest.n_features,
        ("mean", "vote", "sum").index(forest.aggregation),
        np.dtype(forest.input_dtype) == np.float32,
        np.dtype(forest.score_dtype) == np.float32,
        forest.comparison == "<",
    ]
    arrays = [
        np.array(header, np.int64),
        forest.tree_offset.astype(np.int64),
        *(getattr(forest, name).astype(np.int32) for name in ("feature", "left", "right")),
        forest.threshold.astype(np.float64),
        forest.default_left.astype(np.uint8),
        forest.missing.astype(np.uint8),
        forest.value.astype(np.float64),
        forest.tree_output.astype(np.int32),
        forest.base_score.astype(np.float64),
        np.ascontiguousarray(X, np.float32),
    ]
    return b"".join(struct.pack("<Q", array.nbytes) + array.tobytes() for array in arrays)


def count_scoring(
    program: Path, machine: str, isa: str, path: Path, nothing: Path
) -> tuple[str, collections.Counter[str]]:
    """What the program said, and how many instructions each kernel executed for the rows alone."""
    said, counts = count(program, machine, isa, path)
    return said, counts - count(program, machine, isa, nothing)[1]


def count(program: Path, machine: str, isa: str, path: Path) -> tuple[str, collections.Counter[str]]:
    """What the program said, and how many instructions each kernel executed."""
    functions = kernels_in(program, machine, isa)
    ranges = ",".join(f"{begin:#x}+{size:#x}" for begin, size, _ in functions)
    command = [f"qemu-{machine}-static", "-singlestep", "-d", "exec,nochain", "-dfilter", ranges, "-D", "/dev/stderr"]
    command += ["-cpu", "max"] if machine == "x86_64" else []
    counts: collections.Counter[int] = collections.Counter()
    process = subprocess.Popen(
        [*command, str(program), str(path)],
        env=os.environ | {"SCURRY_ISA": isa},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        # Trace 0: 0x7f… [flags/address/flags/flags] symbol
        counts[int(line.split("/", 2)[1], 16)] += 1
    said = process.stdout.read()
    if process.wait() != 0:
        raise SystemExit(f"{program} failed on {isa}")
    by_name: collections.Counter[str] = collections.Counter()
    begins = np.array([begin for begin, _, _ in functions])
    for address, n in counts.items():
        by_name[functions[int(np.searchsorted(begins, address, "right")) - 1][2]] += n
    return said, by_name


def kernels_in(program: Path, machine: str, isa: str) -> list[tuple[int, int, str]]:
    """Where the functions of an instruction set begin, their sizes and names, by address."""
    nm = "aarch64-linux-gnu-nm" if machine == "aarch64" else "nm"
    listing = subprocess.run([nm, "-CS", "--defined-only", str(program)], capture_output=True, text=True, check=True)
    functions = []
    for line in listing.stdout.splitlines():
        found = re.fullmatch(rf"(\w+) (\w+) [tTwW] (?:.* )?scurry::{isa}::(?:\(anonymous namespace\)::)?(\w+).*", line)
        if found:
            functions.append((int(found[1], 16), int(found[2], 16), found[3]))
    return sorted(functions)


if __name__ == "__main__":
    sys.exit(main())
