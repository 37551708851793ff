"""Attack scurry: `python -m attack --models 1500 --pipelines 100 --files 20000 --calls 1500 --processes 60`.

Each attack is cut into slices, which children of this process run one after another. A slice that crashes or hangs
ends its child and is a finding; another child goes on after it. To repeat a finding, run its attack from its seed on,
here and without limits: `SCURRY_ISA=avx2 PYTHONPATH=tests python -m attack models 1 1230`.
"""

import argparse
import faulthandler
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path

from attack.findings import Findings

# How many items a slice has, and how many slices a child runs: importing the frameworks takes it ten seconds.
SLICES = {"models": 5, "pipelines": 5, "catboost": 5, "frames": 10, "files": 200, "calls": 20, "processes": 5}
N_SLICES = 60
MAX_SECONDS = float(os.environ.get("SCURRY_ATTACK_SECONDS", "240"))  # for a slice; a quiet machine takes a few
LEVELS = ("portable", "avx2", "avx512")


@dataclass(frozen=True)
class Part:
    """Items of one attack that a child runs, with the instruction set it may use."""

    attack: str
    n: int
    seed: int
    level: str


def slice_size(attack: str) -> int:
    return SLICES.get(attack, 1)


def run_here(attack: str, n: int, seed: int) -> Findings:
    """Run an attack in this process."""
    return importlib.import_module(f"attack.{attack}").attack(n, seed)


def run_child(part: Part) -> None:
    """Run a part slice by slice, and write the findings of each as a line of JSON."""
    size = slice_size(part.attack)
    for first in range(0, part.n, size):
        # A hang ends the process, and says where it was.
        faulthandler.dump_traceback_later(MAX_SECONDS, exit=True)
        findings = run_here(part.attack, min(size, part.n - first), part.seed + first)
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(findings.to_json()), flush=True)


def run_part(part: Part) -> Findings:
    """Run a part in children: one, and another after each that died."""
    total, size = Findings(), slice_size(part.attack)
    while part.n > 0:
        command = [sys.executable, "-X", "faulthandler", "-m", "attack", part.attack, str(part.n), str(part.seed)]
        environment = os.environ | {"SCURRY_ISA": part.level, "PYTHONPATH": os.pathsep.join(sys.path)}
        with tempfile.TemporaryFile("w+") as said:
            child = subprocess.Popen(
                [*command, "--child"], stdout=subprocess.PIPE, stderr=said, text=True, env=environment
            )
            assert child.stdout is not None
            n_slices = 0
            for line in child.stdout:
                total.add(Findings.from_json(json.loads(line)))
                n_slices += 1
            status = child.wait()
            said.seek(0)
            words = " ".join(said.read()[-3000:].split())
        if status == 0:
            break
        at = part.seed + n_slices * size
        total.problems.append(f"{part.attack} {at}: a process ended with status {status} in these {size}: {words}")
        done = (n_slices + 1) * size
        part = replace(part, n=part.n - done, seed=part.seed + done)
    total.problems = [f"SCURRY_ISA={part.level} {problem}" for problem in total.problems]
    return total


def best_level() -> str:
    """Return the best instruction set of this machine."""
    from scurry import _core

    return _core.kernels()


def run_all(amounts: dict[str, int], seed: int, n_jobs: int, path: Path | None) -> dict[str, Findings]:
    """Run all attacks, every instruction set in turn; print what each part has found, and write it to `path`."""
    levels = LEVELS[: LEVELS.index(best_level()) + 1]
    parts, level = [], cycle(levels)
    for attack, n in amounts.items():
        size = SLICES[attack] * N_SLICES
        parts += [Part(attack, min(size, n - at), seed + at, next(level)) for at in range(0, n, size)]
    found = {attack: Findings() for attack in amounts}
    begin = time.monotonic()
    with ThreadPoolExecutor(n_jobs) as pool:
        for part, findings in zip(parts, pool.map(run_part, parts), strict=True):
            found[part.attack].add(findings)
            for problem in findings.problems:
                print(problem, flush=True)
            seconds = round(time.monotonic() - begin)
            at = f"{part.attack} {part.seed}–{part.seed + part.n - 1} ({part.level})"
            print(f"{seconds:6} s  {at}: {len(findings.problems)} problems", flush=True)
            if path is not None:
                result = {
                    "date": datetime.now(UTC).strftime("%Y-%m-%d"),
                    "seed": seed,
                    "seconds": seconds,
                    "asked": amounts,
                    "instruction sets": levels,
                    "found": {attack: findings.to_json() for attack, findings in found.items()},
                }
                path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Attack scurry.")
    parser.add_argument("repeat", nargs="*", help="an attack, a number of items and a seed, to repeat a finding")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    for attack in SLICES:
        parser.add_argument(f"--{attack}", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=None, help="of the first item (default: drawn)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="where counts and problems are written")
    options = parser.parse_args()
    if options.repeat:
        attack, n, seed = options.repeat[0], int(options.repeat[1]), int(options.repeat[2])
        if options.child:
            run_child(Part(attack, n, seed, ""))
            return
        findings = run_here(attack, n, seed)
        print(json.dumps(findings.to_json(), indent=2, ensure_ascii=False))
        sys.exit(bool(findings.problems))
    seed = int.from_bytes(os.urandom(4)) if options.seed is None else options.seed
    amounts = {attack: getattr(options, attack) for attack in SLICES if getattr(options, attack)}
    print(f"seed {seed}", flush=True)
    found = run_all(amounts, seed, options.jobs, options.json)
    n_problems = sum(len(findings.problems) for findings in found.values())
    for attack, findings in found.items():
        counted = ", ".join(f"{name} {n:,}" for name, n in sorted(findings.counts.items()))
        print(f"{attack}: {len(findings.problems)} problems; {counted}")
    print(f"{n_problems} problems, seed {seed}")
    sys.exit(bool(n_problems))


if __name__ == "__main__":
    main()
