"""What types of columns decide, compared with what scikit-learn converts them to."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

import scurry
from scurry.errors import FormatError, InputError
from scurry.forest import Block, ColumnTypes
from scurry.forest.precisions import KINDS, describe_refusal, float_type_of_arrays, suggest_types, type_name

NUMBERS = ["bool", "float16", "float32", "float64"] + [f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)]
NULLABLE = ["boolean", "Float32", "Float64", "Int8", "Int16", "UInt32", "Int64"]
TYPES = st.lists(st.sampled_from([*NUMBERS, *NULLABLE]), min_size=1, max_size=4)
STEPS = {
    "together": MinMaxScaler(),
    "alone": FunctionTransformer(np.log1p),
    "joined": FunctionTransformer(np.log1p, validate=True),
}


def block_of(kind, n_columns, *accepts):
    return Block(kind, tuple(range(n_columns)), accepts or ("float64",))


def frame_of(types):
    return pd.DataFrame({f"x{at}": pd.Series([0, 1, 1], dtype=name) for at, name in enumerate(types)})


@given(st.sampled_from(list(STEPS)), TYPES)
def test_a_precision_is_the_type_of_what_scikit_learn_makes(kind, types):
    found = block_of(kind, len(types)).precision(types)
    if found not in ("float32", "float64"):
        return
    made = STEPS[kind].fit(frame_of(types)).transform(frame_of(types))
    made = [type_name(dtype).lower() for dtype in made.dtypes] if hasattr(made, "dtypes") else [made.dtype.name]
    assert set(made) == {found}


@given(TYPES)
def test_columns_of_polars_are_converted_to_float64(types):
    plain = [name.lower().replace("boolean", "bool") for name in types]
    frame = pl.from_pandas(frame_of([name for name in plain if name != "float16"] or ["int8"]))
    assert MinMaxScaler().fit_transform(frame).dtype == np.float64
    assert block_of("together", len(types)).precision(types, "polars") == "float64"


@given(st.sampled_from(KINDS), TYPES, TYPES)
def test_conversions_give_what_the_block_takes(kind, types, imported):
    n_columns = min(len(types), len(imported))
    types, imported = types[:n_columns], imported[:n_columns]
    block = block_of(kind, n_columns)
    block = Block(kind, block.columns, (block.precision(imported),))
    assert block.takes(imported)
    changes = block.conversions(types)
    converted = [changes.get(at, name) for at, name in enumerate(types)]
    assert block.takes(converted) or not set(imported) <= set(NUMBERS)
    assert block.takes(types) or changes
    assert block.takes(suggest_types([block], types)) or not set(imported) <= set(NUMBERS)


def test_integers_next_to_floats():
    block = block_of("together", 2)
    assert block.precision(["int16", "float32"]) == "float32"
    assert block.precision(["int32", "float32"]) == "float64"
    assert block.precision(["uint8", "int8"]) == "float64"
    assert block.precision(["bool", "float32"]) == "bool+float32"
    assert block.precision(["Int8", "float32"]) == "float64"
    assert block_of("integers", 2).precision(["int8", "int64"]) == "integers"
    assert block_of("exactly", 2).precision(["int8", "int64"]) == "int64"


def test_types_that_arrays_may_have():
    assert float_type_of_arrays([]) is None
    assert float_type_of_arrays([block_of("together", 2, "float32", "float64")]) is None
    assert float_type_of_arrays([block_of("alone", 2, "float32")]) == "float32"
    both = [Block("together", (0,), ("float32",)), Block("together", (1,), ("float64",))]
    assert float_type_of_arrays(both) == "mixed"


def test_column_types_of_any_table():
    frame = pd.DataFrame({"a": np.ones(2, "u1"), "b": ["x", None], "c": pd.array([1, None], "Int16")})
    assert ColumnTypes.of(frame).types == ("uint8", "str", "Int16")
    assert ColumnTypes.of(frame.assign(b=frame.b.astype("category"))).types[1] == "category"
    arrow = pa.table({"a": pa.array([1, 2], pa.uint8()), "b": ["x", None], "c": pa.array([1, None], pa.int16())})
    assert ColumnTypes.of(arrow).types == ("uint8", "object", "float64")  # pandas has no integers with missing values
    of_polars = ColumnTypes.of(pl.from_arrow(arrow))
    assert (of_polars.types, of_polars.library) == (("uint8", "object", "int16"), "polars")
    of_array = ColumnTypes.of(np.ones((3, 2), "f4"))
    assert (of_array.types, of_array.names) == (("float32", "float32"), None)
    assert of_array.select(None, 3) == ["float32", "float32", "float64"]
    assert ColumnTypes.of(arrow).select(["c", "a", "z"], 3) == ["float64", "uint8", "float64"]
    for other in (None, [[1.0]], "float32", np.ones(3)):
        assert ColumnTypes.of(other) is None


def test_blocks_are_stored_and_checked():
    block = Block("alone", (0, 2), ("float32", "float64"))
    assert Block.from_json(block.to_json()) == block
    for stored in (None, {}, {"kind": "alone", "columns": ["x"], "accepts": ["float64"]}):
        with pytest.raises(FormatError, match="a block of raw_rows must have"):
            Block.from_json(stored)
    for wrong in (("some", (0,), ("float64",)), ("alone", (), ("float64",)), ("alone", (-1,), ("float64",))):
        with pytest.raises(InputError):
            Block(*wrong)
    leaf = {"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": [[0.7, 0.3]]}
    forest = scurry.Forest.from_trees([leaf], n_features=2)
    with pytest.raises(InputError, match="blocks name features beyond the 2 that there are"):
        forest.replace(raw_rows=scurry.forest.RawRows(blocks=(block,)))


def test_refusals_name_columns_and_a_conversion():
    block = Block("together", (0, 1, 2), ("float32",))
    names = ["age", "weight", "kind"]
    message = describe_refusal([block], ["int64", "float32", "float32"], names, "pandas")
    assert message.startswith("column 'age' holds int64, column 'weight' holds float32, with which the pipeline")
    assert "also for a plan from a file: X.astype({'age': 'float32'}). That may" in message
    message = describe_refusal([block], ["int64", "int8", "int8"], names, "polars")
    assert "'age' to float32, as X.to_pandas().astype({'age': 'float32'}). " in message
    message = describe_refusal([block], ["float64"] * 3, names, "numpy")
    assert message.startswith("X holds float64,")
    assert "X.astype('float32'). " in message
    wide = Block("alone", (0,), ("float64",))
    message = describe_refusal([Block("alone", (1,), ("float32",)), wide], ["float64"] * 3, names, "numpy")
    assert "pandas.DataFrame(X, columns=[…]).astype({'weight': 'float32'}). " in message


@pytest.mark.parametrize("library", ["pandas", "arrow", "numpy"])
def test_advice_in_a_refusal_makes_rows_that_a_loaded_plan_takes(tmp_path, library):
    X, y = load_iris(return_X_y=True, as_frame=True)
    X = X.set_axis(["a", "b", "c", "d"], axis=1)
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(X, y)
    scurry.Predictor.full(scurry.from_model(pipeline, rows=X)).save(tmp_path / "plan.scurry")
    plan, narrow = scurry.load(tmp_path / "plan.scurry"), X.astype("float32")
    held = {"pandas": narrow, "arrow": pa.Table.from_pandas(narrow), "numpy": narrow.to_numpy()}[library]
    with pytest.raises(InputError) as refusal:
        plan.predict(held)
    advice = re.search(r"a plan from a file: (?:.*, as )?(.*?)\. That may", str(refusal.value)).group(1)
    converted = eval(advice, {"X": held})
    assert (plan.predict(converted) == pipeline.predict(narrow.astype("float64"))).all()
