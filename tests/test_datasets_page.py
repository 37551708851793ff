"""docs/datasets.md is what the catalogue says."""

import runpy
from pathlib import Path

from scurry import datasets

DOCS = Path(__file__).parents[1] / "docs"


def test_the_page_is_current():
    text = (DOCS / "datasets.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(DOCS / "datasets_page.py"))["make_page"]() == text, "run python docs/datasets_page.py"
    assert all(f"`{name}`" in text for name in datasets.names())
    assert "3: healthy" in text
    assert "Canadian dollars" in text
