"""Target statistics of several features at once (CTRs of combinations), as columns that are computed of every row.

CatBoost mixes hashes of the elements of a combination, in this order: categories, whether numbers are above borders,
whether categories are certain ones. For the mixed hash its tables have counts, from which a statistic follows as it
does for a single feature (`statistic_values`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scurry.errors import FormatError, InputError, UnsupportedModelError
from scurry.forest.combinations import ABOVE, ABOVE_OR_MISSING, CATEGORY, EQUALS, Combinations

MULTIPLIER = 0x4906BA494954CB65
_WORD = 2**64 - 1
_EMPTY = _WORD  # the key of a place of a table that is not used
_MAX_SUMS = 2**20  # of hashes that are held at once, to find out whether all categories are given
_MAX_TRIED = 2**23


def is_combined(statistic: Mapping[str, Any]) -> bool:
    """Return whether a statistic is of more than the category of one feature."""
    elements = statistic["elements"]
    return len(elements) > 1 or elements[0].get("combination_element", "cat_feature_value") != "cat_feature_value"


def entries_of(table: Mapping[str, Any]) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """Return the keys of a table, and the counts or sums of each; shapes (n,) and (n, n_counts)."""
    stride, flat = int(table["hash_stride"]), table["hash_map"]
    if stride < 1 or len(flat) % stride:
        raise FormatError("a table of target statistics ends within an entry")
    keys = np.array([int(key) for key in flat[::stride]], np.uint64)
    counts = np.array([flat[at::stride] for at in range(1, stride)], np.float64).reshape(stride - 1, len(keys)).T
    used = keys != np.uint64(_EMPTY)
    return keys[used], counts[used]


def statistic_values(
    statistic: Mapping[str, Any], table: Mapping[str, Any], counts: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Return a statistic for each row of counts, and last for what is not in its table, in float32 as CatBoost does."""
    kind, at = statistic["ctr_type"], int(statistic["target_border_idx"])
    good: Any
    total: Any
    if kind in ("Counter", "FeatureFreq"):
        good, total = counts[:, 0], np.full(len(counts), table["counter_denominator"], np.float64)
    elif kind == "Borders":
        good, total = counts[:, at + 1 :].sum(axis=1), counts.sum(axis=1)
    elif kind == "Buckets":
        good, total = counts[:, at], counts.sum(axis=1)
    elif kind in ("BinarizedTargetMeanValue", "FloatTargetMeanValue"):
        good, total = counts[:, 0], counts[:, 1]
    else:
        raise UnsupportedModelError(f"this model has target statistics of the unknown type {kind!r}")
    unseen = table["counter_denominator"] if kind in ("Counter", "FeatureFreq") else 0
    good, total = (np.append(part, last).astype(np.float32) for part, last in ((good, 0), (total, unseen)))
    terms = ("prior_numerator", "prior_denomerator", "shift", "scale")
    numerator, denominator, shift, scale = (np.float32(statistic[key]) for key in terms)
    with np.errstate(divide="ignore", invalid="ignore"):
        values: NDArray[np.float32] = ((good + numerator) / (total + denominator) + shift) * scale
    return values


