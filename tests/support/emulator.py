"""Exported models as firmware: build it, run it under QEMU with deterministic time, and read its records."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scurry.export import replay
from scurry.export.c.source import Tables
from scurry.export.lowered import Lowered, merge_leaves

FIRMWARE = Path(__file__).parents[1] / "export" / "firmware"
INSTRUCTION_NS = 64.0  # 2**6, by -icount shift=6
WARNINGS = ("-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True)
class Board:
    """A machine that QEMU emulates, and the compiler for it; `tick_ns` is one tick of its timer."""

    name: str
    tools: str
    flags: tuple[str, ...]
    emulator: tuple[str, ...]
    tick_ns: float

    def missing(self) -> list[str]:
        """Return the tools that are not installed."""
        return [
            tool for tool in (f"{self.tools}-gcc", f"{self.tools}-size", self.emulator[0]) if not shutil.which(tool)
        ]

    def compile_model(self, folder: Path, optimise: str = "-O2") -> Path:
        """Compile an exported model without firmware; return the object file."""
        output = folder / f"{self.name}{optimise}.o"
        _run(
            f"{self.tools}-gcc", *self.flags, "-std=c99", optimise, "-ffreestanding", "-pedantic", *WARNINGS,
            "-c", folder / "model.c", "-o", output,
        )  # fmt: skip
        return output

    def flash_bytes(self, folder: Path, optimise: str = "-O2") -> int:
        """Return the bytes of code and constants of a compiled model."""
        sizes = _run(f"{self.tools}-size", self.compile_model(folder, optimise)).splitlines()[1].split()
        return int(sizes[0]) + int(sizes[1])

    def undefined_symbols(self, folder: Path) -> list[str]:
        """Return the symbols that a compiled model needs from elsewhere."""
        return _run(f"{self.tools}-nm", "-u", self.compile_model(folder)).split()

    def build(self, folder: Path, lowered: Lowered, rows: np.ndarray, program: str, *defines: str) -> Path:
        """Build the firmware `program` with an exported model and some rows; return the image."""
        tables, columns = Tables(), lowered.columns
        # Floats by their bits, integers as they are.
        raw = np.ascontiguousarray(columns.to_raw(rows))
        bits = raw if columns.is_integer else raw.view(np.uint32)
        bits_type = "int16_t" if columns.is_integer else "uint32_t"
        tables.add_array("row_bits", bits, bits_type)
        # A union, because NaN and infinity cannot be written as constants without <math.h>.
        (folder / "rows.h").write_text(
            f"#define N_ROWS {len(rows)}\n{tables}\n"
            f"static const union {{ const {bits_type} (*bits)[MODEL_N_FEATURES]; "
            "const model_raw (*rows)[MODEL_N_FEATURES]; } all_rows = { row_bits };\n#define rows all_rows.rows\n"
        )
        image = folder / f"{self.name}-{program}.elf"
        sources = [FIRMWARE / f"{self.name}.c", FIRMWARE / "host_file.c", FIRMWARE / f"{program}.c", folder / "model.c"]
        _run(
            f"{self.tools}-gcc", *self.flags, "-std=gnu99", "-O2", "-ffreestanding", "-nostdlib",
            "-fno-strict-aliasing", *WARNINGS, f"-I{FIRMWARE}", f"-I{folder}", *(f"-D{define}" for define in defines),
            "-T", FIRMWARE / f"{self.name}.ld", *sources, "-lgcc", "-o", image,
        )  # fmt: skip
        return image

    def emulate(self, image: Path, *options: str) -> None:
        """Run an image until it ends by itself, in its folder."""
        _run(
            *self.emulator, "-icount", "shift=6,sleep=off", "-display", "none", "-monitor", "none", "-serial", "none",
            "-semihosting-config", "enable=on,target=native", "-kernel", image, *options, cwd=image.parent,
        )  # fmt: skip

    def run(self, folder: Path, lowered: Lowered, rows: np.ndarray, program: str, *defines: str) -> bytes:
        """Run the firmware `program` with an exported model on some rows; return what it records."""
        image = self.build(folder, lowered, rows, program, *defines)
        records = folder / "records.bin"
        records.unlink(missing_ok=True)
        self.emulate(image)
        return records.read_bytes()

    def disassemble(self, image: Path) -> list[tuple[str, int, str, str]]:
        """Return the function, the address, the mnemonic and the operands of every instruction."""
        function, found = "", []
        for line in _run(f"{self.tools}-objdump", "-d", "--no-show-raw-insn", image).splitlines():
            if head := re.fullmatch(r"[0-9a-f]+ <(.+)>:", line):
                function = head[1]
            elif match := re.fullmatch(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)", line):
                found.append((function, int(match[1], 16), match[2], match[3]))
        return found


ARM = Board(
    "arm",
    "arm-none-eabi",
    ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
    ("qemu-system-arm", "-machine", "mps2-an386"),
    40.0,
)
RISCV = Board(
    "riscv",
    "riscv64-unknown-elf",
    ("-march=rv32imafc_zicsr", "-mabi=ilp32f", "-mcmodel=medany"),
    ("qemu-system-riscv32", "-machine", "virt", "-bios", "none", "-m", "32M"),
    100.0,
)


def _run(*command: object, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, cwd=cwd, timeout=300, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


@dataclass(frozen=True)
class Sweep:
    """What interrupts saw of an anytime model, one entry per interrupted row; `full_ns` and `empty_ns` are per row."""

    row: np.ndarray
    period_ns: np.ndarray
    fired: np.ndarray
    position: np.ndarray
    label: np.ndarray
    last_position: np.ndarray
    last_label: np.ndarray
    sums: np.ndarray
    nodes: np.ndarray
    full_ns: np.ndarray
    empty_ns: np.ndarray


def sweep(board: Board, folder: Path, lowered: Lowered, rows: np.ndarray, stride: int) -> Sweep:
    """Interrupt a model after `stride`, 2 * `stride`, … ticks on every row; return what was seen."""
    words = np.frombuffer(board.run(folder, lowered, rows, "sweep", f"STRIDE={stride}"), np.uint32)
    width = 7 + lowered.values.n_sums + lowered.n_trees
    records, times, at = [], [], 0
    for _ in rows:
        times.append(words[at : at + 2])
        at += 2
        while True:
            records.append(words[at : at + width])
            at += width
            if not records[-1][2]:
                break
    if at != len(words):
        raise RuntimeError(f"{len(words) - at} words more than expected from the firmware")
    table, clock = np.array(records), np.array(times) * board.tick_ns
    n_sums = lowered.values.n_sums
    return Sweep(
        row=table[:, 0], period_ns=table[:, 1] * board.tick_ns, fired=table[:, 2].astype(bool), position=table[:, 3],
        label=table[:, 4], last_position=table[:, 5], last_label=table[:, 6],
        sums=table[:, 7 : 7 + n_sums].view(np.int32), nodes=table[:, 7 + n_sums :],
        full_ns=clock[:, 0], empty_ns=clock[:, 1],
    )  # fmt: skip


def replay_nodes(lowered: Lowered, rows: np.ndarray) -> np.ndarray:
    """Return the nodes of each row after 0, 1, … steps, shape (n_rows, n_steps + 1, n_trees)."""
    x = lowered.columns.encode(rows)
    at = np.tile(lowered.root, (len(rows), 1))
    seen = [at.copy()]
    for tree in lowered.order:
        at[:, tree] = replay.step(lowered, at[:, tree], x)
        seen.append(at.copy())
    nodes = np.stack(seen, axis=1)
    return merge_leaves(lowered)[0][nodes] if lowered.layout.is_compact else nodes


def mean_steps(result: Sweep, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the timer periods that interrupt every row, and the mean share of steps taken by then."""
    n_rows = len(result.full_ns)
    periods, which, counts = np.unique(result.period_ns[result.fired], return_inverse=True, return_counts=True)
    shares = np.bincount(which, result.position[result.fired]) / counts / n_steps
    return periods[counts == n_rows], shares[counts == n_rows]
