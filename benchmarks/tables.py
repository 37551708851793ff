"""The benchmark's figures as text: markdown that also reads well in a terminal of 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from timing import Effort, Result, Speed

WIDTH = 100


FRAMEWORKS = ("scikit-learn", "LightGBM", "XGBoost", "CatBoost")
PEERS = ("oneDAL", "onnxruntime", "lleaves", "hessboost", "GTIL", "tl2cgen", "Snap ML", "YDF", "nvforest")
RIVALS = {
    "oneDAL": ("oneDAL",),
    "the model's own framework": FRAMEWORKS,
    "the better of oneDAL and lleaves": ("oneDAL", "lleaves"),
    "hessboost": ("hessboost",),
    "the best other engine": (*FRAMEWORKS, *PEERS),
}


@dataclass(frozen=True)
class Ratios:
    """How scurry compares: its rate with one thread over the best of each group of rivals, by wall and CPU time."""

    wall: dict[str, float]
    cpu: dict[str, float]
    two_threads_over_one: float
    row_p50_over_best_other: float | None  # None if no other engine ran


def ratios(speeds: Mapping[str, Speed]) -> Ratios | None:
    """The ratios of a cell, or None if scurry did not run."""
    if "scurry" not in speeds:
        return None
    ours = speeds["scurry"]
    others = {name: speed for name, speed in speeds.items() if name != "scurry"}

    def over_rivals(rate: Callable[[Speed], float]) -> dict[str, float]:
        met = {group: [rate(others[name]) for name in names if name in others] for group, names in RIVALS.items()}
        return {group: rate(ours) / max(rates) for group, rates in met.items() if rates}

    return Ratios(
        wall=over_rivals(lambda speed: speed.rows_per_s[1]),
        cpu=over_rivals(lambda speed: speed.rows_per_cpu_s),
        two_threads_over_one=ours.rows_per_s[2] / ours.rows_per_s[1],
        row_p50_over_best_other=ours.p50_us / min(o.p50_us for o in others.values()) if others else None,
    )


def cell_text(title: str, result: Result) -> str:
    """One cell: a table of engines, those that did not run with the reason, scurry's ratios and effort."""
    header = ["engine", "krows/s", "by CPU time", "2 threads", "one row p50, µs", "p99, µs", "labels changed"]
    rows = [
        [
            name,
            f"{speed.rows_per_s[1] / 1e3:,.0f}",
            f"{speed.rows_per_cpu_s / 1e3:,.0f}",
            f"{speed.rows_per_s[2] / 1e3:,.0f}",
            f"{speed.p50_us:,.1f}",
            f"{speed.p99_us:,.1f}",
            f"{speed.n_changed:,}",
        ]
        for name, speed in _with_smaller(result).items()
    ]
    lines = [f"{name}: {reason}" for name, reason in result.refused.items()]
    if (found := ratios(result.speeds)) is not None:
        lines.append(f"scurry by wall time: {_times(found.wall)}; two threads {found.two_threads_over_one:.2f} × one")
        lines.append(f"scurry by CPU time: {_times(found.cpu)}")
        if found.row_p50_over_best_other is not None:
            lines.append(f"one row: {found.row_p50_over_best_other:.2f} of the best other engine's p50")
    if result.effort is not None:
        lines.append(_effort_line(result.effort))
    return "\n\n".join([f"### {title}", table(header, rows), _bullets(lines)])


def _with_smaller(result: Result) -> dict[str, Speed]:
    return result.speeds | {f"scurry, {level}": speed for level, speed in result.smaller.items()}


def summary_text(results: Mapping[str, Result]) -> str:
    """One line a cell: what scurry reaches by CPU time, and its ratios."""
    header = ["cell", "krows/s", "× own", "× oneDAL", "× best", "2 threads", "p50 µs", "÷ best", "changed"]
    groups = ["the model's own framework", "oneDAL", "the best other engine"]
    rows = []
    for name, result in results.items():
        found = ratios(result.speeds)
        if found is None:
            rows.append([name, *["–"] * (len(header) - 1)])
            continue
        ours = result.speeds["scurry"]
        rows.append(
            [
                name,
                f"{ours.rows_per_cpu_s / 1e3:,.0f}",
                *[_ratio(found.cpu.get(group)) for group in groups],
                _ratio(found.two_threads_over_one),
                f"{ours.p50_us:.1f}",
                _ratio(found.row_p50_over_best_other),
                f"{ours.n_changed:,}",
            ]
        )
    return table(header, rows)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table with its columns aligned: the first left, the others right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = ["-" * widths[0], *[f"{'-' * (width - 1)}:" for width in widths[1:]]]

    def line(cells: Sequence[str]) -> str:
        first, *others = [
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join([first, *others])} |"

    return "\n".join(map(line, [header, rule, *rows]))


def _effort_line(effort: Effort) -> str:
    return (
        f"{effort.n_trees:,} trees, {effort.n_nodes:,} nodes, depth {effort.max_depth}: "
        f"import {effort.import_s:.3f} s, lowering {effort.lowering_s:.3f} s, "
        f"{effort.node_bytes / effort.n_nodes:.1f} bytes per node, {effort.leaf_bytes / 1e6:.1f} MB of leaf values"
    )


def _times(ratio: Mapping[str, float]) -> str:
    return ", ".join(f"{value:.2f} × {group}" for group, value in ratio.items())


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def wrapped(text: str, indent: str = "") -> str:
    """The text in lines of at most `WIDTH`, those after the first indented."""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(wrapped(f"- {line}", indent="  ") for line in lines)