class StatisticColumns:
    """Collects the statistics of combinations that splits ask for, each of which becomes a column.

    Parameters
    ----------
    info : mapping
        The document's "features_info".
    names : sequence of str
        All features.
    hashes : mapping of int to list of int
        For each categorical feature, by its index among those, the hashes of its categories.
    """

    def __init__(self, info: Mapping[str, Any], names: Sequence[str], hashes: Mapping[int, Sequence[int]]) -> None:
        self._names, self._hashes = names, hashes
        self._floats = info.get("float_features", [])
        self._categorical = [feature["flat_feature_index"] for feature in info.get("categorical_features", [])]
        self._columns: dict[int, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}

    def ask(self, number: int, statistic: Mapping[str, Any], table: Mapping[str, Any]) -> int:
        """Return which of the computed columns holds the statistic of a number."""
        self._columns.setdefault(number, (statistic, table))
        return list(self._columns).index(number)

    def build(self) -> tuple[Combinations | None, NDArray[np.intp]]:
        """Return what computes the columns, None if there is none, and the place of each column among those of it."""
        groups: dict[str, list[int]] = {}
        for at, (statistic, _) in enumerate(self._columns.values()):
            groups.setdefault(str([self._read(element) for element in statistic["elements"]]), []).append(at)
        if not groups:
            return None, np.zeros(0, np.intp)
        held = list(self._columns.values())
        elements, keys, values = [], [], []
        for columns in groups.values():
            elements.append([self._read(element) for element in held[columns[0]][0]["elements"]])
            found = [entries_of(held[at][1]) for at in columns]
            together = np.unique(np.concatenate([of for of, _ in found]))
            self._refuse_unknown(elements[-1], together)
            keys.append(together)
            for at, (own, counts) in zip(columns, found, strict=True):
                known = statistic_values(*held[at], counts)
                value = np.full(len(together) + 1, known[-1])
                value[np.searchsorted(together, own)] = known[:-1]
                values.append(value)
        codes = [self._codes_of(column) for column in range(len(self._names))]
        flat = [element for group in elements for element in group]
        column, kind, border, wanted = zip(*flat, strict=True)
        place = np.empty(len(held), np.intp)
        place[[at for columns in groups.values() for at in columns]] = np.arange(len(held))
        return Combinations(
            _offsets(codes),
            np.concatenate([np.array(one, np.int64) for one in codes]),
            _offsets(elements),
            np.array(column, np.int32),
            np.array(kind, np.uint8),
            np.array(border, np.float32),
            np.array(wanted, np.int64),
            _offsets(keys),
            np.concatenate(keys),
            _offsets(list(groups.values())),
            np.concatenate(values),
        ), place

    def titles(self, taken: Sequence[str]) -> list[str]:
        """Return a name for each column, in the order in which they were asked for, that is none of those taken."""
        titles: list[str] = []
        for statistic, _ in self._columns.values():
            parts = [self._title_of(element) for element in statistic["elements"]]
            title = f"{statistic['ctr_type']} of {', '.join(parts)}"
            while title in titles or title in taken:
                title += "'"
            titles.append(title)
        return titles

    def _title_of(self, element: Mapping[str, Any]) -> str:
        column, kind, border, _ = self._read(element)
        name = self._names[column]
        return name if kind == CATEGORY else f"one of {name}" if kind == EQUALS else f"{name} > {border:.6g}"

    def _codes_of(self, column: int) -> list[int]:
        if column not in self._categorical:
            return []
        return [_signed(known) for known in self._hashes.get(self._categorical.index(column), [])]

    def _read(self, element: Mapping[str, Any]) -> tuple[int, int, float, int]:
        """Return the column, kind, border and wanted hash of an element."""
        match element.get("combination_element", "cat_feature_value"):
            case "cat_feature_value":
                return self._categorical[element["cat_feature_index"]], CATEGORY, 0.0, 0
            case "cat_feature_exact_value":
                return self._categorical[element["cat_feature_index"]], EQUALS, 0.0, int(element["value"])
            case "float_feature":
                feature = self._floats[element["float_feature_index"]]
                kind = ABOVE_OR_MISSING if feature["nan_value_treatment"] == "AsTrue" else ABOVE
                return feature["flat_feature_index"], kind, float(np.float32(element["border"])), 0
            case other:
                raise UnsupportedModelError(
                    f"this model has target statistics of combinations with a {other!r}, which scurry does not know; "
                    "train it with max_ctr_complexity=1"
                )

    def _refuse_unknown(self, elements: Sequence[tuple[int, int, float, int]], keys: NDArray[np.uint64]) -> None:
        """Raise if the categories that are given cannot make some key.

        A key is a sum of one term for each element, so that keys less the terms of some elements must be sums of the
        others. Of tables for which that takes too long, only some keys are looked at.
        """
        held, rest = np.zeros(1, np.uint64), np.zeros(1, np.uint64)
        factor = MULTIPLIER
        for column, kind, _, _ in reversed(elements):
            factor = factor * MULTIPLIER & _WORD
            own = np.array(self._codes_of(column), np.int64) if kind == CATEGORY else np.array([0, 1])
            terms = own.astype(np.uint64) * np.uint64(factor)
            if len(held) * len(terms) <= _MAX_SUMS:
                held = (held[:, None] + terms).ravel()
            else:
                rest = (rest[:, None] + terms).ravel()[:_MAX_TRIED]
        tried = keys[:: max(1, len(keys) * len(rest) // _MAX_TRIED)]
        found = np.zeros(len(tried), np.bool_)
        for term in rest:
            found |= np.isin(tried - term, held)
        if not found.all():
            named = sorted({self._names[column] for column, kind, _, _ in elements if kind == CATEGORY})
            raise InputError(
                f"the model was trained on combinations of {' and '.join(map(repr, named))} with values that are not "
                "in categories; pass all values of the training table, as they were there",
                argument="categories",
            )


def _offsets(parts: Sequence[Any]) -> NDArray[np.int64]:
    return np.cumsum([0, *map(len, parts)])


def _signed(known: int) -> int:
    return known - 2**32 if known >= 2**31 else known
