"""Cells of an experiment that are finished: kept on disk as they come, so that none is made twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from report import RESULTS
from report import commit as _find_commit

commit = cache(_find_commit)  # asked once; it takes longer than many cells


class Kept:
    """Finished cells in ``NAME-cells.jsonl``, one JSON object a line.

    An experiment that was interrupted, or is asked for more cells, goes on where it was. To make cells anew, delete the
    file. It is in ``results``, which is not under version control, unless another folder is given.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        folder = RESULTS if folder is None else folder
        folder.mkdir(exist_ok=True)
        self.path: Path = folder / f"{name}-cells.jsonl"
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        if text and not text.endswith("\n"):  # interrupted while writing
            text = text[: text.rfind("\n") + 1]
            self.path.write_text(text, encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        self._values: dict[str, Any] = {_name(line["cell"]): line["value"] for line in lines}

    def __contains__(self, cell: Mapping[str, Any]) -> bool:
        return _name(cell) in self._values

    def find(self, cell: Mapping[str, Any]) -> Any:
        """Return the value of a cell that is kept."""
        return self._values[_name(cell)]

    def get(self, cell: Mapping[str, Any], make: Callable[[], Any]) -> Any:
        """Return the value of a cell, made and kept if there is none yet."""
        if cell not in self:
            # Through JSON, so that a new value has the same types as one that was kept.
            line = json.dumps({"cell": dict(cell), "commit": commit(), "value": make()})
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            self._values[_name(cell)] = json.loads(line)["value"]
        return self._values[_name(cell)]


def _name(cell: Mapping[str, Any]) -> str:
    return json.dumps(cell, sort_keys=True)
