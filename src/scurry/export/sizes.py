"""Sizes: what an exported model takes of a microcontroller.

Tables are counted exactly. Code is estimated from what ``arm-none-eabi-gcc -O2`` makes of it for a Cortex-M4, on the
generous side; ``make embedded`` compares both with compiled firmware and with instructions executed under emulation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scurry.export.c_source import CSource
from scurry.export.lowered import Lowered

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
