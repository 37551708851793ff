"""Charts as inline SVG. Colours are classes of the page's style sheet, so that they follow light and dark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.report.markup import Markup, join, number, tag

_WIDTH, _HEIGHT = 440, 268
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 32, 48
_MAX_DOTS = 4000


@dataclass(frozen=True)
class Axis:
    """A named range of numbers and how they are written."""

    name: str
    low: float
    high: float
    shown: Callable[[float], str] = number

    def at(self, values: ArrayLike) -> NDArray[np.float64]:
        """Positions in [0, 1]; whatever lies outside the range is put at its end."""
        span = (self.high - self.low) or 1.0
        place: NDArray[np.float64] = (np.asarray(values, np.float64) - self.low) / span
        return place.clip(0, 1)

    def ticks(self, about: int = 4) -> NDArray[np.float64]:
        """Round numbers in the range."""
        span = (self.high - self.low) or 1.0
        power = 10.0 ** np.floor(np.log10(span / about))
        width = min((m * power for m in (1, 2, 5, 10)), key=lambda w: abs(span / w - about))
        first, last = np.ceil(self.low / width - 1e-9), np.floor(self.high / width + 1e-9)
        places: NDArray[np.float64] = np.arange(first, last + 1) * width + 0.0  # no negative zero
        return places

    @classmethod
    def around(cls, name: str, values: ArrayLike, shown: Callable[[float], str] = number) -> Axis:
        """A range that holds `values` with some air."""
        values = np.asarray(values, np.float64)
        low, high = float(values.min()), float(values.max())
        air = 0.08 * (high - low) or 0.05 * abs(high) or 0.01
        return cls(name, max(low - air, 0.0) if low >= 0 else low - air, high + air, shown)


@dataclass
class Chart:
    """Axes and what is drawn between them.

    Attributes
    ----------
    title : str
        What the chart shows, for those who do not see it.
    x, y : Axis
    """

    title: str
    x: Axis
    y: Axis
    _drawn: list[Markup] = field(default_factory=list)

    def place(self, x: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Positions in the drawing."""
        return (
            _LEFT + self.x.at(x) * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - self.y.at(y) * (_HEIGHT - _TOP - _BOTTOM),
        )

    def line(self, x: ArrayLike, y: ArrayLike, style: str) -> None:
        """A line through points; it is interrupted where `y` is NaN."""
        px, py = self.place(x, y)
        pen, parts = "M", []
        for a, b in zip(px, py, strict=True):
            if np.isnan(b):
                pen = "M"
                continue
            parts.append(f"{pen}{a:.1f} {b:.1f}")
            pen = "L"
        self._drawn.append(tag("path", d="".join(parts), class_=f"line {style}"))

    def staircase(self, x: ArrayLike, y: ArrayLike, *, beyond: float, style: str) -> None:
        """A level around each `x`, nothing where `y` is NaN, and the region from there to the height `beyond`."""
        middle, level = np.asarray(x, np.float64), np.asarray(y, np.float64)
        edges, levels = np.repeat(middle, 2) + np.tile([-0.5, 0.5], len(middle)), np.repeat(level, 2)
        px, py = self.place(edges, np.where(np.isnan(levels), beyond, levels))
        _, base = self.place(edges, np.full(len(edges), beyond))
        outline = [*zip(px, py, strict=True), *zip(px[::-1], base[::-1], strict=True)]
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in outline)
        self._drawn.append(tag("polygon", points=points, class_=f"area {style}"))
        self.line(edges, levels, style)

    def bars(self, edges: ArrayLike, heights: Sequence[float], names: Sequence[str]) -> None:
        """A bar from each edge to the next; its name appears under the pointer."""
        left, top = self.place(np.asarray(edges)[:-1], heights)
        right, base = self.place(np.asarray(edges)[1:], np.zeros(len(heights)))
        for a, b, high, low, name in zip(left, right, top, base, names, strict=True):
            shape = {"x": f"{a + 0.5:.1f}", "y": f"{high:.1f}", "width": f"{max(b - a - 1, 0.6):.1f}"}
            self._drawn.append(tag("rect", tag("title", name), **shape, height=f"{low - high:.1f}", class_="bar"))

    def dots(self, x: NDArray[np.float64], y: NDArray[np.float64], style: str = "small") -> None:
        """A dot at each point, or at some of them, evenly chosen, where there are very many."""
        some = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MAX_DOTS)).astype(np.intp))
        px, py = self.place(x[some], y[some])
        path = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(px, py, strict=True))
        self._drawn.append(tag("path", d=path, class_=f"dots {style}"))

    def strips(self, x: ArrayLike, low: ArrayLike, high: ArrayLike, style: str) -> None:
        """A vertical line at each `x`."""
        px, bottom = self.place(x, low)
        _, top = self.place(x, high)
        path = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in zip(px, bottom, top, strict=True))
        self._drawn.append(tag("path", d=path, class_=f"strip {style}"))

    def guide(self, y: float, text: str) -> None:
        """A dotted line across, with its meaning."""
        (left, right), (height, _) = self.place([self.x.low, self.x.high], [y, y])
        self._drawn.append(tag("path", d=f"M{left:.1f} {height:.1f}H{right:.1f}", class_="guide"))
        self._drawn.append(tag("text", text, x=f"{right:.1f}", y=f"{height - 5:.1f}", text_anchor="end", class_="note"))

    def marker(self, x: float, y: float, name: str) -> None:
        """A point that the page's script can move."""
        (cx,), (cy,) = self.place([x], [y])
        self._drawn.append(tag("circle", cx=f"{cx:.1f}", cy=f"{cy:.1f}", r=6, class_="marker", id=name))

    def svg(self) -> Markup:
        """The drawing."""
        return tag(
            "svg",
            tag("title", self.title),
            self._axes(),
            *self._drawn,
            viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
            role="img",
            aria_label=self.title,
        )

    def _axes(self) -> Markup:
        parts: list[Markup] = []
        floor, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        for value in self.y.ticks():
            height = f"{self.place([self.x.low], [value])[1][0]:.1f}"
            parts.append(tag("path", d=f"M{_LEFT} {height}H{right}", class_="grid"))
            parts.append(tag("text", self.y.shown(value), x=_LEFT - 6, y=height, dy="0.35em", text_anchor="end"))
        for value in self.x.ticks(5):
            across = f"{self.place([value], [self.y.low])[0][0]:.1f}"
            parts.append(tag("path", d=f"M{across} {floor}v4", class_="axis"))
            parts.append(tag("text", self.x.shown(value), x=across, y=floor + 19, text_anchor="middle"))
        parts.append(tag("path", d=f"M{_LEFT} {floor}H{right}", class_="axis"))
        parts += [
            tag("text", self.y.name, x=0, y=14, class_="name"),
            tag("text", self.x.name, x=(_LEFT + right) / 2, y=_HEIGHT - 6, text_anchor="middle", class_="name"),
        ]
        return join(*parts)
