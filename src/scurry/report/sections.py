"""The sections of the page, each from what a story holds."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

import numpy as np

from scurry.forest import Forest
from scurry.plan import told
from scurry.report.charts import Axis, Chart
from scurry.report.figures import number, percent, seconds, share
from scurry.report.markup import Markup, join, table, tag
from scurry.report.speed import Lap
from scurry.report.story import Picture, Runner, Story, TestRows, Work, feature_names

_N_BARS = 40
_N_CHANGED = 40
_N_FEATURES = 4


def _section(name: str, heading: str, *content: object) -> Markup:
    return tag("section", tag("h2", heading, id=f"h-{name}"), *content, aria_labelledby=f"h-{name}")


def tiles(story: Story) -> Markup:
    """The numbers to be seen first."""
    entries = [
        tag("div", tag("dt", tile.name), tag("dd", tag("strong", tile.value), tag("span", _unbroken(tile.note))))
        for tile in story.tiles
    ]
    return tag("dl", *entries, class_="tiles")


def _unbroken(text: str) -> str:
    """Numbers and their percent sign on one line, however narrow the tile."""
    return text.replace(" %", "\u00a0%")


def promises(story: Story, n_rows: int) -> Markup:
    """What was promised beside what was measured."""
    claims = [
        tag(
            "li",
            tag("h3", claim.what[:1].upper() + claim.what[1:]),
            tag(
                "dl",
                tag("div", tag("dt", "Promised"), tag("dd", claim.promised)),
                tag("div", tag("dt", "Measured"), tag("dd", claim.measured)),
                tag("div", tag("dt", "Verdict"), tag("dd", _badge(claim.verdict))) if claim.verdict else None,
            ),
        )
        for claim in story.claims
    ]
    return _section(
        "promise",
        "Promised and measured",
        tag("p", tag("strong", "The promise: "), f"{story.promise}. Measured on {n_rows:,} test rows:"),
        tag("ul", *claims, class_="claims"),
    )


def _badge(verdict: str) -> Markup:
    return tag("span", verdict, class_="badge good" if verdict == "kept" else "badge bad")


def pictures(story: Story) -> Markup:
    """How the work is spread over rows, and the rule behind it."""
    shown = [_histogram(story.work)] + ([story.picture] if story.picture else [])
    figures = [
        tag(
            "figure",
            tag("figcaption", tag("h3", shown.heading)),
            shown.chart.svg(),
            _legend(shown),
            tag("p", shown.note),
        )
        for shown in shown
    ]
    return _section("work", "Where the work goes", tag("div", *figures, class_="charts"))


def _legend(picture: Picture) -> Markup | None:
    if not picture.legend:
        return None
    entries = [tag("li", tag("span", class_=f"key {style}"), name) for style, name in picture.legend]
    return tag("ul", *entries, class_="legend")


def _histogram(work: Work) -> Picture:
    n_bars = int(min(_N_BARS, max(work.most, 1))) if work.per_row.dtype.kind in "iu" else _N_BARS
    edges = np.linspace(0, max(work.most, 1), n_bars + 1)
    counts, _ = np.histogram(work.per_row, edges)
    shares = counts / len(work.per_row)
    chart = Chart(
        f"Histogram of {work.name} per row: mean {number(float(work.per_row.mean()))}, "
        f"median {number(float(np.median(work.per_row)))}, at most {number(float(work.per_row.max()))}",
        Axis(f"{work.name} per row", 0, max(work.most, 1)),
        Axis("share of rows", 0, float(shares.max()) * 1.05, percent),
    )
    names = [
        f"{number(round(low, 1))} to {number(round(high, 1))} {work.name}: {share(part)} of rows"
        for low, high, part in zip(edges[:-1], edges[1:], shares, strict=True)
    ]
    chart.bars(edges, shares.tolist(), names)
    return Picture(f"{work.name[:1].upper()}{work.name[1:]} per row", chart, [], work.note)


def changed_rows(story: Story, test: TestRows) -> Markup:
    """Rows that got another answer than the full model's, with the features it looks at most."""
    changed = np.flatnonzero(story.answers != test.full)
    heading = "Rows that changed"
    if not len(changed):
        return _section("changed", heading, tag("p", f"None{story.when}: every test row has the full model's answer."))
    forest = test.forest
    n_splits = np.bincount(forest.feature[~forest.is_leaf], minlength=forest.n_features)
    features = np.argsort(-n_splits, kind="stable")[: min(_N_FEATURES, np.count_nonzero(n_splits))]
    names = feature_names(forest)
    truth: list[object] = [] if test.y is None else ["Truth"]
    header: list[object] = ["Row", "Full model", "Here", *truth, *(c.name.capitalize() for c in story.effort)]
    rows: list[list[object]] = [
        [
            f"{row:,}",
            test.full[row],
            story.answers[row],
            *([] if test.y is None else [test.y[row]]),
            *(column.shown(float(column.values[row])) for column in story.effort),
            *(_value(forest, int(j), float(test.rows[row, j])) for j in features),
        ]
        for row in changed[:_N_CHANGED]
    ]
    caption = f"{len(rows)} of {len(changed):,} changed rows, with the features in most splits"
    return _section(
        "changed",
        heading,
        tag("p", _outcome(story, test)),
        table([*header, *(names[j] for j in features)], rows, caption=caption),
    )


