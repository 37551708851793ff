"""Plant realistic mistakes one at a time and see whether the tests notice: `make mutants`.

The mistakes are in the ``.toml`` files next to this one. Each names a file, a piece of its text that occurs exactly
once, what replaces it, and the tests that should fail then. Mistakes are planted in a copy of the tree, never in the
checkout.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from multiprocessing import Queue, get_context
from pathlib import Path
from queue import Empty
from typing import NoReturn

import pytest

HERE = Path(__file__).parent
TOP = HERE.parents[1]
RESULTS = TOP / "benchmarks" / "results" / "mutants.json"
LEAST_SHARE = 0.92
HARMS = ("answer", "promise", "number", "other")
# What pytest returns: tests failed, or could not even be collected. Anything below 0 is a crash.
_FAILED, _INTERRUPTED, _NO_TESTS = 1, 2, 5
_SECONDS = 900
_PACKAGES = (
    "hypothesis.strategies",
    "lightgbm",
    "numpy",
    "pandas",
    "polars",
    "pyarrow.parquet",
    "scipy.stats",
    "sklearn.ensemble",
    "xgboost",
)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A mistake that the tests should notice.

    Attributes
    ----------
    name : str
        The list it is in, and its place there: "plan 3".
    mistake : str
        What goes wrong, in words.
    file : str
        From the top of the repository.
    find, put : str
        A piece of the file's text, which must occur exactly once, and what replaces it.
    tests : tuple of str
        Files or single tests.
    harm : {"answer", "promise", "number", "other"}
        What a user would get wrong. Only "other" (speed, memory, messages) may go unnoticed.
    equivalent : str
        Why nobody could notice; empty if somebody could.
    """

    name: str
    mistake: str
    file: str
    find: str
    put: str
    tests: tuple[str, ...]
    harm: str = "answer"
    equivalent: str = ""

    @property
    def is_native(self) -> bool:
        return self.file.startswith("core/")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of a mistake: "killed", "survived", "equivalent", or "not applicable" if it could not be planted."""

    name: str
    mistake: str
    harm: str
    outcome: str
    seconds: float = 0.0
    note: str = ""

    @property
    def is_tolerable(self) -> bool:
        return self.outcome in ("killed", "equivalent") or (self.outcome == "survived" and self.harm == "other")


def read_mutants(folder: Path = HERE) -> list[Mutant]:
    """Return all mistakes of the lists in `folder`."""
    known = {field.name for field in fields(Mutant)} - {"name"}
    mutants = []
    for path in sorted(folder.glob("*.toml")):
        for place, entry in enumerate(tomllib.loads(path.read_text())["mutant"], 1):
            if unknown := set(entry) - known:
                raise ValueError(f"{path.name}: entry {place} has unknown fields {sorted(unknown)}")
            mutant = Mutant(name=f"{path.stem} {place}", **entry | {"tests": tuple(entry["tests"])})
            if mutant.harm not in HARMS:
                raise ValueError(f"{mutant.name}: harm must be one of {HARMS}")
            mutants.append(mutant)
    return mutants


def find_problem(mutant: Mutant, top: Path) -> str:
    """Return why a mistake cannot be planted in the tree `top`; empty if it can."""
    path = top / mutant.file
    if not path.is_file():
        return f"there is no {mutant.file}"
    n_found = path.read_text().count(mutant.find)
    if n_found != 1:
        return f"its text occurs {n_found} times in {mutant.file}"
    if mutant.find == mutant.put:
        return "it changes nothing"
    missing = [test for test in mutant.tests if not (top / test.partition("::")[0]).exists()]
    return f"there is no {missing[0]}" if missing else ""


@contextmanager
def planted(mutant: Mutant, top: Path) -> Iterator[None]:
    """Plant a mistake in the tree `top` for as long as the block lasts."""
    path = top / mutant.file
    sound = path.read_text()
    path.write_text(sound.replace(mutant.find, mutant.put))
    # Compiled files of the same second and size would be taken for up to date.
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
    try:
        yield
    finally:
        path.write_text(sound)
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)


def copy_tree(top: Path, target: Path) -> None:
    """Copy what git knows or would know of the checkout `top`, and the compiled core that is in use."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=top,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (top / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(top / name, target / name)
    # Not in this process: where a library that is in use is built again, its processes crash.
    program = [sys.executable, "-c", "import scurry._core as core; print(core.__file__)"]
    core = subprocess.run(program, capture_output=True, text=True)
    if core.returncode:
        raise SystemExit("scurry is not built; run `make test` first")
    shutil.copy2(core.stdout.strip(), target / "src" / "scurry")


