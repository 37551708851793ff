"""What a paper says, next to what was obtained here, with a verdict that is computed and never typed.

An experiment ends by storing its claims in ``papers/results/PAPER.json``; ``paper_pages.py`` makes the page of the
documentation from that file alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from paper_pictures import Picture
from report import commit

FOLDER = Path(__file__).parent / "papers" / "results"
CLOSE, EXPLAINED, UNEXPLAINED = "close", "different, explained", "different, unexplained"
UNDECIDED, NOT_RUN = "not decided", "not run"
VERDICTS = (CLOSE, EXPLAINED, UNEXPLAINED, UNDECIDED, NOT_RUN)


@dataclass(frozen=True)
class Claim:
    """One figure of a paper, and the same figure of every repeat here.

    Parameters
    ----------
    item : str
        Where the paper says it: "Table 4".
    what : str
        What the figure is: "Skin: share of trees evaluated".
    published : float or None
        None where the paper says something that is no number; `obtained` is then 1 for each repeat in which it holds.
    obtained : tuple of float
        One figure for each repeat; empty if it was not run. With `resampled`: one figure from all repeats.
    unit : str
    tolerance : float
        Half a unit of the last published digit, or how well a figure can be read off a picture.
    n_published : int or None
        Repeats behind the published figure, if the paper says so; their mean scatters too.
    why : str
        A remark: what explains a difference, what may, or why it was not run.
    evidence : str
        Where in the same result the explanation can be checked: the heading of other claims, of a reading or of a
        table. A difference without it is not explained, whatever `why` says.
    above : float or None
        Where the paper says "better" or "more" without a number: what the figure has to be above.
    resampled : tuple of float
        The figure for repeats drawn again with replacement, where it follows from all repeats at once.
    n_repeats : int or None
        How many repeats a figure with `resampled` follows from.

    Examples
    --------
    >>> Claim("Table 4", "Skin", 1.15, (1.14, 1.13, 1.16), tolerance=0.005, n_published=30).verdict
    'close'
    >>> Claim("Table 4", "Shuttle", 0.15, (0.0, 0.0), tolerance=0.005).verdict
    'different, unexplained'
    >>> Claim("Figure 2", "error of the other method minus ours", None, (0.8, 1.1, 0.9), above=0.0).verdict
    'close'
    """

    item: str
    what: str
    published: float | None
    obtained: tuple[float, ...] = ()
    unit: str = "%"
    tolerance: float = 0.0
    n_published: int | None = None
    why: str = ""
    above: float | None = None
    resampled: tuple[float, ...] = ()
    n_repeats: int | None = None
    evidence: str = ""

    def __post_init__(self) -> None:
        if not np.isfinite((*self.obtained, *self.resampled)).all():
            raise ValueError(f"{self.item}, {self.what}: a repeat without an answer is to be left out, and told of")

    @property
    def n_obtained(self) -> int:
        """Repeats behind the obtained figure."""
        return self.n_repeats or len(self.obtained)

    @property
    def mean(self) -> float:
        """Mean over the repeats."""
        return float(np.mean(self.obtained))

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where a mean of as many repeats as published would lie in 95 of 100 cases; None for fewer than two."""
        n = self.n_obtained
        if n < 2:
            return None
        if self.resampled:
            lowest, highest = np.quantile(self.resampled, (0.025, 0.975))
            wider = math.sqrt(1 + n / self.n_published) if self.n_published else 1.0
            return self.mean - wider * (self.mean - float(lowest)), self.mean + wider * (float(highest) - self.mean)
        share = 1 / n + (1 / self.n_published if self.n_published else 0.0)
        reach = float(stats.t.ppf(0.975, n - 1) * np.std(self.obtained, ddof=1) * math.sqrt(share))
        return self.mean - reach, self.mean + reach

    @property
    def verdict(self) -> str:
        """Whether published and obtained figures agree within their scatter and the published digits."""
        if not self.obtained:
            return NOT_RUN
        lowest, highest = self.interval or (self.mean, self.mean)
        if self.above is not None:
            if lowest <= self.above < highest:
                return UNDECIDED
            agrees = lowest > self.above
        elif self.published is None:
            agrees = self.mean >= 0.95
        else:
            agrees = lowest - self.tolerance <= self.published <= highest + self.tolerance
        if agrees:
            return CLOSE
        return EXPLAINED if self.evidence else UNEXPLAINED


@dataclass(frozen=True)
class Table:
    """Further figures of a page, with no published ones beside them."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    @classmethod
    def load(cls, fields: dict[str, Any]) -> Table:
        """Return what was stored as a mapping."""
        return cls(fields["title"], tuple(fields["header"]), tuple(map(tuple, fields["rows"])), fields["note"])


@dataclass(frozen=True)
class Result:
    """All claims of a paper, and how they were obtained.

    Parameters
    ----------
    paper : str
        Short name, as ``scurry reproduce`` knows it.
    title, command : str
    claims : tuple of Claim
    notes : tuple of str
        Paragraphs of the page.
    seeds : str
    commit, date : str
    readings, stand_ins, further : tuple of Claim
        What is shown and not counted: the same figures under other readings of what the paper leaves open; what the
        paper says of data that are not at hand, on others; and what it does not say.
    pictures : tuple of Picture
    tables : tuple of Table
    """

    paper: str
    title: str
    command: str
    claims: tuple[Claim, ...]
    notes: tuple[str, ...] = ()
    seeds: str = ""
    commit: str = ""
    date: str = ""
    readings: tuple[Claim, ...] = ()
    stand_ins: tuple[Claim, ...] = ()
    further: tuple[Claim, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()

    def store(self) -> Path:
        """Write the result where the pages are made from."""
        FOLDER.mkdir(exist_ok=True)
        path = FOLDER / f"{self.paper}.json"
        fields = asdict(self) | {"commit": commit(), "date": date.today().isoformat()}
        path.write_text(json.dumps(fields, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read what `store` wrote."""
        fields = json.loads(path.read_text(encoding="utf-8"))
        claims = {name: _claims(fields.pop(name, [])) for name in ("claims", "readings", "stand_ins", "further")}
        pictures = tuple(Picture.load(picture) for picture in fields.pop("pictures", []))
        tables = tuple(Table.load(table) for table in fields.pop("tables", []))
        notes = tuple(fields.pop("notes"))
        return cls(**claims, notes=notes, pictures=pictures, tables=tables, **fields)

    def unfounded(self) -> list[str]:
        """Return the claims whose evidence is not in this result: a table, a note, or a reading that is close."""
        shown = {table.title for table in self.tables} | {note.split("**")[1].rstrip(".") for note in self.notes}
        shown |= {reading.item for reading in self.readings if reading.verdict == CLOSE}
        claims = (*self.claims, *self.readings, *self.stand_ins, *self.further)
        return [claim.what for claim in claims if claim.evidence and claim.evidence not in shown]


def _claims(stored: Sequence[dict[str, Any]]) -> tuple[Claim, ...]:
    lists = ("obtained", "resampled")
    return tuple(Claim(**claim | {name: tuple(claim.get(name, ())) for name in lists}) for claim in stored)


def count_verdicts(claims: Sequence[Claim]) -> dict[str, int]:
    """Return how many claims have each verdict."""
    return {verdict: sum(c.verdict == verdict for c in claims) for verdict in VERDICTS}
