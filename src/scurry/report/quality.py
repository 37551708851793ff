"""The section on right and wrong answers: the full model's and the subject's next to each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.evaluation import LabelQuality, ScoreQuality, label_quality
from scurry.formatting import format_share
from scurry.report.markup import Markup, tabulate, tag
from scurry.report.story import Story, TestRows

_MAX_CELLS = 10  # classes in a confusion matrix: more do not fit a page
_MAX_CLASSES = 30  # rows in the table of classes


def render_quality(story: Story, test: TestRows) -> Markup | None:
    """Render measures of quality, and who is taken for what; None where there are no labels to compare with."""
    if test.y is None or not test.forest.is_classifier:
        return None
    full, here = (label_quality(labels, test.y, classes=test.forest.classes) for labels in (test.full, story.answers))
    titles = [test.title] if story.answers is test.full else [test.title, f"{story.kind}{story.when}"]
    found = [full, here][: len(titles)]
    return tag(
        "section",
        tag("h2", "Right and wrong answers", id="h-quality"),
        tag(
            "p",
            f"Measured on {len(test):,} labelled test rows. Recall is the share of a class's rows that get its label; "
            "precision is the share of a label's rows that are of its class.",
        ),
        _tabulate_measures(titles, found, _measure_scores(story, test)),
        _tabulate_classes(titles, found) if len(full.classes) > 2 else None,
        tag(
            "div",
            *(_tabulate_confusion(title, each) for title, each in zip(titles, found, strict=True)),
            class_="charts",
        ),
        aria_labelledby="h-quality",
    )


def _measure_scores(story: Story, test: TestRows) -> ScoreQuality | None:
    """Return how good probabilities are; None where they are not known or there is nothing to tell apart."""
    if story.probabilities is None or test.y is None or len(np.unique(test.y)) < 2:
        return None
    codes = test.forest.codes_of(test.y)
    return ScoreQuality.of(test.full_probabilities, story.probabilities, codes)


def _tabulate_measures(titles: list[str], found: list[LabelQuality], scores: ScoreQuality | None) -> Markup:
    measures = {"accuracy": [each.accuracy for each in found]}
    if len(found[0].classes) == 2:
        # The second class is the one that is looked for, and often the rare one.
        for k in (1, 0):
            measures[f"recall of {found[0].classes[k]}"] = [float(each.recall[k]) for each in found]
            measures[f"precision of {found[0].classes[k]}"] = [float(each.precision[k]) for each in found]
    else:
        measures["mean recall (balanced accuracy)"] = [each.mean_recall for each in found]
        measures["mean precision"] = [each.mean_precision for each in found]
    rows = [_compare(name, values, format_share) for name, values in measures.items()]
    if scores is not None:
        mean = "" if len(found[0].classes) == 2 else ", mean of each class against the rest"
        for name, values in (
            (f"AUC{mean}", [scores.full_auc, scores.fast_auc]),
            ("log-loss", [scores.full_log_loss, scores.fast_log_loss]),
        ):
            rows.append(_compare(name, values[: len(found)], "{:.4f}".format))
    change = ["Change"] if len(titles) > 1 else []
    return tabulate(["Measure", *titles, *change], rows, caption="Quality of labels and of probabilities")


def _compare(name: str, values: list[float], write: Any) -> list[object]:
    cells: list[object] = [name, *("none" if np.isnan(value) else write(value) for value in values)]
    if len(values) > 1:
        change = values[1] - values[0]
        sign = "" if not change else "+" if change > 0 else "\u2212"
        # The difference of two shares is no share.
        cells.append("" if np.isnan(change) else f"{sign}{write(abs(change))}".replace(" %", " points"))
    return cells


def _tabulate_classes(titles: list[str], found: list[LabelQuality]) -> Markup:
    n_rows = found[0].confusion.sum(axis=1)
    chosen = np.sort(np.argsort(-n_rows, kind="stable")[:_MAX_CLASSES])
    rows: list[list[object]] = []
    for k in chosen:
        cells: list[object] = [found[0].classes[k], f"{n_rows[k]:,}"]
        shares = [*(each.recall[k] for each in found), *(each.precision[k] for each in found)]
        cells += ["none" if np.isnan(share) else format_share(float(share)) for share in shares]
        rows.append(cells)
    header: list[object] = ["Class", "Rows"]
    header += [f"{measure}: {title.lower()}" for measure in ("Recall", "Precision") for title in titles]
    which = "" if len(chosen) == len(n_rows) else f": the {len(chosen)} most frequent of {len(n_rows)} classes"
    return tabulate(header, rows, caption=f"Quality of each class{which}")


def _tabulate_confusion(title: str, quality: LabelQuality) -> Markup:
    names, counts = _merge_rare(quality)
    body = [
        tag(
            "tr",
            tag("th", name, scope="row", class_="t"),
            *(
                tag("td", f"{count:,}", class_="n hit" if row == column else "n")
                for column, count in enumerate(counts[row])
            ),
        )
        for row, name in enumerate(names)
    ]
    head = tag("tr", tag("th", "Truth", scope="col"), *(tag("th", name, scope="col", class_="n") for name in names))
    caption = f"{title}: rows by true class (down) and by label given (across)"
    content = tag(
        "table", tag("caption", tag("span", caption)), tag("thead", head), tag("tbody", *body), class_="matrix"
    )
    return tag("div", content, class_="scroll", tabindex=0, role="region", aria_label=caption)


def _merge_rare(quality: LabelQuality) -> tuple[list[str], NDArray[np.int64]]:
    """Return names and counts of a confusion matrix that fits a page: rare classes become one."""
    names, counts = [str(name) for name in quality.classes], quality.confusion
    if len(names) <= _MAX_CELLS:
        return names, counts
    frequent = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[: _MAX_CELLS - 1])
    group = np.full(len(names), _MAX_CELLS - 1)
    group[frequent] = np.arange(len(frequent))
    merged = np.zeros((_MAX_CELLS, _MAX_CELLS), np.int64)
    np.add.at(merged, (group[:, None], group[None, :]), counts)
    return [*(names[k] for k in frequent), f"{len(names) - len(frequent)} others"], merged
