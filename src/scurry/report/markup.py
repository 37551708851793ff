"""HTML and SVG as values: text is escaped unless it is markup already.

Numbers as a reader wants them.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Context
from html import escape

_VOID = frozenset({"br", "input", "meta"})


class Markup(str):
    """Text that needs no escaping."""

    __slots__ = ()


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """An element.

    Parameters
    ----------
    name : str
    *children : Markup, or anything else as escaped text; None is left out
    **attributes : object
        ``stroke_width`` is written stroke-width and ``class_`` class; None and False are left out, True has no value.

    Returns
    -------
    Markup

    Examples
    --------
    >>> tag("td", "a < b", class_="n", hidden=True)
    '<td class="n" hidden>a &lt; b</td>'
    """
    head = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if name in _VOID:
        return Markup(f"<{name}{head}>")
    return Markup(f"<{name}{head}>{join(*children)}</{name}>")


def join(*children: object) -> Markup:
    """Elements and texts one after another."""
    return Markup("".join(c if isinstance(c, Markup) else escape(str(c)) for c in children if c is not None))


def _attribute(name: str, value: object) -> str:
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def table(header: list[object], rows: list[list[object]], *, caption: str, n_text: int = 1) -> Markup:
    """A table that scrolls by itself where the page is too narrow.

    Parameters
    ----------
    header : list
    rows : list of lists
        The first cell of each names the row.
    caption : str
    n_text : int, default 1
        How many columns hold text; the others hold numbers.

    Returns
    -------
    Markup
    """
    kinds = ["t"] * n_text + ["n"] * (len(header) - n_text)
    head = tag("tr", *(tag("th", cell, scope="col", class_=kind) for cell, kind in zip(header, kinds, strict=True)))
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row", class_="t"),
            *(tag("td", cell, class_=kind) for cell, kind in zip(row[1:], kinds[1:], strict=True)),
        )
        for row in rows
    ]
    content = tag("table", tag("caption", tag("span", caption)), tag("thead", head), tag("tbody", *body))
    return tag("div", content, class_="scroll", tabindex=0, role="region", aria_label=caption)


def share(value: float) -> str:
    """A fraction in percent, with digits enough for small ones.

    Examples
    --------
    >>> share(0.8564), share(0.00125), share(0), share(0.00001)
    ('85.64 %', '0.125 %', '0 %', '0.001 %')
    """
    percent = 100 * value
    if percent == 0:
        return "0 %"
    digits = 2 if abs(percent) >= 1 else 3
    return f"{percent:.{digits}f} %"


def percent(value: float) -> str:
    """A round fraction in percent, as at a chart's ticks.

    Examples
    --------
    >>> percent(0.86), percent(0.005)
    ('86 %', '0.5 %')
    """
    return f"{100 * value:.5g} %"


def number(value: float) -> str:
    """A number with about three digits, whole ones in full.

    Examples
    --------
    >>> number(48842), number(6.247), number(0.03217), number(101.0)
    ('48,842', '6.25', '0.0322', '101')
    """
    if float(value).is_integer():
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:,.1f}"
    return f"{value:.3g}"


def rounded_up(value: float, digits: int) -> float:
    """The least number of so many digits that is not below `value`: a budget that allows what costs `value`.

    Examples
    --------
    >>> rounded_up(42.58651, 6), rounded_up(0.00463, 2), rounded_up(40.0, 2)
    (42.5866, 0.0047, 40.0)
    """
    return float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal_from_float(value))


def seconds(duration: float) -> str:
    """A duration in the unit that suits it.

    Examples
    --------
    >>> seconds(0.0123), seconds(2.9e-6)
    ('12.3 ms', '2.9 µs')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if duration >= size:
            return f"{duration / size:.3g} {unit}"
    return f"{duration / 1e-6:.3g} µs"
