"""Candidates: the layouts a model can be written in, what each takes of a microcontroller, and the choice among them.

Bytes of tables are exact. Code is estimated from what ``arm-none-eabi-gcc -O2`` makes of it for a Cortex-M4, rounded
up. ``make embedded`` compares both with compiled firmware and with instructions executed under emulation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_choice
from scurry.errors import InfeasibleError, InputError
from scurry.export.c.source import CSource
from scurry.export.lowered import LAYOUTS, Layout, Lowered, lower
from scurry.export.replay import measure_agreement, measure_error, measure_kept
from scurry.predictor import Predictor

MIN_AGREEMENT = 0.999

# Measured on compiled models of the test suite. All functions of a model; then if-else code by what it consists of.
_CODE_BYTES = 640
_BYTES_PER_INNER_NODE, _BYTES_PER_RUN, _BYTES_PER_CASE = 28, 24, 8
# Instructions of one step: a table loop, the same with floats, and a loop that walks a tree to its leaf.
_TABLE_STEP, _FLOAT_STEP, _TREE_STEP = 19.5, 22.5, 12.0
# What it takes more to look a threshold up in a table, and to find what a node adds for the last class.
_COMPACT_BYTES, _COMPACT_STEP = 48, 5.5
# Of a tree that asks one question per level, with integers and with floats; and of a search in a category set besides.
_LEVEL_STEP, _FLOAT_LEVEL_STEP, _SEARCH = 14.0, 18.0, 12.0
# Instructions of if-else code: one step, the call of a run, and a switch at its start.
_IF_ELSE_STEP, _RUN, _SWITCH = 5.0, 12.0, 6.0
# At most so many instructions besides: of a row, a tree, each sum and lane of it, and a column that is quantised.
_ROW, _TREE, _SUM, _LANES, _LANE, _COLUMN = 60.0, 36.0, 9.0, 40.0, 9.0, 50.0
_SENTINEL_BYTES, _CELL_BYTES = 256, 64  # of code that only these plans have


@dataclass(frozen=True)
class Sizes:
    """Bytes and instructions of an exported model on a Cortex-M4.

    Attributes
    ----------
    table_bytes : int
        Constant tables, exact.
    flash_bytes : int
        Tables and code; the code is estimated.
    ram_bytes : int
        One state and one row of columns.
    instructions_per_step : float
        Estimated for the loop that walks the trees. The float32 layout assumes a floating point unit.
    max_tests : int
        The most node tests that a row can take, exact: no early exit is assumed.
    max_instructions : int
        Those tests, and what is spent on trees, sums and columns besides, up to the answer; estimated, rounded up.
    """

    table_bytes: int
    flash_bytes: int
    ram_bytes: int
    instructions_per_step: float
    max_tests: int
    max_instructions: int


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model in one layout.

    Attributes
    ----------
    lowered : Lowered
    source : CSource
    sizes : Sizes
    agreement : float64 array or None
        Share of rows with the source's label after 0, 1, … steps (for a regressor, see `measure_agreement`); None if
        no rows were given.
    kept : float or None
        Share of rows with the label that the source's promise compares with, or a value as close to it as promised;
        None if it makes none.
    max_error : float or None
        Of a regressor: the largest difference to the source's value.
    """

    lowered: Lowered
    source: CSource
    sizes: Sizes
    agreement: NDArray[np.float64] | None
    kept: float | None = None
    max_error: float | None = None

    @property
    def layout(self) -> Layout:
        """The layout."""
        return self.lowered.layout

    @property
    def least_agreement(self) -> float:
        """Agreement after the worst number of steps, from one step on; 1 if it is not known.

        Before the first step all rows have the same answer, that of the roots. Where two classes are about equally
        frequent there, rounding changes it for all rows or for none, and says nothing about the layout.
        """
        if self.agreement is None:
            return 1.0
        return float((self.agreement[1:] if len(self.agreement) > 1 else self.agreement).min())

    @property
    def preference(self) -> tuple[bool, int, int]:
        """Sorts layouts that agree equally well: larger is better.

        Tables are preferred to code; then 16-bit numbers, as 8 bits can change one early answer in twenty; then small
        size.
        """
        width = {16: 2, 32: 1, 8: 0}[self.layout.value_bits]
        return not self.layout.if_else, width, -self.sizes.flash_bytes


