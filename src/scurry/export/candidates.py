"""Candidates: the layouts a model can be written in, and the choice among them.

Sizes: what an exported model takes of a microcontroller.

Tables are counted exactly. Code is estimated from what ``arm-none-eabi-gcc -O2`` makes of it for a Cortex-M4, on the
generous side; ``make embedded`` compares both with compiled firmware and with instructions executed under emulation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import InfeasibleError, InputError
from scurry.export.c_source import CSource
from scurry.export.lowered import LAYOUTS, Layout, Lowered, layout_named, lower
from scurry.export.replay import agreement
from scurry.forest import Forest
from scurry.predictor import Predictor

MIN_AGREEMENT = 0.999


@dataclass(frozen=True, eq=False)
class Candidate:
    """A layout, what it takes, and how often it answers as the source does (None if no rows were given)."""

    lowered: Lowered
    source: CSource
    sizes: Sizes
    agreement: NDArray[np.float64] | None

    @property
    def layout(self) -> Layout:
        """The layout."""
        return self.lowered.layout

    @property
    def least_agreement(self) -> float:
        """The agreement at the worst step; 1 if it is not known."""
        return 1.0 if self.agreement is None else float(self.agreement.min())


def candidates(pred: Predictor | Forest, name: str, layout: str, rows: NDArray[Any] | None) -> list[Candidate]:
    """The layout asked for, or all that the model fits; raises if there is none."""
    if layout != "auto":
        return [_candidate(pred, name, layout_named(layout), rows)]
    found, refusals = [], []
    for option in LAYOUTS.values():
        try:
            found.append(_candidate(pred, name, option, rows))
        except InputError as error:
            refusals.append(error)
    if not found:
        raise refusals[0]
    return found


def choose(options: list[Candidate], flash_budget: int | None) -> Candidate:
    """The best agreement within a budget of bytes; without one, the smallest that agrees well enough."""
    if flash_budget is not None:
        fitting = [option for option in options if option.sizes.flash_bytes <= flash_budget]
        if not fitting:
            least = min(option.sizes.flash_bytes for option in options)
            raise InfeasibleError(
                f"the model needs {least:,} bytes of flash, the budget is {flash_budget:,}; prune the model, train "
                'fewer or shallower trees, or leave the choice to layout="auto"',
                achievable=float(least),
            )
        return max(fitting, key=lambda option: (option.least_agreement, *_preference(option)))
    if options[0].agreement is None:
        return max(options, key=_preference)
    good = [option for option in options if option.least_agreement >= MIN_AGREEMENT]
    if not good:
        return max(options, key=lambda option: option.least_agreement)
    return min(good, key=lambda option: option.sizes.flash_bytes)


def _candidate(pred: Predictor | Forest, name: str, layout: Layout, rows: NDArray[Any] | None) -> Candidate:
    forest = pred.forest if isinstance(pred, Predictor) else pred
    lowered = lower(pred, layout)
    source = CSource(lowered, name, list(np.asarray(forest.classes)))
    measured = None if rows is None else agreement(pred, lowered, rows)
    return Candidate(lowered, source, sizes_of(lowered, source), measured)


def _preference(option: Candidate) -> tuple[bool, int, int]:
    """Tables before code, 16-bit numbers before others (8 bits can change one early answer in twenty), then size."""
    width = {16: 2, 32: 1, 8: 0}[option.layout.value_bits]
    return not option.layout.if_else, width, -option.sizes.flash_bytes


_CODE_BYTES = 640
_BYTES_PER_INNER_NODE = 28
_BYTES_PER_RUN = 24
_BYTES_PER_CASE = 8
_TABLE_STEP, _FLOAT_STEP, _TREE_STEP = 19.5, 22.5, 12.0
_CRUMB_STEP, _RUN, _SWITCH = 5.0, 12.0, 6.0


@dataclass(frozen=True)
class Sizes:
    """Bytes and instructions of an exported model on a Cortex-M4.

    Attributes
    ----------
    table_bytes : int
        Constant tables, exactly.
    flash_bytes : int
        With an estimate of the code.
    ram_bytes : int
        One state and one row of columns.
    instructions_per_step : float
        Estimated, of the loop that walks; a step of the float32 layout assumes a floating point unit.
    """

    table_bytes: int
    flash_bytes: int
    ram_bytes: int
    instructions_per_step: float


def sizes_of(lowered: Lowered, source: CSource) -> Sizes:
    """The sizes of a model."""
    code, instructions = _CODE_BYTES, _FLOAT_STEP if lowered.layout.float_thresholds else _TABLE_STEP
    if lowered.layout.if_else:
        resumed = [run for run in lowered.runs if run[1] > 0]
        inner = np.column_stack([lowered.tree, lowered.level])[: lowered.n_inner]
        n_cases = sum(int((inner == (tree, first)).all(axis=1).sum()) for tree, first, _ in resumed)
        code += _BYTES_PER_INNER_NODE * lowered.n_inner
        code += _BYTES_PER_RUN * len(lowered.runs) + _BYTES_PER_CASE * n_cases
        overhead = _RUN * len(lowered.runs) + _SWITCH * len(resumed)
        instructions = _CRUMB_STEP + overhead / len(lowered.order)
    elif not lowered.is_anytime:
        instructions = _TREE_STEP
    column_bytes = 4 if lowered.layout.float_thresholds else 2
    state = lowered.n_trees * lowered.index_bits // 8 + 4 if lowered.is_anytime else 4 * lowered.values.n_sums + 8
    return Sizes(
        table_bytes=source.table_bytes,
        flash_bytes=source.table_bytes + code,
        ram_bytes=-(-state // 4) * 4 + column_bytes * len(lowered.columns.feature),
        instructions_per_step=instructions,
    )
