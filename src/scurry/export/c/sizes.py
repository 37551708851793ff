"""Sizes: what an exported model takes of a microcontroller, in bytes and in time.

Bytes of tables are exact. Code is estimated from what ``arm-none-eabi-gcc -O2`` makes of it for a Cortex-M4, rounded
up.

Time is that of the slowest row that there can be. How often it does each thing (`count_work`) follows from the tables.
What a thing takes was measured on traces of compiled models: instructions that GCC 12 makes at -O2, and their cycles
with memory that has no wait states, each instruction at the most that ARM's manuals say (a taken branch refills the
pipeline of a Cortex-M4 in 3 cycles, a Cortex-M0 multiplies in 32). So it is an estimate from above, no proof. ``make
embedded`` compares all of it with compiled firmware, and the time of each row with what its own counts say.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scurry.export.lowered import Lowered

# Measured on compiled models of the test suite. All functions of a model; then if-else code by what it consists of.
_CODE_BYTES = 640
_BYTES_PER_INNER_NODE, _BYTES_PER_RUN, _BYTES_PER_CASE = 28, 24, 8
# Instructions of one step on average: a table loop, the same with floats, and a loop that walks a tree to its leaf.
_TABLE_STEP, _FLOAT_STEP, _TREE_STEP = 19.5, 22.5, 12.0
# What it takes more to look a threshold up in a table, and to find what a node adds for the last class.
_COMPACT_BYTES, _COMPACT_STEP = 48, 5.5
# Of a tree that asks one question per level, with integers and with floats; and of a search in a category set besides.
_LEVEL_STEP, _FLOAT_LEVEL_STEP, _SEARCH = 14.0, 18.0, 12.0
# Instructions of if-else code: one step, the call of a run, and a switch at its start.
_IF_ELSE_STEP, _RUN, _SWITCH = 5.0, 12.0, 6.0
_SENTINEL_BYTES, _CELL_BYTES = 256, 64  # of code that only these plans have


class Cost(NamedTuple):
    """What a thing takes at most: instructions and cycles of a Cortex-M4, and cycles of a Cortex-M0."""

    instructions: int
    m4: int
    m0: int


_COSTS: dict[str, Cost] = {
    "bounds": Cost(6, 9, 29),
    "cell bounds": Cost(17, 25, 71),
    "class": Cost(9, 14, 15),
    "column, bits": Cost(47, 68, 104),
    "column, float": Cost(13, 20, 0),
    "estimate": Cost(46, 71, 905),
    "interval": Cost(11, 18, 15),
    "lane": Cost(7, 12, 14),
    "lanes": Cost(11, 23, 61),
    "lead": Cost(27, 48, 63),
    "piece": Cost(8, 14, 15),
    "pieces": Cost(10, 20, 30),
    "policy": Cost(39, 60, 60),
    "round": Cost(6, 11, 61),
    "row": Cost(61, 175, 105),
    "run": Cost(13, 27, 32),
    "sentinel": Cost(25, 45, 60),
    "set": Cost(12, 21, 35),
    "step, code": Cost(5, 9, 12),
    "step, compact": Cost(23, 36, 51),
    "step, float": Cost(20, 32, 0),
    "step, integer": Cost(18, 28, 36),
    "sum": Cost(9, 15, 15),
    "switch": Cost(15, 17, 21),
    "test, compact": Cost(17, 28, 47),
    "test, float": Cost(14, 24, 0),
    "test, float levels": Cost(16, 24, 0),
    "test, integer": Cost(10, 19, 20),
    "test, integer levels": Cost(11, 18, 27),
    "tree": Cost(30, 52, 68),
}
"""By the things that `count_work` counts. Those of floats take functions of a library on a Cortex-M0: 0 here."""


@dataclass(frozen=True)
class Sizes:
    """Bytes and time of an exported model.

    Attributes
    ----------
    table_bytes : int
        Constant tables, exact.
    flash_bytes : int
        Tables and code; the code is estimated, for a Cortex-M4.
    ram_bytes : int
        One state and one row of columns.
    instructions_per_step : float
        Estimated for the loop that walks the trees. The float32 layout assumes a floating point unit.
    max_tests : int
        The most node tests that a row can take, exact: no early exit is assumed.
    max_instructions : int
        The most instructions that a row can take on a Cortex-M4, from its first call to its answer.
    max_cycles : int
        The most cycles of that, with memory that has no wait states.
    max_cycles_m0 : int or None
        The most cycles on a Cortex-M0; None for floats, which it has no instructions for.
    """

    table_bytes: int
    flash_bytes: int
    ram_bytes: int
    instructions_per_step: float
    max_tests: int
    max_instructions: int
    max_cycles: int
    max_cycles_m0: int | None


def estimate_sizes(lowered: Lowered, table_bytes: int) -> Sizes:
    """Return what a model takes, whose tables take so many bytes."""
    code, instructions = _CODE_BYTES, _FLOAT_STEP if lowered.layout.float_thresholds else _TABLE_STEP
    if lowered.layout.if_else:
        resumed = [run for run in lowered.runs if run[1] > 0]
        inner = np.column_stack([lowered.tree, lowered.level])[: lowered.n_inner]
        n_cases = sum(int((inner == (tree, first)).all(axis=1).sum()) for tree, first, _ in resumed)
        code += _BYTES_PER_INNER_NODE * lowered.n_inner
        code += _BYTES_PER_RUN * len(lowered.runs) + _BYTES_PER_CASE * n_cases
        overhead = _RUN * len(lowered.runs) + _SWITCH * len(resumed)
        instructions = _IF_ELSE_STEP + overhead / len(lowered.order)
    elif not lowered.is_anytime:
        level_step = _FLOAT_LEVEL_STEP if lowered.layout.float_thresholds else _LEVEL_STEP
        instructions = _TREE_STEP if lowered.levels is None else level_step
    if lowered.has_sets:
        instructions += _SEARCH
    if lowered.layout.is_compact:
        code, instructions = code + _COMPACT_BYTES, instructions + _COMPACT_STEP
    column_bytes, n_columns = 4 if lowered.layout.float_thresholds else 2, len(lowered.columns.feature)
    state = lowered.n_trees * lowered.index_bits // 8 + 4 if lowered.is_anytime else 4 * lowered.values.n_sums + 12
    if lowered.lanes is not None:
        state, code = state + 4 * lowered.lanes.n_lanes, code + _SENTINEL_BYTES
    if lowered.n_cells:
        code += _CELL_BYTES
    most = estimate_time(count_work(lowered))
    return Sizes(
        table_bytes=table_bytes,
        flash_bytes=table_bytes + code,
        ram_bytes=-(-state // 4) * 4 + column_bytes * n_columns,  # a state is aligned to 4 bytes
        instructions_per_step=instructions,
        max_tests=lowered.max_tests,
        max_instructions=most.instructions,
        max_cycles=most.m4,
        max_cycles_m0=None if lowered.layout.float_thresholds else most.m0,
    )


def estimate_time(work: Counter[str]) -> Cost:
    """Return what a row takes at most that does each thing so often."""
    return Cost(*(sum(n * _COSTS[what][at] for what, n in work.items() if n) for at in range(3)))


def count_work(lowered: Lowered, n_trees: int | None = None, n_tests: int | None = None) -> Counter[str]:
    """Return how often a row does each thing that takes time, at most.

    Parameters
    ----------
    lowered : Lowered
    n_trees, n_tests : int, optional
        The trees that the row evaluates, and its node tests in them and in a router; the most that are possible by
        default. Anytime models take all their steps.
    """
    values, layout = lowered.values, lowered.layout
    n_trees = lowered.n_trees if n_trees is None else n_trees
    work = Counter({"row": 1, "tree": n_trees, "class": values.n_sums, "sum": n_trees * values.codes.shape[1]})
    if not lowered.columns.is_integer:
        work["column, float" if layout.float_thresholds else "column, bits"] = len(lowered.columns.feature)
    what, n_steps = "step, code", len(lowered.order)
    if layout.if_else:
        work["run"] = len(lowered.runs)
        work["switch"] = sum(before > 0 for _, before, _ in lowered.runs)
    elif lowered.is_anytime:
        what = f"step, {_name_test(lowered)}"
    else:
        what, n_steps = f"test, {_name_test(lowered)}", lowered.max_tests if n_tests is None else n_tests
    work[what] = n_steps
    if lowered.has_sets:  # each of them may look for a category
        work["set"] = n_steps
    if values.stop is not None:
        work.update(values.stop.count_work(n_trees, values.n_sums))
    return work


def _name_test(lowered: Lowered) -> str:
    """Return which code tests a node."""
    words = ["float" if lowered.layout.float_thresholds else "compact" if lowered.layout.is_compact else "integer"]
    words += ["levels"] if lowered.levels is not None else []
    return " ".join(words)
