"""Numbers as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scurry.formatting import (
    format_bytes,
    format_number,
    format_percent,
    format_seconds,
    format_share,
    round_up,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (101.0, "101"),
        (48842, "48,842"),
        (1234.56, "1,234.6"),
        (6.247, "6.25"),
        (0.03217, "0.0322"),
        (-3, "-3"),
    ],
)
def test_number(value, shown):
    assert format_number(value) == shown


@pytest.mark.parametrize(
    ("rate", "shown"), [(0, "0 %"), (0.005, "0.5 %"), (0.0625, "6.25 %"), (1.0, "100 %"), (0.001 / 3, "0.033333 %")]
)
def test_percent(rate, shown):
    assert format_percent(rate) == shown


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (1e-9, "1e-07 %"),
        (0.00001, "0.001 %"),
        (0.00125, "0.125 %"),
        (0.01, "1.00 %"),
        (0.8564, "85.64 %"),
        (0.99999999, "99.99 %"),
        (1.25, "125.00 %"),
        (-0.02, "-2.00 %"),
        (float("nan"), "–"),
    ],
)
def test_share(share, shown):
    assert format_share(share) == shown


@given(st.floats(1e-300, 1, exclude_max=True))
def test_a_share_of_some_is_neither_none_nor_all(share):
    shown = float(format_share(share).removesuffix(" %"))
    assert 0 < shown < 100
    assert shown == pytest.approx(100 * share, rel=0.5, abs=0.01)


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (2_500_000, "2.5 MB"),
        (3e9, "3.0 GB"),
        (1.5e15, "1,500.0 TB"),
        (2e18, "2.0e+06 TB"),
    ],
)
def test_bytes(count, shown):
    assert format_bytes(count) == shown


@pytest.mark.parametrize(
    ("duration", "shown"), [(12.345, "12.3 s"), (0.0123, "12.3 ms"), (4.2e-6, "4.2 µs"), (0, "0 µs")]
)
def test_seconds(duration, shown):
    assert format_seconds(duration) == shown


@given(st.floats(1e-9, 1e9), st.integers(1, 9))
def test_a_rounded_budget_allows_what_it_costs(value, digits):
    rounded = round_up(value, digits)
    assert rounded >= value
    assert rounded <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-12)
