"""`import scurry` is quick because it loads little: no optional package, neither scipy nor scikit-learn."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import scurry

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = {
    "dask", "distributed", "fastapi", "joblib", "lightgbm", "matplotlib", "pandas", "polars", "pyarrow", "ray", "rich",
    "scipy", "skops", "sklearn", "typer", "xgboost",
}  # fmt: skip


def imported_by(statement: str) -> set[str]:
    """The packages in memory after a fresh interpreter has run `statement`."""
    program = f"{statement}; import sys; print(*sorted(name.split('.')[0] for name in sys.modules))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_importing_scurry_imports_no_optional_package():
    assert not imported_by("import scurry") & OPTIONAL


def test_every_extra_is_known_to_this_test():
    modules = {"scikit-learn": "sklearn", "xgboost-cpu": "xgboost"}
    extras = [PROJECT["optional-dependencies"][name] for name in ("batch", "dask", "data", "plots", "skops")]
    for requirement in (requirement for extra in extras for requirement in extra):
        package = requirement.split(">")[0]
        assert modules.get(package, package) in OPTIONAL


@pytest.mark.parametrize("name", sorted(scurry.__all__))
def test_public_names_are_there_and_documented(name):
    assert name in dir(scurry)
    assert getattr(scurry, name).__doc__


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="has no attribute 'early_exti'"):
        scurry.__getattr__("early_exti")
