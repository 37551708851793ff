"""Certificate: the proof of a promise, on which rows it was tested and what came out.

It holds what was measured there (`measurements`), and a summary of those rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scurry.checks import is_number
from scurry.errors import FormatError, InputError
from scurry.formatting import align, format_percent, format_share
from scurry.promises.measurements import ExitMeasurement, Measurement, StepMeasurement, read_measurement, steps_of_facts
from scurry.promises.promise import Labels, Promise

_MAX_SUMMARISED = 4096  # rows: enough for quantiles, and quickly brought together from files


@dataclass(frozen=True, eq=False, kw_only=True)
class RowSummary:
    """Quantiles of each feature over the calibration rows: enough to notice later that new rows differ.

    Attributes
    ----------
    n_rows : int
        Rows that were summarised.
    quantiles : float64 array of shape (n_features, n_quantiles)
        Equally spaced from the smallest value to the largest; NaN where every value is missing.
    missing : float64 array of shape (n_features,)
        Share of rows in which the feature is missing.
    checksum : int or None
        What `is_of` knows all calibration rows by, see `checksum_of`. None in older files.
    """

    n_rows: int
    quantiles: NDArray[np.float64]
    missing: NDArray[np.float64]
    checksum: int | None = None

    @classmethod
    def of(cls, rows: NDArray[Any], n_quantiles: int = 21, *, checksum: int | None = None) -> Self:
        """Summarise `rows` of shape (n_rows, n_features); `checksum` is that of all rows, if these are a part."""
        # In float32, so that the same rows have the same summary in whatever precision they arrive.
        values = np.asarray(rows).astype(np.float32).astype(np.float64)
        missing = np.isnan(values)
        quantiles = np.full((values.shape[1], n_quantiles), np.nan)
        for feature in np.flatnonzero(~missing.all(axis=0)):
            known = values[~missing[:, feature], feature]
            # A value of the data itself, so that infinities make no NaN and categories stay categories.
            quantiles[feature] = np.quantile(known, np.linspace(0, 1, n_quantiles), method="inverted_cdf")
        checksum = cls.checksum_of(np.asarray(rows)) if checksum is None else checksum
        return cls(n_rows=len(values), quantiles=quantiles, missing=missing.mean(axis=0), checksum=checksum)

    @staticmethod
    def selection(n_rows: int, most: int = _MAX_SUMMARISED) -> NDArray[np.intp]:
        """Return the places of the rows that are summarised: 4,096 or `most` at most, evenly spaced."""
        return np.linspace(0, n_rows - 1, min(n_rows, most, _MAX_SUMMARISED)).astype(np.intp)

    @classmethod
    def checksum_of(cls, rows: NDArray[Any]) -> int:
        """Return what `checksum_of_selected` returns for the rows that are summarised."""
        return cls.checksum_of_selected(rows[cls.selection(len(rows))], len(rows))

    @staticmethod
    def checksum_of_selected(selected: NDArray[Any], n_rows: int) -> int:
        """Return the CRC-32 of an even selection of rows in single precision, and of the number of all of them."""
        with np.errstate(over="ignore"):
            single = selected.astype(np.float32)
        return zlib.crc32(single.tobytes(), n_rows & 0xFFFFFFFF)

    def is_of(self, rows: NDArray[Any]) -> bool:
        """Return whether these are all the rows that were given to calibrate."""
        return self.checksum is not None and self.checksum == self.checksum_of(rows)

    def to_json(self) -> dict[str, Any]:
        """Return the summary as an object of JSON: numbers as text, because JSON has no NaN or infinity."""
        quantiles = [[float(value).hex() for value in row] for row in self.quantiles]
        known: dict[str, Any] = {"n_rows": self.n_rows, "quantiles": quantiles, "missing": self.missing.tolist()}
        return known if self.checksum is None else known | {"checksum": self.checksum}

    def pack(self) -> NDArray[Any]:
        """Return the quantiles in single precision, which those of `of` have, or as they are."""
        with np.errstate(over="ignore"):
            single = self.quantiles.astype(np.float32)
        return single if np.array_equal(single, self.quantiles, equal_nan=True) else self.quantiles

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Return the summary that `to_json` wrote; its quantiles may be an array, as they are in files."""
        try:
            stored = data["quantiles"]
            if not isinstance(stored, np.ndarray):
                stored = [[float.fromhex(value) for value in row] for row in stored]
            quantiles = np.array(stored, np.float64)
            missing = np.array(data["missing"], np.float64)
            if quantiles.ndim != 2 or missing.shape != quantiles.shape[:1]:
                raise ValueError("quantiles and missing do not fit together")
            checksum = data.get("checksum")
            if checksum is not None and type(checksum) is not int:
                raise ValueError("its checksum is no whole number")
            return cls(n_rows=int(data["n_rows"]), quantiles=quantiles, missing=missing, checksum=checksum)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FormatError(f"its summary of calibration rows cannot be read: {error}") from error


