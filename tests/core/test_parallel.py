"""Kept threads: the same answers from any number of them, from many callers at once, and after fork()."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from support.strategies import complete_forest, ragged_forest

TESTS = Path(__file__).parents[1]
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("forest", [ragged_forest(30, 20), complete_forest(20, 9)], ids=["sliced", "walked"])
def test_any_number_of_threads(forest):
    rows = RNG.normal(size=(5000, forest.n_features))
    expected = forest.scores(rows)
    for n_threads in (2, 3, 17, 200, None):
        np.testing.assert_array_equal(forest.scores(rows, n_threads=n_threads), expected)


def test_many_callers_at_once():
    forest = ragged_forest(40, 30)
    rows = RNG.normal(size=(3000, forest.n_features))
    expected = forest.scores(rows)
    with ThreadPoolExecutor(6) as pool:
        for scores in pool.map(lambda n: forest.scores(rows, n_threads=n), [1, 2, 3, 4] * 10):
            np.testing.assert_array_equal(scores, expected)


SCRIPT = """
import os, sys, numpy as np
from support.strategies import ragged_forest

forest = ragged_forest(40, 30)
rows = np.random.default_rng(0).normal(size=(4000, forest.n_features))
expected = forest.scores(rows)

def n_tasks():
    return len(os.listdir("/proc/self/task"))

before = n_tasks()
counts = []
for _ in range(30):
    assert (forest.scores(rows, n_threads=4) == expected).all()
    counts.append(n_tasks())
kept = len(os.sched_getaffinity(0)) - 1
assert max(counts) <= before + max(kept, 1), (before, counts)
for _ in range(5):  # a copy of this process has none of its threads
    child = os.fork()
    if child == 0:
        os._exit(0 if (forest.scores(rows, n_threads=4) == expected).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (forest.scores(rows, n_threads=4) == expected).all()
print("done")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc, and forks")
def test_threads_are_kept_and_not_inherited():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "done\n", done.stderr[-2000:]
