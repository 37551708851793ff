"""The table of models and functions in docs/models.md says what really happens."""

import re
import runpy
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
TEXT = (TOP / "docs" / "models.md").read_text(encoding="utf-8")
PAGE = runpy.run_path(str(TOP / "docs" / "models_page.py"))
# The slow test has all models.
QUICK = ("CalibratedClassifierCV", "ONNX file, 3 classes", "treelite checkpoint")


def told(name):
    """What the page says about a model: "yes" or a reason for each function."""
    joined = re.sub(r"\n {3}", " ", TEXT)
    reasons = dict(re.findall(r"^(\d+)\. (.*)$", joined, re.MULTILINE))
    row = next(line for line in TEXT.splitlines() if line.startswith(f"| {name} |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")][1:]
    return [cell if cell == "yes" else reasons[cell.strip("()")] for cell in cells]


@pytest.mark.parametrize("name", QUICK)
def test_cells_say_what_happens(name):
    assert told(name) == PAGE["outcomes"](name), "run python docs/models_page.py"


@pytest.mark.slow
def test_the_page_is_made_of_what_happens():
    pytest.importorskip("catboost")
    assert PAGE["page"]() == TEXT, "run python docs/models_page.py"


def test_reasons_are_first_clauses():
    assert PAGE["reason"]("a model of `x`; do this. Or that") == "a model of x"
