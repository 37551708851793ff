"""Numbers as people read them: percent, bytes, durations and plain numbers, the same in every text scurry writes."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan


def format_number(value: float) -> str:
    """Return a number with about three digits; whole numbers in full.

    Examples
    --------
    >>> format_number(48842), format_number(6.247), format_number(0.03217), format_number(101.0)
    ('48,842', '6.25', '0.0322', '101')
    """
    if float(value).is_integer():
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:,.1f}"
    return f"{value:.3g}"


def format_percent(rate: float) -> str:
    """Return a rate in percent as it was asked for: a bound, or the tick of a chart.

    Examples
    --------
    >>> format_percent(0.005), format_percent(0.86), format_percent(1.0)
    ('0.5 %', '86 %', '100 %')
    """
    return f"{100 * rate:.5g} %"


def format_share(share: float) -> str:
    """Return a measured share in percent. It says 0 % only of nothing, and 100 % only of everything.

    A share of no rows, which is NaN, is a dash.

    Examples
    --------
    >>> format_share(0.8564), format_share(0.00125), format_share(0), format_share(0.00001), format_share(0.999999)
    ('85.64 %', '0.125 %', '0 %', '0.001 %', '99.99 %')
    >>> format_share(float("nan"))
    '–'
    """
    if isnan(share):
        return "–"
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    percent = 100 * share
    if abs(percent) >= 1:
        # Rounding up would turn a share that is almost all into all.
        return f"{min(percent, 99.99) if percent < 100 else percent:.2f} %"
    return f"{percent:.3f} %" if abs(percent) >= 0.0005 else f"{percent:.1g} %"


def format_bytes(count: float) -> str:
    """Return a size with its unit.

    Examples
    --------
    >>> format_bytes(512), format_bytes(67_000), format_bytes(5.0e9)
    ('512 bytes', '67.0 kB', '5.0 GB')
    """
    if count >= 1e16:
        return f"{count / 1e12:.1e} TB"
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:.0f} byte{'' if round(count) == 1 else 's'}"


def format_seconds(duration: float) -> str:
    """Return a duration in the unit that suits it.

    Examples
    --------
    >>> format_seconds(0.0123), format_seconds(2.9e-6)
    ('12.3 ms', '2.9 µs')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if duration >= size:
            return f"{duration / size:.3g} {unit}"
    return f"{duration / 1e-6:.3g} µs"


def round_up(value: float, digits: int) -> float:
    """Return the smallest number with so many digits that is not below `value`: a budget that allows what it costs.

    Examples
    --------
    >>> round_up(42.58651, 6), round_up(0.00463, 2), round_up(40.0, 2)
    (42.5866, 0.0047, 40.0)
    """
    from decimal import ROUND_CEILING, Context  # few need it, and it takes long

    return float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal_from_float(value))


def align(lines: Mapping[str, str]) -> str:
    """Return names and texts as lines in two columns."""
    width = max(map(len, lines), default=0)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in lines.items())
