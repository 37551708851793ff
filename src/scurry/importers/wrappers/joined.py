"""Joined: the trees of several forests as one forest that compares as each of them does.

The values of the joined forest are a sum that stands for what the wrapper computes. Where the members' probabilities
are means over trees and the wrapper averages them, it is the same number up to rounding. Otherwise it is the sum of
log-odds, and probabilities count by the slope of log-odds at one half. Early exits stop rows by it; labels of rows that
do not stop come from the members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scurry.errors import UnsupportedModelError
from scurry.forest import ARRAYS, NODE_ARRAYS, Calibrated, Forest, float_type_of_arrays

FloatArray = NDArray[np.float64]

_SAME = ("n_features", "encode_numbers", "feature_names")


class Contribution(NamedTuple):
    """What the nodes of a member add to a joined score.

    Attributes
    ----------
    value : float64 array of shape (n_nodes, n_columns)
    base : float64 array of shape (n_outputs,)
    output : int32 array of shape (n_trees,)
        -1 where the value has a column for each output.
    """

    value: FloatArray
    base: FloatArray
    output: NDArray[np.int32]

    def scale(self, factor: float) -> Contribution:
        """Return the same, times a factor."""
        return Contribution(self.value * factor, self.base * factor, self.output)

    def place(self, columns: NDArray[Any], n_outputs: int, n_nodes: NDArray[np.int64]) -> Contribution:
        """Return the same with a column for each of `n_outputs`; these are at `columns`."""
        value, base = np.zeros((len(self.value), n_outputs)), np.zeros(n_outputs)
        if self.output[0] < 0:
            value[:, columns] = self.value
        else:
            value[np.arange(len(value)), np.repeat(np.asarray(columns)[self.output], n_nodes)] = self.value[:, 0]
        base[columns] = self.base
        return Contribution(value, base, np.full(len(self.output), -1, np.int32))


def align(forests: Sequence[Forest], kind: str) -> list[Forest]:
    """Return forests that compare rows of the same type in the same way, each as before.

    Raises
    ------
    UnsupportedModelError
        If they read different rows.
    """
    first = forests[0]
    if len(forests) == 1:
        return [first]
    if any(forest.front is not None for forest in forests):
        raise UnsupportedModelError(
            f"the models in this {kind} have transformers of their own that cannot be folded into trees; put one "
            "transformer in front of all of them: make_pipeline(transformer, wrapper)"
        )
    for forest in forests[1:]:
        different = [name for name in _SAME if getattr(forest, name) != getattr(first, name)]
        if different or not _same_categories(forest, first):
            what = different[0] if different else "categories"
            raise UnsupportedModelError(
                f"the models in this {kind} read rows of different {what}; import them one by one"
            )
    if len({forest.category_rounding for forest in forests if (forest.category_set >= 0).any()}) > 1:
        raise UnsupportedModelError(
            f"the models in this {kind} round numbers to different categories; import them one by one"
        )
    forests = _share_raw_rows(forests, kind)
    wide = [forest for forest in forests if forest.input_dtype == "float64"]
    # A forest of float32 inputs will round integers in its thresholds, whatever they are rounded to before.
    roundings = {forest.integer_dtype for forest in wide}
    if len(roundings) > 1:
        raise UnsupportedModelError(
            f"the models in this {kind} round integers to different floats, as LightGBM and HistGradientBoosting do; "
            "import them one by one"
        )
    if len({(forest.input_dtype, forest.comparison) for forest in forests}) == 1:
        return list(forests)
    aligned = [_compare_as(forest, "float64" if wide else "float32", kind) for forest in forests]
    return [forest.replace(integer_dtype=min(roundings, default="float32")) for forest in aligned]


def _share_raw_rows(forests: Sequence[Forest], kind: str) -> Sequence[Forest]:
    """Return forests of folded pipelines that take only the rows that all of them take."""
    given = [forest.raw_rows for forest in forests if forest.raw_rows is not None]
    if not given:
        return forests
    numeric = [at for at in range(forests[0].n_given) if at not in forests[0].categories]
    blocks = tuple(dict.fromkeys(block for raw in given for block in raw.rules(numeric)))
    limits = {feature: limit for raw in given for feature, limit in raw.missing_upto.items()}
    same_limits = all(_follows(forest, feature, limit) for forest in forests for feature, limit in limits.items())
    about = {(*raw.missing_codes.items(), -1, *raw.known_only) for raw in given}
    if len(about) > 1 or not same_limits:
        raise UnsupportedModelError(f"the pipelines in this {kind} take different rows; import them one by one")
    shared = replace(
        given[0],
        dtype=float_type_of_arrays(blocks),
        wide_only=any(raw.wide_only for raw in given),
        missing_upto=limits,
        unread=tuple(sorted(set.intersection(*(set(raw.unread) for raw in given)))),
        blocks=blocks,
        both_missing=tuple(sorted({feature for raw in given for feature in raw.both_missing})),
    )
    return [forest.replace(raw_rows=shared) for forest in forests]


def _follows(forest: Forest, feature: int, limit: float) -> bool:
    """Return whether numbers up to a limit go where missing values go, at every node of a feature."""
    known = {} if forest.raw_rows is None else forest.raw_rows.missing_upto
    if feature in known:
        return known[feature] == limit
    at = (forest.feature == feature) & (forest.left >= 0)
    return bool((forest.default_left[at] & (forest.threshold[at] >= limit)).all())


def _same_categories(one: Forest, other: Forest) -> bool:
    if one.categories.keys() != other.categories.keys():
        return False
    return all(np.array_equal(values, other.categories[feature]) for feature, values in one.categories.items())


def _compare_as(forest: Forest, input_dtype: str, kind: str) -> Forest:
    """Return the forest with ``<=`` and this type of inputs, each row at the same leaves as before."""
    if (forest.input_dtype, forest.comparison) == (input_dtype, "<="):
        return forest
    if (forest.category_set >= 0).any():
        raise UnsupportedModelError(
            f"the models in this {kind} read categories in different precisions; import them one by one"
        )
    fields = {
        "threshold": last_left(forest.threshold, forest.input_dtype, forest.comparison, input_dtype),
        "input_dtype": input_dtype,
        "comparison": "<=",
    }
    if forest.wrapper is None or not forest.wrapper.members:
        return forest.replace(**fields)
    members = tuple(_compare_as(member, input_dtype, kind) for member in forest.wrapper.members)
    return forest.replace(**fields, wrapper=replace(forest.wrapper, members=members))


def last_left(threshold: FloatArray, own: str, comparison: str, wanted: str) -> FloatArray:
    """Return the largest numbers of type `wanted` that go left where rows are rounded to type `own` first."""
    real = np.dtype(own).type
    with np.errstate(over="ignore", under="ignore"):
        below = threshold.astype(real)
        too_high = below.astype(np.float64) >= threshold if comparison == "<" else below.astype(np.float64) > threshold
        below = np.where(too_high, np.nextafter(below, real(-np.inf)), below)
        if own == wanted or own == "float64":
            return below.astype(np.float64)
        # The numbers that are rounded to a float32 end halfway to the next one, with the half if the float is even.
        above = np.nextafter(below, real(np.inf))
        finite = np.where(np.isinf(above), np.float64(2.0**128), above.astype(np.float64))
        half = below.astype(np.float64) / 2 + finite / 2
        even = (below.view(np.int32) & 1) == 0  # infinities too
        half = np.where(np.isneginf(below), -(2.0**128) + 2.0**103, half)
        return np.where(even, half, np.nextafter(half, -np.inf))


def join(forests: Sequence[Forest], parts: Sequence[Contribution]) -> dict[str, Any]:
    """Return the fields of a forest with the trees of aligned forests, whose nodes add what `parts` say."""
    first = forests[0]
    sizes = np.cumsum([0, *(forest.n_nodes for forest in forests)])
    n_sets = np.cumsum([0, *(len(forest.category_offset) - 1 for forest in forests)])
    n_words = np.cumsum([0, *(len(forest.category_bits) for forest in forests)])
    arrays = {name: np.concatenate([getattr(f, name) for f in forests]) for name in NODE_ARRAYS}
    shift = np.repeat(sizes[:-1], np.diff(sizes))
    for side in ("left", "right"):
        arrays[side] = np.where(arrays[side] < 0, -1, arrays[side] + shift)
    sets = arrays["category_set"]
    arrays["category_set"] = np.where(sets < 0, -1, sets + np.repeat(n_sets[:-1], np.diff(sizes)))
    offsets = [forest.category_offset[1:] + n for forest, n in zip(forests, n_words[:-1], strict=True)]
    arrays |= {
        "tree_offset": np.concatenate(
            [[0], *(forest.tree_offset[1:] + n for forest, n in zip(forests, sizes[:-1], strict=True))]
        ),
        "category_offset": np.concatenate([[0], *offsets]),
        "category_bits": np.concatenate([forest.category_bits for forest in forests]),
        "value": np.concatenate([part.value for part in parts]),
        "tree_output": np.concatenate([part.output for part in parts]),
        "base_score": np.sum([part.base for part in parts], axis=0),
    }
    assert arrays.keys() == ARRAYS.keys()
    header = ("n_features", "input_dtype", "comparison", "integer_dtype")
    roundings = [forest.category_rounding for forest in forests if (forest.category_set >= 0).any()]
    return arrays | {name: getattr(first, name) for name in header} | {"category_rounding": (*roundings, "floor")[0]}


def build(like: Forest, fields: dict[str, Any], **more: Any) -> Forest:
    """Return the forest of joined fields, which reads rows as `like` does."""
    about = ("feature_names", "categories", "raw_rows", "front", "encode_numbers")
    return Forest(**fields, **{name: getattr(like, name) for name in about}, **more)


def place_features(
    forest: Forest, features: NDArray[Any], n_features: int, names: Sequence[str] | None, kind: str
) -> Forest:
    """Return a forest that reads these columns of wider rows."""
    if np.array_equal(features, np.arange(n_features)):
        return forest if names is None else forest.replace(feature_names=names)
    if forest.front is not None or forest.raw_rows is not None or (forest.wrapper and forest.wrapper.members):
        raise UnsupportedModelError(
            f"the models in this {kind} are no plain tree ensembles, and each reads other columns; fit it with "
            "max_features=1.0"
        )
    return forest.replace(
        feature=np.where(forest.left >= 0, features[np.maximum(forest.feature, 0)], -1),
        n_features=n_features,
        feature_names=names,
        categories={int(features[at]): values for at, values in forest.categories.items()},
    )


def trees_of(members: Sequence[Forest], n_classes: int) -> list[Contribution]:
    """Return what the nodes of single trees add to a mean over all trees."""
    own = [Contribution(member.leaf_values(), member.base_score, member.tree_output) for member in members]
    if n_classes == 0:
        return own
    sizes = [np.diff(member.tree_offset) for member in members]
    placed = zip(own, members, sizes, strict=True)
    return [part.place(np.asarray(member.classes), n_classes, size) for part, member, size in placed]


def is_mean(forest: Forest) -> bool:
    """Return whether a classifier's probabilities are means over its trees."""
    return forest.link == "identity" and forest.aggregation != "sum" and forest.n_outputs == forest.n_classes > 1


