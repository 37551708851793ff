"""The page: a self-contained HTML file about a predictor, a forest or a path of prunings.

`write` makes it. The subject's story says what stands on it; each section has a `render` function, in the order of the
page.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.cascades import Cascade
from scurry.checks import check_instance, read_column
from scurry.errors import InputError, OutputError, UnsupportedModelError
from scurry.forest import Forest, warn_of_other_order, without_column
from scurry.formatting import format_number, format_percent, format_seconds, format_share
from scurry.importers import import_for
from scurry.monitoring import Watch
from scurry.predictor import Predictor
from scurry.promises import GroupTest, Promise
from scurry.pruning import Offers, PruningPath
from scurry.report import exits, prunings, watching
from scurry.report.alternatives import render_alternatives
from scurry.report.markup import Axis, Chart, Markup, join, tabulate, tag
from scurry.report.story import Column, Curve, Effort, Picture, Story, TestRows, render_quality, tell_whole
from scurry.timing import Lap, Runner, measure_laps, wrap_model
from scurry.verbs.training_rows import find_sign
from scurry.version import read_version

_N_BARS = 40  # of the histogram
_N_DIRECTIONS = 4  # pairs of labels that are named
_N_CHANGED, _N_FEATURES = 40, 4  # rows and features in the table of changed rows: what fits without scrolling much


def write(
    subject: Any,
    path: str | PathLike[str],
    X_test: Any = None,
    y_test: Any = None,
    *,
    groups: Any = None,
    model: Any = None,
    title: str | None = None,
    max_cost: float | None = None,
    currency: str = "",
) -> Path:
    """Write a self-contained HTML page about a predictor: it needs no network and no other file.

    Parameters
    ----------
    subject : Predictor, Forest, PruningPath, Offers, Watch, or a fitted estimator of scurry
        Of an `EarlyExitClassifier` or `AnytimeClassifier` the page is about its predictor, of a
        `FeatureBudgetClassifier` about all its offers, or about the forest whose cost it promises.
    path : str or path
        Where to write the page; an existing file is replaced.
    X_test : array or DataFrame of shape (n_rows, n_features)
        Rows that neither trained the model nor calibrated the predictor; the page says so if it notices that these
        did. A page about a `Watch` has none: it shows what the watch has counted.
    y_test : array of shape (n_rows,), optional
        Their labels. Without them the page compares with the full model only.
    groups : str or array of shape (n_rows,), optional
        For a plan that keeps the top k: the query of each row. `y_test` is then the relevance of documents. For a
        promise about groups: the group of each row. One row of each judges it, and without them nothing does. Or the
        name of a column of a frame `X_test`, which is left out of the rows unless the model reads it.
    model : fitted estimator, optional
        The source model, to be timed next to scurry. All are timed on `X_test` as it is; if that is not the kind of
        array that the engine reads, scurry is timed on such an array too. A compressed forest, or one within a budget
        of feature costs, is compared with it as well; without it, there is nothing to compare such a forest with.
    title : str, optional
        Page title.
    max_cost : float, optional
        For a PruningPath or Offers: the budget to show first.
    currency : str, optional
        What stands before costs of features, such as "$".

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
    ...     "trees evaluated per row" in page.read_text(encoding="utf-8")
    True
    """
    if title is not None:
        check_instance("title", title, str)
    if model is not None and not callable(getattr(model, "predict", None)):
        raise InputError(f"model must be the source model, which has a predict, got {model!r}", argument="model")
    if isinstance(subject, Watch):
        if X_test is not None:
            raise InputError("a page about a watch shows what it has counted; leave X_test out", argument="X_test")
        return _write_page(path, title or watching.title(subject), subject.state.verdict, watching.render(subject))
    if X_test is None:
        raise InputError("X_test is needed: rows on which the page measures", argument="X_test")
    original = model
    if hasattr(subject, "predictor_"):
        # An estimator; not named here, because it needs scikit-learn and a page does not.
        subject, original, max_cost = _look_inside(subject, model, max_cost)
    named, groups = groups, read_column("groups", groups, X_test)
    if isinstance(named, str) and isinstance(subject, Predictor) and named not in (subject.forest.feature_names or ()):
        X_test = without_column(X_test, named)  # source models may refuse it
    full, name = _find_full_model(subject, original, X_test)
    _check_groups(subject, groups)
    test = TestRows(full, X_test, y_test, name, groups=groups, promise=getattr(subject, "promise", None))
    if test.y is not None:
        warn_of_other_order(test.forest, X_test, y_test, test.rows, ("X_test", "y_test"))
    story = _tell(subject, test, max_cost, currency)
    remark = _remark_on_rows(subject, test)
    story = replace(story, verdict=f"{remark} {story.verdict}".strip(), remark=remark)
    runners = [*([] if model is None else [wrap_model(model)]), *story.runners, *_repeat_on_array(story.runners, test)]
    body = join(
        render_tiles(story),
        render_promises(story, len(test)),
        render_quality(story, test),
        render_pictures(story),
        render_tables(story),
        render_curve(story.curve),
        render_alternatives(story),
        render_changed_rows(story, test),
        render_speed(runners, measure_laps(runners, X_test), _name_input(X_test)),
        render_settings(story, test),
    )
    name = title or f"{story.kind}: {test.forest.n_trees:,} trees, {len(test):,} test rows"
    return _write_page(path, name, story.verdict, body)


def _remark_on_rows(subject: Predictor | Forest | PruningPath | Offers, test: TestRows) -> str:
    """Return a warning if the test rows calibrated the subject or trained the model; an empty text if not."""
    certificate = subject.certificate if isinstance(subject, Predictor) else None
    if certificate is not None and certificate.rows is not None and certificate.rows.is_of(test.rows):
        return "The test rows are those that it was calibrated on: they judge nothing new."
    sign = find_sign(test.forest, test.rows, test.y if test.forest.is_classifier else None)
    return f"The test rows look like rows that trained the model: {sign}. They judge nothing new." if sign else ""


def _write_page(path: str | PathLike[str], title: str, verdict: str, body: Markup) -> Path:
    # The style and the script are part of the page: it must work from a mail or a ticket.
    template, style, script = (
        files("scurry.report").joinpath(part).read_text(encoding="utf-8")
        for part in ("page.html", "page.css", "page.js")
    )
    html = Template(template).substitute(
        title=escape(title), verdict=escape(verdict), style=style, script=script, body=body
    )
    page = Path(path)
    try:
        page.write_text(html, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {page} ({error.strerror}); name a file in a folder that exists") from error
    return page


def _look_inside(estimator: Any, model: Any, max_cost: float | None) -> tuple[Predictor | Offers, Any, float | None]:
    """Return what a page about an estimator is about, the model before pruning, and the budget to show first."""
    offers = getattr(estimator, "offers_", None)
    if offers is None or estimator.promise is not None:
        return estimator.predictor_, estimator.forest_ if model is None else model, max_cost
    return offers, model, estimator.max_cost if max_cost is None else max_cost


def _check_groups(subject: Any, groups: Any) -> None:
    stop = subject.plan.stop if isinstance(subject, Predictor) else None
    ranks = stop is not None and stop.ranks_groups
    if ranks and groups is None:
        raise InputError(
            "groups is needed: this predictor ranks rows within queries; pass the query of each row", argument="groups"
        )
    promise = getattr(subject, "promise", None)
    if groups is not None and not ranks and not (isinstance(promise, Promise) and promise.is_about_groups):
        raise InputError(
            "groups are for predictors that keep the top k of queries or promise something about groups, and this one "
            "answers and promises for each row by itself; leave them out",
            argument="groups",
        )


def _find_full_model(subject: Predictor | Forest | PruningPath | Offers, original: Any, X: Any) -> tuple[Forest, str]:
    """Return what answers are compared with, and what to call it."""
    match subject:
        case Predictor() if prunings.is_about_costs(subject) or prunings.is_compressed(subject):
            try:
                forest = None if original is None else import_for(original, X)
            except UnsupportedModelError:
                forest = None  # it can still be timed
            if forest is None:
                return subject.forest, "this forest, every tree"
            if forest.n_features != subject.forest.n_features:
                raise InputError(
                    f"model has {forest.n_features} features, the forest has {subject.forest.n_features}; pass the "
                    "model that it was made of",
                    argument="model",
                )
            prunings.check_original(subject, forest)
            return forest, "the original model"
        case Predictor():
            return subject.forest, "the full model"
        case PruningPath():
            return subject.problem.forest, "the full model"
        case Offers():
            return subject.full, "the full model"
        case Forest():
            return subject, "the full model"
    if isinstance(subject, Cascade):
        raise InputError("a report is about one forest; of a cascade print(cascade.summary()), or pass cascade.cheap")
    raise InputError(
        f"a report is about a Predictor, a PruningPath, Offers, a Forest or a fitted estimator of scurry, got "
        f"{type(subject).__name__}; make one with scurry.early_exit, scurry.anytime, scurry.prune or scurry.from_model"
    )


def _tell(
    subject: Predictor | Forest | PruningPath | Offers, test: TestRows, max_cost: float | None, currency: str
) -> Story:
    if isinstance(subject, PruningPath | Offers):
        return prunings.tell_pruning(subject, test, max_cost, currency)
    if max_cost is not None:
        raise InputError("max_cost is for a PruningPath or Offers, which have several budgets", argument="max_cost")
    if isinstance(subject, Forest):
        return tell_whole(subject, test)
    if subject.plan.by_step:
        return exits.tell_steps(subject, test)
    if subject.plan.exits_early:
        return exits.tell_exits(subject, test)
    if prunings.is_about_costs(subject):
        return prunings.tell_chosen(subject, test, currency)
    if prunings.is_compressed(subject):
        return prunings.tell_size(subject, test)
    return tell_whole(subject.forest, test, subject.certificate)


def _section(name: str, heading: str, *content: object) -> Markup:
    return tag("section", tag("h2", heading, id=f"h-{name}"), *content, aria_labelledby=f"h-{name}")


def render_tiles(story: Story) -> Markup:
    """Render the numbers at the top of the page."""
    entries = [
        # A hard space keeps a number and its percent sign on one line, however narrow the tile is.
        tag("div", tag("dt", name), tag("dd", tag("strong", value), tag("span", note.replace(" %", "\u00a0%"))))
        for name, value, note in story.tiles
    ]
    return tag("dl", *entries, class_="tiles")


def render_promises(story: Story, n_rows: int) -> Markup:
    """Render what was promised next to what was measured."""
    claims = []
    for what, promised, measured, verdict in story.claims:
        facts: dict[str, object] = {"Promised": promised, "Measured": measured}
        if verdict:
            good = {"kept": " good", "too few rows to tell": ""}.get(verdict, " bad")
            facts["Verdict"] = tag("span", verdict, class_=f"badge{good}")
        pairs = [tag("div", tag("dt", name), tag("dd", fact)) for name, fact in facts.items()]
        claims.append(tag("li", tag("h3", what[:1].upper() + what[1:]), tag("dl", *pairs)))
    return _section(
        "promise",
        "Promised and measured",
        tag(
            "p",
            tag("strong", "The promise: "),
            story.promise,
            f" Measured on {n_rows:,} test rows:" if claims else None,
        ),
        tag("p", tag("strong", story.remark)) if story.remark else None,
        tag("ul", *claims, class_="claims") if claims else None,
        _render_tests(story.tests),
    )


def _render_tests(tests: Sequence[GroupTest]) -> Markup | None:
    if not tests:
        return None
    rows: list[list[object]] = [
        [
            test.group,
            f"{test.n_rows:,}",
            f"{test.n_broken:,}",
            format_share(test.bound),
            format_percent(test.max_rate),
            format_share(test.confidence),
        ]
        for test in tests
    ]
    header: list[object] = ["Group", "Rows", "Changed", "At most, of new ones", "Promised", "Confidence of its test"]
    caption = "How each group was tested when the predictor was made, on rows that had no part in the fit"
    return tabulate(header, rows, caption=caption)


def render_pictures(story: Story) -> Markup:
    """Render how the effort is spread over rows, and the rule behind it."""
    figures = []
    for heading, chart, legend, note in [_draw_histogram(story.effort)] + ([story.picture] if story.picture else []):
        keys = [tag("li", tag("span", class_=f"key {style}"), name) for style, name in legend]
        key = tag("ul", *keys, class_="legend") if keys else None
        figures.append(
            tag("figure", tag("figcaption", tag("h3", heading)), chart.to_svg(), key, tag("p", note)),
        )
    return _section("work", "Where the work goes", tag("div", *figures, class_="charts"))


def render_tables(story: Story) -> Markup | None:
    """Render tables that only some kinds of subjects have."""
    if not story.tables:
        return None
    parts = [
        tabulate(list(header), [list(row) for row in rows], caption=heading) for heading, header, rows in story.tables
    ]
    return _section("needs", "Who is found, and what it takes", *parts)


def _draw_histogram(effort: Effort) -> Picture:
    per_row, most = effort.per_row, effort.most or 1  # an axis has a length even where nothing is spent
    # Bars narrower than one would leave gaps between whole numbers.
    n_bars = int(min(_N_BARS, most)) if per_row.dtype.kind in "iu" else _N_BARS
    edges = np.linspace(0, most, n_bars + 1)
    shares = np.histogram(per_row, edges)[0] / len(per_row)
    chart = Chart(
        f"Histogram of {effort.name} per row: mean {format_number(float(per_row.mean()))}, "
        f"median {format_number(float(np.median(per_row)))}, at most {format_number(float(per_row.max()))}",
        Axis(f"{effort.name} per row", 0, most),
        Axis("share of rows", 0, float(shares.max()) * 1.05, format_percent),
    )
    names = [
        f"{format_number(round(low, 1))} to {format_number(round(high, 1))} {effort.name}: {format_share(part)} of rows"
        for low, high, part in zip(edges[:-1], edges[1:], shares, strict=True)
    ]
    chart.draw_bars(edges, shares.tolist(), names)
    return Picture(f"{effort.name[:1].upper()}{effort.name[1:]} per row", chart, [], effort.note)


def render_changed_rows(story: Story, test: TestRows) -> Markup:
    """Render rows whose answer is not the full model's, with the features that most splits test."""
    is_changed, heading = story.answers != test.full if story.changed is None else story.changed, "Rows that changed"
    changed = np.flatnonzero(is_changed)
    if not len(changed):
        return _section("changed", heading, tag("p", f"None{story.when}: every test row has {test.whose} answer."))
    outcome = f"{len(changed):,} of {len(test):,} test rows have another answer than {test.whose}{story.when}."
    forest = test.forest
    if story.changed is not None:
        outcome = (
            f"{len(changed):,} of {len(test):,} documents came to the top of their query, left it, or moved in it."
        )
    elif not forest.is_classifier:
        changed = changed[np.argsort(-np.abs(story.answers - test.full)[changed], kind="stable")]
        outcome += " Those that are furthest from it come first."
    if test.y is not None and forest.is_classifier:
        harmed, mended = (int((is_changed & (answers == test.y)).sum()) for answers in (test.full, story.answers))
        outcome += f" {harmed:,} of these became wrong, {mended:,} became right."
    if forest.is_classifier:
        outcome += f" {_list_directions(test.full[changed], story.answers[changed])}"
    n_splits = np.bincount(forest.feature[~forest.is_leaf], minlength=forest.n_features)
    features = np.argsort(-n_splits, kind="stable")[: min(_N_FEATURES, np.count_nonzero(n_splits))]
    header: list[object] = [
        *("Row", test.title, "Here"),
        *([] if test.y is None else ["Truth"]),
        *(column.name.capitalize() for column in story.row_columns),
        *(forest.titles[j] for j in features),
    ]
    rows: list[list[object]] = [
        [
            f"{row:,}",
            _format_answer(test.full[row]),
            _format_answer(story.answers[row]),
            *([] if test.y is None else [_format_answer(test.y[row])]),
            *(column.format_value(float(column.values[row])) for column in story.row_columns),
            *(_format_feature(forest, int(j), float(test.rows[row, j])) for j in features),
        ]
        for row in changed[:_N_CHANGED]
    ]
    caption = f"{len(rows)} of {len(changed):,} changed rows, with the features in most splits"
    return _section("changed", heading, tag("p", outcome), tabulate(header, rows, caption=caption))


