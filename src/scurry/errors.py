"""Every error scurry raises on purpose, and its warning.

A message says what was wrong with the value received, what is accepted, and what to do next.
"""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "FormatError",
    "InfeasibleError",
    "InputError",
    "ManyOutputsError",
    "MissingDependencyError",
    "MissingFileError",
    "OutputError",
    "ScurryError",
    "ScurryWarning",
    "UnsupportedModelError",
]

# Packages that are imported by another name than they are installed by.
_PACKAGES = {"prometheus_client": "prometheus-client", "sklearn": "scikit-learn"}
_PACKAGE = os.path.join(os.path.dirname(__file__), "")


class ScurryError(Exception):
    """Base of all errors raised by scurry.

    Attributes
    ----------
    argument : str or None
        Name of the argument that is wrong, where it is one. The command line names its option by it.
    """

    argument: str | None = None

    def describe(self, name: str | None = None) -> str:
        """Return the message with the argument under another `name`, such as that of a command's option.

        Examples
        --------
        >>> InputError("n_trees must be positive, got 0", argument="n_trees").describe("--trees")
        '--trees must be positive, got 0'
        """
        message = str(self)
        if name is None or self.argument is None:
            return message
        if message.startswith(self.argument):
            return name + message.removeprefix(self.argument)
        return f"{name}: {message}"


class InputError(ScurryError, ValueError):
    """An argument or a data set has the wrong value, shape or columns.

    Parameters
    ----------
    message : str
    argument : str, optional
        Name of the argument that is wrong, where it is one. The command line names its option by it.
    """

    def __init__(self, message: str, *, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class MissingFileError(InputError, FileNotFoundError):
    """A file that an argument names does not exist."""

    def __new__(cls, *args: object, **_: object) -> Self:
        """Make it as an OSError, which the first base class does not know how to."""
        return FileNotFoundError.__new__(cls, *args)


class UnsupportedModelError(ScurryError, TypeError):
    """The model, or a feature of it, cannot be imported exactly."""


class ManyOutputsError(UnsupportedModelError):
    """A model has several targets, and none is chosen.

    Parameters
    ----------
    kind : str
        What messages call the model.
    n_outputs : int
    is_multilabel : bool
        Whether the targets are labels, each of which a row has or has not.
    """

    def __init__(self, kind: str, n_outputs: int, is_multilabel: bool) -> None:
        super().__init__(
            f"this {kind} predicts {n_outputs} targets at once, and a forest one; choose it by "
            f"scurry.from_model(model, output=0), up to output={n_outputs - 1}, or import a forest for each by "
            'scurry.from_model(model, output="all")'
        )
        self.n_outputs, self.is_multilabel = n_outputs, is_multilabel


class FormatError(ScurryError, ValueError):
    """A file is not what its name or content claims: truncated, corrupted, too new or hostile."""


class OutputError(ScurryError, OSError):
    """A result cannot be written; what was written before is complete."""


class InfeasibleError(ScurryError, ValueError):
    """No plan meets the budget; the message and `achievable` carry what is possible instead.

    Parameters
    ----------
    message : str
        What was asked, and what is achievable instead.
    achievable : float, optional
        The best value of the violated budget.
    n_rows_needed : int, optional
        Calibration rows with which what was asked can be certified, where that would help.
    argument : str, optional
        Name of the argument that asks for too much.

    Examples
    --------
    >>> import numpy as np, scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> rows = np.linspace(0, 1, 200)[:, None]
    >>> try:
    ...     scurry.early_exit(scurry.Forest.from_trees([stump]), rows, max_disagreement=0.001, method="qwyc")
    ... except scurry.errors.InfeasibleError as error:
    ...     print(f"{error.achievable:.3f}")
    0.030
    """

    def __init__(
        self,
        message: str,
        achievable: float | None = None,
        *,
        n_rows_needed: int | None = None,
        argument: str | None = None,
    ) -> None:
        super().__init__(message)
        self.achievable, self.n_rows_needed, self.argument = achievable, n_rows_needed, argument


class MissingDependencyError(ScurryError, ImportError):
    """An optional package is needed; the message names the extra that installs it."""


@contextmanager
def require_extra(extra: str, purpose: str) -> Iterator[None]:
    """Turn the import of a package that is not installed into an error that says what to install.

    Parameters
    ----------
    extra : str
        The extra of ``pyproject.toml`` that installs what the block imports.
    purpose : str
        What needs it: the subject of the message.

    Raises
    ------
    MissingDependencyError

    Examples
    --------
    >>> with require_extra("plots", "drawing"):
    ...     import no_such_package
    Traceback (most recent call last):
    scurry.errors.MissingDependencyError: drawing needs no_such_package: pip install "scurry[plots]"
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package == "scurry":  # a mistake of ours, which no extra installs
            raise
        name = _PACKAGES.get(package, package)
        raise MissingDependencyError(f'{purpose} needs {name}: pip install "scurry[{extra}]"', name=package) from error


class ScurryWarning(UserWarning):
    """A result is valid but probably not what was wanted; the message says what to do."""


def warn(message: str, category: type[Warning] = ScurryWarning) -> None:
    """Warn, and name the line outside scurry whose call led here, however many of our functions lie between."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
