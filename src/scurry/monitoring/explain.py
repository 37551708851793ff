"""Explanation: where changed rows concentrate, and which features left what the calibration rows looked like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.forest import Forest
from scurry.formatting import align, format_number, format_share
from scurry.monitoring.record import Kept
from scurry.monitoring.state import State, Tally
from scurry.predictor import Predictor
from scurry.promises import RowSummary

_RISK = 0.01  # that a feature is named although nothing has changed, over all features
_N_NAMED = 5  # features and kinds of rows that are named in a text
_N_CATEGORIES = 3  # of one feature


class Drift(NamedTuple):
    """How a feature of the shadow rows differs from that of the calibration rows.

    Attributes
    ----------
    name : str
    distance : float
        How far the two distributions are apart, at least: the largest difference of shares of rows on one side of a
        value, or of shares of rows in which the feature is missing.
    limit : float
        What chance explains.
    text : str
        Where they differ most.
    """

    name: str
    distance: float
    limit: float
    text: str

    @property
    def is_drift(self) -> bool:
        """Whether chance does not explain it."""
        return self.distance > self.limit


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Where changed rows concentrate.

    Attributes
    ----------
    n_rows : int
        Shadow rows that features are compared on: those since the promise began to fail, or all that are kept.
    features : tuple of Drift
        Features of the forest, those that differ most first; empty if no rows are kept, or the certificate has no
        summary of its rows.
    by_class, by_trees : tuple of Tally
        Shadow rows by class and by number of trees, those with the most changed rows first.
    rate : float
        Share of all shadow rows that changed.
    note : str
        Why features are missing, where they are.
    """

    n_rows: int
    features: tuple[Drift, ...]
    by_class: tuple[Tally, ...]
    by_trees: tuple[Tally, ...]
    rate: float
    note: str = ""

    @property
    def drifted(self) -> tuple[Drift, ...]:
        """Features whose difference chance does not explain."""
        return tuple(drift for drift in self.features if drift.is_drift)

    def describe(self) -> str:
        """Return the explanation as a text."""
        lines = {}
        if self.features:
            found = self.drifted
            lines["features"] = (
                f"{len(found)} of {len(self.features)} left the calibration rows ({self.n_rows:,} shadow rows)"
            )
            lines |= {drift.name: drift.text for drift in found[:_N_NAMED]}
        else:
            lines["features"] = self.note
        for name, tallies in (("class", self.by_class), ("stopped after", self.by_trees)):
            for tally in [tally for tally in tallies if tally.n_changed][:_N_NAMED]:
                times = f", {format_number(tally.rate / self.rate)} times the mean" if self.rate else ""
                what = repr(tally.name) if name == "class" else f"{tally.name} tree{'s' * (tally.name != 1)}"
                lines[f"{name} {what}"] = (
                    f"{tally.n_changed:,} of {tally.n_shadow:,} shadow rows changed ({format_share(tally.rate)}{times})"
                )
        return align(lines)

    __str__ = describe


def explain(predictor: Predictor, state: State, kept: Kept) -> Explanation:
    """Return where changed rows concentrate.

    Parameters
    ----------
    predictor : Predictor
    state : State
    kept : Kept
        Shadow rows.
    """
    forest, certificate = predictor.forest, predictor.certificate
    recent = kept if state.onset is None else kept.where(kept.numbers >= state.onset)
    recent = recent if len(recent) else kept
    summary = None if certificate is None else certificate.rows
    note = ""
    if not state.n_shadow:
        note = "there are no shadow rows yet"
    elif not len(kept):
        note = "no shadow rows are kept, so that features cannot be compared"
    elif summary is None or summary.quantiles.shape[0] != forest.n_features:
        note = "the certificate has no summary of its calibration rows"
    features = [] if note or summary is None else compare_features(forest, summary, recent.rows)
    return Explanation(
        n_rows=len(recent),
        features=tuple(sorted(features, key=lambda drift: -drift.distance)),
        by_class=_sort(state.by_class),
        by_trees=_sort(state.by_trees),
        rate=state.n_changed / max(state.n_shadow, 1),
        note=note,
    )


def compare_features(forest: Forest, summary: RowSummary, rows: NDArray[np.floating]) -> list[Drift]:
    """Return how each feature of rows differs from that of the calibration rows.

    Quantiles say of values that many rows share only how many rows they have at the least. So distances are least
    ones too. The limit is that of Dvoretzky, Kiefer, Wolfowitz and Massart for each of the two samples, over all
    features.
    """
    n_features = forest.n_features
    spread = math.sqrt(math.log(4 * n_features / _RISK) / 2)
    limit = spread / math.sqrt(len(rows)) + spread / math.sqrt(max(summary.n_rows, 1))
    # The summary was made in float32.
    values = np.asarray(rows).astype(np.float32).astype(np.float64)
    return [
        _compare(
            str(forest.titles[j]),
            values[:, j],
            summary.quantiles[j],
            float(summary.missing[j]),
            limit,
            forest.categories.get(j, ()),
        )
        for j in range(n_features)
    ]


def _compare(
    name: str,
    values: NDArray[np.float64],
    quantiles: NDArray[np.float64],
    missing: float,
    limit: float,
    categories: Sequence[Any] | NDArray[Any],
) -> Drift:
    is_missing = np.isnan(values)
    share = float(is_missing.mean())
    drift = Drift(
        name,
        abs(share - missing),
        limit,
        f"missing or unknown in {format_share(share)} of shadow rows, in {format_share(missing)} of calibration rows",
    )
    known = np.sort(values[~is_missing])
    if not len(known) or np.isnan(quantiles).any():
        return drift
    levels = np.linspace(0, 1, len(quantiles))
    # At most `level` of the calibration rows are below a quantile, and at least that many are not above it.
    below = known.searchsorted(quantiles, "left") / len(known)
    not_above = known.searchsorted(quantiles, "right") / len(known)
    fallen, risen = below - levels, levels - not_above
    at = int(fallen.argmax()) if fallen.max() >= risen.max() else int(risen.argmax())
    distance = float(max(fallen[at], risen[at]))
    if distance <= drift.distance:
        return drift
    value, is_below = float(quantiles[at]), fallen[at] >= risen[at]
    ours, most = (below[at], levels[at]) if is_below else (1 - not_above[at], 1 - levels[at])
    if len(categories):
        # Rows hold codes, which mean nothing to a reader.
        side = known[known < value] if is_below else known[known > value]
        where = f"have {_name_categories(side, categories)}"
    else:
        where = f"are {'below' if is_below else 'above'} {format_number(value)}"
    text = f"{format_share(ours)} of shadow rows {where}, at most {format_share(most)} of calibration rows"
    return Drift(name, distance, limit, text)


def _name_categories(codes: NDArray[np.float64], categories: Sequence[Any] | NDArray[Any]) -> str:
    """Return the categories that these codes stand for as a text, the most frequent first."""
    found, counts = np.unique(codes, return_counts=True)
    is_known = (found >= 0) & (found < len(categories))
    ordered = found[is_known][np.argsort(-counts[is_known], kind="stable")].astype(np.intp).tolist()
    names = [repr(np.asarray(categories)[code].item()) for code in ordered[:_N_CATEGORIES]]
    n_others = len(ordered) - len(names)
    if n_others:
        names.append(f"one of {n_others} other categor{'y' if n_others == 1 else 'ies'}")
    if not is_known.all():
        names.append("a value that is none of the model's categories")
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _sort(tallies: tuple[Tally, ...]) -> tuple[Tally, ...]:
    return tuple(sorted(tallies, key=lambda tally: -tally.n_changed))
