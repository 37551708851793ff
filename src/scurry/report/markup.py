"""HTML and SVG as values: text is escaped unless it is markup already."""

from __future__ import annotations

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
