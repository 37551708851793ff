"""Protobuf messages: what is written is read again, in every encoding, and damaged bytes are refused."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scurry.errors import FormatError
from scurry.importers.onnx.protobuf import (
    Message,
    decode_numbers,
    encode_bytes,
    encode_floats,
    encode_number,
    encode_numbers,
)

WORDS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(WORDS, max_size=80), st.integers(1, 2000))
def test_whole_numbers(values, number):
    data = encode_numbers(number, np.array(values, np.int64))
    assert data == b"".join(encode_number(number, value) for value in values)
    assert Message(data).numbers(number).tolist() == values


@given(st.lists(WORDS, min_size=1, max_size=80))
def test_packed_numbers_are_the_same(values):
    tagless = b"".join(encode_number(1, value)[1:] for value in values)
    assert Message(encode_bytes(3, tagless)).numbers(3).tolist() == values


def test_runs_that_other_fields_interrupt():
    rng = np.random.default_rng(0)
    expected, data = {1: [], 2: []}, b""
    for _ in range(200):
        field, values = int(rng.integers(1, 3)), rng.integers(0, 2**40, rng.integers(1, 300))
        expected[field] += values.tolist()
        data += encode_numbers(field, values)
    message = Message(data + encode_number(20, 7))
    assert [message.numbers(1).tolist(), message.numbers(2).tolist()] == [expected[1], expected[2]]
    assert message.number(20) == 7


@given(st.lists(st.floats(width=32), max_size=300), st.integers(1, 2000))
def test_floats(values, number):
    array = np.array(values, np.float32)
    message = Message(encode_floats(number, array) + encode_number(3000, 1))
    np.testing.assert_array_equal(message.floats(number), array)
    packed = Message(encode_bytes(number, array.astype("<f4").tobytes()))
    np.testing.assert_array_equal(packed.floats(number), array)


def test_doubles_and_texts():
    data = (
        b"\x09" + np.float64(1.25).tobytes() + encode_bytes(2, "ä") + encode_bytes(2, "") + encode_bytes(2, "x" * 300)
    )
    message = Message(data)
    assert message.floats(1, "<f8").tolist() == [1.25]
    assert message.texts(2) == ["ä", "", "x" * 300]
    assert (message.text(2), message.text(9, "none"), 2 in message, 9 in message) == ("x" * 300, "none", True, False)
    assert message.message(9).texts(1) == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x08", "number without an end"),
        (b"\x08\xff", "number without an end"),
        (b"\x08" + b"\xff" * 11, "number without an end"),
        (b"\x0a\x05abc", "claims 5 bytes"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7fabc", "claims 9223372036854775807 bytes"),
        (b"\x0d\x00\x00", "claims"),
        (b"\x0b", "unknown type 3"),
        (b"\x00\x01", "field without a number"),
        (b"\x0a\x01a\x0a\x05b", "claims 5 bytes"),
    ],
)
def test_damaged_messages(data, message):
    with pytest.raises(FormatError, match=message):
        Message(data)


def test_fields_of_another_kind():
    message = Message(encode_number(1, 5) + encode_bytes(2, b"\xff\xff") + encode_bytes(3, b"abc"))
    for read in (
        lambda: message.parts(1),
        lambda: message.numbers(2),
        lambda: message.floats(3),
        lambda: message.texts(2),
    ):
        with pytest.raises(FormatError):
            read()
    with pytest.raises(FormatError, match="numbers of 4 bytes"):
        Message(b"\x09" + bytes(8)).floats(1)


@given(st.binary(max_size=300))
def test_any_bytes(data):
    with contextlib.suppress(FormatError):  # and no other error
        Message(data)


@given(st.binary(max_size=60))
def test_packed_numbers_of_any_bytes(data):
    try:
        values, ends = decode_numbers(data)
    except FormatError:
        assert data[-1] >= 0x80 or len(data) > 10
        return
    assert len(values) == len(ends)
    assert (ends[-1] if len(ends) else 0) == len(data)
