"""The story of a subject: everything its page says, before it becomes HTML.

Each kind of subject has a function that tells its story: `tell_whole` here for a forest that evaluates every tree (a
pruned one, or one for which an early exit would not pay), `tell_exits` and `tell_steps` in `exits`, and
`tell_pruning`, `tell_chosen` and `tell_size` in `prunings`.

They share two sections: what was promised next to what test rows show, with an interval and a verdict; and right and
wrong answers, the full model's and the subject's next to each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from scurry.errors import InputError
from scurry.evaluation import LabelQuality, ScoreQuality, label_quality
from scurry.forest import Forest, as_rows
from scurry.formatting import format_number, format_percent, format_share
from scurry.predictor import Predictor
from scurry.promises import (
    AuditPart,
    Certificate,
    Count,
    GroupTest,
    Labels,
    Mean,
    Outcomes,
    Promise,
    Recall,
    Values,
    find_places,
)
from scurry.report.markup import Chart, Markup, tabulate, tag
from scurry.stopping.guarantee import certified_rate
from scurry.stopping.verdict import audit_outcomes, draw_one_of_each
from scurry.timing import Runner

CONFIDENCE = 0.95  # of the interval around what was measured
_N_RANKED, _MAX_GRADE = 10, 31  # places that NDCG counts, and the largest grade that gradient boosting knows
BLOCK = 20_000  # rows evaluated at once: the leaves of all rows in all trees may not fit into memory
ALL_ROWS = slice(None)
_NOT_JUDGED = "not judged: pass groups=, the group of each row"


class Tile(NamedTuple):
    """A number at the top of the page."""

    name: str
    value: str
    note: str


class Claim(NamedTuple):
    """What was promised next to what was measured; the verdict is empty where nothing was promised."""

    what: str
    promised: str
    measured: str
    verdict: str = ""


class Effort(NamedTuple):
    """What each row took, shape (n_rows,), and the most that a row can take."""

    name: str
    per_row: NDArray[Any]
    most: float
    note: str


class Picture(NamedTuple):
    """A chart under a heading; the legend has a pair of style and name for each kind of line."""

    heading: str
    chart: Chart
    legend: Sequence[tuple[str, str]]
    note: str


class Table(NamedTuple):
    """A table under a heading; the first cell of each row names it."""

    heading: str
    header: Sequence[object]
    rows: Sequence[Sequence[object]]


class Alternative(NamedTuple):
    """Another promise, and what it would cost.

    Attributes
    ----------
    what : str
        What would be promised.
    call : str
        The code that asks for it.
    mean_trees : float or None
        Trees per row of the cheapest setting that kept it; None if none did.
    measured : str
        What that setting did.
    needs : str
        Rows, or queries, that it takes to prove it, at the least.
    """

    what: str
    call: str
    mean_trees: float | None
    measured: str
    needs: str


class Column(NamedTuple):
    """Something measured at every budget, or for every row, and how its numbers are written."""

    name: str
    values: NDArray[np.float64]
    format_value: Callable[[float], str] = format_number


class Curve(NamedTuple):
    """What each budget leads to; budgets rise.

    Attributes
    ----------
    budget : str
        Name and unit of the budget.
    spent : float64 array of shape (n_budgets,)
    columns : sequence of Column
        The first `n_drawn` are drawn: the quality (if labels are known) and the change against the full model.
    calls : sequence of str
        The code that leads to each budget.
    start, shipped : int
        Indices of the budget shown first, and of the one the predictor has (None if it has none).
    n_drawn : int
    bound : float or None
        The promised bound on the last column drawn.
    note : str
    """

    budget: str
    spent: NDArray[np.float64]
    columns: Sequence[Column]
    calls: Sequence[str]
    start: int
    shipped: int | None
    n_drawn: int
    bound: float | None
    note: str


@dataclass(frozen=True, kw_only=True)
class Story:
    """Everything on a page.

    `answers` and `probabilities` (None if they are not known) are those at the budget shown first, which `when` names
    if the subject has several. `row_columns` are listed for each row whose answer changed: another answer than the full
    model's, unless `changed` says which. `tests` are those of groups of rows, made when the plan was made. `remark`
    says why the test rows judge nothing new, if they do not.
    """

    kind: str
    verdict: str
    tiles: Sequence[Tile]
    promise: str
    claims: Sequence[Claim]
    effort: Effort
    picture: Picture | None
    tables: Sequence[Table] = ()
    curve: Curve | None
    alternatives: Sequence[Alternative] = ()
    tests: Sequence[GroupTest] = ()
    answers: NDArray[Any]
    probabilities: NDArray[np.float64] | None = None
    when: str = ""
    changed: NDArray[np.bool_] | None = None
    row_columns: Sequence[Column] = ()
    runners: Sequence[Runner]
    recipe: str
    settings: Mapping[str, str] = field(default_factory=dict)
    remark: str = ""


class TestRows:
    """Rows the subject was not made with, and the full model's answers on them.

    Parameters
    ----------
    forest : Forest
        The full model.
    X : array or DataFrame of shape (n_rows, n_features)
    y : array of shape (n_rows,) or None
    name : str
        What the page calls `forest`: a forest made to cost less is not "the full model" of anything.
    groups : array of shape (n_rows,) or None
        The query of each row, where rows are documents to be ranked; `y` is then their relevance. If the promise is
        about groups, the group of each row: it is kept as `units`, and `groups` is None.
    promise : Promise or None
        What the subject promises. Of two classes, the page tells of the one that it names, or else of the second.
    """

    __test__ = False  # pytest would collect a class of this name

    def __init__(
        self,
        forest: Forest,
        X: Any,
        y: Any = None,
        name: str = "the full model",
        *,
        groups: Any = None,
        promise: Promise | None = None,
    ) -> None:
        self.forest, self.given, self.rows, self.name = forest, X, as_rows(forest, X), name
        self.promise = promise
        self.y = None if y is None else np.asarray(y)
        given = None if groups is None else np.asarray(groups)
        self._by_unit = promise is not None and promise.is_about_groups
        self.groups: NDArray[Any] | None = None if self._by_unit else given
        self.units: NDArray[Any] | None = given if self._by_unit else None
        if len(self.rows) == 0:
            raise InputError(
                "X_test has no rows; pass rows that neither trained the model nor calibrated the predictor",
                argument="X_test",
            )
        if self.y is not None and self.y.shape != (len(self.rows),):
            raise InputError(f"y_test has shape {self.y.shape}, X_test has {len(self.rows)} rows", argument="y_test")
        if self.y is not None and forest.is_classifier:
            # In the type of the model's classes, so that labels are compared as what they are.
            self.y = np.asarray(forest.classes)[forest.codes_of(self.y, "y_test")]
        if given is not None and given.shape != (len(self.rows),):
            raise InputError(f"groups has shape {given.shape}, X_test has {len(self.rows)} rows", argument="groups")
        if self.groups is not None and self.y is not None:
            grades = self.y.astype(np.float64)
            if not (np.isin(grades, np.arange(_MAX_GRADE + 1))).all():
                raise InputError(
                    f"y_test must hold the relevance of documents, whole numbers from 0 to {_MAX_GRADE}; leave it out "
                    "if it is something else",
                    argument="y_test",
                )
            self.y = grades

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def whose(self) -> str:
        """The name of the full model as a possessive."""
        return f"{self.name.split(',')[0]}'s"

    @property
    def title(self) -> str:
        """The name of the full model at the head of a column."""
        title = self.name.removeprefix("the ")
        return title[:1].upper() + title[1:]

    def answers_of(self, forest: Forest) -> NDArray[Any]:
        """Return the answers of a forest, which may be the full model."""
        return self.full if forest is self.forest else forest.predict(self.rows, None)

    @cached_property
    def judges(self) -> NDArray[np.intp] | slice | None:
        """The rows that judge the promise: all, or one of each group, and None if it is about groups not given."""
        if not self._by_unit:
            return ALL_ROWS
        return None if self.units is None else draw_one_of_each(self.units)

    @cached_property
    def full(self) -> NDArray[Any]:
        """The full model's answers."""
        return self.forest.predict(self.rows, None)

    @cached_property
    def full_probabilities(self) -> NDArray[np.float64]:
        """The full model's probabilities, shape (n_rows, n_classes)."""
        return self.forest.predict_proba(self.rows, None)

    @cached_property
    def full_vote(self) -> NDArray[Any]:
        """The class that most trees vote for; the first one in a tie."""
        forest, winners = self.forest, []
        vote_of = forest.value.argmax(axis=1)
        for at in range(0, len(self), BLOCK):
            votes = vote_of[forest.apply(self.rows[at : at + BLOCK], None)]
            counts = np.stack([(votes == k).sum(axis=1) for k in range(forest.n_classes)], axis=1)
            winners.append(counts.argmax(axis=1))
        codes = np.concatenate(winners)
        return codes if forest.classes is None else forest.classes.take(codes)

    @cached_property
    def full_log_odds(self) -> NDArray[np.float64]:
        """The full model's log-odds of the second of two classes, shape (n_rows,)."""
        return Predictor.full(self.forest).run(self.rows, None).scores * self.forest.link_scale

    def thin(self, max_rows: int) -> TestRows:
        """Return at most so many of the rows, evenly spaced; of queries whole ones, and one at the least."""
        if len(self) <= max_rows:
            return self
        chosen = np.linspace(0, len(self) - 1, max_rows).astype(np.intp)
        if self.groups is not None:
            _, query = np.unique(self.groups, return_inverse=True)
            n_queries = max(max_rows * (int(query.max()) + 1) // len(self), 1)
            chosen = np.flatnonzero(np.isin(query, np.linspace(0, query.max(), n_queries).astype(np.intp)))
        return self.take(chosen)

    def take(self, chosen: NDArray[np.intp]) -> TestRows:
        """Return some of the rows, by their indices."""
        groups = self.units if self._by_unit else self.groups
        groups = None if groups is None else groups[chosen]
        y = None if self.y is None else self.y[chosen]
        thinned = TestRows(self.forest, self.rows[chosen], y, self.name, groups=groups, promise=self.promise)
        # What is known of all rows is not computed again.
        known = ("full", "full_vote", "full_probabilities", "full_log_odds")
        vars(thinned).update({name: vars(self)[name][chosen] for name in known if name in vars(self)})
        return thinned

    @property
    def quality_name(self) -> str:
        """Name of the quality metric."""
        if self.groups is not None:
            return f"NDCG@{_N_RANKED}"
        return "accuracy" if self.forest.is_classifier else "RMSE"

    @property
    def change_name(self) -> str:
        """Name of the measure of change against the full model."""
        return "labels changed" if self.forest.is_classifier else "root mean squared change"

    @property
    def format_value(self) -> Callable[[float], str]:
        """The function that writes quality and change as text."""
        return format_share if self.forest.is_classifier else format_number

    def measure_quality(self, answers: NDArray[Any]) -> float:
        """Return the accuracy of answers, their root mean squared error, or how well they rank."""
        assert self.y is not None
        if self.groups is not None:
            return _ndcg(self.y, answers, self.groups)
        return float((answers == self.y).mean()) if self.forest.is_classifier else _rms(answers - self.y)

    def measure_change(self, answers: NDArray[Any]) -> float:
        """Return the share of answers other than the full model's, or the root mean squared difference."""
        return float((answers != self.full).mean()) if self.forest.is_classifier else _rms(answers - self.full)

    def compare(self, answers: Sequence[NDArray[Any]]) -> list[Column]:
        """Return quality (if labels are known) and change at every budget, and what the changes did."""
        columns = [Column(self.change_name, np.array([self.measure_change(a) for a in answers]), self.format_value)]
        if self.groups is not None:
            columns = []  # how far scores are apart says nothing of ranks
        if self.y is None:
            return columns
        quality = np.array([self.measure_quality(a) for a in answers])
        columns.insert(0, Column(self.quality_name, quality, self.format_value))
        if self.forest.is_classifier:
            was_right = self.full == self.y
            harmed = [float((was_right & (a != self.y)).mean()) for a in answers]
            mended = [float((~was_right & (a == self.y)).mean()) for a in answers]
            columns += [
                Column("became wrong", np.array(harmed), format_share),
                Column("became right", np.array(mended), format_share),
                *self.compare_classes(answers),
            ]
        return columns

    @property
    def main_class(self) -> int:
        """Which of two classes is looked for: the one whose recall is promised, or the second, often the rare one."""
        is_first = isinstance(self.promise, Recall) and self.promise.label == np.asarray(self.forest.classes)[0]
        return 0 if is_first else 1

    def compare_classes(self, answers: Sequence[NDArray[Any]]) -> list[Column]:
        """Return what accuracy hides where a class is rare: how many of its rows are found, and how surely."""
        names = np.asarray(self.forest.classes)
        of_class = [(name, self.y == name) for name in names]
        if len(names) != 2:
            known = [(name, rows) for name, rows in of_class if rows.any()]
            recalls = [[(a[rows] == name).mean() for name, rows in known] for a in answers]
            return [Column("mean recall", np.array(recalls).mean(axis=1), format_share)] if known else []
        name, rows = of_class[self.main_class]
        if not rows.any():
            return []
        recall = [float((a[rows] == name).mean()) for a in answers]
        # An answer that nobody gets is neither right nor wrong.
        precision = [float(rows[a == name].mean()) if (a == name).any() else np.nan for a in answers]
        return [
            Column(f"recall of {name}", np.array(recall), format_share),
            Column(f"precision of {name}", np.array(precision), format_share),
        ]

    def claim_quality(self, answers: NDArray[Any]) -> list[Claim]:
        """Return the error of a regressor's answers next to the full model's; classes have a section of their own."""
        if self.y is None or self.forest.is_classifier:
            return []
        ours, full = (self.format_value(self.measure_quality(each)) for each in (answers, self.full))
        return [Claim(self.quality_name, "nothing", f"{ours}; {self.name}: {full}")]


def _rms(differences: NDArray[Any]) -> float:
    """Return the root mean square, which is in the unit of the values."""
    return float(np.sqrt((differences**2).mean()))


def _ndcg(grades: NDArray[np.float64], scores: NDArray[np.float64], queries: NDArray[Any]) -> float:
    """Return the mean over queries of how well scores rank, 1 for the best order; without relevant documents 1 too."""
    _, query = np.unique(queries, return_inverse=True)
    gains = 2.0**grades - 1.0
    reached, most = (
        np.bincount(query, gains * (places < _N_RANKED) / np.log2(places + 2.0))
        for places in (find_places(by, query) for by in (scores, grades))
    )
    return float(np.where(most > 0, reached / np.where(most > 0, most, 1.0), 1.0).mean())


def judge(measured: float, low: float, high: float, bound: float) -> str:
    """Return whether a promise was kept, given what was measured and its bounds for rows like these."""
    if high <= bound:
        return "kept"
    if measured <= bound:
        return "too few rows to tell"
    # A few test rows exceed a kept promise now and then; only a lower bound above it speaks against it.
    return "above it, perhaps by chance" if low <= bound else "not kept on these rows"


def _probabilities(forest: Forest, test: TestRows) -> NDArray[np.float64]:
    return test.full_probabilities if forest is test.forest else forest.predict_proba(test.rows, None)


def tell_whole(forest: Forest, test: TestRows, certificate: Certificate | None = None) -> Story:
    """Collect what there is to say about a forest that evaluates every tree."""
    depth, max_tests = forest.node_depth, int(forest.tree_depth.sum())
    blocks = [test.rows[at : at + BLOCK] for at in range(0, len(test), BLOCK)]
    # A row passes as many node tests in a tree as its leaf is deep.
    tests = np.concatenate([depth[forest.apply(block, None)].sum(axis=1, dtype=np.int64) for block in blocks])
    mean_tests = format_number(float(tests.mean()))
    tiles = [
        Tile("trees", format_number(forest.n_trees), f"{forest.n_nodes:,} nodes"),
        Tile("node tests per row", mean_tests, f"at most {max_tests:,}"),
    ]
    answers = test.answers_of(forest)
    if test.y is not None:
        quality = test.format_value(test.measure_quality(answers))
        tiles.append(Tile(test.quality_name, quality, f"on {len(test):,} test rows"))
    promise = "Every row gets the model's own answer."
    recipe = (certificate and certificate.recipe) or "scurry.from_model(model)"
    claims = [Claim("answers other than the model's", "none", format_share(0.0), "kept")]
    # A predictor without a stop rule was made by a search that found that stopping would not pay: say why.
    why = "" if certificate is None or not certificate.why else f" {certificate.why[0].upper()}{certificate.why[1:]}."
    trees = "its only tree" if forest.n_trees == 1 else f"all {forest.n_trees:,} trees"
    return Story(
        kind="Forest",
        verdict=f"It evaluates {trees} for every row: {mean_tests} node tests.{why}",
        tiles=tiles,
        promise=promise,
        claims=[*claims, *test.claim_quality(answers)],
        effort=Effort("node tests", tests, float(max_tests), "Number of nodes that test rows pass in all trees."),
        picture=None,
        curve=None,
        answers=answers,
        probabilities=_probabilities(forest, test) if forest.is_classifier else None,
        runners=[Runner("all trees, scurry", forest.predict)],
        recipe=recipe,
        settings={} if certificate is None else certificate.lines(),
    )


def claim_promise(
    certificate: Certificate,
    outcomes: Outcomes,
    *,
    full_vote: NDArray[Any] | None = None,
    judges: NDArray[np.intp] | slice | None = ALL_ROWS,
) -> list[Claim]:
    """Return what a certificate promises next to what these outcomes show.

    Parameters
    ----------
    certificate : Certificate
    outcomes : Outcomes
    full_vote : array of shape (n_rows,), optional
        The labels that a promise about the vote of all trees is compared with.
    judges : array of indices, slice or None, default all
        The rows that judge, see `TestRows.judges`.
    """
    is_classifier = bool(outcomes.classes)
    if not is_classifier and certificate.promise is None:
        return []
    # Without a promise, or with a rate that was asked of the fitting rows alone, changes are measured all the same.
    promise = certificate.promise or Labels(0.0, against="model" if full_vote is None else "vote")
    of_fit_rows = isinstance(promise, Labels | Values) and promise.max_rate is None
    is_promised = certificate.promise is not None and not of_fit_rows
    compared = compare_with(outcomes, promise, full_vote)
    if isinstance(judges, np.ndarray):
        outcomes, compared = outcomes.take(judges), compared.take(judges)
    counts, mean = promise.count(compared), promise.mean(outcomes)
    if isinstance(judges, np.ndarray):
        counts = tuple(count._replace(unit=f"{count.unit}, one of each group") for count in counts)
    if judges is None and (counts or mean is not None):
        # Rows of a group are no independent draws: an interval from all of them would be far too narrow.
        claims = [Claim(c.what, _most(c), f"{_describe_count(c)}; {_NOT_JUDGED}") for c in counts if c.n_rows]
        return claims if mean is None else [Claim(mean.what, _most_of_mean(mean), _NOT_JUDGED)]
    if is_promised and (counts or mean is not None):
        audit = audit_outcomes(promise, compared)
        confidence = f"each bound with {format_percent(audit.confidence)} confidence"
        if mean is not None:
            claims = [_claim_mean(mean, audit.parts[0], confidence)]
        else:
            pairs = zip(counts, audit.parts, strict=True)
            claims = [_claim_part(count, part, confidence) for count, part in pairs if count.n_rows]
    elif is_promised and promise.NEEDS_LABELS and outcomes.y is None:
        claims = [Claim("what is promised", "as said above", "not measured: this promise needs labels (y_test)")]
    else:
        claims = [_claim_nothing(count) for count in counts if count.n_rows]
    every_label = _claim_nothing(Labels(0.0).count(outcomes)[0])
    if is_classifier and every_label.what not in [claim.what for claim in claims]:
        claims.append(every_label)
    return claims


def compare_with(outcomes: Outcomes, promise: Promise, full_vote: NDArray[Any] | None) -> Outcomes:
    """Return outcomes next to what the promise compares with: the full vote, or the model itself."""
    about_vote = isinstance(promise, Labels) and promise.against == "vote"
    return replace(outcomes, full=full_vote) if about_vote and full_vote is not None else outcomes


def outcomes_of(
    test: TestRows,
    answers: NDArray[Any],
    *,
    probabilities: NDArray[np.float64] | None = None,
    scores: NDArray[np.float64] | None = None,
) -> Outcomes:
    """Return answers on the test rows next to the full model's.

    Parameters
    ----------
    test : TestRows
    answers : array of shape (n_rows,)
    probabilities : float64 array of shape (n_rows, n_classes), optional
    scores : float64 array of shape (n_rows,), optional
        Scores before the link, of two classes.
    """
    forest = test.forest
    known: dict[str, NDArray[np.float64]] = {}
    if probabilities is not None and forest.n_classes == 2:
        known |= {"probabilities": probabilities[:, 1], "full_probabilities": test.full_probabilities[:, 1]}
    if scores is not None:
        known |= {"log_odds": scores * forest.link_scale, "full_log_odds": test.full_log_odds}
    classes = () if forest.classes is None else tuple(forest.classes.tolist())
    return Outcomes(answers=answers, full=test.full, y=test.y, classes=classes, queries=test.groups, **known)


def try_rows(predictor: Predictor, test: TestRows) -> tuple[Outcomes, NDArray[np.int32]]:
    """Return what a predictor does to test rows, with all that promises are about, and their numbers of trees."""
    run = predictor.run(test.rows, None, groups=test.groups)
    has_probabilities = test.forest.n_classes == 2 and test.forest.has_probabilities
    about_log_odds = isinstance(predictor.promise, Values) and predictor.promise.of == "log-odds"
    outcomes = outcomes_of(
        test,
        run.labels,
        probabilities=predictor.predict_proba(test.rows, None) if has_probabilities else None,
        scores=run.scores if about_log_odds else None,
    )
    return outcomes, run.trees


def find_interval(count: Count) -> tuple[float, float]:
    """Return an interval that holds the rate of new rows with 95 % confidence: Clopper and Pearson's."""
    tail = (1 - CONFIDENCE) / 2
    low = float(beta.ppf(tail, count.n_broken, count.n_rows - count.n_broken + 1)) if count.n_broken else 0.0
    return low, certified_rate(count.n_broken, count.n_rows, 1 - tail)


def _claim_nothing(count: Count) -> Claim:
    within = f"with {format_percent(CONFIDENCE)} confidence"
    return Claim(count.what, "nothing", _describe_rate(count, *find_interval(count), within))


def _claim_part(count: Count, part: AuditPart, confidence: str) -> Claim:
    """Return a part of a promise next to what an audit of the same rows says."""
    measured = _describe_rate(count, part.lower, part.upper, confidence)
    return Claim(count.what, _most(count), measured, judge(part.rate, part.lower, part.upper, part.max_rate))


def _most(count: Count) -> str:
    return f"at most {format_percent(count.max_rate)}" if count.max_rate else "none"


def _most_of_mean(mean: Mean) -> str:
    return f"rises by at most {format_number(mean.max_rise)}"


def _describe_count(count: Count) -> str:
    of_rows = "" if count.n_broken == 0 and count.n_mended == 0 else f"{count.n_broken - count.n_mended:,} of "
    return f"{format_share(count.rate)}, {of_rows}{count.n_rows:,} {count.unit}"


def _describe_rate(count: Count, low: float, high: float, confidence: str) -> str:
    return f"{_describe_count(count)} ({format_share(low)} to {format_share(high)}, {confidence})"


def _claim_mean(mean: Mean, part: AuditPart, confidence: str) -> Claim:
    ours, full = float(mean.values.mean()), float(mean.full_values.mean())
    measured = (
        f"{ours - full:+.3g}: {format_number(ours)} here, {format_number(full)} with all trees ({part.lower:+.3g} to "
        f"{part.upper:+.3g}, {confidence}, by betting)"
    )
    return Claim(mean.what, _most_of_mean(mean), measured, judge(part.rate, part.lower, part.upper, part.max_rate))


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
            "precision is the share of a label's rows that are of its class. A dash stands for a share of no rows.",
        ),
        _tabulate_measures(titles, found, _measure_scores(story, test), test.main_class),
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


def _tabulate_measures(
    titles: list[str], found: list[LabelQuality], scores: ScoreQuality | None, main_class: int
) -> Markup:
    measures = {"accuracy": [each.accuracy for each in found]}
    if len(found[0].classes) == 2:
        for k in (main_class, 1 - main_class):
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
    cells: list[object] = [name, *("–" if np.isnan(value) else write(value) for value in values)]
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
        cells += [format_share(float(share)) for share in shares]
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
