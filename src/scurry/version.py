"""The version of the installed package."""

from __future__ import annotations


def read_version() -> str:
    """Return the version of scurry. The number itself stands in pyproject.toml alone."""
    # importlib.metadata takes longer to import than scurry itself.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("scurry")
    except PackageNotFoundError:  # a source tree on the path that was never installed
        return "0+unknown"
