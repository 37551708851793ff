"""The UBJSON reader against documents written by hand and by XGBoost, whole and broken."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scurry.errors import FormatError
from scurry.importers.xgboost import ubjson
from support.ubjson_writer import TYPES, write

scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=8)
)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
)


@settings(max_examples=200, deadline=None)
@given(documents)
def test_reads_back_what_was_written(document):
    read = ubjson.loads(write(document))
    assert read == document
    assert type(read) is type(document)


@pytest.mark.parametrize(("marker", "code"), TYPES.items())
def test_typed_arrays_keep_type_and_values(marker, code):
    dtype = np.dtype(code)
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    values = np.array([limits.min, 0, 1, limits.max], dtype)
    read = ubjson.loads(write(values))
    assert read.dtype == dtype
    np.testing.assert_array_equal(read, values)
    scalar = ubjson.loads(marker.encode() + values[3:].astype(dtype.newbyteorder(">")).tobytes())
    assert scalar == values[3]


def test_arrays_may_be_open_and_lengths_of_any_integer_type():
    assert ubjson.loads(b"[i\x01U\xff[]I\x01\x00]") == [1, 255, [], 256]
    for length in (b"i\x03", b"U\x03", b"I\x00\x03", b"l\x00\x00\x00\x03"):
        assert ubjson.loads(b"S" + length + b"abc") == "abc"


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"X",
        b"N",
        b"Hi\x011",
        b"TT",
        b"S",
        b"Sd\x00\x00\x00\x00",
        b"Si\xff",
        b"Si\x02\xc3\x28",
        b"{i\x01aT",
        b"{SaT}",
        b"[#L\x7f\xff\xff\xff\xff\xff\xff\xffT",
        b"[$d#L\x7f\xff\xff\xff\xff\xff\xff\xff",
        b"[$L#L\x20\x00\x00\x00\x00\x00\x00\x00",
        b"[$l#i\xff",
        b"[$Z#i\x05",
        b"[$S#i\x01i\x01a",
        b"[$di\x01\x00\x00\x00\x00",
        b"[" * 100 + b"]" * 100,
        b"[" * 100_000,
        b"{i\x01a" * 100_000,
    ],
)
def test_broken_documents_are_refused(broken):
    with pytest.raises(FormatError):
        ubjson.loads(broken)


def test_every_truncation_is_refused():
    whole = write({"a": [1, 2.5, None, True, "text"], "b": np.arange(5, dtype=np.float32), "c": {"d": []}})
    for length in range(len(whole)):
        with pytest.raises(FormatError):
            ubjson.loads(whole[:length])


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_format_error(data):
    try:
        ubjson.loads(b"{" + data)
    except FormatError:
        return
