"""`write`: from a predictor and test rows to the page."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

from scurry.errors import InputError, OutputError
from scurry.forest import Forest
from scurry.plan import ExitRule, LeaderRule, StepRule
from scurry.predictor import Predictor
from scurry.pruning import PruningPath
from scurry.report import exits, prunings, sections, steps, whole
from scurry.report.curve import curve_section
from scurry.report.markup import join
from scurry.report.speed import laps, source_runner
from scurry.report.story import Story, TestRows


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
        sections.tiles(story),
        sections.promises(story, len(test)),
        sections.pictures(story),
        curve_section(story.curve),
        sections.changed_rows(story, test),
        sections.speed(runners, laps(runners, test.rows)),
        sections.settings(story, test),
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
        return whole.tell(subject, test, {})
    match subject.plan.stop:
        case ExitRule() | LeaderRule() as rule:
            return exits.tell(subject, rule, test)
        case StepRule():
            return steps.tell(subject, test)
    return whole.tell(subject.forest, test, subject.plan.facts)


def _laid_out(title: str, verdict: str, body: str) -> str:
    folder = files("scurry.report")
    template, style, script = (
        folder.joinpath(name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js")
    )
    return Template(template).substitute(
        title=escape(title), verdict=escape(verdict), style=style, script=script, body=body
    )
