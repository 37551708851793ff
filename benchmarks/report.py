"""A benchmark's report: tables and notes printed as they come and kept, with the figures, in ``benchmarks/results``."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import textwrap
from collections.abc import Sequence
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from scurry import _core
from tables import WIDTH, table

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
QUICK = (
    "This was run with --quick: single repeats, of few rows and small forests. They scatter, so the verdicts below "
    "mean little. Run it without --quick to compare with the paper."
)


class Report:
    """Markdown that grows; the file is complete after every addition, so an interrupted run keeps what it has."""

    def __init__(
        self, name: str, title: str, protocol: str, packages: Sequence[str] = (), *, quick: bool = False
    ) -> None:
        started = datetime.now().astimezone()
        self.stem = f"{name}-{started:%Y-%m-%dT%H%M}-{commit()}"
        self.texts: list[str] = []
        self.parts: list[dict[str, Any]] = []
        RESULTS.mkdir(exist_ok=True)
        self.say(f"# {title}")
        self.say(f"{machine()}; {started.isoformat(timespec='seconds')}, commit {commit()}; {_load('at the start')}.")
        self.say(", ".join(f"{package} {version(package)}" for package in ("scurry", "numpy", *packages)) + ".")
        self.say(protocol)
        if quick:
            self.say(QUICK)

    def say(self, text: str) -> None:
        """Add a paragraph or a heading."""
        self._add(text if text.startswith("#") else textwrap.fill(text, WIDTH), {"text": text})

    def table(self, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        part = {"table": title, "header": list(header), "rows": [list(row) for row in rows]}
        self._add(f"### {title}\n\n{table(header, rows)}", part)

    def figure(self, name: str, figure: Any) -> None:
        """Keep a matplotlib figure beside the report and name its file."""
        path = RESULTS / f"{self.stem}-{name}.png"
        figure.savefig(path, dpi=120, bbox_inches="tight")
        figure.clear()
        self._add(f"![{name}]({path.name})", {"figure": str(path)})

    def close(self) -> None:
        self.say(f"End: {_load('now')}.")
        print(f"\nWritten to {RESULTS / self.stem}.md")

    def _add(self, text: str, part: dict[str, Any]) -> None:
        self.texts.append(text)
        self.parts.append(part)
        print(f"\n{text}", flush=True)
        (RESULTS / f"{self.stem}.md").write_text("\n\n".join(self.texts) + "\n", encoding="utf-8")
        if wanted := os.environ.get("SCURRY_REPORT_JSON"):
            Path(wanted).write_text(json.dumps(self.parts, indent=1), encoding="utf-8")


def machine() -> str:
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{cpu_model()}, {os.cpu_count()} cores, scurry's {_core.kernels()} kernels; {system}"


def commit() -> str:
    """The commit the benchmark runs from, marked if tracked files differ from it.

    A copy without git history says it in the variable SCURRY_COMMIT.
    """
    given = os.environ.get("SCURRY_COMMIT")
    if given:
        return given
    return _git("rev-parse", "--short=10", "HEAD") + ("-modified" if _git("status", "--porcelain", "-uno") else "")


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def subplots(n_rows: int, n_columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    """A figure that needs no screen, and its axes as an array of shape (n_rows, n_columns)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(size[0] * n_columns, size[1] * n_rows), layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False)


def _load(when: str) -> str:
    return f"load average {os.getloadavg()[0]:.1f} {when}"


def cpu_model() -> str:
    """The name of the processor, or of its kind where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
    return done.stdout.strip() or ("" if done.returncode == 0 else "unknown")