UNITS = ("row", "distinct row", "group")


@dataclass(frozen=True, kw_only=True)
class GroupTest:
    """How a promise was tested on the rows of one group, such as those of a class.

    Attributes
    ----------
    group : str
        What the rows have in common.
    max_rate : float
        The share of them that may break the promise.
    n_rows, n_broken : int
        Rows that tested it, and those of them that broke it.
    confidence : float
        Of this test alone. All tests are right at once with the confidence of the promise.
    bound : float
        Upper bound on the rate of new rows of the group at this confidence (exact binomial).
    """

    group: str
    max_rate: float
    n_rows: int
    n_broken: int
    confidence: float
    bound: float

    def describe(self) -> str:
        """Return what came out, as a part of a sentence."""
        most, allowed = format_share(self.bound), format_percent(self.max_rate)
        return f"{self.n_rows:,} rows: {self.n_broken:,} changed (at most {most} of new ones, promised {allowed})"

    @classmethod
    def from_json(cls, data: Any) -> GroupTest:
        """Return the test that a file holds."""
        if not isinstance(data, Mapping) or set(data) != {f.name for f in fields(cls)}:
            raise FormatError("its certificate has a test of a group that cannot be read")
        for one in fields(cls):
            wanted = {"str": str, "int": int}.get(str(one.type), int | float)
            if not isinstance(data[one.name], wanted) or isinstance(data[one.name], bool):
                raise FormatError(f"its certificate has a test with a {one.name} of the wrong type")
        return cls(**data)


def _measured_to_json(measured: Measurement) -> dict[str, Any]:
    known = {"kind": measured.TAG} | asdict(measured)
    # Not known of older files, whose digests stay as they were.
    return {name: value for name, value in known.items() if value is not None or name not in _ADDED_LATER}


