"""Structure: the fields of a forest, what follows from them, and the checks that every Forest has passed.

`ForestFields` stands below `Forest` so that checks and rows can read a forest's fields without knowing the class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import UnionType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry.checks import check_choice, check_instance
from scurry.errors import InputError
from scurry.forest.combinations import Combinations
from scurry.forest.front import Front, RawRows
from scurry.forest.wrappers import Wrapper

CHOICES: dict[str, tuple[str, ...]] = {
    "aggregation": ("mean", "vote", "sum"),
    "input_dtype": ("float32", "float64"),
    "score_dtype": ("float32", "float64"),
    "comparison": ("<=", "<"),
    "link": ("identity", "logistic", "softmax", "logistic-each", "exp", "signed-square", "log1p-exp", "step"),
    "label_from": ("probability", "score"),
    "category_rounding": ("floor", "trunc"),
}
NODE_ARRAYS: dict[str, type] = {
    "feature": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "default_left": np.bool_,
    "cover": np.float64,
    "missing": np.uint8,
    "category_set": np.int32,
}
"""Arrays with one number for each node, and their types."""
ARRAYS: dict[str, type] = NODE_ARRAYS | {
    "tree_offset": np.int64,
    "value": np.float64,
    "tree_output": np.int32,
    "base_score": np.float64,
    "category_offset": np.int64,
    "category_bits": np.uint32,
}
HEADER: dict[str, type | UnionType] = (
    {"n_features": int, "encode_numbers": bool}
    | dict.fromkeys(CHOICES, str)
    | dict.fromkeys(("link_scale", "decision_threshold"), int | float)
)
"""Single values that the core reads too; files write each as JSON of this type."""

MISSING_NAN, MISSING_ZERO, MISSING_NONE = 0, 1, 2
ZERO = float(np.float32(1e-35))
"""Largest magnitude that counts as zero where zero means missing: LightGBM's constant, which is a float32."""
MAX_NODES = 2**31 - 2  # node indices are int32, and -1 is taken
MAX_FEATURES = 2**31 - 1
_LARGEST_SUM = 2**31 - 2  # early exits count in 32-bit integers
MAX_CATEGORY_WORDS = 2**24 // 32  # category codes beyond 2**24 are no longer whole numbers in float32


