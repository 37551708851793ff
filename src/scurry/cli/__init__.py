"""The command line. Every command calls the public API and shows what it returns."""

from scurry.cli import demo, models, papers, plans, rows
from scurry.cli.program import app, main

__all__ = ["app", "demo", "main", "models", "papers", "plans", "rows"]
