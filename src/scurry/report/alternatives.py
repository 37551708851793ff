"""What other promises would cost: the plan's own thresholds, moved until each is just kept on the test rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.formatting import format_number, format_percent, format_share
from scurry.predictor import Predictor
from scurry.promises import Accuracy, Certificate, Count, Labels, LabelsPerClass, Outcomes, Promise, TopK, Values
from scurry.report.markup import Markup, join, tabulate, tag
from scurry.report.story import BLOCK, Alternative, Story, TestRows, compare_with, try_rows

_MAX_TREES, _MIN_ROWS = 300_000_000, 2_000  # trees evaluated for all settings: a few seconds
_MAX_CLASSES = 10  # for which a promise is written class by class
# From 16 times as bold to 16 times as cautious. The middle factor is 1, so that the predictor itself is among them.
FACTORS = np.geomspace(1 / 16, 16, 41)


@dataclass(frozen=True, eq=False, kw_only=True)
class Settings:
    """A plan with thresholds moved in or out, and what each did to test rows; by rising numbers of trees.

    Attributes
    ----------
    test : TestRows
        Those that were tried.
    predictors : list of Predictor
    outcomes : list of Outcomes
    spent : float64 array of shape (n_settings,)
        Trees per row.
    own : int
        The index of the plan as it is.
    full_vote : array of shape (n_rows,) or None
        The labels of the vote of all trees, where trees vote.
    """

    test: TestRows
    predictors: list[Predictor]
    outcomes: list[Outcomes]
    spent: NDArray[np.float64]
    own: int
    full_vote: NDArray[Any] | None

    def count(self, promise: Promise, at: int) -> tuple[Count, ...]:
        """Return how many rows break a promise with a setting."""
        return promise.count(compare_with(self.outcomes[at], promise, self.full_vote))

    def find_cheapest(self, promise: Promise) -> int | None:
        """Return the cheapest setting that keeps a promise, as do all that are more cautious; None if none does.

        A bold setting that keeps it by luck, after others that did not, is not taken.
        """
        cheapest = None
        for at in reversed(range(len(self.spent))):
            if any(count.rate > count.max_rate for count in self.count(promise, at)):
                break
            cheapest = at
        return cheapest


def try_settings(predictor: Predictor, test: TestRows) -> Settings | None:
    """Try bolder and more cautious thresholds on test rows, from the boldest to none at all; None if there are none."""
    forest, plan = predictor.forest, predictor.plan
    assert plan.stop is not None
    rules = [
        *(plan.stop.with_scaled_thresholds(forest, float(factor)) for factor in FACTORS),
        plan.stop.without_stops(),
    ]
    tried = [Predictor(forest, replace(plan, stop=rule)) for rule in rules if rule is not None]
    if len(tried) < len(rules):
        return None
    if isinstance(test.judges, np.ndarray):
        test = test.take(test.judges)  # what could be promised is about one row of each group, too
    test = test.thin(int(np.clip(_MAX_TREES // (forest.n_trees * len(rules)), _MIN_ROWS, BLOCK)))
    results = [try_rows(each, test) for each in tried]
    spent, middle = [float(trees.mean()) for _, trees in results], len(FACTORS) // 2
    # Neighbouring factors may lead to the same stops. Of such settings one is kept, the predictor's own if it is there.
    by_effort = {mean_trees: at for at, mean_trees in enumerate(spent)} | {spent[middle]: middle}
    kept = [by_effort[mean_trees] for mean_trees in sorted(by_effort)]
    return Settings(
        test=test,
        predictors=[tried[at] for at in kept],
        outcomes=[results[at][0] for at in kept],
        spent=np.array(sorted(by_effort)),
        own=kept.index(middle),
        full_vote=test.full_vote if plan.stop.by_votes else None,
    )


def find_alternatives(certificate: Certificate, settings: Settings) -> list[Alternative]:
    """Return usual promises that apply to this model and these rows, with what each would cost."""
    found = []
    for what, promise in _list_usual(certificate.promise, settings.test):
        if not settings.count(promise, settings.own):
            continue  # these rows say nothing about it
        at = settings.find_cheapest(promise)
        measured = "" if at is None else "; ".join(_describe(count) for count in settings.count(promise, at))
        data = ["model", "X_cal", *(["y_cal"] if promise.NEEDS_LABELS else [])]
        by_group = certificate.promise is not None and certificate.promise.is_about_groups
        data += ["groups=groups"] if by_group or settings.test.groups is not None else []
        threshold = "" if certificate.threshold is None else f", threshold={certificate.threshold!r}"
        call = f"scurry.early_exit({', '.join(data)}, promise={write_promise(promise)}{threshold})"
        mean_trees = None if at is None else float(settings.spent[at])
        of_class = " of a class" if isinstance(promise, LabelsPerClass) else ""
        unit = "queries" if settings.test.groups is not None else f"{'groups' if by_group else 'rows'}{of_class}"
        found.append(Alternative(what, call, mean_trees, measured, f"{promise.rows_needed():,} {unit}"))
    return found


def _list_usual(own: Promise | None, test: TestRows) -> Iterator[tuple[str, Promise]]:
    """Yield promises that users ask for, with what each says in a few words."""
    forest = test.forest
    if isinstance(own, TopK) and test.groups is not None:
        in_any_order = ", in any order" if own.keep == "set" else ""
        for k, rate in ((own.k, 0.01), (own.k, 0.05), (own.k, 0.1), *([(1, 0.01)] if own.k > 1 else [])):
            what = f"another top {k}{in_any_order} for at most {format_percent(rate)} of queries"
            yield what, TopK(k, rate, keep=own.keep)
    elif forest.is_classifier:
        for rate in (0.005, 0.001):
            yield f"at most {format_percent(rate)} of labels change", Labels(rate)
        if 2 <= forest.n_classes <= _MAX_CLASSES:
            rates = dict.fromkeys(np.asarray(forest.classes).tolist(), 0.02)
            yield "at most 2 % of the labels of each class change", LabelsPerClass(rates)
        if test.y is not None:
            yield "accuracy falls by at most 0.3 points", Accuracy(0.003)
        if forest.n_classes == 2 and forest.link in ("identity", "logistic", "softmax"):
            yield "95 % of probabilities are within 0.02 of the model's", Values(0.02, of="probability")
    elif test.groups is None:
        for error, name in _list_errors(own, test):
            yield f"95 % of values are within {format_number(error)} of the model's{name}", Values(error)


def _list_errors(own: Promise | None, test: TestRows) -> Iterator[tuple[float, str]]:
    """Yield errors that a regressor's users may allow: parts of its own, or others than they have asked for."""
    if test.y is not None:
        error = test.measure_quality(test.full)
        parts = [(error / part, f" (1/{part} of its RMSE)") for part in (4, 8)]
    else:
        error = own.max_error if isinstance(own, Values) else 0.0
        parts = [(error * factor, "") for factor in (2, 1, 0.5)]
    for size, name in parts:
        if size > 0:
            yield float(f"{size:.2g}"), name


