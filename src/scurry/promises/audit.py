"""Audit: a promise next to what some rows show about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from scurry.formatting import format_number, format_share
from scurry.promises.promise import Promise

KEPT, BROKEN, TOO_FEW = "kept", "broken", "too few rows"


@dataclass(frozen=True, kw_only=True)
class AuditPart:
    """What rows show about one part of a promise, such as one class of it.

    Attributes
    ----------
    what : str
        What is counted, in words.
    n_rows : int
        Rows that the part is about, or queries, or groups of rows.
    n_broken : int
        Those of them that became worse.
    rate : float
        What was measured: a share of the rows, less those that became better where these make up for it; or the rise of
        a mean.
    lower, upper : float
        Bounds of the rate of rows like these.
    max_rate : float
        What was promised.
    rate_is_share : bool
        Whether rates are shares of rows, or else costs.
    """

    what: str
    n_rows: int
    n_broken: int
    rate: float
    lower: float
    upper: float
    max_rate: float
    rate_is_share: bool = True

    @property
    def verdict(self) -> str:
        """What the bounds say: "kept", "broken" or "too few rows"."""
        if self.upper <= self.max_rate:
            return KEPT
        return BROKEN if self.lower > self.max_rate else TOO_FEW

    def describe(self) -> str:
        """Return what was measured and promised, in words."""
        write = format_share if self.rate_is_share else format_number
        between = f"between {write(self.lower)} and {write(self.upper)} of rows like these"
        return (
            f"{self.what}: {write(self.rate)} of {self.n_rows:,} ({between}; promised: at most {write(self.max_rate)})"
        )


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What rows show about the promise of a predictor. Print it.

    Attributes
    ----------
    promise : Promise
    confidence : float
        With this probability all upper bounds hold, and with this probability all lower ones. So a promise that is kept
        is called broken with a probability of at most one minus this, and one that is broken is called kept.
    parts : tuple of AuditPart
        One for each thing that is promised: one, or several such as one for each class.
    n_rows : int
        Rows that were looked at, or queries, or groups of rows.
    rows_needed : int or None
        About how many would be enough for a clear verdict if they were like these; None if these are enough, or if the
        rate is too close to the promise to say.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> data = scurry.datasets.load("adult")
    >>> train, test = data.split == "train", data.split == "test"
    >>> model = RandomForestClassifier(31, max_depth=8, random_state=0).fit(data.X[train], data.y[train])
    >>> fast = scurry.early_exit(model, data.X[test][:8000], max_disagreement=0.02)
    >>> audit = fast.audit(data.X[test][8000:])
    >>> audit.verdict, audit.lower < audit.rate < audit.upper <= 0.02
    ('kept', True)
    """

    promise: Promise
    confidence: float
    parts: tuple[AuditPart, ...]
    n_rows: int
    rows_needed: int | None = None

    @property
    def worst(self) -> AuditPart:
        """The part that is closest to being broken, or furthest beyond it."""
        return max(self.parts, key=lambda part: (part.verdict == BROKEN, part.rate / max(part.max_rate, 1e-300)))

    @property
    def rate(self) -> float:
        """The rate measured, of the worst part."""
        return self.worst.rate

    @property
    def lower(self) -> float:
        """The lower bound of that rate."""
        return self.worst.lower

    @property
    def upper(self) -> float:
        """The upper bound of that rate."""
        return self.worst.upper

    @property
    def n_broken(self) -> int:
        """Rows that broke the promise."""
        return sum(part.n_broken for part in self.parts)

    @property
    def verdict(self) -> str:
        """What the rows say about the promise: "kept" (proven), "broken" (proven) or "too few rows"."""
        verdicts = {part.verdict for part in self.parts}
        return BROKEN if BROKEN in verdicts else TOO_FEW if TOO_FEW in verdicts else KEPT

    def describe(self) -> str:
        """Return the verdict and what it rests on, a line for each part of the promise."""
        said = {
            KEPT: "The promise is kept on rows like these.",
            BROKEN: "The promise is broken on rows like these; calibrate again on recent rows.",
            # Counted are rows, queries or groups, as the lines below say.
            TOO_FEW: f"{self.n_rows:,} are too few to say whether the promise is kept on rows like these"
            + (f": about {self.rows_needed:,} would be enough." if self.rows_needed else "."),
        }[self.verdict]
        return "\n".join([said, *(part.describe() for part in self.parts)])

    def to_json(self) -> dict[str, Any]:
        """Return the audit as an object of JSON."""
        return {
            "promise": self.promise.to_json(),
            "confidence": self.confidence,
            "verdict": self.verdict,
            "n_rows": self.n_rows,
            "rows_needed": self.rows_needed,
            "parts": [asdict(part) | {"verdict": part.verdict} for part in self.parts],
        }

    __str__ = describe
