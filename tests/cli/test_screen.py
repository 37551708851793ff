"""Numbers as people read them."""

import io

import pytest
from rich.console import Console

from scurry.cli import screen


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (2_500_000, "2.5 MB"), (3e9, "3.0 GB")]
)
def test_bytes(count, shown):
    assert screen.in_bytes(count) == shown


@pytest.mark.parametrize(("duration", "shown"), [(12.345, "12.3 s"), (0.0123, "12.3 ms"), (4.2e-6, "4.2 µs")])
def test_seconds(duration, shown):
    assert screen.in_seconds(duration) == shown


def test_progress_shows_only_what_takes_time(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(screen, "console", lambda stderr: Console(file=shown, force_terminal=True, width=80))
    with screen.progress("Scoring") as tell:
        tell(1, 2)
    assert shown.getvalue() == ""
    monkeypatch.setattr(screen, "_PATIENCE_S", 0.0)
    with screen.progress("Scoring") as tell:
        tell(1, 2, "at work")
        while "at work" not in shown.getvalue():
            pass
        tell(1, 2)
        while "50%" not in shown.getvalue():
            pass
    assert "Scoring" in shown.getvalue()


def test_progress_is_for_terminals(monkeypatch, capsys):
    monkeypatch.setattr(screen, "_PATIENCE_S", 0.0)
    with screen.progress("Scoring") as tell:
        tell(1, 2)
    assert capsys.readouterr() == ("", "")
