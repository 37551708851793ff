"""Pictures of the papers' figures, drawn from stored results as SVG: lines over two axes, with a band if there is one.

They are text that follows from the numbers alone, so that a test can compare them with the result they belong to.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs"))

from drawings import GREY, INK, Drawing

COLORS = ("#c53030", "#1f6fb2", "#c2571a", "#2f855a", "#6b46c1", "#7b8794", "#b7791f", "#0f766e")
WIDTH, HEIGHT = 780, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 540, 46, 360  # of the axes; the key is to the right of them
N_TICKS = 5


@dataclass(frozen=True)
class Line:
    """A curve or, if `marks`, points.

    Parameters
    ----------
    title : str
        In the key; "" if it is not there.
    x, y : tuple of float
    low, high : tuple of float
        The ends of a band around the curve; empty if there is none.
    color : int
        Index into the colours; lines that belong together have one colour.
    dashed, marks : bool
    """

    title: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    color: int = 0
    dashed: bool = False
    marks: bool = False


@dataclass(frozen=True)
class Picture:
    """A figure of a page.

    Parameters
    ----------
    name : str
        Of its file.
    item : str
        The heading of the page that it belongs to.
    title, x_label, y_label : str
        An axis whose label begins with "log10 of" or "log2 of" shows the numbers themselves.
    lines : tuple of Line
    x_names : tuple of str
        What stands at 0, 1, … instead of numbers.
    """

    name: str
    item: str
    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    x_names: tuple[str, ...] = ()

    @classmethod
    def load(cls, fields: Mapping[str, Any]) -> Picture:
        """Return what was stored as a mapping."""
        lines = tuple(
            Line(**{k: tuple(v) if isinstance(v, list) else v for k, v in line.items()}) for line in fields["lines"]
        )
        return cls(**{**fields, "lines": lines, "x_names": tuple(fields.get("x_names", ()))})

    def svg(self) -> str:
        """Return the picture as the text of an SVG file."""
        drawing = Drawing(WIDTH, HEIGHT, self.title)
        x_axis, y_axis = _Axis.of(self.x_label), _Axis.of(self.y_label)
        named = [float(at) for at in range(-1, len(self.x_names) + 1)]
        x_ticks = named if self.x_names else _ticks([value for line in self.lines for value in line.x])
        y_ticks = _ticks([v for line in self.lines for values in (line.y, line.low, line.high) for v in values])

        def at(x: float, y: float) -> tuple[float, float]:
            across, up = (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0]), (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
            return LEFT + across * (RIGHT - LEFT), BOTTOM - up * (BOTTOM - TOP)

        drawing.text((LEFT + RIGHT) / 2, 15, self.title, INK, weight="bold")
        for place, tick in enumerate(x_ticks):
            x, y = at(tick, y_ticks[0])
            drawing.line([(x, y), (x, TOP)], GREY, 0.4, opacity=0.6)
            if self.x_names:
                # In two rows, so that long names do not run into each other.
                drawing.text(x, y + 16 + 12 * (place % 2), ("", *self.x_names, "")[place], GREY, size=10)
            else:
                drawing.text(x, y + 18, x_axis.text(tick), GREY, size=12)
        for tick in y_ticks:
            x, y = at(x_ticks[0], tick)
            drawing.line([(x, y), (RIGHT, y)], GREY, 0.4, opacity=0.6)
            drawing.text(x - 8, y + 4, y_axis.text(tick), GREY, "end", 12)
        drawing.text((LEFT + RIGHT) / 2, BOTTOM + 42, x_axis.label, INK, size=13)
        drawing.text(LEFT - 50, TOP - 14, y_axis.label, INK, "start", 13)
        y_key = TOP + 10
        for line in self.lines:
            self._draw(drawing, line, at)
            if line.title:
                self._add_key(drawing, line, y_key)
                y_key += 22
        return "\n".join([*drawing.parts, "</svg>"]) + "\n"

    @staticmethod
    def _draw(drawing: Drawing, line: Line, at: Callable[[float, float], tuple[float, float]]) -> None:
        color = COLORS[line.color % len(COLORS)]
        if line.low:
            below, above = ([at(x, y) for x, y in zip(line.x, ends, strict=True)] for ends in (line.low, line.high))
            drawing.area([*below, *reversed(above)], color, 0.15)
        points = [at(x, y) for x, y in zip(line.x, line.y, strict=True)]
        if line.marks:
            for x, y in points:
                drawing.circle(x, y, 4, color, "#ffffff")
        else:
            drawing.line(points, color, 2, "6 4" if line.dashed else "")

    @staticmethod
    def _add_key(drawing: Drawing, line: Line, y: float) -> None:
        color = COLORS[line.color % len(COLORS)]
        if line.marks:
            drawing.circle(RIGHT + 28, y - 4, 4, color)
        else:
            drawing.line([(RIGHT + 16, y - 4), (RIGHT + 40, y - 4)], color, 2, "6 4" if line.dashed else "")
        drawing.text(RIGHT + 48, y, line.title, INK, "start", 12)


@dataclass(frozen=True)
class _Axis:
    """What stands at an axis: its label, and the numbers of which logarithms to this base are drawn, if any."""

    label: str
    base: int = 0

    @classmethod
    def of(cls, label: str) -> _Axis:
        for base in (2, 10):
            if label.startswith(f"log{base} of "):
                return cls(label.removeprefix(f"log{base} of "), base)
        return cls(label)

    def text(self, tick: float) -> str:
        if not self.base:
            return f"{tick:g}"
        number = float(self.base) ** tick
        return f"{number:,.0f}" if number >= 100 else f"{number:.2g}"


def _ticks(values: Sequence[float]) -> list[float]:
    """Return round numbers whose range holds all values."""
    least, most = min(values), max(values)
    span = (most - least) or abs(most) or 1.0
    rough = span / N_TICKS
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough * (1 - 1e-9))
    first, last = math.floor(least / step + 1e-9), math.ceil(most / step - 1e-9)
    return [round(step * tick, 12) for tick in range(first, max(last, first + 1) + 1)]
