"""Options that several commands share have the same plain help everywhere."""

import pytest
import typer

from scurry import cli

COMMANDS = typer.main.get_command(cli.load_program().app).commands
HELP = {
    "seed": "Random seed.",
    "threads": "Number of threads (default: all cores).",
    "title": "Page title.",
    "label": "Column with the labels.",
    "as_json": "Print JSON.",
}


def list_options(command):
    """All arguments and options of a command and of those below it."""
    for inner in getattr(command, "commands", {}).values():
        yield from list_options(inner)
    yield from command.params


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained_in_a_sentence(name):
    for option in list_options(COMMANDS[name]):
        text = getattr(option, "help", None)
        if option.name not in ("help", "context"):
            assert text, option.name
            assert text.endswith((".", "…."))
            assert not text.startswith(("Of ", "That ")), "a help text names the thing"
            assert HELP.get(option.name, text) == text


def test_a_folder_that_is_missing_is_refused_before_any_work(fail, tmp_path):
    for command in ("early-exit", "anytime", "prune", "report"):
        line = fail(command, "model.json", "rows.csv", "--label", "y", "-o", tmp_path / "none" / "x.scurry")
        assert "there is no folder" in line
