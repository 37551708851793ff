"""Worst case: what an exported model takes of a microcontroller, in bytes and in time.

Time is counted in two steps. How often the slowest row does each thing (`count_work`) is exact: it follows from the
tables. What each thing takes is a table here, for the code that GCC 12 makes at -O2, measured on traces under QEMU. A
cycle is one of memory without wait states, and each instruction counts the most that ARM's manuals say. `make embedded`
checks that no row of any layout and plan takes more than its own counts say.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scurry.export.lowered import Lowered


class Cost(NamedTuple):
    """What a thing takes at most: instructions of a Cortex-M4, its cycles, and those of a Cortex-M0."""

    instructions: float
    m4: float
    m0: float


_COSTS: dict[str, Cost] = {}


def count_work(lowered: Lowered, n_trees: int | None = None, n_tests: int | None = None) -> Counter[str]:
    """Return how often a row does each thing that takes time, at most.

    Parameters
    ----------
    lowered : Lowered
    n_trees, n_tests : int, optional
        The trees that the row evaluates, and its node tests in them and in a router; the most that are possible by
        default. Anytime models take all their steps.
    """
    values, columns = lowered.values, lowered.columns
    n_trees = lowered.n_trees if n_trees is None else n_trees
    work = Counter({"row": 1, "tree": n_trees, "class": values.n_sums, "sum": n_trees * values.codes.shape[1]})
    work[f"column, {'float' if lowered.layout.float_thresholds else 'bits'}"] = (
        0 if columns.is_integer else len(columns.feature)
    )
    if lowered.layout.if_else:
        work["step, code"] = len(lowered.order)
        work["run"] = len(lowered.runs)
        work["switch"] = sum(before > 0 for _, before, _ in lowered.runs)
    elif lowered.is_anytime:
        work[f"step, {name_test(lowered)}"] = len(lowered.order)
    else:
        work[f"test, {name_test(lowered)}"] = lowered.max_tests if n_tests is None else n_tests
    if values.stop is not None:
        work.update(values.stop.count_work(n_trees, values.n_sums))
    return work


def name_test(lowered: Lowered) -> str:
    """Return which code tests a node."""
    words = ["float" if lowered.layout.float_thresholds else "compact" if lowered.layout.is_compact else "integer"]
    words += ["levels"] if lowered.levels is not None else []
    words += ["sets"] if lowered.has_sets else []
    return " ".join(words)
