"""The command line as its user meets it: help, exit codes, and one line for every mistake.

Progress on a terminal, and tables of names.
"""

import io
import json
import re
import subprocess
import sys
from importlib.metadata import version

import pytest
import typer
from rich.console import Console

import scurry
from scurry import cli
from scurry.cli import program
from scurry.errors import InputError, OutputError

COMMANDS = [command.name for command in typer.main.get_command(cli.load_program().app).commands.values()]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read the model file"),
        (b"", "is not a model file that scurry knows"),
        (b"\x80\x04\x95", "is a pickle, and loading a pickle runs whatever code"),
        (b"PK\x03\x04 and then nothing", "it does not end as a .scurry file does"),
    ],
)
def test_wrong_model_file(tmp_path, fail, content, message):
    path = tmp_path / "a model with a long name, so that the message is wider than a terminal of 80 columns.bin"
    if content is not None:
        path.write_bytes(content)
    line = fail("inspect", str(path))
    assert line.startswith("error: ")
    assert message in line
    assert str(path) in line


def test_message_of_several_lines_becomes_one(fail, monkeypatch):
    def broken(arguments):
        raise InputError("first [bold]part[/bold]\n  second part")

    monkeypatch.setattr("scurry.cli.program.app", broken)
    assert fail() == "error: first [bold]part[/bold] second part\n"


def test_unexpected_errors_are_not_hidden(monkeypatch):
    def broken(arguments):
        raise ZeroDivisionError

    monkeypatch.setattr("scurry.cli.program.app", broken)
    with pytest.raises(ZeroDivisionError):
        cli.main([])


def test_every_command_is_there():
    asked = "demo inspect early-exit anytime prune compress predict watch serve report bench export reproduce"
    assert typer.main.get_command(cli.load_program().app).list_commands(None) == asked.split()


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_an_example(run, command):
    output = run(*command.split(), "--help")
    example = " ".join(output[output.index("Example: ") :].split())
    assert re.match(f"Example: scurry {command or 'demo'}", example)
    assert run(*command.split(), "-h") == output


@pytest.mark.parametrize("command", ["", *COMMANDS, "export c"])
def test_help_shows_every_extra(run, command):
    """In the markup of help texts, brackets are styles unless they are escaped."""
    output = run(*command.split(), "--help")
    assert all(re.match(r'"scurry\[\w+\]"', rest) for rest in output.split("pip install ")[1:])
    assert ('pip install "scurry[serve]"' in output) == (command == "serve")


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_are_understood(run, command):
    """Every word of an example that starts with a dash is an option of its command."""
    output = " ".join(run(command, "--help").split())
    *_, example = output.split("Example: ")
    for option in re.findall(r" (--?[a-z][a-z-]*)", example):
        assert option in output[: -len(example)] or (command, option) == ("reproduce", "--quick")


def test_a_folder_that_is_not_there(fail, folder, tmp_path):
    line = fail(
        "early-exit", folder / "model.skops", folder / "rows.csv", "--no-promise", "-o", tmp_path / "no/x.scurry"
    )
    assert re.search(r"no/x.scurry cannot be written: there is no folder \S+no; make it, or name another", line)
    forest = scurry.load(folder / "model.scurry")
    with pytest.raises(OutputError, match=r"no/x.scurry cannot be written: No such file or directory; name a folder"):
        forest.save(tmp_path / "no" / "x.scurry")


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = "import sys; from scurry.cli import main; sys.argv[0] = 'scurry'; main()"
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


def test_as_a_process(model):
    _, path = model
    good = process("inspect", str(path), "--json")
    assert (good.returncode, good.stderr) == (0, "")
    assert json.loads(good.stdout)["n_trees"] == 3
    bad = process("inspect", str(path.with_suffix(".txt")))
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("error: cannot read the model file")
    assert "Traceback" not in bad.stderr
    assert process("--version").stdout == f"scurry {version('scurry')}\n"


def test_starting_imports_nothing_heavy():
    heavy = ("sklearn", "scipy", "pandas", "pyarrow", "rich.progress")
    show = f"print(*(name for name in {heavy} if name in sys.modules))"
    program = f"import atexit, sys; from scurry.cli import main; atexit.register(lambda: {show}); main(['--version'])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["scurry", version("scurry")]


@pytest.mark.parametrize("module", ["scurry", "scurry.cli"])
def test_it_runs_as_a_module(module):
    ran = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert scurry.__version__ in ran.stdout


def test_progress_shows_only_what_takes_time(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(program, "console", lambda stderr: Console(file=shown, force_terminal=True, width=80))
    with program.show_progress("Scoring") as update:
        update(1, 2)
    assert shown.getvalue() == ""
    monkeypatch.setattr(program, "_PATIENCE_S", 0.0)
    with program.show_progress("Scoring") as update:
        update(1, 2, "at work")
        while "at work" not in shown.getvalue():
            pass
        update(1, 2)
        while "50%" not in shown.getvalue():
            pass
    assert "Scoring" in shown.getvalue()


def test_progress_is_for_terminals(monkeypatch, capsys):
    monkeypatch.setattr(program, "_PATIENCE_S", 0.0)
    with program.show_progress("Scoring") as update:
        update(1, 2)
    assert capsys.readouterr() == ("", "")


def test_tables_show_text_literally_and_cut_long_lists():
    shown = io.StringIO()
    Console(file=shown, width=40).print(program.make_pairs({"column": "[red]age[/red]"}))
    assert shown.getvalue().split() == ["column", "[red]age[/red]"]
    assert program.list_first(range(5)) == "0, 1, 2, 3, 4"
    assert program.list_first(range(6)) == "0, 1, 2, 3, 4, …"