def _list_directions(before: NDArray[Any], after: NDArray[Any]) -> str:
    """Return from which label to which one rows went, the most frequent first."""
    counts = Counter(zip(before.tolist(), after.tolist(), strict=True)).most_common()
    shown = [f"{count:,} went from {old} to {new}" for (old, new), count in counts[:_N_DIRECTIONS]]
    n_others = sum(count for _, count in counts[_N_DIRECTIONS:])
    return f"{', '.join(shown)}{f', {n_others:,} otherwise' if n_others else ''}."


def _format_answer(answer: Any) -> str:
    return f"{answer:.6g}" if isinstance(answer, float | np.floating) else str(answer)


def _format_feature(forest: Forest, feature: int, value: float) -> str:
    """Return a value of a feature as text; a category by its name, where it has one."""
    if np.isnan(value):
        return "missing"
    names = forest.categories.get(feature, ())
    return str(names[int(value)]) if 0 <= value < len(names) else f"{value:.6g}"


def render_speed(runners: Sequence[Runner], laps: Sequence[Lap], given: str) -> Markup:
    """Render how long answers took; runners are compared with the first one on the same input."""
    rows: list[list[object]] = []
    inputs = [given if runner.table is None else _name_input(runner.table) for runner in runners]
    for at, runner in enumerate(runners):
        first = inputs.index(inputs[at])
        cells: list[object] = [runner.name, inputs[at]]
        for lap in laps:
            ratio = lap.seconds[first] / lap.seconds[at]
            digits = ",.0f" if ratio >= 10 else ".1f" if ratio >= 1 else ".2g"
            factor = tag("small", f" ({ratio:{digits}} ×)") if at > first else None
            cells.append(join(format_seconds(lap.seconds[at]), factor))
        rows.append(cells)
    caption = "Shortest of several runs taken in turn, on the machine and at the time named under Settings."
    if len(runners) > 1:
        caption += " In brackets: how many times as fast as the first line with the same input."
    header: list[object] = ["Answers by", "Input", *(lap.task for lap in laps)]
    note = join("Times on the test rows as they were passed, conversion included.")
    if len(set(inputs)) > 1:
        note = join(
            note, f" A {inputs[-1]} of the same rows needs none: ", tag("code", "forest.encoder(table)"), " makes it."
        )
    return _section("speed", "Speed", tag("p", note), tabulate(header, rows, caption=caption, n_text=2))


def _repeat_on_array(runners: Sequence[Runner], test: TestRows) -> list[Runner]:
    """Return the runners once more, on rows as the engine reads them, if the user has something else."""
    if isinstance(test.given, np.ndarray) and np.may_share_memory(test.given, test.rows):
        return []
    return [runner._replace(table=test.rows) for runner in runners]


def _name_input(X: Any) -> str:
    """Return what a table is in a few words, such as "pandas DataFrame" or "float32 array"."""
    if isinstance(X, np.ndarray):
        return f"{X.dtype} array"
    package = type(X).__module__.split(".")[0]
    return type(X).__name__ if package == "builtins" else f"{package} {type(X).__name__}"


def render_settings(story: Story, test: TestRows) -> Markup:
    """Render everything needed to make this page again."""
    forest = test.forest
    facts: dict[str, object] = {
        "model": repr(forest),
        # Digests let a reader check that two pages are about the same model and rows.
        "digest of the model": forest.digest[:16],
        "digest of the test rows": hashlib.sha256(np.ascontiguousarray(test.rows).tobytes()).hexdigest()[:16],
        **story.settings,
        "scurry": read_version(),
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
        tabulate(["Setting", "Value"], rows, caption="Options, results and versions", n_text=2),
    )


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