def _describe(count: Count) -> str:
    if count.n_mended:
        return f"{count.n_broken:,} lost, {count.n_mended:,} gained"
    return f"{count.n_broken:,} of {count.n_rows:,}"


def write_promise(promise: Promise) -> str:
    """Return the code that makes a promise, without what is usual.

    Examples
    --------
    >>> write_promise(Values(0.02, of="probability"))
    "scurry.promises.Values(0.02, of='probability')"
    """
    values, options = [], []
    for one in fields(promise):
        value = getattr(promise, one.name)
        if one.default is MISSING:
            values.append(repr(dict(value) if one.name == "rates" else value))
        elif value != one.default:
            options.append(f"{one.name}={value!r}")
    return f"scurry.promises.{type(promise).__name__}({', '.join(values + options)})"


def render_alternatives(story: Story) -> Markup | None:
    """Render what other promises would cost; None where no thresholds could be moved."""
    if not story.alternatives or story.curve is None:
        return None
    most, own = float(story.effort.most), float(story.effort.per_row.mean())
    rows: list[list[object]] = [
        [tag("strong", "This predictor, as it is"), format_number(own), _save(own, most), "", ""]
    ]
    for what, call, mean_trees, measured, needs in story.alternatives:
        name = join(what[:1].upper() + what[1:], tag("code", call))
        spent = "not by this plan" if mean_trees is None else format_number(round(mean_trees, 2))
        saved = "" if mean_trees is None else _save(mean_trees, most)
        rows.append([name, spent, saved, measured, needs])
    note = (
        "Measured on the test rows, not promised: the thresholds of this predictor were moved until each promise was "
        "just kept. A predictor that is made for a promise has thresholds fitted to it, and may need fewer trees; it "
        "has to prove the promise on calibration rows, for which it may need more."
    )
    if any(each.mean_trees is None for each in story.alternatives):
        note += (
            " Not by this plan: not even all of its trees keep the promise, because they vote, and the model adds up "
            "probabilities."
        )
    header: list[object] = ["Promise, and how to ask for it", "Trees", "Saved", "Broken", "To prove it, at least"]
    return tag(
        "section",
        tag("h2", "What other promises would cost", id="h-alternatives"),
        tag("p", note),
        tag(
            "div",
            tabulate(header, rows, caption="Mean number of trees with which each promise was kept"),
            class_="asks",
        ),
        aria_labelledby="h-alternatives",
    )


def _save(mean_trees: float, most: float) -> str:
    return format_share(1 - mean_trees / most)