def own_scores(forest: Forest) -> Contribution:
    """Return what nodes add to the forest's own scores."""
    divisor = forest.score_divisor
    return Contribution(forest.leaf_values() / divisor, forest.base_score / divisor, forest.tree_output)


def log_odds(forest: Forest) -> Contribution:
    """Return what nodes add to the log-odds of the classes: one output for two classes, else one for each."""
    own, n = own_scores(forest), forest.n_classes
    if n > 2:
        return affine(own, n, -1.0) if is_mean(forest) else own.scale(forest.link_scale)
    if forest.n_outputs == 2:
        if own.output[0] < 0:
            lead = Contribution(own.value[:, 1:] - own.value[:, :1], own.base[1:] - own.base[:1], own.output)
        else:
            sign = np.repeat(2 * own.output - 1, np.diff(forest.tree_offset))[:, None]
            lead = Contribution(own.value * sign, own.base[1:] - own.base[:1], np.zeros_like(own.output))
        return single(lead.scale(2.0 if is_mean(forest) else forest.link_scale))
    if isinstance(forest.wrapper, Calibrated) and not forest.wrapper.members:
        return affine(own, *line(forest.wrapper, 0))
    if forest.link == "logistic":
        return single(affine(own, forest.link_scale, -forest.link_scale * forest.decision_threshold))
    return single(affine(own, 4.0, -4.0 * forest.decision_threshold))