def list_candidates(
    pred: Predictor, name: str, layout: str, rows: NDArray[Any] | None, inputs: str = "float32"
) -> list[Candidate]:
    """Return the model in the layout of this name, or with "auto" in every layout that fits it."""
    check_choice("layout", layout, ["auto", *LAYOUTS])
    found: list[Candidate] = []
    errors = []
    for option in LAYOUTS.values() if layout == "auto" else [LAYOUTS[layout]]:
        if found and option.if_else and not found[0].lowered.is_anytime:
            continue  # only anytime plans become code; the user did not ask for it, so this is no error
        if layout == "auto" and inputs == "int16" and option.float_thresholds:
            continue  # integers need none of its floats
        try:
            lowered = lower(pred, option, inputs)
            source = CSource(lowered, name, pred.forest)
        except InputError as error:
            errors.append(error)
            continue
        agreement = None if rows is None else measure_agreement(pred, lowered, rows)
        kept = None if rows is None else measure_kept(pred, lowered, rows)
        max_error = None if rows is None else measure_error(pred, lowered, rows)
        found.append(Candidate(lowered, source, estimate_sizes(lowered, source), agreement, kept, max_error))
    if not found:
        raise errors[0]
    return found


def choose(options: list[Candidate], flash_budget: int | None) -> Candidate:
    """Return the option with the best agreement that fits `flash_budget` bytes.

    Without a budget, return the smallest option whose agreement is high enough, or the smallest of those with the best.
    """
    if flash_budget is not None:
        fitting = [option for option in options if option.sizes.flash_bytes <= flash_budget]
        if not fitting:
            least = min(option.sizes.flash_bytes for option in options)
            raise InfeasibleError(
                f"the model needs {least:,} bytes of flash, the budget is {flash_budget:,}; make it smaller with "
                "scurry.compress, or train fewer or shallower trees"
                + ("" if len(options) > 1 else ', or leave the choice to layout="auto"'),
                achievable=float(least),
            )
        return max(fitting, key=lambda option: (option.least_agreement, *option.preference))
    if options[0].agreement is None:
        return max(options, key=lambda option: option.preference)
    good = [option for option in options if option.least_agreement >= MIN_AGREEMENT]
    if not good:
        return max(options, key=lambda option: (option.least_agreement, -option.sizes.flash_bytes))
    return min(good, key=lambda option: option.sizes.flash_bytes)


def estimate_sizes(lowered: Lowered, source: CSource) -> Sizes:
    """Return what a model takes of a Cortex-M4."""
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
    if (lowered.column >= len(lowered.columns.feature)).any():
        instructions += _SEARCH
    if lowered.layout.is_compact:
        code, instructions = code + _COMPACT_BYTES, instructions + _COMPACT_STEP
    column_bytes, n_columns = 4 if lowered.layout.float_thresholds else 2, len(lowered.columns.feature)
    state = lowered.n_trees * lowered.index_bits // 8 + 4 if lowered.is_anytime else 4 * lowered.values.n_sums + 8
    per_tree = _TREE + _SUM * lowered.values.codes.shape[1]
    if lowered.lanes is not None:
        state, code = state + 4 * lowered.lanes.n_lanes + 4, code + _SENTINEL_BYTES
        per_tree += _LANES + _LANE * lowered.lanes.n_lanes
    if lowered.n_cells:
        code += _CELL_BYTES
    n_units = len(lowered.order) if lowered.is_anytime else lowered.max_tests
    most = _ROW + n_units * instructions + per_tree * lowered.n_trees
    most += 0.0 if lowered.columns.is_integer else _COLUMN * n_columns
    return Sizes(
        table_bytes=source.table_bytes,
        flash_bytes=source.table_bytes + code,
        ram_bytes=-(-state // 4) * 4 + column_bytes * n_columns,  # a state is aligned to 4 bytes
        instructions_per_step=instructions,
        max_tests=lowered.max_tests,
        max_instructions=int(np.ceil(most)),
    )
