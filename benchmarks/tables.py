"""The benchmark's figures as text: markdown that also reads well in a terminal of 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from timing import Effort, Result, Speed

WIDTH = 100


RATIOS = {
    "batch_over_onedal": "{:.2f} × oneDAL",
    "batch_over_own_framework": "{:.2f} × the model's own framework",
    "batch_over_onedal_and_lleaves": "{:.2f} × the better of oneDAL and lleaves",
    "batch_over_all_others": "{:.2f} × the best other engine",
    "two_threads_over_one": "two threads {:.2f} × one",
    "row_p50_over_best_other": "one row {:.2f} of the best other engine's time",
}


def ratios(speeds: Mapping[str, Speed]) -> dict[str, float]:
    """Scurry's rates over others' (one thread), its rate with two threads over one, its p50 over the best other's."""
    if "scurry" not in speeds:
        return {}
    ours = speeds["scurry"]
    others = {name: speed for name, speed in speeds.items() if name != "scurry"}

    def over(*names: str) -> float | None:
        rates = [others[name].rows_per_s[1] for name in names if name in others]
        return ours.rows_per_s[1] / max(rates) if rates else None

    found = {
        "batch_over_onedal": over("oneDAL"),
        "batch_over_own_framework": over("scikit-learn", "LightGBM", "XGBoost"),
        "batch_over_onedal_and_lleaves": over("oneDAL", "lleaves"),
        "batch_over_all_others": over(*others),
        "two_threads_over_one": ours.rows_per_s[2] / ours.rows_per_s[1],
        "row_p50_over_best_other": ours.p50_us / min(o.p50_us for o in others.values()) if others else None,
    }
    return {name: ratio for name, ratio in found.items() if ratio is not None}


def cell_text(title: str, result: Result) -> str:
    """One cell: a table of engines, those that did not run with the reason, scurry's ratios and effort."""
    header = ["engine", "1 thread, krows/s", "2 threads", "one row p50, µs", "p99, µs", "labels changed"]
    rows = [
        [
            name,
            f"{speed.rows_per_s[1] / 1e3:,.0f}",
            f"{speed.rows_per_s[2] / 1e3:,.0f}",
            f"{speed.p50_us:,.1f}",
            f"{speed.p99_us:,.1f}",
            f"{speed.n_changed:,}",
        ]
        for name, speed in result.speeds.items()
    ]
    lines = [f"{name}: {reason}" for name, reason in result.refused.items()]
    if result.effort is not None:
        lines.append("scurry: " + ", ".join(RATIOS[key].format(x) for key, x in ratios(result.speeds).items()))
        lines.append(_effort_line(result.effort))
    return "\n\n".join([f"### {title}", table(header, rows), _bullets(lines)])


def summary_text(results: Mapping[str, Result]) -> str:
    """One line a cell: what scurry reaches, and its ratios."""
    header = ["cell", "krows/s", "× own", "× oneDAL", "× best", "2 threads", "p50 µs", "÷ best", "changed"]
    rows = []
    for name, result in results.items():
        if "scurry" not in result.speeds:
            rows.append([name, *["–"] * (len(header) - 1)])
            continue
        ours = result.speeds["scurry"]
        shown = {key: f"{ratio:.2f}" for key, ratio in ratios(result.speeds).items()}
        rows.append(
            [
                name,
                f"{ours.rows_per_s[1] / 1e3:,.0f}",
                shown.get("batch_over_own_framework", "–"),
                shown.get("batch_over_onedal", "–"),
                shown.get("batch_over_all_others", "–"),
                shown["two_threads_over_one"],
                f"{ours.p50_us:.1f}",
                shown.get("row_p50_over_best_other", "–"),
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


def wrapped(text: str, indent: str = "") -> str:
    """The text in lines of at most `WIDTH`, those after the first indented."""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(wrapped(f"- {line}", indent="  ") for line in lines)