def _value(forest: Forest, feature: int, value: float) -> str:
    """A row's value of a feature; a category by its name, where it has one."""
    if np.isnan(value):
        return "missing"
    names = forest.categories.get(feature, ())
    return str(names[int(value)]) if 0 <= value < len(names) else f"{value:.6g}"


def _outcome(story: Story, test: TestRows) -> str:
    answers, changed = story.answers, story.answers != test.full
    said = f"{int(changed.sum()):,} of {len(test):,} test rows have another answer than the full model's{story.when}."
    if test.y is None or not test.forest.is_classifier:
        return said
    harmed, mended = int((changed & (test.full == test.y)).sum()), int((changed & (answers == test.y)).sum())
    return f"{said} {harmed:,} of these became wrong, {mended:,} became right."


def speed(runners: Sequence[Runner], laps: Sequence[Lap]) -> Markup:
    """How long answers took; the first runner is what the others are compared with."""
    header: list[object] = ["Answers by", *(lap.task for lap in laps)]
    rows: list[list[object]] = [
        [runner.name, *(_timed(lap.seconds[at], lap.seconds[0], at > 0) for lap in laps)]
        for at, runner in enumerate(runners)
    ]
    caption = "Shortest of several runs taken in turn, on the machine and at the time named under Settings."
    if len(runners) > 1:
        caption += f" In brackets: how many times as fast as {runners[0].name}."
    return _section("speed", "Speed", table(header, rows, caption=caption))


def _timed(duration: float, reference: float, compared: bool) -> Markup:
    ratio = reference / duration
    factor = tag("small", f"({ratio:,.0f} ×)" if ratio >= 10 else f"({ratio:.1f} ×)") if compared else None
    return join(seconds(duration), " " if factor else None, factor)


def settings(story: Story, test: TestRows) -> Markup:
    """Everything needed to get this page again."""
    forest = test.forest
    facts: dict[str, object] = {
        "model": repr(forest),
        "digest of the model": forest.digest[:16],
        "digest of the test rows": hashlib.sha256(np.ascontiguousarray(test.rows).tobytes()).hexdigest()[:16],
    }
    facts |= told(story.facts)
    facts |= {
        "scurry": version("scurry"),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    rows: list[list[object]] = [[name, value] for name, value in facts.items()]
    return _section(
        "settings",
        "Settings",
        tag("p", "Made by ", tag("code", story.recipe)),
        table(["Setting", "Value"], rows, caption="What was asked, found and used", n_text=2),
    )
