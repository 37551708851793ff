"""Outputs: models with several targets, as one forest for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.checks import check_flag, check_instance
from scurry.errors import InputError, ManyOutputsError
from scurry.forest import Forest


class Outputs:
    """The forests of a model with several targets; `from_model` makes it with ``output="all"``.

    Every function of scurry takes one forest: ``scurry.early_exit(outputs[0], …)``.

    Parameters
    ----------
    forests : sequence of Forest
        One for each target.
    is_multilabel : bool
        Whether targets are labels, each of which a row has or has not.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, Y = [[0.0], [1.0], [2.0], [3.0]], [["a", "no"], ["a", "yes"], ["b", "no"], ["b", "yes"]]
    >>> model = RandomForestClassifier(5, random_state=0).fit(X, Y)
    >>> outputs = scurry.from_model(model, output="all")
    >>> outputs
    Outputs(2 forests)
    >>> bool((outputs.predict(X) == model.predict(X)).all())
    True
    """

    def __init__(self, forests: Sequence[Forest], is_multilabel: bool = False) -> None:
        check_instance("forests", forests, Sequence)
        if not forests or not all(isinstance(forest, Forest) for forest in forests):
            raise InputError("forests must be forests, one for each target", argument="forests")
        self.forests, self.is_multilabel = tuple(forests), check_flag("is_multilabel", is_multilabel)

    def __len__(self) -> int:
        return len(self.forests)

    def __getitem__(self, at: int) -> Forest:
        return self.forests[at]

    def __iter__(self) -> Iterator[Forest]:
        return iter(self.forests)

    def __repr__(self) -> str:
        return f"Outputs({len(self)} forest{'s' if len(self) != 1 else ''})"

    def predict(self, X: Any, n_threads: int | None = 1) -> NDArray[Any]:
        """Predict the label or value of each row and target, identical to the source model's.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1
            None uses all cores.

        Returns
        -------
        array of shape (n_rows, n_targets)
        """
        return np.column_stack([forest.predict(X, n_threads) for forest in self.forests])

    def predict_proba(self, X: Any, n_threads: int | None = 1) -> list[NDArray[np.float64]] | NDArray[np.float64]:
        """Predict class probabilities, in the form in which scikit-learn has them.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1
            None uses all cores.

        Returns
        -------
        list of float64 arrays of shape (n_rows, n_classes), or float64 array of shape (n_rows, n_targets)
            For each target the probabilities of its classes; of labels, that a row has each.
        """
        shares = [forest.predict_proba(X, n_threads) for forest in self.forests]
        return np.column_stack([share[:, 1] for share in shares]) if self.is_multilabel else shares


def import_outputs(import_output: Callable[[int | None], Forest]) -> Outputs:
    """Import all targets of a model.

    Parameters
    ----------
    import_output : callable
        Imports the target of this number, or the only one of a model for None.

    Returns
    -------
    Outputs
    """
    try:
        return Outputs((import_output(None),))
    except ManyOutputsError as error:
        n_outputs, is_multilabel = error.n_outputs, error.is_multilabel
    return Outputs(tuple(import_output(at) for at in range(n_outputs)), is_multilabel)
