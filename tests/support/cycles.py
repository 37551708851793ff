"""Cycles that rows of an exported model take: every instruction is traced under QEMU, and counted by ARM's tables.

The tables are those of the technical reference manuals for memory without wait states, each instruction at the most
that they say: a taken branch on a Cortex-M4 refills its pipeline in three cycles, a Cortex-M0 multiplies in 32.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from scurry.export import replay
from scurry.export.comparisons import CellTables
from scurry.export.lowered import Lowered
from support.emulator import ARM, Board

_BRANCH = re.compile(r"b(l|x|lx|eq|ne|cs|cc|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al)?(\.[nw])?|cbn?z|tb[bh]")
_MANY = re.compile(r"(push|pop|v?ldm|v?stm|vpush|vpop)")
_ONE = re.compile(r"v?(ldr|str)")


@dataclass(frozen=True)
class Core:
    """A processor: how models are compiled for it, and what its instructions take at most."""

    board: Board
    refill: int  # of a taken branch, besides its own cycle
    link: int  # of a branch with link more
    returned: int  # of a pop into the program counter, besides a cycle for each register and one
    multiply: int

    def cycles(self, mnemonic: str, operands: str, is_taken: bool) -> int:
        """Return the most cycles that an instruction takes."""
        into_pc = bool(re.search(r"\bpc\b", operands.partition("[")[0]))
        if _BRANCH.fullmatch(mnemonic):
            by_table = 1 if mnemonic.startswith("tb") else 0
            return 1 + by_table + (self.refill + (self.link if mnemonic in ("bl", "blx") else 0) if is_taken else 0)
        if _MANY.match(mnemonic):
            listed = re.search(r"\{(.*)\}", operands)
            assert listed is not None
            return 1 + _count_registers(listed[1]) + (self.returned if into_pc else 0)
        if _ONE.match(mnemonic):
            return (3 if mnemonic.startswith(("ldrd", "strd")) else 2) + (self.refill if into_pc else 0)
        if mnemonic.startswith(("udiv", "sdiv")):
            return 12
        if re.match(r"mul|ml[as]|[us]m", mnemonic):
            return self.multiply
        # Results of floating point instructions may be waited for.
        return 2 if mnemonic.startswith("v") else 1 + (self.refill if into_pc and mnemonic.startswith("mov") else 0)


def _count_registers(listed: str) -> int:
    count = 0
    for part in listed.split(","):
        first, _, last = part.strip().partition("-")
        names = {"sl": 10, "fp": 11, "ip": 12, "sp": 13, "lr": 14, "pc": 15}
        ends = [names[end] if end in names else int(end[1:]) for end in (first, last or first)]
        count += ends[1] - ends[0] + 1
    return count


M4 = Core(ARM, refill=3, link=0, returned=3, multiply=2)
M0 = Core(
    replace(ARM, flags=("-mcpu=cortex-m0", "-mthumb", "-mfloat-abi=soft")), refill=2, link=1, returned=3, multiply=32
)


def trace(
    core: Core, folder: Path, lowered: Lowered, rows: np.ndarray, answer: str = "predict"
) -> tuple[np.ndarray, np.ndarray]:
    """Return the instructions and the cycles of each row, from its first call to its answer."""
    draw = ", 0" if "uint16_t draw" in (folder / "model.h").read_text() else ""
    defines = [f"INIT(state)=model_init(state{draw})", f"ANSWER(state)=model_{answer}(state)"]
    defines += ["WHOLE_ROWS"] if lowered.columns.is_integer else []
    image = core.board.build(folder, lowered, rows, "rows", *defines)
    listing = core.board.disassemble(image)
    log = folder / "trace.log"
    # One instruction at a time, each of which the log names by its address.
    core.board.emulate(image, "-singlestep", "-d", "exec,nochain", "-D", str(log))
    text = log.read_text()
    executed = np.array([int(at, 16) for at in re.findall(r"\[[0-9a-f]+/([0-9a-f]+)/", text)], np.int64)
    log.unlink()
    addresses = np.array([address for _, address, _, _ in listing])
    at = np.searchsorted(addresses, executed)
    assert (addresses[at] == executed).all()
    is_taken = np.append(at[1:] != at[:-1] + 1, False)
    cycles = np.array([[core.cycles(name, rest, taken) for taken in (False, True)] for _, _, name, rest in listing])
    functions = np.array([function for function, _, _, _ in listing])
    inside = np.isin(functions, ["main", "reset", "host_exit", "semihost"], invert=True)[at]
    starts = functions[at] == "model_init"
    row = np.cumsum(starts & ~np.append(False, starts[:-1])) - 1
    chosen = inside & (row >= 0)
    taken = cycles[at, is_taken.astype(int)]
    n = np.bincount(row[chosen], minlength=len(rows))
    return n, np.bincount(row[chosen], taken[chosen], minlength=len(rows)).astype(np.int64)


def count_tests(lowered: Lowered, rows: np.ndarray, trees: np.ndarray) -> np.ndarray:
    """Return the node tests that each row takes in the first trees that it evaluates, and in a router."""
    depth = lowered.level[replay.find_leaves(lowered, rows)]
    order, n_tests = np.tile(lowered.order, (len(rows), 1)), np.zeros(len(rows), np.int64)
    if isinstance(lowered.values.stop, CellTables):
        cells = replay.find_cells(lowered, rows)
        order = lowered.values.stop.order[cells]
        n_tests += lowered.level[lowered.n_nodes - lowered.n_cells + cells]
    is_evaluated = np.arange(lowered.n_trees) < trees[:, None]
    return n_tests + np.where(is_evaluated, np.take_along_axis(depth, order, axis=1), 0).sum(axis=1)
