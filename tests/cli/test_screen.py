"""Numbers as people read them."""

import pytest

from scurry.cli import screen


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (2_500_000, "2.5 MB"), (3e9, "3.0 GB")]
)
def test_bytes(count, shown):
    assert screen.in_bytes(count) == shown


@pytest.mark.parametrize(("duration", "shown"), [(12.345, "12.3 s"), (0.0123, "12.3 ms"), (4.2e-6, "4.2 µs")])
def test_seconds(duration, shown):
    assert screen.in_seconds(duration) == shown
