"""Every error scurry raises on purpose.

A message says what was wrong with the value received, what is accepted, and what to do next.
"""


class ScurryError(Exception):
    """Base of all errors raised by scurry."""


class InputError(ScurryError, ValueError):
    """An argument or a data set has the wrong value, shape or columns."""


class UnsupportedModelError(ScurryError, TypeError):
    """The model, or a feature of it, cannot be imported exactly."""


class FormatError(ScurryError, ValueError):
    """A file is not what its name or content claims: truncated, corrupted, too new or hostile."""


class OutputError(ScurryError, OSError):
    """A result cannot be written; what was written before is complete."""


class InfeasibleError(ScurryError, ValueError):
    """No plan meets the budget; the message and `achievable` carry what can be had.

    Parameters
    ----------
    message : str
        What was asked, and what is achievable instead.
    achievable : float, optional
        The best value of the violated budget.
    """

    def __init__(self, message: str, achievable: float | None = None) -> None:
        super().__init__(message)
        self.achievable = achievable


class MissingDependencyError(ScurryError, ImportError):
    """An optional package is needed; the message names the extra that installs it."""
