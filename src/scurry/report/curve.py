"""The part of the page that answers "what if I had another budget?": two charts, a slider, and the numbers."""

from __future__ import annotations

import json

from scurry.report.charts import Axis, Chart
from scurry.report.markup import Markup, join, number, percent, share, table, tag
from scurry.report.story import Column, Curve


def curve_section(curve: Curve | None) -> Markup | None:
    """Charts of what each budget leads to, and a slider that reads them out; None where there is no choice."""
    if curve is None or len(curve.spent) < 2:
        return None
    drawn = [_chart(curve, column) for column in curve.columns[: curve.n_drawn]]
    figures = [tag("figure", tag("figcaption", chart.title), chart.svg()) for chart in drawn]
    return tag(
        "section",
        tag("h2", "What another budget would do", id="h-curve"),
        tag("p", curve.note),
        tag("div", *figures, class_="charts"),
        _slider(curve),
        _consequences(curve),
        tag("p", "Ask for it: ", tag("code", curve.calls[curve.start], id="call")),
        _all_budgets(curve),
        tag("script", _data(curve, drawn), type="application/json", id="budgets"),
        aria_labelledby="h-curve",
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _chart(curve: Curve, column: Column) -> Chart:
    is_share = column.shown is share
    values = column.values
    y = Axis.around(column.name, values, percent if is_share else number)
    title = f"{_capital(column.name)} against {curve.budget}"
    chart = Chart(title, Axis(curve.budget, float(curve.spent[0]), float(curve.spent[-1])), y)
    if column is curve.columns[curve.n_drawn - 1] and curve.bound is not None and curve.bound <= y.high:
        chart.guide(curve.bound, f"promised: at most {percent(curve.bound)}")
    chart.line(curve.spent, values, "main")
    chart.marker(float(curve.spent[curve.start]), float(values[curve.start]), _marker(curve, column))
    return chart


def _marker(curve: Curve, column: Column) -> str:
    return f"marker-{list(curve.columns).index(column)}"


def _slider(curve: Curve) -> Markup:
    return tag(
        "div",
        tag("label", f"Budget: {curve.budget}", for_="budget"),
        tag(
            "input",
            type="range",
            id="budget",
            min=0,
            max=len(curve.spent) - 1,
            step=1,
            value=curve.start,
            aria_valuetext=_spoken(curve, curve.start),
        ),
        tag("p", *(tag("span", number(round(float(end), 2))) for end in curve.spent[[0, -1]]), class_="ends"),
        class_="slider",
    )


def _spoken(curve: Curve, at: int) -> str:
    facts = [f"{column.name} {column.shown(float(column.values[at]))}" for column in curve.columns[: curve.n_drawn]]
    return f"{number(round(float(curve.spent[at]), 2))} {curve.budget}: {', '.join(facts)}"


def _consequences(curve: Curve) -> Markup:
    entries = [("spent", curve.budget, number(round(float(curve.spent[curve.start]), 2)))]
    entries += [
        (f"value-{index}", column.name, column.shown(float(column.values[curve.start])))
        for index, column in enumerate(curve.columns)
    ]
    pairs = [tag("div", tag("dt", name), tag("dd", value, id=key)) for key, name, value in entries]
    shipped = tag("p", "This is the predictor as it is.", id="shipped") if curve.shipped is not None else None
    return join(tag("dl", *pairs, class_="numbers"), shipped)


def _all_budgets(curve: Curve) -> Markup:
    rows: list[list[object]] = [
        [number(round(float(spent), 2)), *(column.shown(float(column.values[at])) for column in curve.columns)]
        for at, spent in enumerate(curve.spent)
    ]
    header: list[object] = [_capital(curve.budget), *(_capital(column.name) for column in curve.columns)]
    caption = "What each budget leads to"
    return tag("details", tag("summary", "All budgets as a table"), table(header, rows, caption=caption))


def _data(curve: Curve, drawn: list[Chart]) -> Markup:
    places = [chart.place(curve.spent, column.values) for chart, column in zip(drawn, curve.columns, strict=False)]
    points = [
        {
            "spent": number(round(float(curve.spent[at]), 2)),
            "values": [column.shown(float(column.values[at])) for column in curve.columns],
            "call": curve.calls[at],
            "spoken": _spoken(curve, at),
            "places": [[round(float(x[at]), 1), round(float(y[at]), 1)] for x, y in places],
        }
        for at in range(len(curve.spent))
    ]
    markers = [_marker(curve, column) for column in curve.columns[: curve.n_drawn]]
    data = {"shipped": curve.shipped, "markers": markers, "points": points}
    # Inside a script element only "<" could end it.
    return Markup(json.dumps(data).replace("<", "\\u003c"))
