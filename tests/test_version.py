"""The version: one number, in pyproject.toml."""

import tomllib
from pathlib import Path

from scurry.version import read_version


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert read_version() in (project["version"], "0+unknown")
