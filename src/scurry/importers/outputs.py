"""Outputs: which of several targets a forest predicts."""

from __future__ import annotations

from scurry.checks import check_count
from scurry.errors import InputError, UnsupportedModelError


def choose_output(output: int | None, n_outputs: int, kind: str) -> int:
    """Return the number of the target that is wanted.

    Parameters
    ----------
    output : int or None
        What the caller asks for.
    n_outputs : int
        The targets of the model.
    kind : str
        What messages call it.

    Raises
    ------
    UnsupportedModelError
        If there are several, and none is chosen.
    InputError
        If there is no such target.

    Examples
    --------
    >>> choose_output(None, 1, "model"), choose_output(2, 3, "model")
    (0, 2)
    """
    if output is None:
        if n_outputs > 1:
            raise UnsupportedModelError(
                f"this {kind} predicts {n_outputs} targets at once, and a forest one; choose it by "
                f"scurry.from_model(model, output=0), up to output={n_outputs - 1}"
            )
        return 0
    if check_count("output", output, 0) >= n_outputs:
        raise InputError(
            f"this {kind} has {n_outputs} targets: output must be below that, got {output}", argument="output"
        )
    return output
