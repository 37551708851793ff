"""Progress on a terminal, and tables of names."""

import io

from rich.console import Console

from scurry.cli import screen


def test_progress_shows_only_what_takes_time(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(screen, "console", lambda stderr: Console(file=shown, force_terminal=True, width=80))
    with screen.show_progress("Scoring") as update:
        update(1, 2)
    assert shown.getvalue() == ""
    monkeypatch.setattr(screen, "_PATIENCE_S", 0.0)
    with screen.show_progress("Scoring") as update:
        update(1, 2, "at work")
        while "at work" not in shown.getvalue():
            pass
        update(1, 2)
        while "50%" not in shown.getvalue():
            pass
    assert "Scoring" in shown.getvalue()


def test_progress_is_for_terminals(monkeypatch, capsys):
    monkeypatch.setattr(screen, "_PATIENCE_S", 0.0)
    with screen.show_progress("Scoring") as update:
        update(1, 2)
    assert capsys.readouterr() == ("", "")


def test_tables_show_text_literally_and_cut_long_lists():
    shown = io.StringIO()
    Console(file=shown, width=40).print(screen.make_pairs({"column": "[red]age[/red]"}))
    assert shown.getvalue().split() == ["column", "[red]age[/red]"]
    assert screen.list_first(range(5)) == "0, 1, 2, 3, 4"
    assert screen.list_first(range(6)) == "0, 1, 2, 3, 4, …"
