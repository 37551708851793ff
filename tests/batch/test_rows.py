"""How record batches become rows and labels: short cuts give what the long way gives."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.batch.rows import Scoring
from scurry.forest.rows import as_rows
from support.strategies import complete_forest

N_ROWS, NAMES = 7, ("a b", "c", "d")
VALUES = st.floats(width=32, allow_nan=True) | st.sampled_from([0.0, -0.0, np.inf, 3.0])


@st.composite
def batches(draw):
    """Features in any order, of any number type, with or without gaps, among other columns."""
    columns = {"id": pa.array(range(N_ROWS)), "text": pa.array(["x"] * N_ROWS)}
    for name in NAMES:
        name = draw(st.sampled_from([name, name.replace(" ", "_")]))
        if draw(st.booleans()):
            values = draw(st.lists(VALUES, min_size=N_ROWS, max_size=N_ROWS))
            kind = draw(st.sampled_from([pa.float32(), pa.float64()]))
        else:
            kind = draw(st.sampled_from([pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.float64()]))
            largest = {pa.int64(): 2**63 - 1, pa.int32(): 2**31 - 1, pa.uint16(): 2**16 - 1}.get(kind, 100)
            smallest = 0 if kind == pa.uint16() else -largest
            values = draw(st.lists(st.integers(smallest, largest), min_size=N_ROWS, max_size=N_ROWS))
        gap = draw(st.none() | st.integers(0, N_ROWS - 1))
        columns[name] = pa.array([None if i == gap else value for i, value in enumerate(values)], kind)
    order = draw(st.permutations(list(columns)))
    return pa.record_batch({name: columns[name] for name in order})


@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
@given(batch=batches())
@settings(max_examples=60, deadline=None)
def test_rows_are_what_any_table_gives(input_dtype, batch):
    names = ["a_b", "c", "d"] if "a_b" in batch.schema.names else NAMES
    forest = complete_forest(2, 2, 3, 2, feature_names=names, input_dtype=input_dtype)
    scoring = Scoring(predictor=scurry.Predictor.full(forest), keep=("id",))
    rows, kept, _ = scoring.prepare(batch)
    expected = as_rows(forest, pa.Table.from_batches([batch]))
    np.testing.assert_array_equal(rows.astype(expected.dtype), expected)
    assert kept["id"].equals(batch.column("id"))


def test_half_precision_next_to_other_numbers():
    batch = pa.record_batch({"c": pa.array([1, 2]), "a b": pa.array(np.float16([0.1, 7])), "d": pa.array([0.5, None])})
    forest = complete_forest(2, 2, 3, 2, feature_names=NAMES)
    rows = Scoring(predictor=scurry.Predictor.full(forest)).prepare(batch).rows
    np.testing.assert_array_equal(rows, as_rows(forest, pa.Table.from_batches([batch])))


@pytest.mark.parametrize(
    "classes",
    [["no", "yes"], ["a", "b", "c"], [3, 7], [1.0, 2.0, 3.0], [False, True], np.array(["x", "y"], object)],
    ids=str,
)
def test_labels_are_the_models_own(classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.asarray(classes)[np.digitize(X[:, 0], np.linspace(-1, 1, len(classes) + 1)[1:-1])]
    model = RandomForestClassifier(9, max_depth=4, random_state=0).fit(X, y)
    fast = scurry.early_exit(model, X, max_disagreement=0.1, method="minimixed", random_state=0)
    batch = pa.record_batch({f"f{j}": X[:, j] for j in range(3)})
    for columns in (("label",), ("label", "probability", "trees")):
        scoring = Scoring(predictor=fast, columns=columns)
        (found,) = scoring.score_batches([batch])
        assert found.column("label").to_pylist() == fast.predict(X).tolist()
        assert found.schema.equals(scoring.schema(batch.schema))
    assert scoring.predictor is fast
