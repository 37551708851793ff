"""Categories of CatBoost: how values are hashed, and splits on them as sets of categories.

A model knows a category only by a 32-bit hash of its text, so that the values must come from the user. A one-hot split
asks for one category. A target statistic (CTR) of one feature is a number for each category, which the model's tables
give, and a split compares it with a border: that too only divides the categories into two sets. A statistic of several
features at once cannot be written as such a set, and becomes a column (`combinations`).

A value that is not among the categories is one that the model has not seen: no one-hot split asks for it, and each
statistic has a number for all such values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.errors import FormatError, InputError, UnsupportedModelError
from scurry.importers.catboost.combinations import (
    MULTIPLIER,
    StatisticColumns,
    entries_of,
    is_combined,
    statistic_values,
)

_WORD = 2**64 - 1
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
    v, w = _seeded(text, n - 64, n, y), _seeded(text, n - 32, n * _P1, _P0)
    z += _shake(v[1]) * _P1
    x, y = _turn(z + x, 39) * _P1, _turn(y, 33) * _P1
    for start in range(0, (n - 1) // 64 * 64, 64):
        x = _turn(x + y + v[0] + _at(text, start + 16), 37) * _P1 ^ w[1]
        y = _turn(y + v[1] + _at(text, start + 48), 42) * _P1 ^ v[0]
        z = _turn(z & _WORD ^ w[0], 33)
        v = _seeded(text, start, v[1] * _P1, x + w[0])
        w = _seeded(text, start + 32, z + w[1], y)
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


def _seeded(text: bytes, start: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_at(text, start + 8 * i) for i in range(4))
    a += w
    b = _turn(b + a + z, 21)
    c, a = a, a + x + y
    return (a + z) & _WORD, (b + _turn(a, 44) + c) & _WORD
