"""HTML and SVG as values: text is escaped unless it is markup already."""

from __future__ import annotations

from html import escape

_VOID = frozenset({"br", "input", "meta"})  # elements that HTML knows without an end tag


class Markup(str):
    """Text that needs no escaping."""

    __slots__ = ()


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """Make an element.

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
    head = name
    for key, value in attributes.items():
        # A False is left out by identity: 0 is a value, as in tabindex="0".
        if value is None or value is False:
            continue
        # Python keywords end in an underscore here, and Python names have no hyphen.
        head += f" {key.rstrip('_').replace('_', '-')}"
        head += "" if value is True else f'="{escape(str(value))}"'
    return Markup(f"<{head}>" if name in _VOID else f"<{head}>{join(*children)}</{name}>")


def join(*children: object) -> Markup:
    """Join elements and texts; None is left out."""
    return Markup("".join(c if isinstance(c, Markup) else escape(str(c)) for c in children if c is not None))


def tabulate(header: list[object], rows: list[list[object]], *, caption: str, n_text: int = 1) -> Markup:
    """Make a table that scrolls by itself where the page is too narrow.

    Parameters
    ----------
    header : list
    rows : list of lists
        The first cell of each names the row.
    caption : str
    n_text : int, default 1
        Number of columns that hold text; the others hold numbers.

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
    # A region that scrolls must be reachable by keyboard and have a name.
    return tag("div", content, class_="scroll", tabindex=0, role="region", aria_label=caption)
