"""What a page says about its subject, before it is laid out.

Also the story of a forest that evaluates every tree: a pruned one, or one for which an early exit would not pay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InputError
from scurry.forest import Forest, as_rows
from scurry.promises import Certificate
from scurry.report.charts import Chart
from scurry.report.markup import number, share
from scurry.timing import Runner

BLOCK = 20_000  # rows whose leaves are held at once


class Tile(NamedTuple):
    """A number to be seen first."""

    name: str
    value: str
    note: str


class Claim(NamedTuple):
    """Something promised beside what came out; the verdict is empty where nothing was promised."""

    what: str
    promised: str
    measured: str
    verdict: str = ""


class Work(NamedTuple):
    """What each row took, shape (n_rows,), of `most`."""

    name: str
    per_row: NDArray[Any]
    most: float
    note: str


class Picture(NamedTuple):
    """A chart under a heading, with what its lines mean: pairs of a style and a name."""

    heading: str
    chart: Chart
    legend: Sequence[tuple[str, str]]
    note: str


class Column(NamedTuple):
    """Something measured at every budget."""

    name: str
    values: NDArray[np.float64]
    shown: Callable[[float], str] = number


class Curve(NamedTuple):
    """What each budget leads to.

    `columns` begin with what is drawn: the quality (if it is known) and the change against the full model. Budgets
    rise. `calls` are the code that asks for each; `shipped` is the one the predictor has, if it has one.
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
    """Everything on a page; `when` says at which budget `answers` are those of a subject that can be stopped."""

    kind: str
    verdict: str
    tiles: Sequence[Tile]
    promise: str
    claims: Sequence[Claim]
    work: Work
    picture: Picture | None
    curve: Curve | None
    answers: NDArray[Any]
    when: str = ""
    effort: Sequence[Column]
    runners: Sequence[Runner]
    recipe: str
    settings: Mapping[str, str] = field(default_factory=dict)


class TestRows:
    """Rows the subject was not made with, and what the full model says of them.

    Parameters
    ----------
    forest : Forest
        The full model.
    X : array or DataFrame of shape (n_rows, n_features)
    y : array of shape (n_rows,) or None
    """

    __test__ = False  # for pytest, which collects classes of such names

    def __init__(self, forest: Forest, X: Any, y: Any = None) -> None:
        self.forest, self.rows = forest, as_rows(forest, X)
        self.y = None if y is None else np.asarray(y)
        if len(self.rows) == 0:
            raise InputError(
                "X_test has no rows; pass rows that neither trained the model nor calibrated the predictor"
            )
        if self.y is not None and self.y.shape != (len(self.rows),):
            raise InputError(f"y_test has shape {self.y.shape}, X_test has {len(self.rows)} rows")

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def full(self) -> NDArray[Any]:
        """The full model's answers."""
        return self.forest.predict(self.rows, None)

    @cached_property
    def full_vote(self) -> NDArray[Any]:
        """The class most trees vote for, the first of several."""
        forest, winners = self.forest, []
        vote_of = forest.value.argmax(axis=1)
        for at in range(0, len(self), BLOCK):
            votes = vote_of[forest.apply(self.rows[at : at + BLOCK], None)]
            counts = np.stack([(votes == k).sum(axis=1) for k in range(forest.n_classes)], axis=1)
            winners.append(counts.argmax(axis=1))
        codes = np.concatenate(winners)
        return codes if forest.classes is None else forest.classes.take(codes)

    def some(self, most: int) -> TestRows:
        """At most so many of the rows, evenly chosen."""
        if len(self) <= most:
            return self
        chosen = np.linspace(0, len(self) - 1, most).astype(np.intp)
        return TestRows(self.forest, self.rows[chosen], None if self.y is None else self.y[chosen])

    @property
    def quality_name(self) -> str:
        """What `quality` is."""
        return "accuracy" if self.forest.is_classifier else "mean squared error"

    @property
    def change_name(self) -> str:
        """What `change` is."""
        return "labels changed" if self.forest.is_classifier else "mean squared change"

    def quality(self, answers: NDArray[Any]) -> float:
        """How good answers are."""
        return float((answers == self.y).mean() if self.forest.is_classifier else ((answers - self.y) ** 2).mean())

    def change(self, answers: NDArray[Any]) -> float:
        """How far answers are from the full model's."""
        if self.forest.is_classifier:
            return float((answers != self.full).mean())
        return float(((answers - self.full) ** 2).mean())

    @property
    def shown(self) -> Callable[[float], str]:
        """How quality and change are written."""
        return share if self.forest.is_classifier else number

    def columns(self, answers: Sequence[NDArray[Any]]) -> list[Column]:
        """Quality (if labels are known) and change at every budget, and what the changes did."""
        columns = [Column(self.change_name, np.array([self.change(a) for a in answers]), self.shown)]
        if self.y is None:
            return columns
        columns.insert(0, Column(self.quality_name, np.array([self.quality(a) for a in answers]), self.shown))
        if self.forest.is_classifier:
            was_right = self.full == self.y
            harmed = [float((was_right & (a != self.y)).mean()) for a in answers]
            mended = [float((~was_right & (a == self.y)).mean()) for a in answers]
            columns += [
                Column("became wrong", np.array(harmed), share),
                Column("became right", np.array(mended), share),
            ]
        return columns

    def quality_claims(self, answers: NDArray[Any]) -> list[Claim]:
        """How good the answers are beside the full model's."""
        if self.y is None:
            return []
        ours, full = self.shown(self.quality(answers)), self.shown(self.quality(self.full))
        return [Claim(self.quality_name, "nothing", f"{ours}; the full model: {full}")]


def tell_whole(forest: Forest, test: TestRows, certificate: Certificate | None = None) -> Story:
    """Collect what there is to say about a forest that evaluates every tree."""
    depth = forest.node_depth
    blocks = [test.rows[at : at + BLOCK] for at in range(0, len(test), BLOCK)]
    steps = np.concatenate([depth[forest.apply(block, None)].sum(axis=1, dtype=np.int64) for block in blocks])
    tiles = [
        Tile("trees", number(forest.n_trees), f"{forest.n_nodes:,} nodes"),
        Tile("node tests per row", number(float(steps.mean())), f"at most {int(forest.tree_depth.sum()):,}"),
    ]
    if test.y is not None:
        tiles.append(Tile(test.quality_name, test.shown(test.quality(test.full)), f"on {len(test):,} test rows"))
    why = "" if certificate is None or not certificate.why else f" {certificate.why[0].upper()}{certificate.why[1:]}."
    return Story(
        kind="Forest",
        verdict=f"It evaluates all {forest.n_trees:,} trees for every row: {number(float(steps.mean()))} node tests."
        + why,
        tiles=tiles,
        promise="Every row gets the model's own answer.",
        claims=[Claim("answers other than the model's", "none", share(0.0), "kept"), *test.quality_claims(test.full)],
        work=Work("node tests", steps, float(forest.tree_depth.sum()), "How many nodes test rows pass in all trees."),
        picture=None,
        curve=None,
        answers=test.full,
        effort=[Column("node tests", steps)],
        runners=[Runner("all trees, scurry", forest.predict)],
        recipe="scurry.from_model(model)",
        settings={} if certificate is None else certificate.lines(),
    )
