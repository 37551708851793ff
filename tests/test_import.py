"""`import scurry` loads numpy and nothing else, and without other packages a saved file still predicts."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import scurry

TOP = Path(__file__).parents[1]
NUMPY_ALONE = TOP / "tests" / "support" / "numpy_alone.py"
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = {
    "dask", "distributed", "httptools", "joblib", "lightgbm", "matplotlib", "narwhals", "pandas", "polars",
    "prometheus_client", "pyarrow", "ray", "rich", "scipy", "skops", "sklearn", "threadpoolctl", "typer", "uvicorn",
    "xgboost",
}  # fmt: skip
KNOWN_BROKEN = {"prune"}  # scurry.pruning and scurry.verbs.prune import each other
# Where a package has another name than its module.
MODULES = {"prometheus-client": "prometheus_client", "scikit-learn": "sklearn", "xgboost-cpu": "xgboost"}


def imported_by(statement: str) -> set[str]:
    """Return the modules in memory after a fresh interpreter has run `statement`."""
    program = f"{statement}; import sys; print(*sorted(sys.modules))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def modules_of(requirements: list[str]) -> set[str]:
    """Return the names by which the required packages are imported."""
    names = (re.match(r"[\w.-]+", requirement).group() for requirement in requirements)
    return {MODULES.get(name, name) for name in names}


def test_importing_scurry_imports_no_optional_package():
    loaded = imported_by("import scurry")
    assert not {name.split(".")[0] for name in loaded} & OPTIONAL
    # numpy loads it at first use, and it takes long.
    assert "numpy.random" not in loaded - imported_by("import numpy")


def test_predictions_import_nothing_that_only_promises_and_writers_need():
    """That takes a fifth of the time that `import scurry`, loading a plan and an answer take together."""
    path = str(TOP / "tests" / "golden" / "format" / "v2-exit-votes.scurry")
    loaded = imported_by(f"import scurry; p = scurry.load({path!r}); p.predict([[0.0] * p.forest.n_features])")
    assert not {"scurry.promises", "zipfile", "pathlib", "numpy.ma"} & (loaded - imported_by("import numpy"))


def test_numpy_is_the_one_dependency():
    assert modules_of(PROJECT["dependencies"]) == {"numpy"}


def test_every_extra_is_known_to_this_test():
    for name in ("batch", "cli", "dask", "data", "fit", "frames", "plots", "serve", "skops"):
        assert modules_of(PROJECT["optional-dependencies"][name]) <= OPTIONAL
        assert name in PROJECT["optional-dependencies"]["all"][0]


class TestNumpyAlone:
    """What an installation without extras can do, in processes that can import nothing else."""

    @staticmethod
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)

    def test_saved_files_predict_and_everything_else_says_what_to_install(self):
        golden = TOP / "tests" / "golden" / "format"
        result = self.run(str(NUMPY_ALONE), str(golden), "--block")
        assert result.stderr == ""
        assert result.stdout.split() == sorted(path.stem for path in golden.glob("*.scurry"))

    @pytest.mark.parametrize(
        ("statement", "message"),
        [
            (
                "import scurry.stopping",
                'fitting a stop rule or testing a promise needs scipy: pip install "scurry[fit]"',
            ),
            ("import scurry.estimators", 'an estimator of scurry needs scipy: pip install "scurry[fit]"'),
            (
                "from scurry.forest import as_frame; as_frame(type('Frame', (), {'columns': ()})())",
                'a Frame needs narwhals: pip install "scurry[frames]"',
            ),
            ("from scurry.cli import main; main([])", 'the scurry command needs typer: pip install "scurry[cli]"'),
            (
                "import scurry; scurry.batch.score('rows.parquet', 'model.scurry', 'answers.parquet')",
                'reading files needs pyarrow: pip install "scurry[batch]"',
            ),
            (
                "import scurry; scurry.serving.serve(scurry.load('v2-forest.scurry'))",
                'serving needs uvicorn: pip install "scurry[serve]"',
            ),
            (
                "from scurry.skops import load_estimator; load_estimator(b'', (), 'a front', '')",
                'a front needs skops: pip install "scurry[skops]"',
            ),
        ],
    )
    def test_what_is_missing_is_named(self, statement, message):
        program = f"import runpy, sys; sys.meta_path.insert(0, runpy.run_path({str(NUMPY_ALONE)!r})['Blocker']()); "
        statement = statement.replace("v2-forest", str(TOP / "tests" / "golden" / "format" / "v2-forest"))
        result = self.run("-c", program + statement)
        assert result.returncode != 0
        assert result.stderr.splitlines()[-1].endswith(f"rror: {message}")
        assert ("Traceback" in result.stderr) == ("cli" not in statement)


def test_every_imported_package_is_declared():
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (TOP / "src" / "scurry").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0}
    packages = {name.split(".")[0] for name in imported} - set(sys.stdlib_module_names) - {"scurry"}
    extras = [requirement for extra in PROJECT["optional-dependencies"].values() for requirement in extra]
    # scikit-learn requires joblib and writes its pickles with it.
    assert packages <= modules_of(PROJECT["dependencies"] + extras) | {"joblib"}


@pytest.mark.parametrize("name", sorted(scurry.__all__))
def test_public_names_are_there_and_documented(name):
    assert name in dir(scurry)
    assert getattr(scurry, name).__doc__


def test_every_public_name_can_be_the_first_one_used():
    # Whether a cycle of imports breaks depends on where it is entered.
    program = """
import sys, scurry
for name in scurry.__all__:
    for module in [module for module in sys.modules if module.startswith("scurry") and module != "scurry._core"]:
        del sys.modules[module]
    import scurry
    if name not in vars(scurry):
        try:
            getattr(scurry, name)
        except ImportError:
            print(name)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(result.stdout.split()) <= KNOWN_BROKEN


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="has no attribute 'early_exti'"):
        scurry.__getattr__("early_exti")


class TestVersion:
    def test_it_is_that_of_the_installed_package(self):
        assert scurry.__version__ == importlib.metadata.version("scurry")
        assert "__version__" in dir(scurry)

    def test_importing_scurry_does_not_look_it_up(self):
        assert "importlib.metadata" not in imported_by("import scurry")

    def test_a_source_tree_that_is_not_installed_has_an_unknown_one(self, monkeypatch):
        def find_nothing(name):
            raise importlib.metadata.PackageNotFoundError(name)

        monkeypatch.setattr(importlib.metadata, "version", find_nothing)
        assert scurry.__version__ == "0+unknown"

    def test_the_citation_has_the_same(self):
        citation = (TOP / "CITATION.cff").read_text(encoding="utf-8")
        assert re.search(r"^version: (.*)$", citation, flags=re.MULTILINE).group(1) == PROJECT["version"]
