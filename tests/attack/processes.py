"""Threads, forks, pickles and kills: shared predictors answer as one thread does, and no kill leaves a broken file."""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import scurry
from attack.findings import Findings, check_equal
from support.anytime_oracle import anytime_of

N_THREADS, N_CALLS, N_FILES = 16, 25, 6
MAX_SECONDS = 60
SCORING = """
import sys, scurry
say = lambda n_done, n_total: print(n_done, flush=True)
scurry.batch.score(sys.argv[1], scurry.load(sys.argv[2]), sys.argv[3], n_threads=2, n_rows_per_batch=500, progress=say)
"""


def attack(n: int, seed: int) -> Findings:
    """Play `n` scenarios, one for each seed from `seed` on."""
    findings = Findings()
    scenarios = (_threads, _threads, _forks, _pickles, _kill)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's own, about forks of processes with threads
        for at in range(seed, seed + n):
            scenario = scenarios[at % len(scenarios)]
            with findings.of(f"processes ({scenario.__name__[1:]})", at):
                scenario(np.random.default_rng([3, at]), findings)
    return findings


@cache
def _rows() -> np.ndarray:
    rows = np.random.default_rng(0).normal(size=(3000, 5))
    rows[::50, 1] = np.nan
    return rows


@cache
def _saved() -> tuple[bytes, ...]:
    """Return a predictor of every kind, pickled: each scenario makes its own, so that it meets none that was used."""
    X = np.nan_to_num(_rows())
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
    forest = scurry.from_model(RandomForestClassifier(25, max_depth=6, random_state=0).fit(X, y))
    several = scurry.from_model(RandomForestClassifier(25, max_depth=6, random_state=0).fit(X, y + (X[:, 3] > 0)))
    boosted = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(X, y)
    asked = {"max_disagreement": 0.05, "confidence": None, "random_state": 0}
    made = (
        scurry.Predictor.full(forest),
        scurry.early_exit(forest, X, method="minimixed", **asked),
        scurry.early_exit(forest, X, method="minimean", shuffle="row", **asked),
        scurry.early_exit(boosted, X, method="qwyc", **asked),
        scurry.early_exit(boosted, X, method="fan", **asked),
        scurry.early_exit(several, X, method="qwyc", **asked),
        anytime_of(forest),
    )
    return tuple(map(pickle.dumps, made))


@cache
def _expected(at: int) -> dict[str, np.ndarray]:
    predictor = pickle.loads(_saved()[at])
    run = predictor.run(_rows())
    return {
        "labels": predictor.predict(_rows()),
        "probabilities": predictor.predict_proba(_rows()),
        "trees": run.trees,
        "scores": run.scores,
    }


def _calls(predictor: scurry.Predictor) -> dict[str, Callable[..., np.ndarray]]:
    return {
        "labels": predictor.predict,
        "probabilities": predictor.predict_proba,
        "trees": lambda X, n_threads: predictor.run(X, n_threads).trees,
        "scores": lambda X, n_threads: predictor.run(X, n_threads).scores,
    }


def _check_slice(rng: np.random.Generator, predictor: scurry.Predictor, expected: dict[str, np.ndarray]) -> None:
    name = str(rng.choice(list(expected)))
    first = int(rng.integers(0, 2900))
    some = slice(first, first + int(rng.choice([1, 2, 33, 700])))
    found = _calls(predictor)[name](_rows()[some], n_threads=int(rng.choice([1, 1, 2, 4])))
    check_equal(found, expected[name][some], name)


def _start(rng: np.random.Generator, n_calls: int) -> tuple[scurry.Predictor, dict[str, Any], list[Any], list[str]]:
    """Start threads that share a predictor nobody has used yet, all at the same moment."""
    at = int(rng.integers(len(_saved())))
    expected, predictor = _expected(at), pickle.loads(_saved()[at])
    begin, wrong = threading.Barrier(N_THREADS), list[str]()

    def work(own: np.random.Generator) -> None:
        begin.wait()
        try:
            for _ in range(n_calls):
                _check_slice(own, predictor, expected)
        except BaseException as error:
            wrong.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(own,), daemon=True) for own in rng.spawn(N_THREADS)]
    for thread in threads:
        thread.start()
    return predictor, expected, threads, wrong


