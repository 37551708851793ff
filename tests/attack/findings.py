"""What an attack counted and what it found."""

import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass
class Findings:
    """What was tried, and what went wrong.

    Attributes
    ----------
    counts : Counter
        How much of each kind was tried, and how it ended.
    problems : list of str
        Each names the attack and the seed that repeats it.
    """

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, other: "Findings") -> None:
        self.counts.update(other.counts)
        self.problems += other.problems

    def to_json(self) -> dict[str, Any]:
        return {"counts": dict(self.counts), "problems": self.problems}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Findings":
        return cls(Counter(data["counts"]), data["problems"])

    @contextmanager
    def of(self, attack: str, seed: int) -> Iterator[None]:
        """Turn whatever is raised inside into a problem."""
        try:
            yield
        except AssertionError as error:
            self.problems.append(f"{attack} {seed}: {' '.join(str(error).split())[:600]}")
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)
            places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in at[:-4:-1])
            self.problems.append(f"{attack} {seed}: {type(error).__name__}: {str(error)[:300]} ({places})")


def check_equal(found: Any, expected: Any, what: str) -> None:
    """Raise an error that counts the differences, and shows one."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, not {expected.shape}"
    # An object array of texts has no isnan, and needs none.
    same = found == expected
    if found.dtype.kind == "f" and expected.dtype.kind == "f":
        same |= np.isnan(found) & np.isnan(expected)
    if not same.all():
        first = tuple(np.argwhere(~same)[0])
        raise AssertionError(f"{what}: {(~same).sum()} of {same.size} differ, {found[first]!r} for {expected[first]!r}")


def check_close(found: Any, expected: Any, what: str) -> None:
    """Raise an error unless numbers are equal to 1e-6."""
    if not np.allclose(found, expected, rtol=1e-6, atol=1e-6, equal_nan=True):
        with np.errstate(invalid="ignore"):
            raise AssertionError(f"{what}: off by up to {np.nanmax(np.abs(np.asarray(found) - expected))}")
