"""HTML and SVG as values: text is escaped unless it is markup already.

Charts are inline SVG. Their colours are classes of the page's style sheet, so that they follow light and dark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.formatting import format_number

_VOID = frozenset({"br", "input", "meta"})  # elements that HTML knows without an end tag
# The size is close to what a chart has on a page of two columns, so that text is drawn at about its own size.
_WIDTH, _HEIGHT = 440, 268
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 32, 48  # margins; tick labels and axis names stand in them
_MAX_DOTS = 4000  # more are not seen, and make the file large


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


@dataclass(frozen=True)
class Axis:
    """A named range of numbers and how they are written."""

    name: str
    low: float
    high: float
    format_value: Callable[[float], str] = format_number

    @classmethod
    def around(cls, name: str, values: ArrayLike, format_value: Callable[[float], str] = format_number) -> Axis:
        """Make a range that holds `values` with a margin."""
        values = np.asarray(values, np.float64)
        low, high = float(values.min()), float(values.max())
        # Values that are all equal still need a range; one around zero needs a width of its own.
        margin = 0.08 * (high - low) or 0.05 * abs(high) or 0.01
        # Rates and costs are never negative: their axis does not go below zero.
        return cls(name, max(low - margin, 0.0) if low >= 0 else low - margin, high + margin, format_value)

    def scale(self, values: ArrayLike) -> NDArray[np.float64]:
        """Map values to [0, 1]; those outside the range are moved to its end."""
        place: NDArray[np.float64] = (np.asarray(values, np.float64) - self.low) / self._span
        return place.clip(0, 1)

    def find_ticks(self, about: int = 4) -> NDArray[np.float64]:
        """Return round numbers in the range."""
        power = 10.0 ** np.floor(np.log10(self._span / about))
        width = min((m * power for m in (1, 2, 5, 10)), key=lambda w: abs(self._span / w - about))
        # A tick at the very end of the range must not be lost to rounding.
        first, last = np.ceil(self.low / width - 1e-9), np.floor(self.high / width + 1e-9)
        places: NDArray[np.float64] = np.arange(first, last + 1) * width + 0.0  # no negative zero
        return places

    @property
    def _span(self) -> float:
        return (self.high - self.low) or 1.0  # an empty range has no width to divide by


@dataclass
class Chart:
    """Axes and what is drawn between them.

    Attributes
    ----------
    title : str
        What the chart shows, for readers who do not see it.
    x, y : Axis
    """

    title: str
    x: Axis
    y: Axis
    _parts: list[Markup] = field(default_factory=list)

    def to_svg(self) -> Markup:
        """Return the drawing as an SVG element."""
        return tag(
            "svg",
            tag("title", self.title),
            self._draw_axes(),
            *self._parts,
            viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
            role="img",
            aria_label=self.title,
        )

    def place(self, x: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return positions in the drawing."""
        return (
            _LEFT + self.x.scale(x) * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - self.y.scale(y) * (_HEIGHT - _TOP - _BOTTOM),  # SVG counts downwards
        )

    def draw_line(self, x: ArrayLike, y: ArrayLike, style: str) -> None:
        """Draw a line through points, interrupted where `y` is NaN."""
        px, py = self.place(x, y)
        pen, parts = "M", []
        for a, b in zip(px, py, strict=True):
            if np.isnan(b):
                pen = "M"
                continue
            parts.append(f"{pen}{a:.1f} {b:.1f}")
            pen = "L"
        self._parts.append(tag("path", d="".join(parts), class_=f"line {style}"))

    def draw_staircase(self, x: ArrayLike, y: ArrayLike, *, beyond: float, style: str) -> None:
        """Draw a level around each `x` (none where `y` is NaN) and fill the region from there to `beyond`."""
        middle, level = np.asarray(x, np.float64), np.asarray(y, np.float64)
        edges, levels = np.repeat(middle, 2) + np.tile([-0.5, 0.5], len(middle)), np.repeat(level, 2)
        # Where there is no level the region has no height, so that one polygon is enough.
        px, py = self.place(edges, np.where(np.isnan(levels), beyond, levels))
        _, base = self.place(edges, np.full(len(edges), beyond))
        outline = [*zip(px, py, strict=True), *zip(px[::-1], base[::-1], strict=True)]
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in outline)
        self._parts.append(tag("polygon", points=points, class_=f"area {style}"))
        self.draw_line(edges, levels, style)

    def draw_bars(self, edges: ArrayLike, heights: Sequence[float], names: Sequence[str]) -> None:
        """Draw a bar from each edge to the next; its name appears under the pointer."""
        left, top = self.place(np.asarray(edges)[:-1], heights)
        right, base = self.place(np.asarray(edges)[1:], np.zeros(len(heights)))
        for a, b, high, low, name in zip(left, right, top, base, names, strict=True):
            # A gap of one unit tells neighbours apart; a narrow bar stays visible.
            shape = {"x": f"{a + 0.5:.1f}", "y": f"{high:.1f}", "width": f"{max(b - a - 1, 0.6):.1f}"}
            self._parts.append(tag("rect", tag("title", name), **shape, height=f"{low - high:.1f}", class_="bar"))

    def draw_dots(self, x: NDArray[np.float64], y: NDArray[np.float64], style: str = "small") -> None:
        """Draw a dot at each point, or at an even choice of them where there are very many."""
        some = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MAX_DOTS)).astype(np.intp))
        px, py = self.place(x[some], y[some])
        # Lines of no length with round ends: one path is far smaller than thousands of circles.
        path = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(px, py, strict=True))
        self._parts.append(tag("path", d=path, class_=f"dots {style}"))

    def draw_strips(self, x: ArrayLike, low: ArrayLike, high: ArrayLike, style: str) -> None:
        """Draw a vertical line at each `x`."""
        px, bottom = self.place(x, low)
        _, top = self.place(x, high)
        path = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in zip(px, bottom, top, strict=True))
        self._parts.append(tag("path", d=path, class_=f"strip {style}"))

    def draw_guide(self, y: float, text: str = "") -> None:
        """Draw a dotted line across, with a text that says what it means unless a legend does."""
        (left, right), (height, _) = self.place([self.x.low, self.x.high], [y, y])
        self._parts.append(tag("path", d=f"M{left:.1f} {height:.1f}H{right:.1f}", class_="guide"))
        if text:
            self._parts.append(
                tag("text", text, x=f"{right:.1f}", y=f"{height - 5:.1f}", text_anchor="end", class_="note")
            )

    def draw_marker(self, x: float, y: float, name: str) -> None:
        """Draw a point that the page's script can move."""
        (cx,), (cy,) = self.place([x], [y])
        self._parts.append(tag("circle", cx=f"{cx:.1f}", cy=f"{cy:.1f}", r=6, class_="marker", id=name))

    def _draw_axes(self) -> Markup:
        parts: list[Markup] = []
        floor, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        for value in self.y.find_ticks():
            height = f"{self.place([self.x.low], [value])[1][0]:.1f}"
            parts.append(tag("path", d=f"M{_LEFT} {height}H{right}", class_="grid"))
            parts.append(tag("text", self.y.format_value(value), x=_LEFT - 6, y=height, dy="0.35em", text_anchor="end"))
        for value in self.x.find_ticks(5):
            across = f"{self.place([value], [self.y.low])[0][0]:.1f}"
            parts.append(tag("path", d=f"M{across} {floor}v4", class_="axis"))
            parts.append(tag("text", self.x.format_value(value), x=across, y=floor + 19, text_anchor="middle"))
        parts += [
            tag("path", d=f"M{_LEFT} {floor}H{right}", class_="axis"),
            tag("text", self.y.name, x=0, y=14, class_="name"),  # above the axis: upright text is easier to read
            tag("text", self.x.name, x=(_LEFT + right) / 2, y=_HEIGHT - 6, text_anchor="middle", class_="name"),
        ]
        return join(*parts)
