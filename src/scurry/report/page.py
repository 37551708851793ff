"""`write`: from a predictor and test rows to the page.

The sections of the page, each from what a story holds.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from importlib.resources import files
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from scurry.errors import InputError, OutputError
from scurry.forest import Forest
from scurry.predictor import Predictor
from scurry.pruning import PruningPath
from scurry.report import exits, prunings, steps
from scurry.report.charts import Axis, Chart
from scurry.report.curve import curve_section
from scurry.report.markup import Markup, join, number, percent, seconds, share, table, tag
from scurry.report.story import Picture, Story, TestRows, Work, tell_whole
from scurry.timing import Lap, Runner, laps, source_runner


def write(
    subject: Predictor | Forest | PruningPath,
    path: str | PathLike[str],
    X_test: Any,
    y_test: Any = None,
    *,
    model: Any = None,
    title: str | None = None,
) -> Path:
    """Write a page about a predictor that needs nothing but a browser: no network, no other file.

    Parameters
    ----------
    subject : Predictor, Forest or PruningPath
    path : str or path
        Where to write the page; an existing file is replaced.
    X_test : array or DataFrame of shape (n_rows, n_features)
        Rows that neither trained the model nor calibrated the predictor.
    y_test : array of shape (n_rows,), optional
        Their labels. Without them the page compares with the full model only.
    model : fitted estimator, optional
        The source model, to be timed beside scurry on `X_test`.
    title : str, optional

    Returns
    -------
    pathlib.Path
        The file written.

    Examples
    --------
    >>> import scurry, tempfile
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RandomForestClassifier(21, random_state=0).fit(X[:200], y[:200])
    >>> fast = scurry.early_exit(model, X[200:400], max_disagreement=0.05, method="minimixed", random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = scurry.report.write(fast, f"{folder}/report.html", X[400:], y[400:])
    ...     "trees asked per row" in page.read_text(encoding="utf-8")
    True
    """
    test = TestRows(_full_model(subject), X_test, y_test)
    story = _tell(subject, test)
    runners = [*([] if model is None else [source_runner(model, X_test)]), *story.runners]
    body = join(
        tiles(story),
        promises(story, len(test)),
        pictures(story),
        curve_section(story.curve),
        changed_rows(story, test),
        speed(runners, laps(runners, test.rows)),
        settings(story, test),
    )
    name = title or f"{story.kind}: {test.forest.n_trees:,} trees, {len(test):,} test rows"
    page = Path(path)
    try:
        page.write_text(_laid_out(name, story.verdict, body), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {page} ({error.strerror}); name a file in a folder that exists") from error
    return page


def _full_model(subject: Predictor | Forest | PruningPath) -> Forest:
    match subject:
        case Predictor():
            return subject.forest
        case PruningPath():
            return subject.problem.forest
        case Forest():
            return subject
    raise InputError(
        f"a report is about a Predictor, a PruningPath or a Forest, got {type(subject).__name__}; "
        "make one with scurry.early_exit, scurry.anytime, scurry.prune or scurry.from_model"
    )


def _tell(subject: Predictor | Forest | PruningPath, test: TestRows) -> Story:
    if isinstance(subject, PruningPath):
        return prunings.tell(subject, test)
    if isinstance(subject, Forest):
        return tell_whole(subject, test)
    if subject.plan.by_step:
        return steps.tell(subject, test)
    if subject.plan.exit_rule is not None:
        return exits.tell(subject, subject.plan.exit_rule, test)
    return tell_whole(subject.forest, test, subject.certificate)


def _laid_out(title: str, verdict: str, body: str) -> str:
    folder = files("scurry.report")
    template, style, script = (
        folder.joinpath(name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js")
    )
    return Template(template).substitute(
        title=escape(title), verdict=escape(verdict), style=style, script=script, body=body
    )


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
    names = forest.titles
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
    facts |= story.settings
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
