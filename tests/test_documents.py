"""Everything the README, the documentation and the examples show runs, and what they name exists."""

import contextlib
import importlib
import inspect
import io
import json
import re
import runpy
import shlex
from pathlib import Path
from types import ModuleType

import matplotlib as mpl
import pytest
from typer.testing import CliRunner

import scurry
from scurry import cli

TOP = Path(__file__).parents[1]
DOCUMENTS = [TOP / "README.md", *sorted((TOP / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
BLOCKS = {path: BLOCK.findall(path.read_text(encoding="utf-8")) for path in DOCUMENTS if "_build" not in path.parts}
PRINTED = runpy.run_path(str(TOP / "docs" / "printed_outputs.py"))
EXAMPLES = sorted((TOP / "examples").glob("plot_*.py"))


# Modules that users import names from although `scurry` does not list them: of these, only the classes are public.
CLASSES_OF = ("plan", "promises")


def run_blocks(path, folder):
    """Return the names a document's Python blocks leave behind; its commands run between them, in the same folder.

    What blocks print must be what the page shows, but for the last digits.
    """
    names = {"__name__": path.stem}
    shown = PRINTED["find_shown"](path)
    if path.stem == "catboost":
        pytest.importorskip("catboost")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for language, block in BLOCKS[path]:
            if language == "python":
                with contextlib.redirect_stdout(io.StringIO()) as output:
                    exec(compile(block, str(path), "exec"), names)
                if block in shown:
                    same = PRINTED["agree"](shown[block], output.getvalue())
                    assert same, f"run python docs/printed_outputs.py --write\n{output.getvalue()}"
                continue
            for line in block.splitlines():
                command = shlex.split(line.removeprefix("$ "), comments=True)
                assert command[0] == "scurry", line
                result = CliRunner().invoke(cli.load_program().app, command[1:], catch_exceptions=False)
                assert result.exit_code == 0, result.output
    return names


@pytest.fixture(scope="module")
def readme(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    return run_blocks(TOP / "README.md", folder), folder


def test_no_label_changes_on_import(readme):
    names, _ = readme
    assert (names["forest"].predict(names["X_new"]) == names["model"].predict(names["X_new"])).all()


def test_early_exit_saves_most_trees_within_its_promise(readme):
    names, _ = readme
    run = names["fast"].run(names["X_new"])
    assert run.mean_trees < names["forest"].n_trees / 4
    assert (run.labels != names["model"].predict(names["X_new"])).mean() <= 0.005


def test_the_saved_file_predicts_the_same(readme):
    names, folder = readme
    loaded = scurry.load(folder / "adult.scurry")
    assert (loaded.predict(names["X_new"]) == names["fast"].predict(names["X_new"])).all()


@pytest.mark.parametrize(
    "path",
    # The README's blocks are run above, those of export.md in tests/export.
    [
        pytest.param(path, marks=[pytest.mark.slow] if path.name == "what-to-promise.md" else [], id=path.stem)
        for path in BLOCKS
        if BLOCKS[path] and path.name not in ("README.md", "export.md")
    ],
)
def test_the_code_of_documents_runs(path, tmp_path):
    run_blocks(path, tmp_path)


def test_the_file_of_prices_that_is_shown_is_the_one_that_is_used(tmp_path):
    path = TOP / "docs" / "how-to" / "features.md"
    shown = re.findall(r"^```json\n(.*?)^```$", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    run_blocks(path, tmp_path)
    used = json.loads((tmp_path / "costs.json").read_text(encoding="utf-8"))
    assert [json.loads(text) for text in shown] == [used]


def test_outputs_agree_but_for_the_last_digits():
    agree = PRINTED["agree"]
    assert agree("trees per row  3.27\n", "trees per row   3.31\n")
    assert not agree("22 broke it", "27 broke it")
    assert not agree("22 broke it", "22 kept it")
    assert not agree("22 broke it", "22 broke it\nand more")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path):
    mpl.use("Agg")
    runpy.run_path(str(path))
    mpl.pyplot.close("all")


@pytest.mark.parametrize("path", BLOCKS, ids=lambda path: path.stem)
def test_what_documents_name_exists(path):
    text = path.read_text(encoding="utf-8")
    for name in set(re.findall(r"`((?:tests|benchmarks|src|examples|docs)/[\w./-]+)`", text)):
        assert (TOP / name).exists(), name
    for dotted in set(re.findall(r"\bscurry((?:\.\w+)+)\(?", re.sub(r"```.*?```", "", text, flags=re.DOTALL))):
        found = scurry
        for part in dotted.strip(".").split("."):
            found = getattr(found, part, None) or importlib.import_module(f"{found.__name__}.{part}")
    for target in re.findall(r"\]\(([\w./-]+\.(?:md|rst))\)", text):
        # The gallery is made when the documentation is built.
        assert target == "examples/index.rst" or (path.parent / target).exists(), target


def test_papers_have_experiments():
    text = (TOP / "docs" / "papers.md").read_text(encoding="utf-8")
    for paper in set(re.findall(r"`scurry reproduce ([\w-]+)`", text)):
        assert (TOP / "benchmarks" / "papers" / f"{paper.replace('-', '_')}.py").exists(), paper


def test_every_paper_can_be_cited():
    text = (TOP / "docs" / "papers.md").read_text(encoding="utf-8")
    cited = " ".join(re.findall(r"^    title: (.*)$", (TOP / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE))
    titles = re.findall(r"^\*\*.*?, \*(.*?)\*,", text, flags=re.MULTILINE)
    assert len(titles) == 9
    for title in titles:
        assert title.lower() in cited.lower().replace("\\", ""), title


def public_names():
    """Yield every public name as users write it after `scurry.`: those of the package and of its public modules."""
    for name in scurry.__all__:
        value = getattr(scurry, name)
        if not isinstance(value, ModuleType):
            yield name
            continue
        listed = getattr(value, "__all__", None) or [
            found
            for found, what in vars(value).items()
            if getattr(what, "__module__", None) == value.__name__ and not found.startswith("_")
        ]
        yield from (f"{name}.{found}" for found in listed)
    for name in set(CLASSES_OF) - set(scurry.__all__):
        module = importlib.import_module(f"scurry.{name}")
        for found, what in vars(module).items():
            if inspect.isclass(what) and what.__module__.startswith(module.__name__) and not found.startswith("_"):
                yield f"{name}.{found}"


def api_names():
    text = (TOP / "docs" / "api.rst").read_text(encoding="utf-8")
    return set(re.findall(r"^   ([\w.]+)$", text, flags=re.MULTILINE)) | set(re.findall(r"``(\w+\.\w+)``", text))


def test_the_api_page_lists_every_public_name():
    # `scurry.Plan` is listed under that name, not again as `plan.Plan`.
    missing = set(public_names()) - api_names() - {"plan.Plan", "monitoring.Watch"}
    assert not missing, f"add to docs/api.rst: {sorted(missing)}"


def test_the_api_page_lists_only_public_names():
    assert not api_names() - set(public_names())


def benchmark_page():
    return runpy.run_path(str(TOP / "docs" / "benchmark_page.py"))


def test_the_benchmark_page_is_made_of_the_stored_results():
    page = (TOP / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert page == benchmark_page()["page"](), "run python docs/benchmark_page.py"


def test_the_tables_of_the_readme_are_made_of_the_stored_results():
    text = (TOP / "README.md").read_text(encoding="utf-8")
    assert text == benchmark_page()["readme"](text), "run python docs/benchmark_page.py"


def test_every_page_of_the_documentation_is_reached():
    """Every page is in a table of contents (start page, how-to, papers), and every picture exists."""
    contents = "".join(
        (TOP / "docs" / name).read_text(encoding="utf-8") for name in ("index.md", "how-to/index.md", "papers.md")
    )
    for path in BLOCKS:
        if path.relative_to(TOP).parts[0] == "docs" and path.stem != "index":
            assert re.search(rf"(^|[</]){path.stem}>?$", contents, flags=re.MULTILINE), path.name
        for picture in re.findall(r"\]\(([\w./-]+\.svg)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / picture).exists(), picture


def test_pages_install_scurry_the_same_way():
    """It is in no registry: every page installs a checkout. Only an error's own text names the package."""
    for page in DOCUMENTS:
        installs = re.findall(r"^(?!scurry\.errors).*pip install ['\"]?([\w.]+)", page.read_text("utf-8"), re.MULTILINE)
        assert "scurry" not in installs, page


def test_the_reference_names_everything_once():
    names = re.findall(r"^   ([\w.]+)$", (TOP / "docs/api.rst").read_text("utf-8"), re.MULTILINE)
    assert len(names) == len(set(names))
