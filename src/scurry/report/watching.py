"""The page about a watch: the rate over time next to the promise, the alarm, and what changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from scurry.formatting import format_number, format_percent, format_share
from scurry.monitoring import Explanation, History, State, Tally, Watch
from scurry.monitoring.betting import RUN_LENGTH
from scurry.monitoring.state import SELECTED, format_e_value
from scurry.report.markup import Axis, Chart, Markup, join, tabulate, tag
from scurry.version import read_version

_N_LISTED = 10
_MOST_STRETCHES, _LEAST_STRETCHES = 30, 6
_EXPECTED = 5  # rows of a stretch that the promise lets break it: with fewer, its rate says next to nothing


_WHAT_NOW = (
    "watch.recalibrate() certifies a new predictor on the shadow rows since the alarm, or says how many are missing. "
    'Until then, on_alarm="full" answers with all trees.'
)


def title(watch: Watch) -> str:
    """Return the title of the page."""
    state = watch.state
    return f"Watched promise: {state.n_rows:,} rows, {state.n_shadow:,} evaluated in full"


def render(watch: Watch) -> Markup:
    """Render everything between the title and the end of the page."""
    state, explanation = watch.state, watch.explain()
    n_stretches = int(state.n_shadow * state.max_rate / _EXPECTED)
    history = watch.history(min(max(n_stretches, _LEAST_STRETCHES), _MOST_STRETCHES))
    return join(
        _render_tiles(state),
        _render_promise(watch, state),
        _render_history(state, history),
        _render_features(explanation),
        _render_tallies(state),
        _render_settings(watch, state),
    )


def _section(name: str, heading: str, *content: object) -> Markup:
    return tag("section", tag("h2", heading, id=f"h-{name}"), *content, aria_labelledby=f"h-{name}")


def _render_tiles(state: State) -> Markup:
    tiles = [
        ("rows predicted", f"{state.n_rows:,}", f"{state.n_shadow:,} of them evaluated in full"),
        (
            "rate",
            format_share(state.rate) if state.n_shadow else "not known yet",
            f"{format_share(state.lower)} to {format_share(state.upper)}, promised {format_percent(state.max_rate)}",
        ),
        (
            "evidence against the promise",
            format_e_value(state.e_value),
            f"e-value; the alarm is at {1 / (1 - state.confidence):.4g}",
        ),
        ("alarm", "yes" if state.is_raised else "no", _describe_alarm(state)),
    ]
    entries = [
        tag("div", tag("dt", name), tag("dd", tag("strong", value), tag("span", note))) for name, value, note in tiles
    ]
    return tag("dl", *entries, class_="tiles")


def _describe_alarm(state: State) -> str:
    if not state.is_raised:
        return "the promise is not refuted"
    kinds = [name for name, raised in (("over all rows", state.alarm), ("a change", state.change)) if raised]
    return f"{' and '.join(kinds)}, since row {state.since:,}"


def _render_promise(watch: Watch, state: State) -> Markup:
    assert watch.predictor.promise is not None
    rows: list[list[object]] = [
        [
            part.what,
            f"{part.n_broken:,} of {part.n_shadow:,} {part.unit}"
            + (f", {part.n_mended:,} the other way round" if part.n_mended else ""),
            format_share(part.rate),
            f"{format_share(part.lower)} to {format_share(part.upper)}",
            format_percent(part.max_rate),
            format_e_value(part.e_value),
        ]
        for part in state.parts
    ]
    header: list[object] = ["What", "Counted", "Rate", "Bounds at all times", "Promised", "E-value"]
    caption = f"What shadow rows show; bounds hold at all times at once with confidence {state.confidence:g}"
    return _section(
        "promise",
        "Promised and measured",
        tag("p", tag("strong", "The promise: "), watch.predictor.promise.describe()),
        None if not state.is_raised else tag("p", tag("strong", "What now: "), _WHAT_NOW),
        *(tag("p", tag("strong", f"{name}: "), text) for name, text in state.lines().items() if name == SELECTED),
        tabulate(header, rows, caption=caption, n_text=2),
    )


def _render_history(state: State, history: History) -> Markup | None:
    if not len(history.rate):
        return None
    middle = (history.first_row + history.last_row) / 2
    across = Axis("row", float(history.first_row[0]), float(history.last_row[-1]))
    high = max(float(history.rate.max()), history.max_rate) * 1.3 or 0.01
    rate = Chart(
        f"Rate over time: {history.what}, at most {format_share(float(history.rate.max()))} in a stretch, promised "
        f"{format_percent(history.max_rate)}",
        across,
        Axis("rate among shadow rows", min(float(history.rate.min()), 0.0), high, format_percent),
    )
    rate.draw_strips(middle, history.lower, np.minimum(history.upper, high), "positive")
    rate.draw_line(middle, history.rate, "main")
    rate.draw_dots(middle, history.rate, "large")
    rate.draw_guide(history.max_rate)
    limit = 1 / (1 - state.confidence)
    evidence = _draw_evidence("e-value", across, middle, history.e_value, limit)
    detector = _draw_evidence("detector of changes", across, middle, history.detector, RUN_LENGTH)
    alarm: list[tuple[str, str]] = []
    if state.since is not None:
        for chart in (rate, evidence, detector):
            chart.draw_strips([state.since], [chart.y.low], [chart.y.high], "negative")
        alarm = [("negative", f"the alarm, at row {state.since:,}")]
    drawn = (
        (
            "The rate over time",
            rate,
            [
                ("guide", f"promised: at most {format_percent(history.max_rate)}"),
                ("positive", "bounds of each stretch alone"),
                *alarm,
            ],
            f"{history.what[:1].upper()}{history.what[1:]}, in stretches of rows.",
        ),
        (
            "Evidence of all rows",
            evidence,
            alarm,
            f"Its alarm is at {limit:.4g}. Values beyond the chart are drawn at its edge.",
        ),
        (
            "Evidence of recent rows",
            detector,
            alarm,
            f"Its alarm is at {RUN_LENGTH:,}: a change, however many good rows came before.",
        ),
    )
    figures = [
        tag("figure", tag("figcaption", tag("h3", heading)), chart.to_svg(), _render_legend(legend), tag("p", note))
        for heading, chart, legend, note in drawn
    ]
    return _section("history", "Over time", tag("div", *figures, class_="charts"))


def _render_legend(legend: Sequence[tuple[str, str]]) -> Markup | None:
    keys = [tag("li", tag("span", class_=f"key {style}"), name) for style, name in legend]
    return tag("ul", *keys, class_="legend") if keys else None


def _draw_evidence(
    name: str, across: Axis, middle: NDArray[np.float64], values: NDArray[np.float64], limit: float
) -> Chart:
    """Draw evidence in powers of ten, because it multiplies; far beyond the alarm it says nothing more."""
    low, high = -3.0, max(math.ceil(math.log10(limit)) + 1.0, 4.0)
    chart = Chart(
        f"The {name} over time; the alarm is at {limit:,.4g}",
        across,
        Axis(name, low, high, lambda p: f"{10.0**p:,.10g}"),
    )
    chart.draw_line(middle, np.log10(np.clip(values, 10.0**low, 10.0**high)), "main")
    chart.draw_guide(math.log10(limit), f"alarm at {limit:,.7g}")
    return chart


def _render_features(explanation: Explanation) -> Markup:
    heading = "Which features changed"
    if not explanation.features:
        return _section("features", heading, tag("p", f"Not known: {explanation.note}."))
    found = explanation.drifted
    text = (
        f"{len(found)} of {len(explanation.features)} features of {explanation.n_rows:,} shadow rows left what the "
        "calibration rows looked like, further than chance explains."
    )
    if not found:
        return _section("features", heading, tag("p", text))
    rows: list[list[object]] = [
        [drift.name, drift.text, format_share(drift.distance), format_share(drift.limit)] for drift in found[:_N_LISTED]
    ]
    header: list[object] = ["Feature", "Where it differs most", "Distance", "Chance explains"]
    return _section(
        "features",
        heading,
        tag("p", text),
        tabulate(header, rows, caption="Features that changed most first", n_text=2),
    )


def _render_tallies(state: State) -> Markup | None:
    if not state.n_shadow:
        return None
    tables = [
        _tabulate_tallies("Class", [(str(t.name), t) for t in state.by_class]),
        _tabulate_tallies("Trees evaluated", [(f"{t.name:,}", t) for t in state.by_trees]),
    ]
    return _section("kinds", "Where changed rows are", *tables)


def _tabulate_tallies(name: str, tallies: Sequence[tuple[str, Tally]]) -> Markup | None:
    if not tallies:
        return None
    chosen = sorted(tallies, key=lambda pair: -pair[1].n_changed)[:_N_LISTED]
    rows: list[list[object]] = [
        [label, f"{tally.n_shadow:,}", f"{tally.n_changed:,}", format_share(tally.rate)] for label, tally in chosen
    ]
    caption = f"Shadow rows by {name.lower()}, those with most changed rows first"
    return tabulate([name, "Shadow rows", "Changed", "Rate"], rows, caption=caption)


def _render_settings(watch: Watch, state: State) -> Markup:
    facts = {
        "predictor": repr(watch.predictor),
        "digest of the predictor": watch.predictor.digest[:16],
        "share of rows evaluated in full": format_number(watch.share),
        "confidence": f"{state.confidence:g}",
        "scurry": read_version(),
        "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    rows: list[list[object]] = [[name, value] for name, value in facts.items()]
    return _section(
        "settings", "Settings", tabulate(["Setting", "Value"], rows, caption="What was watched, and how", n_text=2)
    )
