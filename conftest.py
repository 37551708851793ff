"""What all tests and all examples of docstrings share."""

import importlib.util
import os
import sys

import pytest
from hypothesis import settings

# Processes of `pytest -n` share the cores. Frameworks whose threads wait for each other in loops would take the time of
# the other processes. Threads of scurry itself do not look at these variables.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# No test is timed: on a busy machine any example may take long.
settings.register_profile("scurry", deadline=None)
settings.load_profile("scurry")

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
