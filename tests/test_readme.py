"""The README's examples run, and do what it says they do."""

import re
from pathlib import Path

import pytest

import scurry

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Names and folder after running the README's blocks one after another."""
    folder, names = tmp_path_factory.mktemp("readme"), {"__name__": "readme"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in EXAMPLES:
            exec(compile(block, str(README), "exec"), names)
    return names, folder


def test_the_readme_has_an_example():
    assert EXAMPLES


def test_no_label_changes_on_import(outcome):
    names, _ = outcome
    assert (names["forest"].predict(names["X_new"]) == names["model"].predict(names["X_new"])).all()


def test_early_exit_saves_most_trees_within_its_promise(outcome):
    names, _ = outcome
    run = names["fast"].run(names["X_new"])
    assert run.mean_trees < names["forest"].n_trees / 4
    assert (run.labels != names["model"].predict(names["X_new"])).mean() <= 0.005


def test_the_saved_file_predicts_the_same(outcome):
    names, folder = outcome
    loaded = scurry.load(folder / "adult.scurry")
    assert (loaded.predict(names["X_new"]) == names["fast"].predict(names["X_new"])).all()
