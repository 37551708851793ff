"""Axes to draw on. matplotlib is imported when something is drawn."""

from __future__ import annotations

from typing import Any

from scurry.errors import MissingDependencyError


def new_axes() -> Any:
    """The axes of a new figure."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingDependencyError('drawing needs matplotlib: pip install "scurry[plots]"') from error
    return pyplot.subplots(figsize=(6.4, 4.4), layout="constrained")[1]
