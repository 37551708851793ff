"""The README written beside an exported model: what it is, what it takes, how it is used."""

from __future__ import annotations

import json

import numpy as np

from scurry.export.candidates import Candidate
from scurry.export.replay import in_percent
from scurry.export.values import ExitTables
from scurry.forest import Forest

_N_SHOWN = 21


def readme(name: str, chosen: Candidate, forest: Forest) -> str:
    """The text of the README."""
    lowered, sizes = chosen.lowered, chosen.sizes
    draw = ", draw" if isinstance(lowered.stop, ExitTables) and len(lowered.stop.weights) > 1 else ""
    run = f"{name}_run(&state, x, &stop);" if lowered.is_anytime else f"{name}_run(&state, x);"
    lines = [
        f"# {name}",
        "",
        f"{lowered.n_trees} trees, {lowered.n_nodes:,} nodes, layout `{lowered.layout.name}`, written by scurry as C99 "
        "that includes `<stdint.h>` alone.",
        "",
        "| on a Cortex-M4 | |",
        "|---|---|",
        f"| flash: tables | {sizes.table_bytes:,} bytes |",
        f"| flash: with code (estimated) | {sizes.flash_bytes:,} bytes |",
        f"| RAM: one state and one row | {sizes.ram_bytes:,} bytes |",
        f"| instructions per step (estimated) | {sizes.instructions_per_step:.1f} |",
        "",
        *_agreement(chosen),
        "## Use",
        "",
        "```c",
        f'#include "{name}.h"',
        "",
        f"{name}_raw row[{name.upper()}_N_FEATURES];",
        f"{name}_input x[{name.upper()}_N_COLUMNS];",
        f"{name}_state state;",
        *(["volatile uint8_t stop = 0;"] if lowered.is_anytime else []),
        *(["uint16_t draw; /* a random number, another one for each row */"] if draw else []),
        "",
        f"{name}_quantize(row, x);",
        f"{name}_init(&state{draw});",
        run,
        f"uint16_t label = {name}_predict(&state);",
        "```",
        "",
        f"`row` has {forest.n_features} features, in the order of the model"
        + (
            ", each as the bits of a single precision number (copy them with memcpy)." if _is_quantised(chosen) else "."
        ),
        *_interrupts(chosen, name),
        f"`{name}_selftest.h` has rows and labels to try on the target; `scurry.export.verify` compiles all of it "
        "on the host and compares it with the saved model.",
        "",
        "| label | class |",
        "|---|---|",
        *(f"| {k} | {_cell(label)} |" for k, label in enumerate(np.asarray(forest.classes))),
        "",
        *_features(forest),
    ]
    return "\n".join(lines)


def _is_quantised(chosen: Candidate) -> bool:
    return chosen.lowered.columns.is_quantised


def _cell(label: object) -> str:
    text = json.dumps(str(label)).replace("|", "\\u007c").replace("`", "\\u0060").replace("<", "\\u003c")
    return f"`{text}`"


def _features(forest: Forest) -> list[str]:
    if forest.feature_names is None:
        return []
    names = (f"| {j} | {_cell(name)} |" for j, name in enumerate(forest.feature_names))
    return ["| `row[…]` | feature |", "|---|---|", *names, ""]


def _interrupts(chosen: Candidate, name: str) -> list[str]:
    if not chosen.lowered.is_anytime:
        return []
    where = "each run of steps in one tree" if chosen.layout.if_else else "each step"
    return [
        f"An interrupt may call `{name}_predict(&state)` at any moment. `{name}_run` ends once `stop` is not 0, looked "
        f"at before {where}. The target must store {chosen.lowered.index_bits} bits at once."
    ]


def _agreement(chosen: Candidate) -> list[str]:
    shares = chosen.agreement
    if shares is None:
        return ["The agreement with the source model was not measured: no calibration rows were given.", ""]
    if len(shares) == 1:
        return [f"It gives {in_percent(shares[0])} of the calibration rows the source's label.", ""]
    if shares.min() == 1:
        return ["After every number of steps it gives all calibration rows the source's label.", ""]
    shown = np.unique(np.append(np.linspace(0, len(shares) - 1, _N_SHOWN).astype(np.int64), shares.argmin()))
    return [
        f"Calibration rows with the source's label, at worst {in_percent(shares.min())} (`{chosen.layout.name}`):",
        "",
        "| after steps | agreement |",
        "|---|---|",
        *(f"| {n_steps} | {in_percent(shares[n_steps])} |" for n_steps in shown),
        "",
    ]
