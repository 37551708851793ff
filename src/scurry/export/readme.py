"""README of an exported model: what it is, what it takes, how it is used."""

from __future__ import annotations

import json

import numpy as np

from scurry.export.candidates import Candidate
from scurry.export.replay import in_percent
from scurry.forest import Forest

_N_SHOWN = 21


def make_readme(name: str, chosen: Candidate, forest: Forest) -> str:
    """Return the text of the README."""
    lowered, sizes = chosen.lowered, chosen.sizes
    draw = ", draw" if lowered.takes_draw else ""
    bits = ", each as the bits of a single precision number (copy them with memcpy)"
    lines = [
        f"# {name}",
        "",
        f"{lowered.n_trees} trees, {lowered.n_nodes:,} nodes, layout `{lowered.layout.name}`. Written by scurry as C99 "
        "that includes only `<stdint.h>`.",
        "",
        "| on a Cortex-M4 | |",
        "|---|---|",
        f"| flash: tables | {sizes.table_bytes:,} bytes |",
        f"| flash: tables and code (estimated) | {sizes.flash_bytes:,} bytes |",
        f"| RAM: one state and one row | {sizes.ram_bytes:,} bytes |",
        f"| instructions per step (estimated) | {sizes.instructions_per_step:.1f} |",
        "",
        *_describe_agreement(chosen),
        "## Use",
        "",
        "```c",
        f'#include "{name}.h"',
        "",
        f"{name}_raw row[{name.upper()}_N_FEATURES];",
        f"{name}_input x[{name.upper()}_N_COLUMNS];",
        f"{name}_state state;",
        *(["volatile uint8_t stop = 0;"] if lowered.is_anytime else []),
        *(["uint16_t draw; /* a random number, a new one for each row */"] if draw else []),
        "",
        f"{name}_quantize(row, x);",
        f"{name}_init(&state{draw});",
        f"{name}_run(&state, x, &stop);" if lowered.is_anytime else f"{name}_run(&state, x);",
        f"uint16_t label = {name}_predict(&state);",
        "```",
        "",
        f"`row` has {forest.n_features} features, in the order of the model"
        f"{bits if lowered.columns.is_quantised else ''}.",
    ]
    if lowered.is_anytime:
        where = "each run of steps in one tree" if chosen.layout.if_else else "each step"
        lines.append(
            f"An interrupt may call `{name}_predict(&state)` at any moment. `{name}_run` returns once `stop` is not 0; "
            f"it checks before {where}. The target must store {lowered.index_bits} bits at once."
        )
    lines += [
        f"`{name}_selftest.h` has rows and labels to test on the target. `scurry.export.verify` compiles all files on "
        "the host and compares the answers with the saved model.",
        "",
        "| label | class |",
        "|---|---|",
        *(f"| {k} | {_format_cell(label)} |" for k, label in enumerate(np.asarray(forest.classes))),
        "",
    ]
    if forest.feature_names is not None:
        names = (f"| {j} | {_format_cell(feature)} |" for j, feature in enumerate(forest.feature_names))
        lines += ["| `row[…]` | feature |", "|---|---|", *names, ""]
    return "\n".join(lines)


def _describe_agreement(chosen: Candidate) -> list[str]:
    shares = chosen.agreement
    if shares is None:
        return ["The agreement with the source model was not measured: no calibration rows were given.", ""]
    if len(shares) == 1:
        return [f"It gives {in_percent(shares[0])} of the calibration rows the source's label.", ""]
    if shares.min() == 1:
        return ["After every number of steps it gives all calibration rows the source's label.", ""]
    # An order has hundreds of steps: show evenly spaced ones, and always the worst.
    shown = np.unique(np.append(np.linspace(0, len(shares) - 1, _N_SHOWN).astype(np.int64), shares.argmin()))
    return [
        f"Share of calibration rows with the source's label (at worst {in_percent(shares.min())}):",
        "",
        "| after steps | agreement |",
        "|---|---|",
        *(f"| {n_steps} | {in_percent(shares[n_steps])} |" for n_steps in shown),
        "",
    ]


def _format_cell(label: object) -> str:
    """Return any text as code that cannot break out of its table cell."""
    text = json.dumps(str(label)).replace("|", "\\u007c").replace("`", "\\u0060").replace("<", "\\u003c")
    return f"`{text}`"
