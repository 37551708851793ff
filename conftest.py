"""What all tests and all examples of docstrings share."""

import importlib.util
import sys

import pytest

# CatBoost's wheels come late for new versions of Python.
collect_ignore = (
    []
    if importlib.util.find_spec("catboost")
    else ["src/scurry/importers/catboost/model.py", "tests/support/catboost_models.py", "tests/attack/catboost.py"]
)


@pytest.fixture(autouse=True)
def close_figures():
    """Close a test's figures: matplotlib warns of many open ones, and warnings are errors."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