def single(part: Contribution) -> Contribution:
    """Return the same, of which each tree adds to the only output."""
    return Contribution(part.value, part.base, np.full(len(part.output), -1, np.int32))


def affine(part: Contribution, slope: float, intercept: float) -> Contribution:
    """Return what nodes add to ``slope * score + intercept``."""
    return Contribution(part.value * slope, part.base * slope + intercept, part.output)


def line(wrapper: Calibrated, at: int) -> tuple[float, float]:
    """Return slope and intercept of the log-odds that a calibration makes of a response, as good as a line can."""
    one = wrapper.maps[at if len(wrapper.maps) > 1 else 0]
    if wrapper.method == "sigmoid":
        return -one[0], -one[1]
    if wrapper.method == "temperature":
        return (4.0 * one[0], -2.0 * one[0]) if wrapper.response == "probability" else (2.0 * one[0], 0.0)
    places, heights = np.array(one).reshape(2, -1)
    odds = np.log((heights + 0.01) / (1.01 - heights))
    spread = places - places.mean()
    slope = float(spread @ odds / (spread @ spread)) if spread.any() else 0.0
    return slope, float(odds.mean() - slope * places.mean())


def mean_fields(forests: Sequence[Forest], weights: Sequence[float], n_classes: int) -> dict[str, Any]:
    """Return the joined forest of members whose probabilities are averaged, or whose labels are counted."""
    total, n_trees = float(np.sum(weights)), sum(forest.n_trees for forest in forests)
    shares = [weight / total for weight in weights]
    sizes = [np.diff(forest.tree_offset) for forest in forests]
    if n_classes == 0:
        parts = [own_scores(f).scale(share) for f, share in zip(forests, shares, strict=True)]
        return join(forests, [single(part) for part in parts]) | {"aggregation": "sum"}
    if all(is_mean(forest) for forest in forests):
        parts = [
            own_scores(forest).scale(share * n_trees).place(np.asarray(forest.classes), n_classes, size)
            for forest, share, size in zip(forests, shares, sizes, strict=True)
        ]
        return join(forests, parts) | {"aggregation": "mean"}
    parts = [log_odds(forest).scale(share) for forest, share in zip(forests, shares, strict=True)]
    if n_classes == 2 and all(forest.n_classes == 2 for forest in forests):
        return join(forests, parts) | {"aggregation": "sum", "link": "logistic", "label_from": "score"}
    whole = all(forest.n_classes == n_classes for forest in forests)
    if not whole or len({part.output[0] < 0 for part in parts}) > 1:
        parts = [
            spread_classes(part, forest, n_classes, size)
            for part, forest, size in zip(parts, forests, sizes, strict=True)
        ]
    return join(forests, parts) | {"aggregation": "sum", "link": "softmax", "label_from": "score"}


def spread_classes(part: Contribution, forest: Forest, n_classes: int, sizes: NDArray[np.int64]) -> Contribution:
    """Return what nodes add to the scores of all classes, of which the forest may know some only."""
    columns = np.asarray(forest.classes)
    if forest.n_classes == 2:
        both = Contribution(np.hstack([-part.value, part.value]) / 2, np.append(-part.base, part.base) / 2, part.output)
        return both.place(columns, n_classes, sizes)
    if forest.n_classes == 1:
        return Contribution(np.zeros((forest.n_nodes, n_classes)), np.zeros(n_classes), part.output)
    return part.place(columns, n_classes, sizes)


def answers_float32(model: Any) -> bool:
    """Return whether the probabilities or values of a model are float32 numbers: XGBoost's are."""
    return any(cls.__module__.startswith("xgboost") for cls in type(model).__mro__)
