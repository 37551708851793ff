"""Compare what pages of the documentation say code prints with what it prints, or write that into them.

A block of `text` right after a block of `python` that prints is what that block printed. One after a line
``<!-- printed by examples/NAME.py -->`` is what that example printed. Times and dates of a run are left out.

    python docs/printed_outputs.py            # compare: differences are shown side by side, and the exit code is 1
    python docs/printed_outputs.py --write    # write what is printed today into the pages
    python docs/printed_outputs.py docs/index.md --write
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import re
import runpy
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

TOP = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^(?:<!-- printed by (?P<example>\S+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.S | re.M)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
CLOCK = re.compile(r" \(\d{4}-\d\d-\d\d \d\d:\d\d UTC\)")
SLACK = 0.1  # how far numbers may be from those of another machine, of the larger one


class Printed(NamedTuple):
    """A block of a page, and what was printed in its place."""

    start: int  # in the page's text
    end: int
    shown: str
    obtained: str


def find_pages() -> list[Path]:
    """Return every page with a block of text that shows an output."""
    pages = [TOP / "README.md", *sorted((TOP / "docs").rglob("*.md"))]
    return [page for page in pages if "_build" not in page.parts and list(_pair(page.read_text("utf-8")))]


def _pair(text: str) -> Iterator[tuple[re.Match[str], re.Match[str] | None]]:
    """Yield blocks that show an output, with the block of Python before it or None for an example's."""
    before = None
    for block in BLOCK.finditer(text):
        if block["language"] == "text" and (block["example"] or (before is not None and "print(" in before["text"])):
            yield block, None if block["example"] else before
        before = block if block["language"] == "python" else None


def find_shown(page: Path) -> dict[str, str]:
    """Return what a page says its blocks of Python print, by their code."""
    return {before["text"]: block["text"] for block, before in _pair(page.read_text("utf-8")) if before is not None}


def run_page(page: Path) -> list[Printed]:
    """Run a page's Python blocks in an empty folder; return its outputs as they are shown and as they came out."""
    text = page.read_text("utf-8")
    pairs = list(_pair(text))
    printed: dict[int, str] = {}
    names: dict[str, Any] = {"__name__": page.stem}
    last = max((block.start() for _, block in pairs if block is not None), default=-1)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in BLOCK.finditer(text):
            if block["language"] == "python" and block.start() <= last:
                printed[block.start()] = _capture(
                    lambda code: exec(compile(code, str(page), "exec"), names), block["text"]
                )
        return [
            Printed(
                shown.start("text"),
                shown.end("text"),
                shown["text"],
                _capture(_run_example, TOP / shown["example"]) if block is None else printed[block.start()],
            )
            for shown, block in pairs
        ]


def _run_example(path: Path) -> None:
    arguments, sys.argv = sys.argv, [str(path)]
    try:
        runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv = arguments


def _capture(call: Any, argument: Any) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        call(argument)
    lines = CLOCK.sub("", output.getvalue()).rstrip().splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def agree(shown: str, obtained: str) -> bool:
    """Tell whether two outputs have the same words, and numbers that differ by no more than a tenth.

    A model trained by another version, or with other instructions, differs by as much.
    """
    if _words(shown) != _words(obtained):
        return False
    pairs = zip(_numbers(shown), _numbers(obtained), strict=True)
    return all(abs(one - other) <= SLACK * max(one, other) for one, other in pairs)


def _words(text: str) -> list[str]:
    return NUMBER.sub("0", text).split()


def _numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


def main() -> int:
    """Compare pages, or write them; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, help="by default all that show outputs")
    parser.add_argument("--write", action="store_true", help="write what is printed into the pages")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    n_other = 0
    for page in [path.resolve() for path in options.pages] or find_pages():
        text = page.read_text("utf-8")
        for block in reversed(run_page(page)):
            where = f"{page.relative_to(TOP)}:{text.count(chr(10), 0, block.start)}"
            if block.shown == block.obtained:
                sys.stdout.write(f"{where}: as printed\n")
                continue
            same = agree(block.shown, block.obtained)
            n_other += not same
            lines = difflib.ndiff(block.shown.splitlines(True), block.obtained.splitlines(True))
            said = "differs in digits" if same else "DIFFERS"
            sys.stdout.write(f"{where}: {said}\n{''.join(f'  {line}' for line in lines)}\n")
            text = text[: block.start] + block.obtained + text[block.end :]
        if options.write:
            page.write_text(text, "utf-8")
    return int(n_other > 0 and not options.write)


if __name__ == "__main__":
    sys.exit(main())
