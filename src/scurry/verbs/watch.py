"""The verb `scurry.watch`: a predictor whose promise is tested on the rows that it predicts."""

from __future__ import annotations

from scurry.checks import RandomState
from scurry.monitoring.watch import DEFAULT_SHARE, OnAlarm, Watch
from scurry.predictor import Predictor


def watch(
    predictor: Predictor,
    share: float = DEFAULT_SHARE,
    confidence: float = 0.95,
    window: int | None = None,
    random_state: RandomState = None,
    *,
    keep_rows: bool | int = True,
    on_alarm: OnAlarm = "warn",
    first_row: int = 0,
) -> Watch:
    """Test the promise of a predictor on the rows that it predicts, without labels, and raise an alarm once it fails.

    A promise holds for rows like the calibration rows. A random share of the rows to come is evaluated by the full
    model too. Their outcomes test whether the promise is kept, by bets that may be read at any time: if it is kept, an
    alarm is ever raised with probability ``1 - confidence`` at most, however long the stream is.

    Parameters
    ----------
    predictor : Predictor
        It must promise something about its answers.
    share : float in (0, 1], default 0.002
        The share of rows that the full model evaluates too: the shadow rows.
    confidence : float, default 0.95
        That no false alarm is ever raised.
    window : int, optional
        Shadow rows that the rate in `state` and its bounds are about, the latest; all by default. Alarms are about all.
    random_state : int, Generator, RandomState or None
        Draws the shadow rows.
    keep_rows : bool or int, default True
        How many of the latest shadow rows are kept for `recalibrate` and `explain`: 20,000, a number, or none (False).
    on_alarm : {"warn", "full", "widen"} or callable
        What happens at an alarm: a warning; every tree is evaluated; or thresholds are moved outward. A callable gets
        the state.
    first_row : int, default 0
        Number of the first row, or query. Watches of parts of a stream, each with the number at which its part begins
        and the same `random_state`, merge to the watch of the whole stream.

    Returns
    -------
    Watch
        With the predictor's `predict`, `predict_proba` and `run`, and `state`.

    Examples
    --------
    >>> import scurry
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_classification(9000, random_state=0)
    >>> model = RandomForestClassifier(21, max_depth=6, random_state=0).fit(X[:1000], y[:1000])
    >>> fast = scurry.early_exit(model, X[1000:5000], max_disagreement=0.02, random_state=0)
    >>> watch = scurry.watch(fast, share=0.2, random_state=0)
    >>> labels = watch.predict(X[5000:])
    >>> watch.state.alarm, watch.state.lower < 0.02
    (False, True)
    """
    return Watch.start(
        predictor,
        share=share,
        confidence=confidence,
        window=window,
        random_state=random_state,
        keep_rows=keep_rows,
        on_alarm=on_alarm,
        first_row=first_row,
    )
