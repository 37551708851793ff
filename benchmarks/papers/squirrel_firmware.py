"""Figure 3 of the squirrel paper (timer period against executed steps) and the price of layouts, on a board in QEMU.

D. Biebert et al., "Jump Like A Squirrel", arXiv:2603.01588 (2026), §VI-A: a timer interrupts a forest of 10 trees of
depth 10 on adult, which then says how many steps it has made. The paper has an ESP32, this a Cortex-M4 in QEMU,
where an instruction takes 64 ns by definition, so that the figure shows instructions, not caches. `make embedded`
installs what is needed.

    python benchmarks/papers/squirrel_firmware.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import scurry
from report import Report, subplots
from scurry import Predictor, datasets
from scurry.errors import ScurryError
from scurry.export import LAYOUTS, to_c
from scurry.export.lowered import lower
from support.emulator import ARM, INSTRUCTION_NS, RISCV, mean_steps, sweep

ORDERS = ("auto", "backward-squirrel", "forward-squirrel", "depth-ie", "breadth-ie", "random")
N_ROWS, STRIDE = 10, 20


def main() -> None:
    missing = [*ARM.missing(), *RISCV.missing()]
    if missing:
        raise SystemExit(f"{', '.join(missing)} not found; run `make embedded`, which installs them")
    try:
        data = datasets.load("adult")
    except ScurryError as error:
        print(f"adult skipped: {error}")
        return
    report = Report(
        "squirrel-firmware",
        "Anytime forests on a microcontroller",
        f"Random forest of 10 trees × depth 10 on half of adult, orders found on a quarter, {N_ROWS} rows of the rest. "
        "QEMU with -icount shift=6,sleep=off; firmware compiled with gcc -O2.",
        ["scikit-learn"],
    )
    X = np.nan_to_num(data.X, nan=-1.0)
    train, ordering, test = np.split(np.random.default_rng(0).permutation(len(X)), [len(X) // 2, 3 * len(X) // 4])
    model = RandomForestClassifier(10, max_depth=10, random_state=0).fit(X[train], data.y[train])
    predictors = {
        order: scurry.anytime(model, X[ordering], data.y[ordering], order=order, random_state=0) for order in ORDERS
    }
    _figure_3(report, predictors, X[test[:N_ROWS]])
    _layouts(report, predictors, X[test])
    report.close()


def _figure_3(report: Report, predictors: dict[str, Predictor], rows: NDArray[np.float32]) -> None:
    figure, axes = subplots(1, 1, (6.0, 4.0))
    lines = []
    for order, anyt in predictors.items():
        with tempfile.TemporaryDirectory() as folder:
            to_c(anyt, folder, layout="int16-uint16")
            lowered = lower(anyt, LAYOUTS["int16-uint16"])
            result = sweep(ARM, Path(folder), lowered, rows, STRIDE)
        periods, shares = mean_steps(result, len(anyt.plan.order))
        r_squared = np.corrcoef(periods, shares)[0, 1] ** 2
        lines.append([order, f"{len(periods)}", f"{periods.max() / 1000:.1f}", f"{r_squared:.5f}", "≥ 0.99"])
        axes[0, 0].plot(periods / 1000, shares, label=order)
    axes[0, 0].set(xlabel="timer period (µs)", ylabel="share of steps made")
    axes[0, 0].legend()
    report.table("Figure 3: timer period against steps", ["order", "periods", "longest µs", "R²", "asked"], lines)
    report.figure("figure-3", figure)


def _layouts(report: Report, predictors: dict[str, Predictor], X_test: NDArray[np.float32]) -> None:
    asked: dict[tuple[str, str], tuple[str, str]] = {
        ("int16-node8", "depth-ie"): ("≤ 33", "-"),
        ("int16-uint16", "depth-ie"): ("≤ 48", "≈ 17"),
        ("breadcrumb", "depth-ie"): ("-", "≤ 7"),
    }
    lines: list[list[Any]] = []
    for order in ("depth-ie", "backward-squirrel"):
        anyt = predictors[order]
        for layout in LAYOUTS:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                export = to_c(anyt, folder, layout=layout, X_cal=X_test[:2000])
                result = sweep(ARM, folder, lower(anyt, LAYOUTS[layout]), X_test[:40], stride=10_000)
                flash = [board.flash_bytes(folder) / 1000 for board in (ARM, RISCV)]
            instructions = (result.full_ns - result.empty_ns).mean() / INSTRUCTION_NS / len(anyt.plan.order)
            most_flash, most_instructions = asked.get((layout, order), ("-", "-"))
            shares = export.agreement if export.agreement is not None else np.ones(1)
            kept = [f"{shares.min():.3%}", f"{shares[-1]:.3%}"]
            sizes = [f"{flash[0]:.1f}", most_flash, f"{flash[1]:.1f}", f"{export.sizes.ram_bytes}"]
            lines.append([order, layout, *sizes, f"{instructions:.2f}", most_instructions, *kept])
    header = [
        "order",
        "layout",
        "flash kB",
        "asked",
        "RISC-V kB",
        "RAM B",
        "instr./step",
        "asked",
        "agree: least",
        "last",
    ]
    report.table("Layouts on adult, 10 trees × depth 10", header, lines)


if __name__ == "__main__":
    main()
