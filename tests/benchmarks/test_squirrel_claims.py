"""Claims about step orders: shares of the highest NMA by what it is taken over, and padded trees."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from squirrel_claims import SHARES, Run, _share_claim  # noqa: E402


def _run(dataset, trees, seed, optimal, backward, padded=None):
    found = {"optimal": optimal, "backward-squirrel": backward}
    return Run(dataset, 0, trees, 4, seed, True, found, padded or found)


def test_the_highest_is_taken_over_the_runs_of_a_reading():
    runs = [_run("a", 4, 0, 0.8, 0.6), _run("a", 5, 0, 0.9, 0.9), _run("a", 4, 1, 0.5, 1.0), _run("a", 5, 1, 0.8, 0.4)]
    optimal = SHARES[0]
    assert _share_claim(runs, *optimal, "highest of the same forest").obtained == (100.0, 75.0)
    assert _share_claim(runs, *optimal, "highest of the dataset, same seed").obtained == pytest.approx((94.44444, 65.0))
    assert _share_claim(runs, *optimal, "highest of the dataset, five seeds").obtained == (85.0, 65.0)
    assert _share_claim(runs, *optimal, "highest of the same size, five seeds").obtained == pytest.approx(
        (90, 69.44444)
    )
    later = [replace(run, seed=run.seed + 5) for run in runs]
    assert _share_claim([*runs, *later], *optimal, "highest of the dataset, five seeds").obtained == (85.0, 65.0) * 2
    higher = [replace(run, nma={**run.nma, "backward-squirrel": 2.0}) for run in later]
    assert _share_claim([*runs, *higher], *optimal, "highest of the dataset, five seeds").obtained[:2] == (85.0, 65.0)


def test_a_seed_counts_when_it_has_all_datasets():
    runs = [_run("a", 4, 0, 0.8, 0.6), _run("b", 4, 0, 0.8, 0.6), _run("a", 4, 1, 0.8, 0.6)]
    assert len(_share_claim(runs, *SHARES[0], "highest of the same forest").obtained) == 1


def test_padded_trees_have_one_depth_and_the_same_answers(monkeypatch):
    sklearn = pytest.importorskip("sklearn.ensemble")
    monkeypatch.syspath_prepend(str(BENCHMARKS / "papers"))
    from squirrel import pad_trees

    import scurry

    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)
    forest = scurry.from_model(sklearn.RandomForestClassifier(5, random_state=0).fit(X, y))
    padded = pad_trees(forest)
    assert forest.tree_depth.min() < forest.tree_depth.max()
    assert (padded.tree_depth == forest.tree_depth.max()).all()
    assert (padded.predict_proba(X) == forest.predict_proba(X)).all()
