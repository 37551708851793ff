"""Functions of one row: the answers of predict and predict_proba, whatever the row is, from any thread."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import scurry
from scurry.errors import InputError
from scurry.forest import RawRows
from support.strategies import adversarial_rows, complete_forest, ragged_forest

RNG = np.random.default_rng(0)


def rows_for(forest, n_rows=60):
    return adversarial_rows(forest, RNG.normal(size=(50, forest.n_features)), n_rows)


def forms(row):
    """Return a row as everything that is read where it lies, and as some things that are not."""
    wide = np.zeros((len(row), 3))
    wide[:, 1] = row
    with np.errstate(over="ignore"):
        single = row.astype(np.float32)
    as_they_lie = [row, row[None], row[::-1].copy()[::-1], wide[:, 1], single, single[None]]
    return [*as_they_lie, row.tolist(), row.astype(">f8"), np.ma.MaskedArray(row), pd.DataFrame([row])]


def assert_same_answers(owner, rows):
    call, probabilities = owner.one_row(), None if owner.classes is None else owner.one_row("probabilities")
    for row in rows:
        for given in forms(row):
            expected = owner.predict(given if np.ndim(given) == 2 else np.asarray(given).reshape(1, -1))
            assert call(given) == expected.tolist()[0]
            assert type(call(given)) is type(expected.tolist()[0])
            if probabilities is not None:
                asked = given if np.ndim(given) == 2 else np.asarray(given).reshape(1, -1)
                assert probabilities(given) == tuple(owner.predict_proba(asked)[0].tolist())


@pytest.mark.parametrize(
    "forest",
    [
        complete_forest(9, 3, n_columns=2),
        complete_forest(5, 3, n_columns=20),
        complete_forest(5, 8, n_columns=3).replace(classes=["a", "b", "c"]),
        ragged_forest(30, 20),
        ragged_forest(30, 20, input_dtype="float64", score_dtype="float32", classes=[False, True]),
        ragged_forest(21, 20, n_outputs=3, classes=[2.5, 3.5, 4.5]),
        ragged_forest(30, 20, classes=None),
    ],
    ids=["two", "twenty", "text", "boosted", "bool", "outputs", "regressor"],
)
def test_forests(forest):
    rows = rows_for(forest, 6)
    assert_same_answers(forest, rows)
    assert_same_answers(scurry.Predictor.full(forest), rows[:1])


@pytest.mark.parametrize("n_columns", [2, 4])
def test_early_exits(n_columns):
    forest = complete_forest(40, 4, n_columns=n_columns)
    rows = RNG.normal(size=(400, forest.n_features))
    fast = scurry.early_exit(forest, rows, max_disagreement=0.05, confidence=None, random_state=0)
    assert fast.run(rows).mean_trees < 40
    assert_same_answers(fast, rows[:20:4])
    call = fast.one_row()
    assert [call(row) for row in rows] == fast.predict(rows).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_that_are_missing_values(dtype):
    """A pipeline with a logarithm makes missing values of low numbers, which are looked for where the row lies."""
    forest = ragged_forest(30, 20, input_dtype=dtype)
    limits = {1: -0.5, forest.n_features - 1: 1.5}
    logged = forest.replace(raw_rows=RawRows(dtype, missing_upto=limits))
    rows = rows_for(forest, 40).astype(dtype)
    rows[::2, 1], rows[1::3, -1] = -0.5, np.nextafter(np.array(1.5, dtype), np.array(2, dtype))
    rows[1::2, 1], rows[::4, -1] = np.nextafter(np.array(-0.5, dtype), np.array(0, dtype)), -np.inf
    blank = rows.copy()
    for feature, limit in limits.items():
        blank[rows[:, feature] <= limit, feature] = np.nan
    expected = forest.predict(blank)
    assert (expected != forest.predict(rows)).any()
    call = logged.one_row()
    for row, label in zip(rows, expected.tolist(), strict=True):
        assert call(row) == logged.predict(row[None])[0] == label
        assert call(np.repeat(row, 2)[::2]) == label


def test_plans_that_stop_otherwise():
    forest = complete_forest(20, 4, n_columns=2)
    rows = RNG.normal(size=(300, forest.n_features))
    for plan in (
        scurry.anytime(forest, rows, forest.predict(rows), order="random", random_state=0),
        scurry.early_exit(forest, promise=scurry.promises.Certain()),
    ):
        assert_same_answers(plan, rows[:3])
    regressor = ragged_forest(40, 16, seed=1, classes=None)
    values = scurry.early_exit(
        regressor, rows, promise=scurry.promises.Values(3.0, max_share=0.3, confidence=0.8), random_state=0
    )
    assert_same_answers(values, rows[:5])


def test_rows_that_do_not_fit():
    forest = complete_forest(3, 2, n_features=4)
    call = forest.one_row()
    for wrong, message in (
        (np.zeros(5), "features"),
        (np.zeros((2, 4)), "got 2"),
        (np.zeros((1, 1, 4)), "dimensions"),
        (np.zeros((0, 4)), "got 0"),
        ({"a": 1}, "dict"),
        (["x"] * 4, "dtype"),
        (None, "X"),
    ):
        with pytest.raises(InputError, match=message):
            call(wrong)
    with pytest.raises(TypeError):
        call()
    with pytest.raises(InputError, match="answer"):
        forest.one_row("probability")
    with pytest.raises(InputError, match="regressor"):
        ragged_forest(3, 2, classes=None).one_row("probabilities")


def test_categories_of_frames_are_looked_up():
    forest = ragged_forest(20, 8, n_features=2, n_sets=3).replace(
        feature_names=["x", "city"], categories={1: ["Oslo", "Rome", "Bern"]}
    )
    frame = pd.DataFrame({"x": [0.3], "city": ["Rome"]})
    assert forest.one_row()(frame) == forest.predict(frame)[0]
    assert forest.one_row()(np.array([0.3, 1.0])) == forest.predict(frame)[0]


def test_rows_at_odd_addresses_are_copied():
    """Fields of packed records lie at any address."""
    forest = complete_forest(9, 3, n_features=4)
    records = np.zeros(3, np.dtype([("flag", "i1"), ("row", "f8", 4)]))
    records["row"] = RNG.normal(size=(3, 4))
    call = forest.one_row()
    assert [call(row) for row in records["row"]] == forest.predict(np.ascontiguousarray(records["row"])).tolist()


def test_threads_share_a_function():
    forest = ragged_forest(50, 30)
    rows = rows_for(forest, 300)
    call, expected = forest.one_row(), forest.predict(rows).tolist()
    with ThreadPoolExecutor(4) as pool:
        for answers in pool.map(lambda _: [call(row) for row in rows], range(8)):
            assert answers == expected


def test_a_function_keeps_what_it_needs_and_no_more():
    forest = complete_forest(3, 2)
    call, gone = forest.one_row(), weakref.ref(forest)
    row = np.zeros(forest.n_features)
    expected = forest.predict(row)[0]
    del forest
    gc.collect()
    assert call(row) == expected
    del call
    gc.collect()
    assert gone() is None
