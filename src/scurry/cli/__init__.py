"""The command line. Every command calls the public API and shows what it returns."""

import sys
from collections.abc import Sequence
from types import ModuleType

from scurry.errors import MissingDependencyError, require_extra

__all__ = ["load_program", "main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. A mistake of the user ends it with one line and exit code 2.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default the arguments of the process.
    """
    try:
        program = load_program()
    except MissingDependencyError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    program.main(arguments)


def load_program() -> ModuleType:
    """Return the program with all its commands. Loaded at first use, because an installation may lack its packages."""
    with require_extra("cli", "the scurry command"):
        from scurry.cli import demo, models, plans, program, rows  # noqa: F401 (each adds its commands)
    return program