def _join(threads: list[threading.Thread], wrong: list[str]) -> None:
    for thread in threads:
        thread.join(MAX_SECONDS)
        assert not thread.is_alive(), "a thread hangs"
    assert not wrong, wrong[0]


def _threads(rng: np.random.Generator, findings: Findings) -> None:
    _, _, threads, wrong = _start(rng, N_CALLS)
    _join(threads, wrong)
    findings.counts["threaded calls"] += N_THREADS * N_CALLS


def _forks(rng: np.random.Generator, findings: Findings) -> None:
    """Fork while threads predict; the child, in which they are gone, predicts too."""
    predictor, expected, threads, wrong = _start(rng, N_CALLS)
    for own in rng.spawn(3):
        time.sleep(float(rng.random()) * 0.01)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                signal.alarm(MAX_SECONDS)
                for _ in range(5):
                    _check_slice(own, predictor, expected)
                status = 0
            finally:
                os._exit(status)
        status = os.waitpid(child, 0)[1]
        assert status == 0, f"a forked process ended with status {status}"
        findings.counts["forks"] += 1
    _join(threads, wrong)


def _pickles(rng: np.random.Generator, findings: Findings) -> None:
    at = int(rng.integers(len(_saved())))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        predictor = pickle.loads(pickle.dumps(pickle.loads(_saved()[at]), protocol))
        for name, call in _calls(predictor).items():
            check_equal(call(_rows(), n_threads=1), _expected(at)[name], f"{name} of protocol {protocol}")
        findings.counts["pickles"] += 1


def _kill(rng: np.random.Generator, findings: Findings) -> None:
    """Kill a batch at any moment: what is there is complete, and a second run does the rest and tidies up."""
    at = int(rng.integers(4))
    predictor = pickle.loads(_saved()[at])
    with tempfile.TemporaryDirectory() as name:
        folder, out = Path(name), Path(name) / "out"
        (folder / "in").mkdir()
        predictor.save(folder / "model.scurry")
        table = pa.table({f"x{j}": column for j, column in enumerate(np.tile(_rows(), (4, 1)).T)})
        expected = np.tile(_expected(at)["labels"], 4)
        for file in range(N_FILES):
            pq.write_table(table, folder / "in" / f"part-{file}.parquet")
        killed = int(rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
        command = [sys.executable, "-c", SCORING, str(folder / "in"), str(folder / "model.scurry"), str(out)]
        path = os.pathsep.join(sys.path)
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": path}
        )
        assert child.stdout is not None
        for _ in range(int(rng.integers(0, 25 * N_FILES))):  # it says something after each of 25 batches of a file
            child.stdout.readline()
        time.sleep(float(rng.random()) * 0.01)
        child.send_signal(killed)
        child.wait(MAX_SECONDS)
        child.stdout.close()
        findings.counts["kills"] += 1
        finished = [file for file in out.glob("*.parquet") if not file.name.startswith(".")] if out.exists() else []
        for file in finished:
            check_equal(pq.read_table(file)["label"].to_numpy(), expected, f"{file.name}, which a kill left")
        findings.counts["outputs that kills left"] += len(finished)
        report = scurry.batch.score(folder / "in", predictor, out, n_threads=1)
        check_equal(sorted(report.skipped), sorted(file.name for file in finished), "outputs kept by the second run")
        check_equal(sorted(os.listdir(out)), [f"part-{file}.parquet" for file in range(N_FILES)], "files at the end")
        for file in out.iterdir():
            check_equal(pq.read_table(file)["label"].to_numpy(), expected, file.name)
