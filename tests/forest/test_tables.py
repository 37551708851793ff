"""Tables of every library give the rows that their values say, and what cannot be decided is refused."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scurry
from scurry.errors import InputError
from scurry.forest.rows import as_rows
from support.strategies import complete_forest

TEXTS = [
    "b",
    "a",
    "",
    "høy",
    "a longer text than a view holds",
    "a longer text than a view  holds",
    "\0x",
    "12 bytes    ",
    "x",
]
INTEGERS = [70, -3, 2**40, 9, -(2**40), 1000, 255]
FLOATS = [70.5, -0.25, 1e300, 4096.0, -7.0]
POOLS = {"texts": TEXTS, "integers": INTEGERS, "floats": FLOATS, "booleans": [True, False]}


def forest_with(categories, *, by_value=False, input_dtype="float64"):
    forest = complete_forest(2, 2, 2, 2, input_dtype=input_dtype)
    return forest.replace(feature_names=("x", "c"), categories={1: categories}, encode_numbers=by_value)


@st.composite
def columns(draw):
    """Categories of one kind in any order, and values: some of them, others, and missing ones."""
    kind = draw(st.sampled_from(sorted(POOLS)))
    pool = draw(st.permutations(POOLS[kind]))
    known = pool[: draw(st.integers(1, len(pool)))]
    values = draw(st.lists(st.sampled_from([*pool, None]), min_size=1, max_size=12))
    return kind, known, values, pool


def pandas_columns(kind, values, pool):
    gaps = [value is None for value in values]
    yield "object", pd.Series(values, dtype=object)
    yield "category", pd.Series(pd.Categorical(values, categories=pool))
    yield "category reversed", pd.Series(pd.Categorical(values, categories=pool[::-1]))
    if kind == "texts":
        yield "str", pd.Series(values, dtype="str")
        yield "string", pd.Series(values, dtype=pd.StringDtype("python"))
        yield "category of str", pd.Series(pd.Categorical(values, categories=pd.Index(pool, dtype="str")))
    elif kind == "integers":
        yield "nullable", pd.Series(values, dtype="Int64")
        yield "float", pd.Series(values, dtype="float64")
        if not any(gaps):
            yield "int64", pd.Series(values, dtype="int64")
            yield "big-endian", pd.Series(np.array(values, dtype=">i8"))
    elif kind == "booleans":
        yield "nullable", pd.Series(values, dtype="boolean")
        yield "float", pd.Series([None if v is None else float(v) for v in values], dtype="float64")
        if not any(gaps):
            yield "bool", pd.Series(values, dtype="bool")
    else:
        yield "float64", pd.Series(values, dtype="float64")
        yield "nullable", pd.Series(values, dtype="Float64")
    arrow = {"texts": pa.string(), "integers": pa.int64(), "booleans": pa.bool_(), "floats": pa.float64()}[kind]
    yield "arrow in pandas", pd.Series(values, dtype=pd.ArrowDtype(arrow))


def arrow_columns(kind, values, pool):
    types = {
        "texts": [pa.string(), pa.large_string(), pa.string_view()],
        "integers": [pa.int64()],
        "booleans": [pa.bool_()],
        "floats": [pa.float64()],
    }[kind]
    codes = [None if value is None else pool.index(value) for value in values]
    for type_ in types:
        plain = pa.array(values, type_)
        yield str(type_), plain
        yield f"sliced {type_}", pa.array([pool[0], None, *values, pool[0]], type_)[2:-1]
        yield f"chunked {type_}", pa.chunked_array([plain[:1], plain[1:1], plain[1:]])
        if type_ != pa.string_view():
            yield (
                f"dictionary of {type_}",
                pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(pool, type_)),
            )
            longer = pa.array([*pool[::-1], *([pool[0]] * 100)], type_)
            codes_back = [None if c is None else len(pool) - 1 - c for c in codes]
            yield (
                f"dictionaries of {type_} that differ",
                pa.chunked_array(
                    [
                        pa.DictionaryArray.from_arrays(pa.array(codes[:2], pa.int8()), pa.array(pool, type_)),
                        pa.DictionaryArray.from_arrays(pa.array(codes_back[2:], pa.int8()), longer),
                    ]
                ),
            )


def tables(kind, values, pool):
    x = np.arange(len(values), dtype=np.float64)
    for name, column in pandas_columns(kind, values, pool):
        yield f"pandas {name}", pd.DataFrame({"c": column, "other": 0, "x": x})
    for name, column in arrow_columns(kind, values, pool):
        yield f"Arrow {name}", pa.table({"other": x, "x": x, "c": column})
    frame = (
        pl.DataFrame({"x": x, "c": pl.Series("c", values, strict=False)})
        if any(value is not None for value in values)
        else pl.DataFrame({"x": x, "c": pl.Series("c", values, dtype=pl.Null)})
    )
    yield "polars", frame
    yield "polars in pieces", pl.concat([frame[:1], frame[1:]], rechunk=False)
    if kind == "texts":
        yield "polars categories", frame.with_columns(pl.col("c").cast(pl.String).cast(pl.Categorical))
        yield "polars enum", frame.with_columns(pl.col("c").cast(pl.String).cast(pl.Enum(pool)))


@given(column=columns(), by_value=st.booleans(), input_dtype=st.sampled_from(["float32", "float64"]))
@settings(max_examples=150, deadline=None)
def test_every_container_gives_the_codes_of_its_values(column, by_value, input_dtype):
    kind, known, values, pool = column
    codes = {value: float(code) for code, value in enumerate(known)}
    expected = [codes.get(value, np.nan) for value in values]
    forest = forest_with(known, by_value=by_value, input_dtype=input_dtype)
    for name, table in tables(kind, values, pool):
        # Only one boolean may be known. Where the other comes as a number, that could be a code.
        is_number = "float" in name or ("nullable" in name and None in values)
        if kind == "booleans" and is_number and known == [True] and False in values and not by_value:
            with pytest.raises(InputError, match="'c' holds 0, which is none of its categories True, but may be the"):
                as_rows(forest, table)
            continue
        rows = as_rows(forest, table)
        assert rows.dtype == input_dtype
        np.testing.assert_array_equal(rows[:, 1], expected, err_msg=name)
        np.testing.assert_array_equal(rows[:, 0], np.arange(len(values)), err_msg=name)
        np.testing.assert_array_equal(forest.encoder(table)(table), rows, err_msg=name)


@pytest.mark.parametrize("size", [*range(1, 20), 31, 32, 33, 47, 63])
def test_texts_that_differ_in_one_byte_are_told_apart(size):
    plain = "a" * size
    known = [plain, *(plain[:at] + "b" + plain[at + 1 :] for at in range(size))]
    values = [*known, plain + "a", plain[:-1], *(text[:-1] + "c" for text in known)]
    expected = [*range(len(known)), *[np.nan] * (len(values) - len(known))]
    x = np.zeros(len(values))
    texts = [pa.array(values, type_) for type_ in (pa.string(), pa.large_string(), pa.string_view())]
    several = pa.chunked_array([texts[2][:2], texts[2][2:]])
    for frame in (
        *(pa.table({"x": x, "c": column}) for column in (*texts, several)),
        pd.DataFrame({"x": x, "c": pd.Series(values, dtype=object)}),
        pl.DataFrame({"x": x, "c": values}),
    ):
        np.testing.assert_array_equal(as_rows(forest_with(known), frame)[:, 1], expected)


@pytest.mark.parametrize("n_known", [1, 40, 600, 5000])
def test_texts_of_all_lengths_together(n_known):
    # Short texts are looked up as words: zeros behind them are no part of them, and nothing behind the last is read.
    rng = np.random.default_rng(n_known)
    ends = ["", "\0", "\0\0", "é", "x" * 7, "x" * 8, "x" * 9, "x" * 15, "x" * 16, "x" * 17, "\0" * 16, "\0" * 17]
    pool = list(dict.fromkeys([*ends, *(f"{k}{ends[k % len(ends)]}" for k in range(2 * n_known))]))
    known = [text for text in rng.permutation(np.array(pool, object)) if not text.endswith("\0")]  # numpy drops them
    known = known[:n_known]
    values = [*rng.choice(np.array(pool, object), 200), None, *ends]
    code_of = {text: code for code, text in enumerate(known)}
    expected = [code_of.get(value, np.nan) for value in values]
    forest = forest_with(known)
    for type_ in (pa.string(), pa.large_string(), pa.string_view()):
        column = pa.array(values, type_)
        for first, last in ((0, len(values)), (3, 60), (190, len(values)), (5, 5)):
            table = pa.table({"x": np.zeros(last - first), "c": column[first:last]})
            np.testing.assert_array_equal(as_rows(forest, table)[:, 1], expected[first:last])


@pytest.mark.parametrize(
    "dtype",
    ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bool"],
)
def test_numbers_of_every_type(dtype):
    forest = complete_forest(2, 2, 2, 2, input_dtype="float64").replace(feature_names=("x", "c"))
    numbers = np.array([0, 1, 1, 0, 1]).astype(dtype)
    if dtype not in ("bool", "float16"):
        numbers[0] = np.finfo(dtype).max if numbers.dtype.kind == "f" else np.iinfo(dtype).max
    if dtype == "float16":
        numbers[:4] = [-np.inf, 6e-8, -0.1, np.nan]
    expected = numbers.astype(np.float64)
    for table in (
        pd.DataFrame({"x": numbers, "c": numbers}),
        pd.DataFrame(np.column_stack([numbers, numbers]), columns=["x", "c"]),
        pl.DataFrame({"x": numbers.astype("float32") if dtype == "float16" else numbers, "c": numbers[::-1][::-1]}),
        pa.table({"x": numbers, "c": numbers}),
        pa.RecordBatch.from_pydict({"x": numbers, "c": numbers}),
    ):
        rows = as_rows(forest, table)
        np.testing.assert_array_equal(rows, np.column_stack([expected, expected]))


def test_columns_that_only_python_can_read():
    from decimal import Decimal

    forest = complete_forest(2, 2, 2, 2, input_dtype="float64").replace(feature_names=("x", "c"))
    prices, expected = [Decimal("1.25"), None, Decimal("-3")], [1.25, np.nan, -3.0]
    for table in (
        pa.table({"x": prices, "c": [1, 2, 3]}),
        pl.DataFrame({"x": prices, "c": [1, 2, 3]}),
        pd.DataFrame({"x": prices, "c": [1, 2, 3]}),
        pd.DataFrame({"x": pd.arrays.SparseArray(np.array(expected)), "c": [1, 2, 3]}),
    ):
        np.testing.assert_array_equal(as_rows(forest, table)[:, 0], expected)
    for table in (pa.table({"x": ["1"], "c": [1]}), pl.DataFrame({"x": [pd.Timestamp(0)], "c": [1]})):
        with pytest.raises(InputError, match=r"column 'x' is not numeric \(for example"):
            as_rows(forest, table)
    missing = [None, None]
    for table in (
        pa.table({"x": pa.array(missing, pa.string()), "c": missing}),
        pd.DataFrame({"x": missing, "c": missing}),
    ):
        assert np.isnan(as_rows(forest, table)).all()


@pytest.mark.parametrize(
    ("categories", "values", "message"),
    [
        ([70, -3, 9], [70, 2], "'c' holds 2, which is none of its categories 70, -3, 9, but may be the code of one"),
        ([70.5, 3.5], [1.0], "'c' holds 1, which is none of its categories"),
        ([70, -3, 9], ["70"], r"'c' holds text \(for example '70'\), but its categories are numbers"),
        (["1", "2"], [1, 2], r"'c' holds numbers \(for example 1\), but its categories are texts"),
        (["true", "other"], [True], "Convert the column to text"),
        ([2**53, 2**53 + 1], [2.0**53], "'c' holds 9007199254740992 as a float, to which several whole numbers"),
        ([], [1, 2], "'c' is categorical, but the model has no list of categories"),
        ([], ["a"], "'c' is categorical, but the model has no list of categories"),
    ],
)
def test_what_cannot_be_decided_is_refused(categories, values, message):
    forest = forest_with(categories)
    columns = {"x": [0.0] * len(values), "c": values}
    objects = pd.DataFrame(columns).astype({"c": object})
    for table in (pd.DataFrame(columns), objects, pl.DataFrame(columns), pa.table(columns)):
        with pytest.raises(InputError, match=message):
            forest.predict(table)
    # Numbers in arrays are codes.
    codes = np.array([[0.0, 1.0], [0.0, 0.0]])
    np.testing.assert_array_equal(as_rows(forest, codes.astype(object)), codes)
    np.testing.assert_array_equal(as_rows(forest, codes), codes)


def test_numbers_are_codes_where_no_category_can_be_meant():
    forest = forest_with(["red", "green"])
    for codes in ([1, 0], [1.0, None]):
        columns = {"x": [0.0, 0.0], "c": codes}
        expected = [np.nan if code is None else code for code in codes]
        for table in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
            np.testing.assert_array_equal(as_rows(forest, table)[:, 1], expected)
    with pytest.raises(InputError, match="holds numbers"):
        as_rows(forest, pd.DataFrame({"x": [0.0, 0.0], "c": [1, "red"]}))
    with pytest.raises(InputError, match="holds numbers"):
        as_rows(forest, pd.DataFrame({"x": [0.0, 0.0], "c": pd.Categorical([1, 0])}))
    with pytest.raises(InputError, match="holds numbers"):
        as_rows(forest_with(["red", "green"], by_value=True), pd.DataFrame({"x": [0.0], "c": [1]}))


def test_whole_numbers_beyond_float_are_told_apart():
    large = [2**53 + 1, 2**53, -(2**60) - 1]
    forest = forest_with(large)
    for table in tables("integers", large, large):
        if "float" in table[0]:
            continue
        np.testing.assert_array_equal(as_rows(forest, table[1])[:, 1], [0, 1, 2], err_msg=table[0])
    with pytest.raises(InputError, match=r"2\*\*53 or more, which scikit-learn rounds"):
        as_rows(forest_with(large, by_value=True), pd.DataFrame({"x": [0.0], "c": [3]}))


def test_dtypes_that_are_equal_may_number_categories_differently():
    forest = forest_with(["a", "b"])
    one, other = (pd.CategoricalDtype(order) for order in (["a", "b"], ["b", "a"]))
    assert one == other
    for dtype in (one, other, one):
        frame = pd.DataFrame({"x": [0.0, 0.0], "c": pd.Series(["a", "b"], dtype=dtype)})
        np.testing.assert_array_equal(as_rows(forest, frame)[:, 1], [0, 1])


def test_nothing_keeps_a_dtype_alive():
    forest = forest_with(["a", "b"])
    dtype = pd.CategoricalDtype(["b", "a"])
    held = weakref.ref(dtype)
    frame = pd.DataFrame({"x": [0.0], "c": pd.Series(["a"], dtype=dtype)})
    encoder = forest.encoder(frame)
    encoder(frame)
    reader = forest.__dict__["_table_reader"]
    assert len(reader._translations) == 1
    del frame, dtype
    gc.collect()
    assert held() is None
    assert not reader._translations
    kept = weakref.ref(reader)
    del forest, reader, encoder
    assert kept() is None


def test_few_layouts_are_kept():
    forest = forest_with(["a", "b"])
    for extra in range(100):
        columns = {"x": [0.0], "c": ["b"], f"extra {extra}": [0]}
        assert as_rows(forest, pd.DataFrame(columns))[0, 1] == as_rows(forest, pl.DataFrame(columns))[0, 1] == 1
    reader = forest.__dict__["_table_reader"]
    assert max(len(reader._layouts), len(reader._orders)) <= 16


def test_an_encoder_refuses_other_kinds_of_values():
    forest = forest_with(["red", "green"])
    texts, codes = {"x": [0.5], "c": ["green"]}, {"x": [0.5], "c": [1]}
    for like in (
        pd.DataFrame(texts),
        pl.DataFrame(texts),
        pa.table(texts),
        pd.DataFrame(texts).astype({"c": "category"}),
    ):
        encoder = forest.encoder(like)
        for table in (
            pd.DataFrame(texts),
            pl.DataFrame(texts),
            pa.table(texts),
            pd.DataFrame({"c": ["green"], "x": [0.5]}),
        ):
            np.testing.assert_array_equal(encoder(table), [[0.5, 1.0]])
        for table in (pd.DataFrame(codes), pl.DataFrame(codes), pa.table(codes)):
            with pytest.raises(
                InputError, match="column 'c' holds numbers; the table that this encoder was made for has"
            ):
                encoder(table)
        with pytest.raises(InputError, match="lacks 1 of the model's columns"):
            encoder(pd.DataFrame({"x": [0.5]}))
        with pytest.raises(InputError, match="X must be a table with named columns"):
            encoder(np.zeros((1, 2)))
        assert repr(encoder) == "Encoder(2 features, 1 of text)"
    with pytest.raises(InputError, match="arrays need no encoder"):
        forest.encoder(np.zeros((1, 2)))
    with pytest.raises(InputError, match="X must be a table with named columns, such as a DataFrame, got Series"):
        forest.encoder(pl.Series([1.0]))


def test_rows_of_an_encoder_are_not_encoded_again():
    forest = forest_with([2.0, 1.0, 0.0], by_value=True)
    frame = pd.DataFrame({"x": np.zeros(3), "c": [0, 1, 2]})
    rows = forest.encoder(frame)(frame)
    np.testing.assert_array_equal(rows[:, 1], [2, 1, 0])
    assert as_rows(forest, rows) is rows
    np.testing.assert_array_equal(forest.apply(rows), forest.apply(frame))
    np.testing.assert_array_equal(scurry.Predictor.full(forest).predict(rows), forest.predict(frame))


def test_threads_share_an_encoder():
    forest = forest_with(["a", "b", "c"])
    rng = np.random.default_rng(0)
    frames = []
    for _ in range(20):
        dtype = pd.CategoricalDtype(rng.permutation(["a", "b", "c", "d"]))
        values = rng.choice(["a", "b", "c", "d"], 50)
        frames.append((values, pd.DataFrame({"x": np.zeros(50), "c": pd.Series(values, dtype=dtype)})))
    encoder, codes = forest.encoder(frames[0][1]), {"a": 0, "b": 1, "c": 2}

    def check(at):
        values, frame = frames[at % len(frames)]
        np.testing.assert_array_equal(encoder(frame)[:, 1], [codes.get(value, np.nan) for value in values])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(check, range(400)))
