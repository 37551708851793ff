"""Pictures of a paper's results, drawn from what is stored with its claims, to the same bytes anywhere."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs"))

from drawings import GREY, INK, PALE, Drawing

COLOURS = ("#1f6fb2", "#c2571a", "#2f855a", "#8a4baf", "#b7791f", "#0f8b8d", "#c53030", "#4a5568", "#d53f8c", "#718096")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, LEGEND = 780, 430, 76, 44, 62, 196


@dataclass(frozen=True)
class Series:
    """Points with one label.

    Parameters
    ----------
    label : str
    x, y : tuple of float
    mark : {"line", "dashes", "points", "squares", "bars"}
    color : int or None
        Place in `COLOURS`; by default the place of the series in its chart.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    mark: str = "line"
    color: int | None = None


@dataclass(frozen=True)
class Chart:
    """A picture with two axes.

    Parameters
    ----------
    item : str
        Figure of the paper, as in `Claim.item`; the picture follows the table of its claims.
    name : str
        Of the file, after the paper's.
    caption, x_label, y_label : str
    series : tuple of Series
    log_x, log_y : bool
    x_names, y_names : tuple of str
        What stands at 0, 1, … instead of numbers.
    """

    item: str
    name: str
    caption: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    x_names: tuple[str, ...] = ()
    y_names: tuple[str, ...] = ()

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Chart:
        """Return the chart that JSON has kept."""
        series = tuple(Series(**one | {axis: tuple(one[axis]) for axis in "xy"}) for one in fields["series"])
        names = {name: tuple(fields[name]) for name in ("x_names", "y_names")}
        return cls(**fields | names | {"series": series})


def draw(chart: Chart) -> str:
    """Return the chart as SVG."""
    across = _Axis(chart, "x", LEFT + (70 if chart.y_names else 0), WIDTH - LEGEND)
    up = _Axis(chart, "y", HEIGHT - BOTTOM, TOP)
    drawing = Drawing(WIDTH, HEIGHT, escape(chart.caption))
    drawing.text(across.start, 26, escape(chart.caption), anchor="start", size=15, weight="bold")
    for value, words in up.ticks():
        drawing.line([(across.start, up.at(value)), (across.end, up.at(value))], PALE, 1)
        drawing.text(across.start - 8, up.at(value) + 5, words, GREY, "end", 12)
    for value, words in across.ticks():
        drawing.line([(across.at(value), up.start), (across.at(value), up.start + 5)], GREY, 1)
        drawing.text(across.at(value), up.start + 20, words, GREY, size=12)
    drawing.line([(across.start, up.end), (across.start, up.start), (across.end, up.start)], GREY, 1)
    drawing.text((across.start + across.end) / 2, HEIGHT - 16, escape(chart.x_label), INK, size=13)
    drawing.text(8, 40, escape(chart.y_label), INK, "start", 12)
    for place, series in enumerate(chart.series):
        color = COLOURS[(place if series.color is None else series.color) % len(COLOURS)]
        points = [(across.at(x), up.at(y)) for x, y in zip(series.x, series.y, strict=True)]
        _draw_series(drawing, series, points, color, up.start)
        y = TOP + 14 + 18 * place
        swatch = [(across.end + 14, y - 4), (across.end + 34, y - 4)]
        _draw_series(drawing, series, swatch[:1] if series.mark in ("points", "squares") else swatch, color, y + 2)
        drawing.text(across.end + 40, y, escape(series.label), INK, "start", 11)
    return drawing.svg()


def _draw_series(drawing: Drawing, series: Series, points: list[tuple[float, float]], color: str, foot: float) -> None:
    match series.mark:
        case "points":
            for x, y in points:
                drawing.circle(x, y, 4, color)
        case "squares":
            for x, y in points:
                drawing.box(x - 3.5, y - 3.5, 7, 7, "#ffffff", color)
        case "bars":
            for x, y in points:
                drawing.line([(x, foot), (x, y)], color, 6)
        case _:
            drawing.line(points, color, 2, "6 4" if series.mark == "dashes" else "")


class _Axis:
    """From values to places in the picture."""

    def __init__(self, chart: Chart, name: str, start: float, end: float) -> None:
        self.start, self.end = start, end
        self.names: tuple[str, ...] = getattr(chart, f"{name}_names")
        self.log: bool = getattr(chart, f"log_{name}")
        values = [value for series in chart.series for value in getattr(series, name)]
        if self.names:
            self.low, self.high = -0.6, len(self.names) - 0.4
        else:
            scaled = [self._scale(value) for value in values if not self.log or value > 0]
            self.low, self.high = min(scaled), max(scaled)
            if self.low == self.high:
                self.low, self.high = self.low - 0.5, self.high + 0.5
            if not self.log and self.low > 0 and self.low < 0.35 * self.high:
                self.low = 0.0
            margin = 0.04 * (self.high - self.low)
            self.low, self.high = self.low - (margin if self.low else 0.0), self.high + margin

    def _scale(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.log else value

    def at(self, value: float) -> float:
        share = (self._scale(value) - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        if self.names:
            return [(float(at), escape(name)) for at, name in enumerate(self.names)]
        if self.log:
            powers = range(math.ceil(self.low), math.floor(self.high) + 1)
            factors = (1,) if len(powers) > 2 else (1, 2, 5)
            values = [factor * 10.0**power for power in range(math.floor(self.low), powers.stop) for factor in factors]
            return [(v, f"{v:g}") for v in values if self.low <= math.log10(v) <= self.high]
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next(factor for factor in (1, 2, 5, 10) if (self.high - self.low) / (factor * step) <= 7)
        first = math.ceil(self.low / step - 1e-9)
        return [(n * step, f"{n * step:.10g}") for n in range(first, math.floor(self.high / step + 1e-9) + 1)]
