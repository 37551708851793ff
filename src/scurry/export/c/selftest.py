"""Self-test of an exported model: a few rows and the labels it must give them, to be run on the target."""

from __future__ import annotations

from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.export.c.source import Tables, name_answer
from scurry.export.lowered import Lowered
from scurry.export.replay import run_trees, walk_steps
from scurry.forest import Forest

_N_ROWS = 8
_N_POSITIONS = 5
_SPECIAL_SHARE, _THRESHOLD_SHARE = 0.05, 0.7
_SPECIAL = np.array(
    [
        *(np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 65536.0, 1e9, -1e9),
        *(1e-45, -1e-45, 1e-38, 3.4028235e38, -3.4028235e38),  # denormals, and the largest floats
    ],
    dtype=np.float32,
)

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
        ${name}_state state;
$quantize        ${name}_init(&state$draw);
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
                while (state.position < positions[p]) {name}_step(&state, {x});
                mismatches += {name}_{answer}(&state) != labels[row][p];
            }}
        }}"""

_CHECK_RUN = """\
        while ({name}_step(&state, {x})) {{
        }}
        mismatches += {name}_{answer}(&state) != labels[row][0];"""

_QUANTIZE = """\
        {name}_input x[{NAME}_N_COLUMNS];
        {name}_quantize(rows[row], x);
"""


def make_selftest(lowered: Lowered, forest: Forest, name: str, rows: NDArray[Any] | None) -> str:
    """Return the text of ``NAME_selftest.h``."""
    # Without NaN and infinities, which C has no constants for.
    columns = lowered.columns
    chosen = make_probes(forest, _N_ROWS, rows=rows, special=False, integers=columns.is_integer)
    tables, words = Tables(), {"name": name, "x": "rows[row]" if columns.is_integer else "x"}
    words["answer"] = name_answer(forest)
    tables.add_array("rows", columns.to_raw(chosen), columns.raw_type)
    if lowered.is_anytime:
        # The C counts runs where trees are code, and steps where they are tables; the replay counts steps.
        lengths = [last - first for _, first, last in lowered.runs]
        n_steps = np.cumsum([0, *lengths]) if lowered.layout.if_else else np.arange(len(lowered.order) + 1)
        positions = np.unique(np.linspace(0, len(n_steps) - 1, _N_POSITIONS).astype(np.int64))
        labels = [lowered.values.labels(sums) for sums, _ in walk_steps(lowered, chosen)]
        tables.add_array("positions", positions)
        tables.add_array("labels", np.stack([labels[n] for n in n_steps[positions]], axis=1))
        check = _CHECK_STEPS.format(n_positions=len(positions), **words)
    else:
        tables.add_array("labels", run_trees(lowered, chosen).codes[:, None])
        check = _CHECK_RUN.format(**words)
    return _FRAME.substitute(
        name=name,
        NAME=name.upper(),
        tables="    " + str(tables).replace("\n", "\n    "),
        n_rows=len(chosen),
        draw=", 0" if lowered.takes_draw else "",
        quantize="" if columns.is_integer else _QUANTIZE.format(name=name, NAME=name.upper()),
        check=check,
    )


def make_probes(
    forest: Forest,
    n_rows: int,
    *,
    rows: NDArray[Any] | None = None,
    special: bool = True,
    integers: bool = False,
    seed: int = 0,
) -> NDArray[np.float32]:
    """Return rows that find mistakes: most cells are thresholds of their feature, or the floats next to them.

    Other cells come from `rows`, where there are some. With `special`, some are NaN, infinite, signed zeros, denormals
    or huge. The cells of categories are those of sets, the numbers next to them, and some that no set has. The result
    is float32, of shape (n_rows, n_features); with `integers`, every value is a 16-bit integer.
    """
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        probes = np.zeros((n_rows, forest.n_features), np.float32)
        if rows is not None and len(rows):
            probes = rows[rng.integers(0, len(rows), n_rows)].astype(np.float32)
        inner = ~forest.is_leaf
        for feature in np.unique(forest.feature[inner]):
            nodes = inner & (forest.feature == feature)
            thresholds = forest.threshold[nodes & (forest.category_set < 0)].astype(np.float32)
            thresholds = np.concatenate([thresholds[np.isfinite(thresholds)], _categories_of(forest, nodes)])
            if not len(thresholds):
                continue
            picked = rng.choice(thresholds, n_rows)
            near = np.stack(
                [np.nextafter(picked, np.float32(-np.inf)), picked, np.nextafter(picked, np.float32(np.inf))]
            )
            cells = near[rng.integers(0, 3, n_rows), np.arange(n_rows)]
            probes[:, feature] = np.where(rng.random(n_rows) < _THRESHOLD_SHARE, cells, probes[:, feature])
    if integers:
        special = False
        with np.errstate(invalid="ignore"):
            probes = np.clip(np.rint(np.nan_to_num(probes)) + rng.integers(-1, 2, probes.shape), -(2**15), 2**15 - 1)
        probes[rng.random(probes.shape) < _SPECIAL_SHARE] = rng.choice([-(2**15), 2**15 - 1, 0])
        probes = probes.astype(np.float32)
    if special:
        odd = rng.random(probes.shape) < _SPECIAL_SHARE
        probes[odd] = rng.choice(_SPECIAL, int(odd.sum()))
    elif not np.isfinite(probes).all():
        probes = np.nan_to_num(probes)
    return probes


def _categories_of(forest: Forest, nodes: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return numbers around the categories that some nodes look for, fractions among them."""
    sets = np.unique(forest.category_set[nodes & (forest.category_set >= 0)])
    if not len(sets):
        return np.empty(0, np.float32)
    n_bits = 32 * int((forest.category_offset[sets + 1] - forest.category_offset[sets]).max())
    categories = np.concatenate([np.arange(min(n_bits, 512)), [n_bits - 1, n_bits, n_bits + 100, -1]])
    return np.concatenate([categories, categories + 0.5, [-0.5, 40000, 2.0**24]]).astype(np.float32)