def run_tests(top: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests in the tree `top` up to the first failure; return pytest's exit status and its last line.

    A copy of this process runs them, in which other packages are imported already: that takes longer than most tests.
    """
    for name in _PACKAGES:
        with suppress(ImportError):
            importlib.import_module(name)
    with tempfile.TemporaryFile("w+") as output:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            _run_and_exit(top, tests, output.fileno())
        status = _wait(pid)
        if status is None:
            return _FAILED, f"no answer within {_SECONDS} s"
        output.seek(0)
        lines = output.read().splitlines()
    failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return status, (failures or lines or [""])[-1]


def _run_and_exit(top: Path, tests: Sequence[str], output: int) -> NoReturn:
    """Run tests in this process, and end it."""
    status = _INTERRUPTED
    try:
        os.setsid()  # so that processes that tests start can be ended with it
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout = sys.stderr = open(1, "w", closefd=False)  # noqa: SIM115
        os.chdir(top)
        # An editable install in this environment would be imported instead of the tree, by processes of tests as well.
        sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
        sys.path.insert(0, str(top / "src"))
        for name in [name for name in sys.modules if name.partition(".")[0] == "scurry"]:
            del sys.modules[name]
        sys.executable = getattr(sys, "_base_executable", sys.executable)
        packages = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        os.environ["PYTHONPATH"] = os.pathsep.join([str(top / "src"), *packages])
        importlib.invalidate_caches()
        options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-m", "not slow and not embedded"]
        status = int(pytest.main([*options, *tests]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def _wait(pid: int) -> int | None:
    """Return the exit status of a process, below 0 for a signal; None if it took too long and was ended."""
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def build_core(top: Path) -> str:
    """Build core/ of the tree `top` and put it next to the package; return the compiler's complaint, if any."""
    build = top / "build" / "mutants"
    if not build.exists():
        nanobind = subprocess.run([sys.executable, "-m", "nanobind", "--cmake_dir"], capture_output=True, text=True)
        command = ["cmake", "-S", str(top), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
        command += [f"-DPython_EXECUTABLE={sys.executable}", f"-Dnanobind_DIR={nanobind.stdout.strip()}"]
        if shutil.which("ccache"):
            command.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        subprocess.run(command, check=True, capture_output=True, env=_environment(top))
    done = subprocess.run(["cmake", "--build", str(build)], capture_output=True, text=True, env=_environment(top))
    if done.returncode:
        return done.stdout[-2000:]
    for library in build.glob("_core*.so"):
        # A new file: overwriting one that a process has mapped would crash it.
        (top / "src" / "scurry" / library.name).unlink(missing_ok=True)
        shutil.copy2(library, top / "src" / "scurry")
    return ""


def _environment(top: Path) -> dict[str, str]:
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return os.environ | {"PATH": tools, "CCACHE_BASEDIR": str(top), "CCACHE_NOHASHDIR": "1"}


def try_mutants(
    mutants: Sequence[Mutant], top: Path, show: Callable[[Verdict], object] = lambda verdict: None
) -> list[Verdict]:
    """Plant mistakes one at a time in the tree `top`, which is scratch, and run the tests of each."""
    verdicts = []
    # Python first; then the native ones, file by file, so that few files are compiled again for each.
    for mutant in sorted(mutants, key=lambda one: (one.is_native, one.file if one.is_native else "")):
        started = time.perf_counter()
        outcome, note = _try(mutant, top)
        seconds = round(time.perf_counter() - started, 1)
        verdicts.append(Verdict(**_identity(mutant), outcome=outcome, seconds=seconds, note=note))
        show(verdicts[-1])
    if any(mutant.is_native for mutant in mutants):
        build_core(top)
    return verdicts


def divide(mutants: Sequence[Mutant], n_parts: int) -> list[list[Mutant]]:
    """Divide mistakes into parts that take about as long; native ones of a file stay together where they can."""
    python = [mutant for mutant in mutants if not mutant.is_native]
    native = sorted((mutant for mutant in mutants if mutant.is_native), key=lambda mutant: mutant.file)
    ends = [round(part * len(native) / n_parts) for part in range(n_parts + 1)]
    return [python[part::n_parts] + native[ends[part] : ends[part + 1]] for part in range(n_parts)]


def try_in_parallel(
    mutants: Sequence[Mutant], top: Path, n_jobs: int, show: Callable[[Verdict], object]
) -> list[Verdict]:
    """Plant mistakes as `try_mutants` does, in `n_jobs` processes that each have their own copy of the tree `top`."""
    if n_jobs == 1:
        return try_mutants(mutants, top, show)
    context = get_context("fork")
    verdicts: Queue[list[Verdict]] = context.Queue()

    def work(part: list[Mutant], tree: Path) -> None:
        # A build folder names the tree it was made for, so that every copy builds its own.
        shutil.copytree(top, tree, ignore=shutil.ignore_patterns("build"))
        verdicts.put(try_mutants(part, tree, show))

    with tempfile.TemporaryDirectory(prefix="scurry-mutants-") as folder:
        parts = [part for part in divide(mutants, n_jobs) if part]
        workers = [context.Process(target=work, args=(part, Path(folder) / str(at))) for at, part in enumerate(parts)]
        for worker in workers:
            worker.start()
        found = list[Verdict]()
        for _ in workers:
            while True:
                try:
                    found += verdicts.get(timeout=5)
                    break
                except Empty:
                    if any(worker.exitcode for worker in workers):
                        raise SystemExit("a process that plants mistakes has ended; see above") from None
        for worker in workers:
            worker.join()
    places = {mutant.name: place for place, mutant in enumerate(mutants)}
    return sorted(found, key=lambda verdict: places[verdict.name])


def _identity(mutant: Mutant) -> dict[str, str]:
    return {"name": mutant.name, "mistake": mutant.mistake, "harm": mutant.harm}


def _try(mutant: Mutant, top: Path) -> tuple[str, str]:
    if problem := find_problem(mutant, top):
        return "not applicable", problem
    if mutant.equivalent:
        return "equivalent", mutant.equivalent
    with planted(mutant, top):
        if mutant.is_native and (complaint := build_core(top)):
            return "not applicable", f"it does not compile: {complaint}"
        status, line = run_tests(top, mutant.tests)
    if status == 0:
        return "survived", ""
    if status in (_FAILED, _INTERRUPTED) or status < 0:
        return "killed", line[:200] or f"exit status {status}"
    return "not applicable", "no tests were found" if status == _NO_TESTS else line[:200]


def killed_share(verdicts: Sequence[Verdict]) -> float:
    """Return the share of the mistakes that can be noticed and were."""
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    return outcomes["killed"] / max(len(verdicts) - outcomes["equivalent"], 1)


def _check_sound(mutants: Sequence[Mutant], top: Path) -> None:
    """Run the tests of all mistakes on the tree without one: what fails there would notice everything."""
    if any(mutant.is_native for mutant in mutants) and (complaint := build_core(top)):
        raise SystemExit(f"core/ does not build: {complaint}")
    tests = sorted({test for mutant in mutants if not mutant.equivalent for test in mutant.tests})
    status, line = run_tests(top, tests) if tests else (0, "")
    if status:
        raise SystemExit(f"the tests fail without a planted mistake: {line}")


def store(verdicts: Sequence[Verdict], path: Path, mutants: Sequence[Mutant]) -> None:
    """Write verdicts to a file. Of those that it has, it keeps what is still in the list and was not tried now."""
    kept = {mutant.mistake: mutant.name for mutant in mutants}
    found = {verdict.mistake: verdict for verdict in verdicts}
    if path.exists():
        earlier = [Verdict(**entry) for entry in json.loads(path.read_text())["mutants"]]
        found = {one.mistake: one for one in earlier if one.mistake in kept} | found
    every = [replace(found[mistake], name=name) for mistake, name in kept.items() if mistake in found]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=TOP, capture_output=True, text=True).stdout.strip()
    content = {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": head,
        "n_mutants": len(mutants),
        "n_tried": len(every),
        "share_killed": round(killed_share(every), 4),
        "outcomes": dict(sorted(Counter(verdict.outcome for verdict in every).items())),
        "mutants": [asdict(verdict) for verdict in every],
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _show(verdict: Verdict) -> None:
    print(f"{verdict.outcome:14} {verdict.name:16} {verdict.mistake} {verdict.note}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant the mistakes that were asked for, print what became of them, and return 1 if too many went unnoticed."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    words = "mistakes whose name, file or words contain TEXT; may be given several times"
    parser.add_argument("--only", action="append", metavar="TEXT", help=words)
    parser.add_argument("--python-only", action="store_true", help="leave out core/, which must be compiled")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with a tree of its own")
    parser.add_argument("--list", action="store_true", help="show the list, and what of it can no longer be planted")
    parser.add_argument("--no-baseline", action="store_true", help="trust that the tests pass without a mistake")
    parser.add_argument("--store", type=Path, default=RESULTS, help="file of verdicts, in which these are replaced")
    options = parser.parse_args(arguments)
    mutants = [
        mutant
        for mutant in read_mutants()
        if any(text in f"{mutant.name} {mutant.file} {mutant.mistake}" for text in options.only or [""])
        and not (options.python_only and mutant.is_native)
    ]
    if options.list:
        for mutant in mutants:
            print(f"{mutant.name:16} {mutant.harm:8} {mutant.file}: {mutant.mistake} {find_problem(mutant, TOP)}")
        return 0
    with tempfile.TemporaryDirectory(prefix="scurry-mutants-") as folder:
        tree = Path(folder)
        copy_tree(TOP, tree)
        if not options.no_baseline:
            _check_sound(mutants, tree)
        verdicts = try_in_parallel(mutants, tree, options.jobs, _show)
    share, outcomes = killed_share(verdicts), Counter(verdict.outcome for verdict in verdicts)
    print(f"{len(verdicts)} mistakes: {dict(outcomes)}; {share:.1%} of those that can be noticed were")
    store(verdicts, options.store, read_mutants())
    intolerable = [verdict for verdict in verdicts if not verdict.is_tolerable]
    for verdict in intolerable:
        print(f"not noticed: {verdict.name} ({verdict.harm}): {verdict.mistake} {verdict.note}")
    return int(share < LEAST_SHARE or bool(intolerable))


if __name__ == "__main__":
    sys.exit(main())
