"""Plot of a compression's path: what smaller forests change, against their size."""

from __future__ import annotations

from typing import Any, Self

from scurry.display.votes_and_steps import axes_of
from scurry.errors import InputError
from scurry.predictor import Predictor
from scurry.promises import SizeMeasurement


class CompressionDisplay:
    """Candidates of a compression: changed answers, and accuracy where labels were given, against bytes.

    Parameters
    ----------
    measured : SizeMeasurement
        ``predictor.certificate.measured`` of a predictor that `scurry.compress` made.
    max_changed : float, optional
        The share of changed answers that was promised, drawn as a line.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    accuracy_ax_ : matplotlib Axes or None
        The axis of accuracy, on the right.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from scurry.display import CompressionDisplay
    >>> X, y = make_classification(4000, random_state=0)
    >>> model = RandomForestClassifier(20, random_state=0).fit(X[:1000], y[:1000])
    >>> small = scurry.compress(model, X[1000:], y[1000:])
    >>> shown = CompressionDisplay.from_predictor(small)
    >>> shown.ax_.get_xlabel()
    'bytes of the packed file'
    """

    def __init__(self, measured: SizeMeasurement, max_changed: float | None = None) -> None:
        self.measured, self.max_changed = measured, max_changed

    @classmethod
    def from_predictor(cls, predictor: Predictor, *, ax: Any = None) -> Self:
        """Plot the path of a predictor that `scurry.compress` made.

        Parameters
        ----------
        predictor : Predictor
        ax : matplotlib Axes, optional

        Returns
        -------
        CompressionDisplay
        """
        measured = None if predictor.certificate is None else predictor.certificate.measured
        if not isinstance(measured, SizeMeasurement):
            raise InputError("predictor must be made by scurry.compress, which measures sizes", argument="predictor")
        return cls(measured, None if predictor.promise is None else predictor.promise.max_rate).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw the path: certified candidates filled, others hollow, the chosen one in a circle.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            A new figure's by default.

        Returns
        -------
        CompressionDisplay
        """
        path = self.measured.path
        self.ax_ = axes_of(ax)
        self.figure_ = self.ax_.figure
        sizes, changed = [point.n_bytes for point in path], [point.changed for point in path]
        self.ax_.plot(sizes, changed, "-", lw=1.2, color="C0", label="changed answers")
        for point in path:
            face = "C0" if point.is_certified else "white"
            self.ax_.plot(point.n_bytes, point.changed, "o", ms=5, color="C0", mfc=face)
        self.ax_.plot(self.measured.n_bytes, self.measured.changed, "o", ms=11, color="C0", mfc="none", label="chosen")
        if self.max_changed is not None:
            self.ax_.axhline(self.max_changed, ls=":", color="C0", label="promised")
        self.ax_.set(xlabel="bytes of the packed file", ylabel="share of rows with another answer", ylim=(0, None))
        self.ax_.set_xscale("log")
        self.accuracy_ax_ = None
        if all(point.accuracy is not None for point in path) and self.measured.full_accuracy is not None:
            self.accuracy_ax_ = self.ax_.twinx()
            self.accuracy_ax_.plot(sizes, [point.accuracy for point in path], "s--", ms=3, lw=1.0, color="C1")
            self.accuracy_ax_.axhline(self.measured.full_accuracy, ls=":", lw=1.0, color="C1")
            self.accuracy_ax_.set_ylabel("accuracy (dotted: the model's)", color="C1")
        self.ax_.legend(loc="upper right")
        return self
