"""The part of the page that answers "what if I had another budget?": two charts, a slider, and the numbers."""

from __future__ import annotations

import json

from scurry.formatting import format_number, format_percent, format_share
from scurry.report.charts import Axis, Chart
from scurry.report.markup import Markup, join, tabulate, tag
from scurry.report.story import Column, Curve


def render_curve(curve: Curve | None) -> Markup | None:
    """Render charts of what each budget leads to, and a slider that reads them out; None if there is no choice."""
    if curve is None or len(curve.spent) < 2:
        return None
    charts = [_draw(curve, index) for index in range(curve.n_drawn)]
    figures = [tag("figure", tag("figcaption", chart.title), chart.to_svg()) for chart in charts]
    return tag(
        "section",
        tag("h2", "What another budget would do", id="h-curve"),
        tag("p", curve.note),
        tag("div", *figures, class_="charts"),
        _render_slider(curve),
        _render_consequences(curve),
        tag("p", "How to get it: ", tag("code", curve.calls[curve.start], id="call")),
        _render_table(curve),
        tag("script", _encode(curve, charts), type="application/json", id="budgets"),
        aria_labelledby="h-curve",
    )


def _draw(curve: Curve, index: int) -> Chart:
    column = curve.columns[index]
    y = Axis.around(
        column.name, column.values, format_percent if column.format_value is format_share else column.format_value
    )
    title = f"{_capitalise(column.name)} against {curve.budget}"
    chart = Chart(title, Axis(curve.budget, float(curve.spent[0]), float(curve.spent[-1])), y)
    # The promise is about the last column drawn. A bound far above the curve would squeeze it: it is left out.
    if index == curve.n_drawn - 1 and curve.bound is not None and curve.bound <= y.high:
        chart.draw_guide(curve.bound, f"promised: at most {format_percent(curve.bound)}")
    chart.draw_line(curve.spent, column.values, "main")
    chart.draw_marker(float(curve.spent[curve.start]), float(column.values[curve.start]), f"marker-{index}")
    return chart


def _render_slider(curve: Curve) -> Markup:
    slider = tag(
        "input",
        type="range",
        id="budget",
        min=0,
        max=len(curve.spent) - 1,
        step=1,
        value=curve.start,
        aria_valuetext=_speak(curve, curve.start),
    )
    ends = tag("p", *(tag("span", _format_spent(curve, at)) for at in (0, -1)), class_="ends")
    return tag("div", tag("label", f"Budget: {curve.budget}", for_="budget"), slider, ends, class_="slider")


def _render_consequences(curve: Curve) -> Markup:
    # The script writes to these ids when the slider moves; without a script the numbers at the start remain.
    entries = [("spent", curve.budget, _format_spent(curve, curve.start))]
    entries += [
        (f"value-{index}", column.name, _format(column, curve.start)) for index, column in enumerate(curve.columns)
    ]
    pairs = [tag("div", tag("dt", name), tag("dd", value, id=key)) for key, name, value in entries]
    shipped = tag("p", "This is the predictor as it is.", id="shipped") if curve.shipped is not None else None
    return join(tag("dl", *pairs, class_="numbers"), shipped)


def _render_table(curve: Curve) -> Markup:
    rows: list[list[object]] = [
        [_format_spent(curve, at), *(_format(column, at) for column in curve.columns)] for at in range(len(curve.spent))
    ]
    header: list[object] = [_capitalise(curve.budget), *(_capitalise(column.name) for column in curve.columns)]
    content = tabulate(header, rows, caption="What each budget leads to")
    return tag("details", tag("summary", "All budgets as a table"), content)


def _encode(curve: Curve, charts: list[Chart]) -> Markup:
    """Return what the slider's script needs as JSON: texts and marker positions, so that it computes nothing."""
    # There are more columns than charts; only the first are drawn.
    places = [chart.place(curve.spent, column.values) for chart, column in zip(charts, curve.columns, strict=False)]
    points = [
        {
            "spent": _format_spent(curve, at),
            "values": [_format(column, at) for column in curve.columns],
            "call": curve.calls[at],
            "spoken": _speak(curve, at),
            "places": [[round(float(x[at]), 1), round(float(y[at]), 1)] for x, y in places],
        }
        for at in range(len(curve.spent))
    ]
    markers = [f"marker-{index}" for index in range(curve.n_drawn)]
    data = {"shipped": curve.shipped, "markers": markers, "points": points}
    # Inside a script element only "<" could end it.
    return Markup(json.dumps(data).replace("<", "\\u003c"))


def _speak(curve: Curve, at: int) -> str:
    """Return what a screen reader says at a position of the slider."""
    facts = [f"{column.name} {_format(column, at)}" for column in curve.columns[: curve.n_drawn]]
    return f"{_format_spent(curve, at)} {curve.budget}: {', '.join(facts)}"


def _format(column: Column, at: int) -> str:
    return column.format_value(float(column.values[at]))


def _format_spent(curve: Curve, at: int) -> str:
    return format_number(round(float(curve.spent[at]), 2))


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]  # str.capitalize would also lower the rest
