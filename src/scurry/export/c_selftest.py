"""The self-test header of an exported model: a few rows and the labels it must give them, to be run on the target."""

from __future__ import annotations

from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.export import replay
from scurry.export.c_tables import Tables
from scurry.export.lowered import Lowered
from scurry.export.probes import probe_rows
from scurry.export.values import ExitTables
from scurry.forest import Forest

_N_ROWS = 8
_N_POSITIONS = 5

_FRAME = Template("""\
/* Rows and the labels that $name must give them. Call ${name}_selftest() on the target: it returns the mismatches. */
#ifndef ${NAME}_SELFTEST_H
#define ${NAME}_SELFTEST_H

#include "$name.h"

static int ${name}_selftest(void)
{
$tables
    int mismatches = 0;
    uint16_t row;
    for (row = 0; row < $n_rows; ++row) {
        ${name}_input x[${NAME}_N_COLUMNS];
        ${name}_state state;
        ${name}_quantize(rows[row], x);
        ${name}_init(&state$draw);
$check
    }
    return mismatches;
}

#endif
""")

_CHECK_STEPS = """\
        {{
            uint16_t p;
            for (p = 0; p < {n_positions}; ++p) {{
                while (state.position < positions[p]) {name}_step(&state, x);
                mismatches += {name}_predict(&state) != labels[row][p];
            }}
        }}"""

_CHECK_RUN = """\
        {name}_run(&state, x);
        mismatches += {name}_predict(&state) != labels[row][0];"""


def selftest_header(lowered: Lowered, forest: Forest, name: str, rows: NDArray[Any] | None) -> str:
    """The text of ``NAME_selftest.h``."""
    chosen = probe_rows(forest, _N_ROWS, rows=rows, special=False)
    tables, words = Tables(), {"name": name}
    if lowered.columns.is_quantised:
        tables.array("rows", chosen.view(np.uint32), "uint32_t")
    else:
        tables.array("rows", chosen, "float")
    if lowered.is_anytime:
        ends = np.cumsum([last - first for _, first, last in lowered.runs]) if lowered.layout.if_else else None
        n_units = len(lowered.runs) if ends is not None else len(lowered.order)
        positions = np.unique(np.linspace(0, n_units, _N_POSITIONS).astype(np.int64))
        after = positions if ends is None else np.concatenate([[0], ends])[positions]
        labels = [lowered.values.labels(sums) for sums, _ in replay.states(lowered, chosen)]
        tables.array("positions", positions)
        tables.array("labels", np.stack([labels[n_steps] for n_steps in after], axis=1))
        check = _CHECK_STEPS.format(n_positions=len(positions), **words)
    else:
        tables.array("labels", replay.outcomes(lowered, chosen).codes[:, None])
        check = _CHECK_RUN.format(**words)
    draws = isinstance(lowered.stop, ExitTables) and len(lowered.stop.weights) > 1
    return _FRAME.substitute(
        words,
        NAME=name.upper(),
        tables="    " + str(tables).replace("\n", "\n    "),
        n_rows=len(chosen),
        draw=", 0" if draws else "",
        check=check,
    )