class ForestFields:
    """Arrays and header fields of a forest, and what follows from them; `scurry.Forest` documents them."""

    tree_offset: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]
    default_left: NDArray[np.bool_]
    cover: NDArray[np.float64]
    missing: NDArray[np.uint8]
    tree_output: NDArray[np.int32]
    base_score: NDArray[np.float64]
    category_set: NDArray[np.int32]
    category_offset: NDArray[np.int64]
    category_bits: NDArray[np.uint32]
    n_features: int
    classes: NDArray[Any] | None
    aggregation: str
    comparison: str
    input_dtype: str
    score_dtype: str
    link: str
    link_scale: float
    label_from: str
    decision_threshold: float
    category_rounding: str
    encode_numbers: bool
    integer_dtype: str
    raw_rows: RawRows | None
    front: Front | Combinations | None
    wrapper: Wrapper | None
    is_encoded: bool
    feature_names: tuple[str, ...] | None
    categories: Mapping[int, NDArray[Any]]

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_offset) - 1

    @property
    def n_nodes(self) -> int:
        """Number of nodes over all trees, leaves included."""
        return int(self.tree_offset[-1])

    @property
    def n_columns(self) -> int:
        """Number of values of a node: one for each output, or 1 if each tree serves a single one."""
        return int(self.value.shape[1])

    @property
    def n_given(self) -> int:
        """Number of columns that rows have: the features that are not computed."""
        return self.n_features - (self.front.n_outputs if isinstance(self.front, Combinations) else 0)

    @property
    def n_outputs(self) -> int:
        """Number of scores per row."""
        return len(self.base_score)

    @property
    def absent_value(self) -> float:
        """What an entry is that a sparse matrix does not hold: NaN for XGBoost, 0 for the others.

        XGBoost is the one source that compares with ``<`` and takes sparse matrices.
        """
        return np.nan if self.comparison == "<" else 0.0

    @property
    def is_classifier(self) -> bool:
        """Whether predictions are labels."""
        return self.classes is not None

    @property
    def n_classes(self) -> int:
        """Number of classes, 0 for a regressor."""
        return 0 if self.classes is None else len(self.classes)

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Whether each node is a leaf."""
        return self.left < 0

    @property
    def node_depth(self) -> NDArray[np.int32]:
        """Edges from the root to each node, shape (n_nodes,)."""
        depth: NDArray[np.int32] = getattr(self, "_node_depth")  # noqa: B009
        return depth

    @cached_property
    def tree_depth(self) -> NDArray[np.int32]:
        """Depth of each tree, shape (n_trees,); a single leaf has depth 0."""
        depth = np.maximum.reduceat(self.node_depth, self.tree_offset[:-1])
        depth.flags.writeable = False
        return depth

    @property
    def max_depth(self) -> int:
        """Depth of the deepest tree."""
        return int(self.tree_depth.max())

    @cached_property
    def parent(self) -> NDArray[np.int32]:
        """Parent of each node, -1 at roots; int32 array of shape (n_nodes,)."""
        parent = np.full(self.n_nodes, -1, np.int32)
        inner = np.flatnonzero(self.left >= 0).astype(np.int32)
        parent[self.left[inner]] = parent[self.right[inner]] = inner
        parent.flags.writeable = False
        return parent

    @cached_property
    def trees_per_round(self) -> int:
        """Number of trees in a round: the fewest, in the forest's own order, that serve every output equally often.

        1 where the values of a tree have a column for every output.
        """
        output = self.tree_output
        if output[0] < 0:
            return 1
        # A multiple of n_outputs: XGBoost's num_parallel_tree grows several trees per class before the next round.
        for size in range(self.n_outputs, self.n_trees, self.n_outputs):
            if self.n_trees % size == 0:
                rounds = np.sort(output.reshape(-1, size), axis=1)
                if (rounds == rounds[0]).all():
                    return size
        return self.n_trees

    @property
    def n_rounds(self) -> int:
        """Number of rounds. A round evaluates one tree, or one per output (or several) where each serves one output."""
        return self.n_trees // self.trees_per_round

    def trees_of(self, rounds: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return an order of all rounds, or of all trees, as an order of trees; shape (n_trees,)."""
        size = self.n_trees // len(rounds)
        return (rounds[:, None] * size + np.arange(size)).ravel().astype(np.int32)

    @property
    def score_divisor(self) -> int:
        """What a row's sums are divided by to give its scores: the trees behind each output, 1 where they are added."""
        if self.aggregation == "sum":
            return 1
        return self.n_trees if self.tree_output[0] < 0 else self.n_trees // self.n_outputs

    @property
    def names(self) -> Sequence[str | int]:
        """Name of each feature, or its index in a forest without names; shape (n_features,)."""
        return self.feature_names if self.feature_names is not None else range(self.n_features)

    def name_of(self, feature: int) -> str | int:
        """Return the name of a feature, or its index in a forest without names."""
        return self.names[feature]

    @property
    def titles(self) -> Sequence[str]:
        """What tables and plots call each feature: its name, or "column 0", … in a forest without names."""
        return self.feature_names or [f"column {feature}" for feature in range(self.n_features)]

    def codes_of(self, labels: ArrayLike, name: str = "y") -> NDArray[np.int32]:
        """Return the index of each label among the forest's classes.

        Parameters
        ----------
        labels : array of shape (n_rows,)
        name : str, default "y"
            What messages call the labels.

        Returns
        -------
        int32 array of shape (n_rows,)

        Raises
        ------
        InputError
            If a label is missing, or is not one of the classes.

        Examples
        --------
        >>> import scurry
        >>> forest = scurry.Forest.from_trees([{"feature": [-1], "threshold": [0], "left": [-1], "right": [-1],
        ...                                     "value": [[0.7, 0.3]]}], classes=["no", "yes"])
        >>> forest.codes_of(["yes", "no"])
        array([1, 0], dtype=int32)
        """
        return label_codes(self.classes, labels, name)

    def most_of_trees(self, number_of: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the largest number of the leaves of each tree, or 0; `number_of` makes them of `leaf_values`."""
        of_node = np.where(self.is_leaf, number_of(self.leaf_values()), 0.0)
        return np.maximum.reduceat(of_node, self.tree_offset[:-1])

    def leaf_values(self) -> NDArray[np.float64]:
        """Return what each node, as a leaf, adds to the sums: its values, or its one-hot vote.

        Returns
        -------
        float64 array of shape (n_nodes, n_columns)
        """
        if self.aggregation != "vote":
            return self.value
        votes = np.zeros_like(self.value)
        votes[np.arange(self.n_nodes), self.value.argmax(axis=1)] = 1.0
        return votes

    @property
    def score_threshold(self) -> float:
        """The sum of a row's `tree_scores` from which on it is positive, for two classes (ties aside)."""
        return score_threshold(self)

    @property
    def score_start(self) -> NDArray[np.float64]:
        """What the class sums of `tree_scores` start from, shape (n_outputs,): the base score on the same grid."""
        step = score_step(self)
        start: NDArray[np.float64] = np.rint(self.base_score / step) * step
        return start


def freeze(values: ArrayLike, dtype: type | None, name: str) -> NDArray[Any]:
    """Return a C-contiguous, aligned, read-only array that nobody else can write to.

    Raises
    ------
    InputError
        If the values do not fit `dtype` exactly; the message calls them `name`.
    """
    array = np.asarray(values)
    if dtype is not None and array.dtype != dtype:
        try:
            with np.errstate(invalid="ignore"):
                cast: NDArray[Any] = array.astype(dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{name} must be numeric, got {array.dtype}") from error
        if not np.array_equal(cast, array, equal_nan=array.dtype.kind == "f"):
            raise InputError(f"{name} has values that do not fit {np.dtype(dtype)}, got dtype {array.dtype}")
        array = cast
    elif _can_change(array):
        array = array.copy()
    array = np.require(array, requirements=["C", "A"])
    array.flags.writeable = False
    return array


def _can_change(array: Any) -> bool:
    """Return whether somebody can write to the memory of `array`, be it through an array that it is a view of."""
    return isinstance(array, np.ndarray) and (array.flags.writeable or _can_change(array.base))


def fill_arrays(given: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return all arrays of a forest, read-only; None stands for what a forest without that feature has."""
    n_nodes, n_trees = np.size(given["feature"]), max(np.size(given["tree_offset"]) - 1, 0)
    n_columns = np.shape(given["value"])[1] if np.ndim(given["value"]) == 2 else 1

    def count_outputs() -> int:
        outputs = freeze([0] if given["tree_output"] is None else given["tree_output"], np.int32, "tree_output")
        most = int(np.max(outputs, initial=0)) + 1
        if most > max(n_trees, n_columns):
            raise InputError(f"tree_output names output {most - 1}, but there are {n_trees} trees")
        return max(most, n_columns)

    # Functions, because an array that is given anyway may be large.
    usual: dict[str, Callable[[], ArrayLike]] = {
        "default_left": lambda: np.zeros(n_nodes),
        "cover": lambda: np.full(n_nodes, np.nan),
        "missing": lambda: np.zeros(n_nodes),
        "tree_output": lambda: np.full(n_trees, -1),
        "base_score": lambda: np.zeros(count_outputs()),
        "category_set": lambda: np.full(n_nodes, -1),
        "category_offset": lambda: [0],
        "category_bits": list,
    }
    arrays = {name: usual[name]() if given[name] is None and name in usual else given[name] for name in ARRAYS}
    return {name: freeze(arrays[name], dtype, name) for name, dtype in ARRAYS.items()}


def check_fields(forest: ForestFields) -> NDArray[np.int32]:
    """Check that the fields make a sound forest, and return the depth of every node.

    The native core trusts what has passed here: it follows indices without looking at them again.
    """
    _check_shapes(forest)
    check_header(forest)
    inner = forest.left >= 0
    _check_nodes(forest, inner)
    sets, n_sets = forest.category_set[inner], len(forest.category_offset) - 1
    if len(sets) and (sets.min() < -1 or sets.max() >= n_sets):
        raise InputError(f"category_set must be -1 or name one of the {n_sets} sets")
    if forest.wrapper is not None:
        forest.wrapper.check(forest)
    return _node_depths(forest, inner)


class Expanded:
    """An array of a packed forest, expanded with all others when one of them is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, forest: Any, _: object = None) -> Any:
        """Return the array; once it is there, Python finds it in the forest itself and does not ask here."""
        if forest is None:
            return self
        arrays = forest.expand()
        # Another thread may have released them meanwhile.
        return arrays[self._name] if self._name in arrays else forest.__dict__["_packed"].expand()[self._name]


def check_header(forest: ForestFields) -> None:
    """Check what does not depend on single nodes."""
    for name, allowed in CHOICES.items():
        check_choice(name, getattr(forest, name), allowed)
    check_choice("integer_dtype", forest.integer_dtype, CHOICES["input_dtype"])
    _check_lists(forest)
    _check_header(forest)
    _check_sets(forest)


def _check_shapes(forest: ForestFields) -> None:
    offset = forest.tree_offset
    if offset.ndim != 1 or len(offset) < 2:
        raise InputError("tree_offset must have n_trees + 1 entries and at least one tree")
    n_nodes = forest.feature.size
    if n_nodes > MAX_NODES:
        raise InputError(f"a forest can have at most {MAX_NODES} nodes, got {n_nodes}")
    if offset[0] != 0 or offset[-1] != n_nodes or (offset[1:] <= offset[:-1]).any():
        raise InputError(f"tree_offset must rise strictly from 0 to the number of nodes ({n_nodes})")
    for name in NODE_ARRAYS:
        if getattr(forest, name).shape != (n_nodes,):
            raise InputError(f"{name} has shape {getattr(forest, name).shape}, expected ({n_nodes},)")
    if forest.value.ndim != 2 or forest.value.shape[0] != n_nodes or forest.value.shape[1] < 1:
        raise InputError(f"value has shape {forest.value.shape}, expected ({n_nodes}, n_outputs)")


def _check_lists(forest: ForestFields) -> None:
    n_trees = forest.n_trees
    if forest.tree_output.shape != (n_trees,):
        raise InputError(f"tree_output has shape {forest.tree_output.shape}, expected ({n_trees},)")
    if forest.base_score.ndim != 1 or len(forest.base_score) < 1:
        raise InputError(f"base_score has shape {forest.base_score.shape}, expected (n_outputs,)")


def _check_header(forest: ForestFields) -> None:
    if not 0 <= forest.n_features <= MAX_FEATURES:
        raise InputError(f"n_features must be from 0 to {MAX_FEATURES}, got {forest.n_features}")
    if forest.feature_names is not None and len(forest.feature_names) != forest.n_features:
        raise InputError(f"{len(forest.feature_names)} feature_names for {forest.n_features} features")
    if forest.feature_names is not None and len(set(forest.feature_names)) < forest.n_features:
        repeated = sorted(name for name, times in Counter(forest.feature_names).items() if times > 1)
        raise InputError(
            f"feature_names must differ from each other, but {', '.join(map(repr, repeated[:10]))} occur several "
            "times: columns of a table are found by name",
            argument="feature_names",
        )
    n_outputs, n_columns, output = len(forest.base_score), forest.n_columns, forest.tree_output
    if (output >= 0).any():
        if (output < 0).any() or output.max() >= n_outputs or n_columns != 1:
            raise InputError("tree_output must name an output for every tree, and value then has one column")
        if forest.aggregation == "vote":
            raise InputError('aggregation="vote" needs value with a column for every class')
        if len(output) % n_outputs:
            raise InputError(f"{len(output)} trees cannot be shared evenly by {n_outputs} outputs")
    elif n_columns != n_outputs:
        raise InputError(f"value has {n_columns} columns for {n_outputs} outputs")
    if (
        not np.isfinite(forest.base_score).all()
        or not np.isfinite([forest.link_scale, forest.decision_threshold]).all()
    ):
        raise InputError("base_score, link_scale and decision_threshold must be finite")
    _check_classes(forest, n_outputs)


def _check_classes(forest: ForestFields, n_outputs: int) -> None:
    if forest.classes is None:
        if n_outputs != 1 or forest.aggregation == "vote":
            raise InputError(f"a regressor has one output and no votes, got {n_outputs} outputs; pass classes")
        return
    if forest.classes.ndim != 1 or len(forest.classes) < 1:
        raise InputError(f"classes must be a list of labels, got shape {forest.classes.shape}")
    if len(set(forest.classes.tolist())) != len(forest.classes):
        raise InputError("classes must be distinct")
    if n_outputs != len(forest.classes) and not (n_outputs == 1 and len(forest.classes) == 2):
        raise InputError(f"{len(forest.classes)} classes for {n_outputs} outputs")
    if n_outputs == 1 and len(forest.classes) == 2 and forest.aggregation == "vote":
        raise InputError('aggregation="vote" needs value with a column for every class')


def _check_nodes(forest: ForestFields, inner: NDArray[np.bool_]) -> None:
    if ((forest.right >= 0) != inner).any():
        raise InputError("a node has either two children or none: left and right must be -1 together")
    nodes = np.flatnonzero(inner)
    tree_end = np.repeat(forest.tree_offset[1:], np.diff(forest.tree_offset))[nodes]
    for side in (forest.left[nodes], forest.right[nodes]):
        wrong = (side <= nodes) | (side >= tree_end)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise InputError(f"node {nodes[at]}: child {side[at]} must come after it and inside its tree")
    # Children after parents rule out cycles; one parent each rules out shared subtrees. What is left are trees.
    children = np.concatenate([forest.left[nodes], forest.right[nodes]])
    parents = np.bincount(children, minlength=len(inner))
    parents[forest.tree_offset[:-1]] += 1
    if (parents != 1).any():
        raise InputError(f"node {int(np.argmax(parents != 1))} must have exactly one parent (a root none)")
    used = forest.feature[nodes]
    if len(used) and (used.min() < 0 or used.max() >= forest.n_features):
        raise InputError(f"features must be in 0..{forest.n_features - 1}, got {used.min()}..{used.max()}")
    if np.isnan(forest.threshold[nodes]).any():
        raise InputError("a threshold is NaN")
    if not np.isfinite(forest.value).all():
        raise InputError("value must be finite on every node, inner nodes included")
    if forest.missing.max(initial=0) > MISSING_NONE:
        raise InputError("missing must be 0 (NaN), 1 (NaN and zero) or 2 (nothing)")
    known = ~np.isnan(forest.cover)
    if (forest.cover[known] < 0).any():
        raise InputError("cover must not be negative")


def _check_sets(forest: ForestFields) -> None:
    offset, bits = forest.category_offset, forest.category_bits
    if offset.ndim != 1 or bits.ndim != 1 or len(offset) < 1:
        raise InputError(f"category_offset and category_bits must be lists, got {offset.shape} and {bits.shape}")
    if offset[0] != 0 or offset[-1] != len(bits) or (offset[1:] < offset[:-1]).any():
        raise InputError("category_offset must rise from 0 to the length of category_bits")
    if np.diff(offset).max(initial=0) > MAX_CATEGORY_WORDS:
        raise InputError(f"a category set has categories above {32 * MAX_CATEGORY_WORDS - 1}")
    outside = [f for f in forest.categories if not 0 <= f < forest.n_features]
    if outside:
        raise InputError(f"categories names feature {outside[0]} of {forest.n_features}")
    if forest.raw_rows is not None:
        check_instance("raw_rows", forest.raw_rows, RawRows)
        forest.raw_rows.check(forest.categories, forest.n_features)
    if forest.front is not None:
        if not isinstance(forest.front, Combinations):
            check_instance("front", forest.front, Front)
        elif forest.n_given != forest.front.n_inputs:
            raise InputError(
                f"combinations of {forest.front.n_inputs} columns make {forest.front.n_outputs} more, which are not "
                f"the {forest.n_features} features together"
            )
    if forest.wrapper is not None:
        check_instance("wrapper", forest.wrapper, Wrapper)


def _node_depths(forest: ForestFields, inner: NDArray[np.bool_]) -> NDArray[np.int32]:
    depth = np.zeros(len(inner), np.int32)
    level, nodes = 0, forest.tree_offset[:-1]
    while len(nodes := nodes[inner[nodes]]):
        level += 1
        nodes = np.concatenate([forest.left[nodes], forest.right[nodes]])
        depth[nodes] = level
    depth.flags.writeable = False
    return depth


def label_codes(classes: NDArray[Any] | None, labels: ArrayLike, name: str) -> NDArray[np.int32]:
    """Return the index of each label among `classes`; messages call the labels `name`."""
    known, given = np.array([]) if classes is None else classes, np.asarray(labels)
    # Only kinds that numpy compares exactly: it would find the int 2**53 + 1 equal to a float.
    if known.dtype.kind + given.dtype.kind in ("ii", "iu", "ui", "uu", "bb", "ff", "UU"):
        if len(known) == 2:  # two comparisons are faster than a search
            is_second: NDArray[np.bool_] = given == known[1]
            if (is_second | (given == known[0])).all():
                return is_second.astype(np.int32)
        order = np.argsort(known)
        codes = order[np.minimum(np.searchsorted(known[order], given), len(order) - 1)].astype(np.int32)
        if (known[codes] == given).all():
            return codes
    names, values = known.tolist(), given.tolist()
    code = {label: index for index, label in enumerate(names)}
    codes = np.array([code.get(label, -1) for label in values], dtype=np.int32)
    if (codes >= 0).all():
        return codes
    missing = [row for row, label in enumerate(values) if label is None or label != label]
    if missing:
        raise InputError(
            f"{name} has {len(missing)} missing labels, the first in row {missing[0]}; drop those rows",
            argument=name,
        )
    unknown = sorted({repr(label) for label in values if label not in code})
    shown = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
    accepted = ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")
    raise InputError(
        f"{name} has {len(unknown)} labels the model does not know: {shown}; its {len(names)} classes are "
        f"{accepted}. Pass those it was trained on: XGBoost and LightGBM files number classes, sorted by "
        "name",
        argument=name,
    )


def link_scores(scores: NDArray[np.float64], link: str, scale: float) -> NDArray[np.float64]:
    """Return scores, of shape (n_rows, n_outputs), mapped by a link: to probabilities, or to predictions."""
    if link == "identity":
        return scores
    z = scale * scores
    with np.errstate(over="ignore"):
        match link:
            case "softmax":
                # The largest score is taken off first, so that no exponential overflows.
                linked = np.exp(z - z.max(axis=1, keepdims=True))
                linked /= linked.sum(axis=1, keepdims=True)
            case "exp":
                linked = np.exp(z)
            case "signed-square":
                linked = np.sign(z) * z * z
            case "log1p-exp":
                linked = np.log1p(np.exp(z))
            case "step":
                linked = (z > 0).astype(np.float64)
            case _:  # "logistic" and "logistic-each"
                linked = 1 / (1 + np.exp(-z))
    return np.asarray(linked, dtype=np.float64)


def leaf_scores(forest: ForestFields) -> NDArray[np.float64]:
    """Return what each node adds to the score that decides between two classes, shape (n_nodes,).

    The model's own leaf value, or half the difference of what it adds to the second class and to the first.
    """
    if forest.n_classes != 2:
        raise InputError(f"scores of two classes are needed, the model has {forest.n_classes or 'none: a regressor'}")
    values = forest.leaf_values()
    if forest.n_outputs == 1:
        return values[:, 0]
    if forest.tree_output[0] >= 0:
        return np.repeat(forest.tree_output - 0.5, np.diff(forest.tree_offset)) * values[:, 0]
    return (values[:, 1] - values[:, 0]) / 2


def largest_scores(forest: ForestFields) -> NDArray[np.float64]:
    """Return the largest size of what a leaf of each tree adds, to the score of two classes or to any; (n_trees,)."""

    def size_of(values: NDArray[np.float64]) -> NDArray[np.float64]:
        if forest.n_classes != 2 or forest.n_outputs == 1:
            return np.asarray(np.abs(values).max(axis=1))
        return np.abs(values[:, 0] if values.shape[1] == 1 else values[:, 1] - values[:, 0]) / 2

    return forest.most_of_trees(size_of)


def score_threshold(forest: ForestFields) -> float:
    """Return the sum of `leaf_scores` from which on a row is positive (ties of two probabilities aside)."""
    base = forest.base_score
    if forest.n_outputs == 2:
        return (float(base[0]) - float(base[1])) / 2
    return forest.decision_threshold * forest.score_divisor - float(base[0])


def score_step(forest: ForestFields) -> float:
    """Return the grid unit: the power of two in which no sum of leaf scores leaves the range of int32.

    Nor does the lead of one of several classes over another.
    """
    start = abs(score_threshold(forest)) if forest.n_classes == 2 else float(np.abs(forest.base_score).max())
    largest = (float(largest_scores(forest).sum()) + start) * (2 if forest.n_classes > 2 else 1)
    room = _LARGEST_SUM - 2 * forest.n_trees
    # Scores may be so small that no normal number is a grid for all of int32; the smallest one does.
    return float(2.0 ** -min(np.floor(np.log2(room / largest)), 1022.0)) if largest > 0 else 1.0


def decision_slack(forest: ForestFields, step: float) -> int:
    """Return how far from the decision a sum in units of `step` may be while the model still answers either label.

    Beyond it, integer sums decide as the model does, whatever the input. For two classes the sum is that of
    `leaf_scores` and its distance to `score_threshold` counts; for more it is the lead of one class over another.

    Why it is enough: let ``u`` be the unit roundoff of `score_dtype`, and ``M`` a bound on every partial sum of one
    output. Rounding leaves and the base score to that precision and adding them one after another moves a sum by less
    than ``(n_trees + 2) u M``, the division and the comparison by less than ``4 u M``. A softmax keeps the order of two
    scores that are ``8 eps / link_scale`` apart, up to the rounding of its argument. Rounding each leaf to the grid
    moves the sum by half a unit per tree, and the threshold or the base score by half a unit more.
    """
    wrapper = forest.wrapper
    if wrapper is not None and wrapper.decides and not wrapper.adds_up:
        return _LARGEST_SUM  # no sum tells what the members answer
    real = np.dtype(forest.score_dtype).type
    of_tree = forest.most_of_trees(lambda values: np.abs(values).max(axis=1))
    largest = float(of_tree.sum()) + float(np.abs(forest.base_score).max())
    largest += abs(forest.decision_threshold) * forest.score_divisor if forest.n_outputs == 1 else 0.0
    if not largest < float(np.finfo(real).max) / 4:
        raise InputError(f"sums of leaf values may exceed what {forest.score_dtype} holds")
    eps = float(np.finfo(real).eps)
    moved = (forest.n_trees + 12) * eps * largest
    if forest.n_outputs > 1 and forest.link == "softmax" and forest.label_from == "probability":
        moved += 8 * eps / forest.link_scale
    if wrapper is not None and wrapper.decides:
        # The members' own sums, quotients and means are rounded as well, and so is each leaf that was scaled.
        moved *= 4
    n_sums = 1 if forest.n_classes == 2 else 2  # both sums of a lead move
    return int(np.ceil(n_sums * (moved / step + forest.n_trees / 2 + 0.5))) + 1
