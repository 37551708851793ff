"""What all tests and all examples of docstrings share."""

import sys

import pytest


@pytest.fixture(autouse=True)
def close_figures():
    """Close a test's figures: matplotlib warns of many open ones, and warnings are errors."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