_ADDED_LATER = ("n_scored", "largest_paid", "paid_by_class", "left_out_cost")


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate:
    """How a plan came about, and the proof of its promise.

    Attributes
    ----------
    method : str
        Which method made the plan.
    promise : Promise or None
        What is promised. None where a plan makes no promise, such as one of `scurry.anytime`.
    n_rows : int
        Rows the promise was tested on. They had no part in the search. 0 where no test was needed or made.
    n_broken : int
        Of these rows, those that broke the promise. 0 where it is about a mean, which no single row breaks.
    unit : {"row", "distinct row", "group"}
        What `n_rows` counts: rows; different rows, where some were copies; or groups, of which one row each is tested.
    bound : float or None
        Upper bound for new rows at the promised confidence, at most what is promised: on the rate of broken rows (exact
        binomial), or on their mean cost. The plan was chosen so that it fits, so the promise itself holds with the
        confidence, not this lower figure.
    n_gained : int
        Where a promise is about right answers: rows that are answered right, or cheaper, where the model is not.
    tests : tuple of GroupTest
        Where a promise is made for several groups of rows, such as classes: the test of each.
    n_calibration_rows, n_fit_rows : int
        Rows that were given to calibrate, and rows that fitted the rule.
    n_shared_rows : int
        Calibration rows that were left out because they fitted the rule as well.
    threshold : float or None
        Probability from which on the second class is answered, where it was set by hand.
    why : str
        Why this method was chosen, where there was a choice.
    note : str
        What else a reader must know about the promise.
    recipe : str
        The call that made the plan, with every option, as Python. Empty where it is not known.
    measured : ExitMeasurement, ValueMeasurement, RankMeasurement, … or None
    rows : RowSummary or None
        Quantiles of the calibration rows.

    Examples
    --------
    >>> import scurry
    >>> measured = scurry.promises.ExitMeasurement(changed=0.001, mean_trees=12.5)
    >>> certificate = scurry.promises.Certificate(
    ...     method="qwyc", promise=scurry.promises.Labels(0.005), n_rows=4000, n_broken=4, bound=0.0023,
    ...     n_calibration_rows=8000, n_fit_rows=4000, measured=measured)
    >>> print(certificate.describe())
    promise         With confidence 0.95, at most 0.5 % of new rows get another label than the model's.
    tested on       4,000 rows that had no part in the fit: 4 broke it (at most 0.230 % of new rows)
    labels changed  0.100 %
    trees per row   12.5
    method          qwyc
    rows            8,000 for calibration, 4,000 to fit
    >>> scurry.promises.Certificate.from_json(certificate.to_json()).promise
    Labels(confidence=0.95, max_changed=0.005, against='model', holds='rows')
    """

    method: str
    promise: Promise | None = None
    n_rows: int = 0
    n_broken: int = 0
    unit: str = "row"
    bound: float | None = None
    n_gained: int = 0
    tests: tuple[GroupTest, ...] = ()
    n_calibration_rows: int = 0
    n_fit_rows: int = 0
    n_shared_rows: int = 0
    threshold: float | None = None
    why: str = ""
    note: str = ""
    recipe: str = ""
    measured: Measurement | None = None
    rows: RowSummary | None = field(default=None, repr=False)
    # The facts of a file of version 1 as they were read, so that saving it again gives the same file.
    stored: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def max_rate(self) -> float | None:
        """The largest rate that is promised for new rows; None if nothing is promised for them."""
        return None if self.promise is None else self.promise.max_rate

    @property
    def steps(self) -> StepMeasurement:
        """What was measured for an order of steps; an error for a plan of another kind."""
        if not isinstance(self.measured, StepMeasurement):
            raise InputError(f"this plan was made by {self.method!r} and has no order of steps")
        return self.measured

    @property
    def exits(self) -> ExitMeasurement | None:
        """What was measured for an early exit; None for a plan of another kind, or one that evaluates every tree."""
        return self.measured if isinstance(self.measured, ExitMeasurement) else None

    def statement(self) -> str:
        """Return what is promised in one or two sentences."""
        sentence = "Nothing is promised for new rows." if self.promise is None else self.promise.describe()
        # A promise compares with the model as it decides, and here it decides otherwise than in its own framework. The
        # note of a plan says so with the name of the class.
        by_hand = f"Here the model answers its second class from a probability of {self.threshold} on."
        is_said = self.threshold is None or "Here the model answers" in self.note
        return " ".join(filter(None, (sentence, "" if is_said else by_hand, self.note)))

    def lines(self) -> dict[str, str]:
        """Return everything a reader may want to know, by name, most important first."""
        lines = {"promise": self.statement()}
        if self.n_rows and self.promise is not None:
            units = f"{self.n_rows:,} {self.unit}s"
            lines["tested on"] = self.promise.describe_test(units, self.n_broken, self.bound)
            if self.n_gained:
                lines["tested on"] += f"; {self.n_gained:,} the other way round"
        lines |= {test.group: test.describe() for test in self.tests}
        if self.measured is not None:
            lines |= self.measured.describe()
        lines["method"] = self.method + (f": {self.why}" if self.why else "")
        if self.threshold is not None:
            lines["threshold"] = f"{self.threshold:g}"
        if self.n_calibration_rows:
            fit = f", {self.n_fit_rows:,} to fit" if self.n_fit_rows else ""
            shared = f", {self.n_shared_rows:,} left out because they fit it too" if self.n_shared_rows else ""
            lines["rows"] = f"{self.n_calibration_rows:,} for calibration{fit}{shared}"
        return lines

    def describe(self) -> str:
        """Return `lines` as a text."""
        return align(self.lines())

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as an object of JSON; `from_json` reads it."""
        if self.stored is not None:
            return dict(self.stored)
        known = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _NESTED}
        return known | {
            "promise": None if self.promise is None else self.promise.to_json(),
            "measured": None if self.measured is None else _measured_to_json(self.measured),
            "rows": None if self.rows is None else self.rows.to_json(),
            "tests": [asdict(test) for test in self.tests],
        }

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Return the certificate that `to_json` wrote, or that of the facts in a file of version 1.

        Raises
        ------
        FormatError
            If `data` is not a certificate.
        """
        if not isinstance(data, Mapping):
            raise FormatError("its certificate is not an object")
        if "measured" not in data:
            try:
                return cls._from_facts(data)
            except (InputError, TypeError, ValueError) as error:
                raise FormatError(f"its certificate cannot be read: {error}") from error
        if not set(data) <= {f.name for f in fields(cls)} - {"stored"}:
            raise FormatError("its certificate has unknown fields")
        known: dict[str, Any] = {name: value for name, value in data.items() if name not in _NESTED}
        for name, kinds in _PLAIN_TYPES.items():
            value = known.get(name)
            if (name in known or name == "method") and (not isinstance(value, kinds) or isinstance(value, bool)):
                raise FormatError(f"its certificate has a {name} of the wrong type, {value!r}")
        if known.get("unit", "row") not in UNITS:
            raise FormatError(f"its certificate counts an unknown unit, {known['unit']!r}")
        promise, rows, tests = data.get("promise"), data.get("rows"), data.get("tests", [])
        if not isinstance(tests, list):
            raise FormatError("its certificate has tests of the wrong type")
        return cls(
            **known,
            promise=None if promise is None else Promise.from_json(promise),
            measured=read_measurement(data["measured"]),
            rows=None if rows is None else RowSummary.from_json(rows),
            tests=tuple(GroupTest.from_json(test) for test in tests),
        )

    @classmethod
    def _from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """Read what version 1 of the format called facts: one flat object, whose keys depended on the method."""

        def number(name: str, default: float | None = None) -> Any:
            value = facts.get(name, default)
            return value if value is None or is_number(value) else default

        promise, measured = None, None
        if is_number(facts.get("max_disagreement")) and "promise" in facts:
            by_row = facts.get("method") in ("minimax", "minimixed") and "certified_by" not in facts
            promise = Labels(
                facts["max_disagreement"],
                confidence=number("confidence"),
                against="vote" if "vote_agrees_with_model" in facts else "model",
                holds="each row" if by_row else "rows",
            )
        if is_number(facts.get("calibration_mean_trees")):
            measured = ExitMeasurement(
                changed=number("calibration_disagreement", 0.0),
                mean_trees=number("calibration_mean_trees"),
                mean_cost=number("calibration_mean_cost"),
                vote_agreement=number("vote_agrees_with_model"),
            )
        return cls(
            method=str(facts.get("method", "full")),
            promise=promise,
            n_rows=number("certified_on_rows", 0),
            n_broken=number("certified_mistakes", 0),
            n_calibration_rows=number("n_calibration_rows", number("n_rows_ordered_on", 0)),
            n_fit_rows=number("fitted_on_rows", 0),
            threshold=number("threshold"),
            why=str(facts.get("chosen_because", "")),
            measured=measured if measured is not None else steps_of_facts(facts),
            stored=facts,
        )


_NESTED = ("promise", "measured", "rows", "tests", "stored")
_PLAIN_TYPES: dict[str, Any] = {
    "method": str,
    "n_rows": int,
    "n_broken": int,
    "unit": str,
    "bound": float | int | None,
    "n_gained": int,
    "n_calibration_rows": int,
    "n_fit_rows": int,
    "n_shared_rows": int,
    "threshold": float | int | None,
    "why": str,
    "note": str,
    "recipe": str,
}
