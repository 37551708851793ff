"""Categories of CatBoost: how values are hashed, and splits on them as sets of categories.

A model knows a category only by a 32-bit hash of its text, so that the values must come from the user. A one-hot split
asks for one category. A target statistic (CTR) of one feature is a number for each category, which the model's tables
give, and a split compares it with a border: that too only divides the categories into two sets. A statistic of several
features at once cannot be written as such a set, and becomes a column.

A value that is not among the categories is one that the model has not seen: no one-hot split asks for it, and each
statistic has a number for all such values.

Target statistics of several features at once (CTRs of combinations) are columns that are computed of every row.
CatBoost mixes hashes of the elements of a combination, in this order: categories, whether numbers are above borders,
whether categories are certain ones. For the mixed hash its tables have counts, from which a statistic follows as it
does for a single feature (`statistic_values`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
        return [_sign(known) for known in self._hashes.get(self._categorical.index(column), [])]

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


def _sign(known: int) -> int:
    return known - 2**32 if known >= 2**31 else known


_P0, _P1, _P2, _P3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557


class CategorySets:
    """Categorical features of a model, and the sets of categories that its splits test for.

    Parameters
    ----------
    info : mapping
        The document's "features_info".
    tables : mapping
        The document's "ctr_data".
    names : list of str
        All features.
    given : mapping of str to array
        The user's values of categorical features, by name.

    Attributes
    ----------
    categories : dict of int to array
        As `Forest` has them.
    columns : StatisticColumns
        Those of statistics of several features, behind the features.
    """

    def __init__(
        self, info: Mapping[str, Any], tables: Mapping[str, Any], names: Sequence[str], given: Mapping[str, ArrayLike]
    ) -> None:
        features = info.get("categorical_features", [])
        self._column: list[int] = [feature["flat_feature_index"] for feature in features]
        self._floats: list[int] = [feature["flat_feature_index"] for feature in info.get("float_features", [])]
        self._names, self._tables, self._statistics = names, tables, info.get("ctrs", [])
        self._first_statistic = sum(len(feature["borders"]) for feature in info.get("float_features", []))
        self._first_statistic += sum(len(feature.get("values", [])) for feature in features)
        self._sets: dict[tuple[int, ...], int] = {}
        self.categories: dict[int, NDArray[Any]] = {j: np.array([]) for j in self._column}
        self._hashes: dict[int, list[int]] = {}
        titles = [names[j] for j in self._column]
        if unknown := given.keys() - set(titles):
            raise InputError(
                f"categories are given for {min(map(str, unknown))!r}, which is no categorical feature; "
                f"{'those are ' + ', '.join(map(repr, titles[:10])) if titles else 'the model has none'}",
                argument="categories",
            )
        used = {j for j, feature in zip(self._column, features, strict=True) if feature.get("values")}
        elements = [element for statistic in self._statistics for element in statistic["elements"]]
        used |= {self._column[of["cat_feature_index"]] for of in elements if "cat_feature_index" in of}
        if lacking := [names[j] for j in sorted(used) if names[j] not in given]:
            example = ", ".join(f"{name!r}: table[{name!r}].unique()" for name in lacking)
            raise InputError(
                f"the model keeps only hashes of the categories of {', '.join(map(repr, lacking))}; pass the values "
                f"it was trained on: scurry.from_model(model, categories={{{example}}}). Saved as .scurry, the forest "
                "keeps them, and every command takes that file",
                argument="categories",
            )
        for index, j in enumerate(self._column):
            if names[j] in given:
                values = np.asarray(given[names[j]])
                self.categories[j] = np.array(sorted(set(values.tolist())), None if values.dtype != object else object)
                self._hashes[index] = [_hash_value(value, names[j]) for value in self.categories[j].tolist()]
        self.columns = StatisticColumns(info, names, self._hashes)

    def one_hot(self, index: int, value: int) -> tuple[int, float, bool, int, bool]:
        """Return the split that asks for the category of a hash: that category goes left."""
        hashes = self._hashes[index]
        codes = [code for code, known in enumerate(hashes) if known == value & 0xFFFFFFFF]
        if not codes:
            self._refuse_unknown(index, 1)
        return self._column[index], 0.0, False, self._set_of(codes), True

    def ctr(self, split_index: int, border: float) -> tuple[int, float, bool, int, bool]:
        """Return the split that compares a statistic with a border.

        Values that the model has not seen must go right, as Forest sends what is in no set: where they belong to
        CatBoost's "false" side, the sides are exchanged.
        """
        at, number = split_index - self._first_statistic, 0
        while number < len(self._statistics) and at >= len(self._statistics[number]["borders"]):
            at -= len(self._statistics[number]["borders"])
            number += 1
        statistic = self._statistics[number] if number < len(self._statistics) and at >= 0 else None
        if statistic is None or np.float32(statistic["borders"][at]) != np.float32(border):
            raise FormatError(f"its split {split_index} is not in its lists of borders")
        table = self._table_of(statistic)
        if is_combined(statistic):  # the column of a statistic is above the border, or at most it (or NaN) and left
            return (
                len(self._names) + self.columns.ask(number, statistic, table),
                float(np.float32(border)),
                True,
                -1,
                False,
            )
        index = statistic["elements"][0]["cat_feature_index"]
        known, counts = entries_of(table)
        above = statistic_values(statistic, table, counts) > np.float32(border)
        entries = dict(zip(known.tolist(), above.tolist(), strict=False))
        keys = [_table_key(known) for known in self._hashes[index]]
        if absent := len(entries.keys() - set(keys)):
            self._refuse_unknown(index, absent)
        unseen = bool(above[-1])
        codes = [code for code, key in enumerate(keys) if entries.get(key, unseen) != unseen]
        return self._column[index], 0.0, False, self._set_of(codes), not unseen

    def arrays(self) -> dict[str, Any]:
        """Return `Forest`'s category_offset and category_bits."""
        words: list[NDArray[np.uint32]] = []
        for codes in self._sets:
            bits = np.zeros((max(codes, default=-1) // 32 + 1) * 32, np.uint64)
            bits[list(codes)] = 1
            words.append((bits.reshape(-1, 32) << np.arange(32, dtype=np.uint64)).sum(axis=1).astype(np.uint32))
        offset = np.cumsum([0, *map(len, words)])
        return {"category_offset": offset, "category_bits": np.concatenate([*words, np.zeros(0, np.uint32)])}

    def _set_of(self, codes: list[int]) -> int:
        return self._sets.setdefault(tuple(codes), len(self._sets))

    def _refuse_unknown(self, index: int, count: int) -> None:
        name = self._names[self._column[index]]
        raise InputError(
            f"the model was trained on {count} or more values of {name!r} that are not in categories[{name!r}]; pass "
            "all values of the training table, as they were there",
            argument="categories",
        )

    def _table_of(self, statistic: Mapping[str, Any]) -> Mapping[str, Any]:
        table: Mapping[str, Any] | None = self._tables.get(statistic["identifier"])
        if table is None:
            together = ", ".join(repr(self._name_of(element)) for element in statistic["elements"])
            raise UnsupportedModelError(
                f"this model has no table of its target statistics of {together}; train it without "
                "final_ctr_computation_mode='Skip', and save it as .cbm or JSON"
            )
        return table

    def _name_of(self, element: Mapping[str, Any]) -> str:
        if "float_feature_index" in element:
            return str(self._names[self._floats[element["float_feature_index"]]])
        return str(self._names[self._column[element["cat_feature_index"]]])


def _hash_value(value: Any, name: str) -> int:
    if isinstance(value, float):
        raise InputError(
            f"categories[{name!r}] has the fraction or missing value {value!r}; CatBoost has texts and integers for "
            "categories: pass them as they were in training",
            argument="categories",
        )
    # CatBoost knows booleans by the texts of 0 and 1.
    return city_hash(str(int(value) if isinstance(value, bool) else value).encode()) & 0xFFFFFFFF


def _table_key(known: int) -> int:
    signed = known - 2**32 if known >= 2**31 else known
    return MULTIPLIER * (MULTIPLIER * signed) & _WORD


def city_hash(text: bytes) -> int:
    """Return the 64-bit hash by which CatBoost knows a text: the first version of CityHash (Pike and Alakuijala, 2011).

    Parameters
    ----------
    text : bytes

    Returns
    -------
    int
    """
    n = len(text)
    if n > 64:
        return _hash_long(text)
    if n > 32:
        first = _fold(text, 0, _at(text, 0) + (n + _at(text, n - 16)) * _P0, _at(text, 24))
        second = _fold(text, n - 32, _at(text, 16) + _at(text, n - 32), _at(text, n - 8))
        mixed = _shake(((first[0] + second[1]) * _P2 + (second[0] + first[1]) * _P0) & _WORD)
        return _shake((mixed * _P0 + first[1]) & _WORD) * _P2 & _WORD
    if n > 16:
        a, b = _at(text, 0) * _P1 & _WORD, _at(text, 8)
        c, d = _at(text, n - 8) * _P2 & _WORD, _at(text, n - 16) * _P0
        return _pair(_turn(a - b, 43) + _turn(c, 30) + d, a + _turn(b ^ _P3, 20) - c + n)
    if n > 8:
        last = _at(text, n - 8)
        return _pair(_at(text, 0), _turn(last + n, n)) ^ last
    if n >= 4:
        return _pair(n + (_at(text, 0, 4) << 3), _at(text, n - 4, 4))
    if n > 0:
        front, back = text[0] + (text[n // 2] << 8), n + (text[-1] << 2)
        return _shake((front * _P2 ^ back * _P3) & _WORD) * _P2 & _WORD
    return _P2


def _hash_long(text: bytes) -> int:
    n = len(text)
    x, y, z = _at(text, 0), _at(text, n - 16) ^ _P1, _at(text, n - 56) ^ _P0
    v, w = _mix_seeds(text, n - 64, n, y), _mix_seeds(text, n - 32, n * _P1, _P0)
    z += _shake(v[1]) * _P1
    x, y = _turn(z + x, 39) * _P1, _turn(y, 33) * _P1
    for start in range(0, (n - 1) // 64 * 64, 64):
        x = _turn(x + y + v[0] + _at(text, start + 16), 37) * _P1 ^ w[1]
        y = _turn(y + v[1] + _at(text, start + 48), 42) * _P1 ^ v[0]
        z = _turn(z & _WORD ^ w[0], 33)
        v = _mix_seeds(text, start, v[1] * _P1, x + w[0])
        w = _mix_seeds(text, start + 32, z + w[1], y)
        z, x = x & _WORD, z
    return _pair(_pair(v[0], w[0]) + _shake(y & _WORD) * _P1 + z, _pair(v[1], w[1]) + x)


def _at(text: bytes, start: int, size: int = 8) -> int:
    return int.from_bytes(text[start : start + size], "little")


def _turn(value: int, by: int) -> int:
    value &= _WORD
    return (value >> by | value << (64 - by)) & _WORD


def _shake(value: int) -> int:
    return value ^ value >> 47


def _pair(low: int, high: int) -> int:
    multiplier = 0x9DDFEA08EB382D69
    high &= _WORD
    mixed = _shake(((low & _WORD) ^ high) * multiplier & _WORD)
    return _shake((high ^ mixed) * multiplier & _WORD) * multiplier & _WORD


def _fold(text: bytes, start: int, a: int, z: int) -> tuple[int, int]:
    """Return two words of half of a text of 33 to 64 bytes."""
    b, c = _turn(a + z, 52), _turn(a, 37)
    a += _at(text, start + 8)
    c += _turn(a, 7)
    a += _at(text, start + 16)
    return (a + z) & _WORD, (b + _turn(a, 31) + c) & _WORD


def _mix_seeds(text: bytes, start: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_at(text, start + 8 * i) for i in range(4))
    a += w
    b = _turn(b + a + z, 21)
    c, a = a, a + x + y
    return (a + z) & _WORD, (b + _turn(a, 44) + c) & _WORD
