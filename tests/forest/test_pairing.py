"""Labels in another order than the rows are noticed wherever labels are taken; others are not taken for them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.errors import ScurryWarning
from scurry.forest import describe_other_index, describe_unrelated, warn_of_other_order

X, Y = make_classification(4000, 8, n_informative=5, flip_y=0.1, random_state=0)
OTHERS = np.random.default_rng(0).permutation(2000)
NEW, KNOWN = X[2000:], Y[2000:]
SHUFFLED = KNOWN[OTHERS]


@pytest.fixture(scope="module")
def boosted():
    return scurry.from_model(LGBMClassifier(n_estimators=30, verbose=-1, n_jobs=1).fit(X[:2000], Y[:2000]))


@pytest.fixture(scope="module")
def averaged():
    return scurry.from_model(RandomForestClassifier(20, max_depth=5, random_state=0).fit(X[:2000], Y[:2000]))


@pytest.fixture(scope="module")
def fast(boosted):
    return scurry.early_exit(boosted, NEW, KNOWN, promise="accuracy<=5%")


def watch(fast, y, ids=None):
    watched = scurry.watch(fast, share=1.0, random_state=0)
    watched.predict(NEW, ids=range(2000))
    return watched.learn_labels(range(2000) if ids is None else ids, y)


CALLS = {
    "early_exit": lambda m, y: scurry.early_exit(m["boosted"], NEW, y, promise="accuracy<=5%"),
    "compress": lambda m, y: scurry.compress(m["averaged"], NEW, y, max_bytes=30_000),
    "anytime": lambda m, y: scurry.anytime(m["averaged"], NEW, y),
    "prune": lambda m, y: scurry.prune(m["averaged"], NEW, y, errors="validation"),
    "audit": lambda m, y: scurry.Predictor.full(m["averaged"]).audit(NEW, y, promise=scurry.promises.Accuracy(0.1)),
    "report": lambda m, y: scurry.report.write(m["fast"], m["folder"] / "report.html", NEW, y),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_is_noticed(boosted, averaged, fast, tmp_path, name):
    known = {"boosted": boosted, "averaged": averaged, "fast": fast, "folder": tmp_path}
    with pytest.warns(ScurryWarning, match="say nothing about the labels of these 2,000 rows"):
        CALLS[name](known, SHUFFLED)


def test_an_index_in_another_order(boosted):
    frame, labels = pd.DataFrame(NEW), pd.Series(KNOWN)
    with pytest.warns(ScurryWarning, match=r"rows and y have the same index in another order.*y.loc\[rows.index\]"):
        warn_of_other_order(boosted, frame, labels.iloc[OTHERS], NEW, ("rows", "y"))
    with pytest.warns(ScurryWarning, match="ids and the index of y are the same in another order"):
        watch(scurry.early_exit(boosted, NEW, KNOWN, promise="accuracy<=5%"), labels.iloc[OTHERS])
    assert describe_other_index(frame.index, labels.index + 1) == ""
    mixed = pd.Index([1, "a", None, 2.5])  # values that cannot be sorted
    assert describe_other_index(mixed, mixed[::-1]) == "the same index in another order"
    assert describe_other_index(mixed, pd.Index([1, "b", None, 2.5])) == ""
    assert describe_other_index(None, labels.index) == ""


@pytest.mark.parametrize("index", [None, range(2000), [f"row {at}" for at in range(2000)]])
@pytest.mark.filterwarnings("error::scurry.errors.ScurryWarning")
def test_a_watch_learns_series_with_any_index(fast, index):
    assert watch(fast, pd.Series(KNOWN, index=index)) == 2000


def test_labels_of_the_rows_are_not_taken_for_others(boosted):
    frame, labels = pd.DataFrame(NEW), pd.Series(KNOWN)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScurryWarning)
        for y in (labels, labels.set_axis(range(7, 2007)), KNOWN):
            warn_of_other_order(boosted, frame, y, NEW, ("X", "y"))


@pytest.mark.parametrize("seed", range(20))
def test_a_model_that_learnt_next_to_nothing_is_no_other_order(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(3000, 4))
    y = rng.random(3000) < 0.06 + 0.02 * (rows[:, 0] > 0)
    forest = scurry.from_model(LGBMClassifier(n_estimators=40, verbose=-1, n_jobs=1).fit(rows[:1500], y[:1500]))
    assert not describe_unrelated(forest, rows[1500:], y[1500:])


def test_regressors():
    target = X[:, 0] + X[:, 1]
    forest = scurry.from_model(LGBMRegressor(n_estimators=30, verbose=-1, n_jobs=1).fit(X[:2000], target[:2000]))
    assert not describe_unrelated(forest, NEW, target[2000:])
    assert describe_unrelated(forest, NEW, target[2000:][::-1])
    assert not describe_unrelated(forest, NEW, np.zeros(2000))
