"""Forest: what a tree ensemble is, as immutable flat arrays.

Importers make it, algorithms read it, the native engine is lowered from it. Nothing else in scurry represents trees.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scurry import _core
from scurry.checks import check_flag, check_instance, float_of
from scurry.errors import InputError, warn
from scurry.forest.combinations import Combinations
from scurry.forest.files.lowered import pack_lowered
from scurry.forest.files.packed import Packed, StoredForest, average_leaves
from scurry.forest.files.storage import container_bytes, container_of, write_container
from scurry.forest.front import Front, RawRows
from scurry.forest.rows import RowCall, as_rows, for_engine, in_blocks, thread_count
from scurry.forest.structure import (
    ARRAYS,
    HEADER,
    NODE_ARRAYS,
    check_fields,
    fill_arrays,
    freeze,
    leaf_scores,
    score_step,
)
from scurry.forest.tables import Encoder
from scurry.forest.trees import MAX_LEAVES, cut_trees, join_trees
from scurry.forest.wrappers import Wrapper

# What a leaf holds in arrays that only splits read.
_SHARES_MISS = 1e-3  # from 1, by how much shares may add up to something else
_AT_LEAVES = {"feature": -1, "threshold": 0.0, "default_left": False, "missing": 0, "category_set": -1}


class Forest(StoredForest):
    """A tree ensemble as flat, read-only arrays over all trees.

    Nodes of tree ``t`` are ``tree_offset[t]:tree_offset[t + 1]``, its root first, children after their parent.
    A numeric split sends a row left iff ``x <= threshold`` (or ``<``, see `comparison`); a categorical split iff
    its category is in the node's set. The score of a row is, per output, ``base_score`` plus the sum of its leaves'
    values in tree order and in `score_dtype`, divided by the number of rounds where `aggregation` is "mean".

    Parameters
    ----------
    tree_offset : int64 array of shape (n_trees + 1,)
    feature, left, right : int32 arrays of shape (n_nodes,)
        Children are global node indices, -1 at leaves; ``feature`` is ignored there.
    threshold : float64 array of shape (n_nodes,)
    value : float64 array of shape (n_nodes, n_outputs) or (n_nodes, 1)
        Present on inner nodes too: what the tree answers if stopped there. One column if each tree serves a
        single output (`tree_output`).
    n_features : int
    default_left : bool array of shape (n_nodes,), optional
        Where a missing value goes; right by default.
    cover : float64 array of shape (n_nodes,), optional
        The training weight that reached the node; NaN where the source does not say.
    classes : array, optional
        The model's own labels; None makes it a regressor.
    aggregation : {"mean", "vote", "sum"}
        "vote": each leaf votes for its largest value, lowest class on ties.
    tree_output : int32 array of shape (n_trees,), optional
        The output a tree adds to, -1 (the default) if its values have a column for every output.
    base_score : float64 array of shape (n_outputs,), optional
    input_dtype, score_dtype : {"float32", "float64"}
        The precision in which the source compares inputs and sums leaves. Both are part of the model.
    comparison : {"<=", "<"}
    link, link_scale : str, float
        Maps scores (times the scale) to probabilities, or a regressor's scores to predictions.
    label_from : {"probability", "score"}
        Whether the source takes the argmax of probabilities or of scores: they differ where rounding makes ties.
    decision_threshold : float
        With two classes and one output, a row is positive iff ``score >= decision_threshold``.
    missing : uint8 array of shape (n_nodes,), optional
        What counts as missing: 0 NaN (the default), 1 NaN and ``abs(x)`` <= 1e-35, 2 nothing (NaN is read as 0).
    category_set : int32 array of shape (n_nodes,), optional
        -1 at numeric splits, else ``s``: category ``c`` goes left iff bit ``c`` is set in
        ``category_bits[category_offset[s]:category_offset[s + 1]]`` (32 bits a word).
    category_offset, category_bits : int64 and uint32 arrays, optional
    category_rounding : {"floor", "trunc"}
        How a number becomes a category; one below 0 is in no set.
    feature_names : sequence of str, optional
    categories : mapping of feature index to array, optional
        The values that codes 0, 1, … stand for, to encode columns of tables: texts, numbers or booleans. An empty
        array says that the feature is categorical, and that its values are not known.
    encode_numbers : bool
        Whether arrays hold values of `categories` too, as HistGradientBoosting expects, and not codes. In tables
        numbers are looked up by value in any case.
    integer_dtype : {"float32", "float64"}, optional
        The precision to which the source rounds arrays of integers: LightGBM's is float32, although it compares
        float64. By default `input_dtype`.
    raw_rows : RawRows, optional
        What rows must be where a pipeline was folded into the trees.
    front : Front, optional
        Transformers of a pipeline that could not be folded: rows pass through them first. skops saves them.
    wrapper : Wrapper, optional
        What the source does with the sums of trees, or with the answers of several models, before it answers. With
        members, the other fields describe one sum that stands for the model; labels come from the members.

    Examples
    --------
    >>> import scurry
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> forest = scurry.Forest.from_trees([stump], classes=["no", "yes"])
    >>> forest.predict([[0.0], [1.0]])
    array(['no', 'yes'], dtype='<U3')
    >>> forest
    Forest(n_trees=1, n_nodes=3, max_depth=1, n_features=1, n_classes=2, aggregation='mean')
    """

    def __init__(
        self,
        *,
        tree_offset: ArrayLike,
        feature: ArrayLike,
        threshold: ArrayLike,
        left: ArrayLike,
        right: ArrayLike,
        value: ArrayLike,
        n_features: int,
        default_left: ArrayLike | None = None,
        cover: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        aggregation: str = "mean",
        tree_output: ArrayLike | None = None,
        base_score: ArrayLike | None = None,
        input_dtype: str = "float32",
        score_dtype: str = "float64",
        comparison: str = "<=",
        link: str = "identity",
        link_scale: float = 1.0,
        label_from: str = "probability",
        decision_threshold: float = 0.0,
        missing: ArrayLike | None = None,
        category_set: ArrayLike | None = None,
        category_offset: ArrayLike | None = None,
        category_bits: ArrayLike | None = None,
        category_rounding: str = "floor",
        feature_names: Sequence[str] | None = None,
        categories: Mapping[int, ArrayLike] | None = None,
        encode_numbers: bool = False,
        integer_dtype: str | None = None,
        raw_rows: RawRows | None = None,
        front: Front | Combinations | None = None,
        wrapper: Wrapper | None = None,
    ) -> None:
        given = {
            "tree_offset": tree_offset,
            "feature": feature,
            "threshold": threshold,
            "left": left,
            "right": right,
            "value": value,
            "default_left": default_left,
            "cover": cover,
            "missing": missing,
            "tree_output": tree_output,
            "base_score": base_score,
            "category_set": category_set,
            "category_offset": category_offset,
            "category_bits": category_bits,
        }
        self.__dict__.update(fill_arrays(given))
        self._set_header(
            n_features=n_features,
            classes=classes,
            aggregation=aggregation,
            input_dtype=input_dtype,
            score_dtype=score_dtype,
            comparison=comparison,
            link=link,
            link_scale=link_scale,
            label_from=label_from,
            decision_threshold=decision_threshold,
            category_rounding=category_rounding,
            feature_names=feature_names,
            categories=categories,
            encode_numbers=encode_numbers,
            integer_dtype=integer_dtype,
            raw_rows=raw_rows,
            front=front,
            wrapper=wrapper,
        )
        self.__dict__["_node_depth"] = check_fields(self)
        self._seal()

    def _set_header(
        self,
        *,
        n_features: int,
        classes: ArrayLike | None,
        aggregation: str,
        input_dtype: str,
        score_dtype: str,
        comparison: str,
        link: str,
        link_scale: float,
        label_from: str,
        decision_threshold: float,
        category_rounding: str,
        feature_names: Sequence[str] | None,
        categories: Mapping[int, ArrayLike] | None,
        encode_numbers: bool,
        integer_dtype: str | None,
        raw_rows: RawRows | None,
        front: Front | Combinations | None,
        wrapper: Wrapper | None,
    ) -> None:
        """Set all fields that are no arrays."""
        try:
            self.n_features = operator.index(n_features)
        except TypeError as error:
            raise InputError(f"n_features must be a whole number, got {n_features!r}", argument="n_features") from error
        self.classes = None if classes is None else freeze(classes, None, "classes")
        self.aggregation, self.comparison = aggregation, comparison
        self.input_dtype, self.score_dtype = input_dtype, score_dtype
        self.integer_dtype = input_dtype if integer_dtype is None else integer_dtype
        self.link, self.link_scale = link, float_of(link_scale)
        self.label_from, self.decision_threshold = label_from, float_of(decision_threshold)
        self.category_rounding, self.encode_numbers = category_rounding, check_flag("encode_numbers", encode_numbers)
        if isinstance(feature_names, str):
            raise InputError(f"feature_names must be a list of names, got {feature_names!r}", argument="feature_names")
        self.feature_names = None if feature_names is None else tuple(map(str, feature_names))
        known = {} if categories is None else categories
        check_instance("categories", known, Mapping)
        self.categories = {operator.index(f): freeze(values, None, f"categories[{f}]") for f, values in known.items()}
        if raw_rows is not None:
            check_instance("raw_rows", raw_rows, RawRows)
        self.raw_rows, self.front, self.wrapper = raw_rows, front, wrapper
        # Numbers of several types, read into one matrix, are no rows of one type.
        is_mixed = raw_rows is not None and raw_rows.dtype not in (None, self.input_dtype)
        self.is_encoded = self.encode_numbers or front is not None or is_mixed

    def _seal(self) -> None:
        self.__dict__["_is_sealed"] = True  # from here on nothing can be set

    @property
    def n_columns(self) -> int:
        """Number of values of a node: one for each output, or 1 if each tree serves a single one."""
        packed: Packed | None = self.__dict__.get("_packed")
        return int(self.value.shape[1]) if packed is None else packed.n_columns

    @cached_property
    def engine_labels(self) -> NDArray[np.int64]:
        """What native code writes for each class: the class itself if classes are int64, else its index."""
        if self.classes is not None and self.classes.dtype == np.int64:
            return self.classes
        return np.arange(max(self.n_classes, 1), dtype=np.int64)

    def decode(self, written: NDArray[np.int64]) -> NDArray[Any]:
        """Return the labels that native code means by what it writes, see `engine_labels`."""
        return written if self.classes is None or self.engine_labels is self.classes else self.classes.take(written)

    def __setattr__(self, name: str, value: object) -> None:
        if "_is_sealed" in self.__dict__:
            raise AttributeError(f"a Forest is immutable; build a new one instead of setting {name!r}")
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # The content of a file, checked as one. A front goes from process to process as it is.
        return _receive, (container_bytes("forest", *self.to_packed_parts()), self.front)

    def __deepcopy__(self, memo: object) -> Self:
        return self  # immutable: a copy would only take memory, and build its engine again

    @classmethod
    def from_trees(
        cls,
        trees: Sequence[Mapping[str, Any]],
        *,
        classes: ArrayLike | None = None,
        n_features: int | None = None,
        aggregation: str = "mean",
        input_dtype: str = "float32",
    ) -> Self:
        """Build a forest from one mapping per tree.

        Parameters
        ----------
        trees : sequence of mappings
            Each with ``feature``, ``threshold``, ``left``, ``right`` (indices inside the tree, -1 at leaves),
            ``value`` of shape (n_nodes, n_classes) and optionally ``cover``; other keys are ignored. A node's children
            come after it. With ``aggregation="mean"`` the values of a classifier are shares, which add up to 1.
        classes : array, optional
            Labels; by default 0, 1, … where ``value`` has several columns, and a regressor where it has one.
        n_features : int, optional
            By default the highest feature used, plus one.
        aggregation : {"mean", "vote", "sum"}
        input_dtype : {"float32", "float64"}

        Returns
        -------
        Forest
        """
        joined, used = join_trees(trees)
        n_columns = joined["value"].shape[1]
        if aggregation == "mean" and n_columns > 1:
            totals = joined["value"][joined["left"] < 0].sum(axis=1)
            if (np.abs(totals - 1) > _SHARES_MISS).any():
                worst = totals[np.argmax(np.abs(totals - 1))]
                warn(
                    f"the values of a leaf add up to {worst:g}, and probabilities are means of values: if they are "
                    "counts of rows, divide those of each node by their sum"
                )
        return cls(
            **joined,
            n_features=used if n_features is None else n_features,
            classes=np.arange(n_columns) if classes is None and n_columns > 1 else classes,
            aggregation=aggregation,
            input_dtype=input_dtype,
        )

    def __repr__(self) -> str:
        kind = f"n_classes={self.n_classes}" if self.is_classifier else "regressor"
        return (
            f"Forest(n_trees={self.n_trees}, n_nodes={self.n_nodes}, max_depth={self.max_depth}, "
            f"n_features={self.n_features}, {kind}, aggregation={self.aggregation!r})"
        )

    @cached_property
    def engine(self) -> _core.Engine:
        """The native predictor of labels, probabilities and scores: that of the file, or built at its first use."""
        engine = self._stored_engine() or self._lower()
        if (packed := self.__dict__.get("_packed")) is not None:
            packed.rest()
        return engine

    def _lower(self) -> _core.Engine:
        whole = _core.Engine(self._lowered_from, classes=self.engine_labels, leaf_ids=False)
        # Whether other trees can be sliced is not asked, because that would slice them before the first batch comes.
        is_large = (
            self.aggregation == "sum" and MAX_LEAVES < (np.diff(self.tree_offset).max() + 1) // 2 <= 2 * MAX_LEAVES
        )
        cut = cut_trees(self) if is_large and whole.loop == "walked" else None
        if cut is None:
            return whole
        parts = _core.Engine(self.replace(**cut).arrays, classes=self.engine_labels, leaf_ids=False)
        return parts if parts.loop == "sliced" else whole

    def _stored_engine(self) -> _core.Engine | None:
        packed: Packed | None = self.__dict__.get("_packed")
        parts = None if packed is None else packed.lowered(self._header_of_core)
        if packed is None or parts is None:
            return None
        forest = _core.ForestArrays(packed.no_entries(), self._header_of_core)
        try:
            return _core.MappedEngine(forest, classes=self.engine_labels, parts=parts)
        except ValueError:
            return None  # what is not sound is not used

    @property
    def engine_is_stored(self) -> bool:
        """Whether the engine lies in the file that the forest was loaded from, see `save`."""
        return isinstance(self.engine, _core.MappedEngine)

    @property
    def engine_values(self) -> NDArray[np.float64] | None:
        """Distinct values of leaves, shape (n, n_columns), by which the engine knows them; None if it does not."""
        # XGBoost's leaves are their own values there, and trees that were cut are others.
        values = self.engine.values if self.engine.n_trees == self.n_trees else np.empty(0)
        return values.reshape(-1, self.n_columns) if values.size else None

    def most_of_trees(self, number_of: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the largest number of the leaves of each tree, or 0; `number_of` makes them of `leaf_values`."""
        values = self.engine_values if "_packed" in self.__dict__ else None
        if values is None:
            return super().most_of_trees(number_of)
        return np.maximum(self.engine.most_of_trees(np.ascontiguousarray(number_of(values))), 0.0)

    @property
    def _lowered_from(self) -> _core.ForestArrays:
        packed: Packed | None = self.__dict__.get("_packed")
        if packed is None:
            return self.arrays
        # Distinct splits and leaves are lowered once, however many nodes have them.
        return _core.ForestArrays(packed.entries(), self._header_of_core, packed.native)

    @cached_property
    def leaf_engine(self) -> _core.Engine:
        """The native finder of leaves. Its own engine: leaf numbers would make that of `predict` larger."""
        return _core.Engine(self.arrays, classes=self.engine_labels, leaf_ids=True)

    @cached_property
    def byte_ranks(self) -> _core.ByteRanks | None:
        """What makes the values of tables bytes, or None if a feature has too many thresholds or categories."""
        ranks = _core.ByteRanks(self.arrays)
        return ranks if ranks.available else None

    def engine_rows(self, X: Any) -> NDArray[Any]:
        """Return rows as the native engines made of `arrays` read them soonest: tables as bytes where they can be."""
        return for_engine(self, X, lambda: self.byte_ranks)

    @cached_property
    def arrays(self) -> _core.ForestArrays:
        """The forest as the native core reads it."""
        return _core.ForestArrays({name: getattr(self, name) for name in ARRAYS}, self._header_of_core)

    @property
    def _header_of_core(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in HEADER} | {"n_classes": self.n_classes}

    def encoder(self, X: Any) -> Encoder:
        """Return a function that turns tables like `X` into the matrix that this forest reads.

        Parameters
        ----------
        X : DataFrame
            An example, of pandas, polars or Arrow: its columns say what kind of values later tables must hold.

        Returns
        -------
        Encoder
            ``encoder(frame)`` is a matrix that every method of the forest and of its predictors takes.

        Examples
        --------
        >>> import pandas as pd, scurry
        >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
        ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
        >>> forest = scurry.Forest.from_trees([stump]).replace(feature_names=["city"], categories={0: ["Oslo", "Rome"]})
        >>> encoder = forest.encoder(pd.DataFrame({"city": ["Rome"]}))
        >>> encoder(pd.DataFrame({"city": ["Rome", "Oslo"]}))
        array([[1.],
               [0.]], dtype=float32)
        """
        return Encoder(self, X)

    def predict(self, X: Any, n_threads: int | None = 1) -> NDArray[Any]:
        """Predict the label (or a regressor's value) of each row, identical to the source model's.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_rows, n_features)
            Numpy of any dtype and order, pandas, polars, Arrow or a matrix of `scipy.sparse`; columns are matched by
            name where both sides have names. A 1-D array is one row. Entries that a sparse matrix does not hold are
            `absent_value`, as in the source: missing for XGBoost, 0 for the others.
        n_threads : int or None, default 1
            None uses all cores.

        Returns
        -------
        array of shape (n_rows,)
        """
        if type(X) is np.ndarray:
            if (answer := self._row_answer(X)) is not None:
                return self._array_of(answer)
        elif (answers := in_blocks(X, lambda rows: self.predict(rows, n_threads))) is not None:
            return answers
        X = self.engine_rows(X)
        if self.wrapper is not None and self.wrapper.decides:
            decide = self.wrapper.values if self.classes is None else self.wrapper.codes
            decided: NDArray[Any] = decide(self, X, thread_count(n_threads))
            return decided if self.classes is None else self.classes.take(decided)
        if self.classes is None:
            values = np.empty((len(X), 1))
            self.engine.probabilities(X, values, thread_count(n_threads))
            return values[:, 0]
        labels = np.empty(len(X), np.int64)
        self.engine.labels(X, labels, 1 if n_threads == 1 else thread_count(n_threads))
        return self.decode(labels)

    def predict_proba(self, X: Any, n_threads: int | None = 1) -> NDArray[np.float64]:
        """Predict the class probabilities of each row.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1
            None uses all cores.

        Returns
        -------
        float64 array of shape (n_rows, n_classes)
        """
        if self.classes is None:
            raise InputError("this forest is a regressor and has no probabilities; use predict")
        if (answers := in_blocks(X, lambda rows: self.predict_proba(rows, n_threads))) is not None:
            return answers
        X = self.engine_rows(X)
        if self.wrapper is not None:
            return self.wrapper.probabilities(self, X, thread_count(n_threads))
        out = np.empty((len(X), self.n_classes))
        self.engine.probabilities(X, out, thread_count(n_threads))
        return out

    def one_row(self, answer: str = "label") -> Callable[[Any], Any]:
        """Return a function that answers for one row, several times as fast as `predict`.

        The function may be called from any thread. It makes no arrays, and its answers are those of `predict` and
        `predict_proba`, as Python's own objects.

        Parameters
        ----------
        answer : {"label", "probabilities"}
            A label, which is a float for a regressor; or a tuple with the probability of each class.

        Returns
        -------
        callable
            ``call(row)`` takes an array of shape (n_features,) or (1, n_features). float32 and float64 are read where
            they lie; whatever else `predict` takes is converted first, which takes longer.

        Examples
        --------
        >>> import numpy as np
        >>> import scurry
        >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
        ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
        >>> forest = scurry.Forest.from_trees([stump], classes=["no", "yes"])
        >>> call = forest.one_row()
        >>> call(np.array([0.7], np.float32))
        'yes'
        >>> forest.one_row("probabilities")([0.2])
        (0.9, 0.1)
        """
        call = RowCall.of(self, answer, self.predict, self.predict_proba)
        self.engine.prepare()
        return self.engine.one_row(call.answer, **call.options)

    @cached_property
    def _row_answer(self) -> Callable[[NDArray[Any]], int | float | None]:
        """What native code answers for one row of floats; None for all other arrays, which `predict` reads itself."""
        call = RowCall.of(self, "label", self.predict, self.predict_proba, otherwise=lambda _: None)
        return self.engine.one_row(call.answer, **(call.options | {"labels": None}))

    def _array_of(self, answer: int | float) -> NDArray[Any]:
        if self.classes is None:
            values = np.empty(1)
            values[0] = answer
            return values
        labels = np.empty(1, np.int64)
        labels[0] = answer
        return self.decode(labels)

    def scores(self, X: Any, n_threads: int | None = 1) -> NDArray[np.float64]:
        """Return the scores before the link: margins of a boosted model, mean leaf values of a forest.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1

        Returns
        -------
        float64 array of shape (n_rows, n_outputs)
        """
        if (answers := in_blocks(X, lambda rows: self.scores(rows, n_threads))) is not None:
            return answers
        X = self.engine_rows(X)
        out = np.empty((len(X), self.n_outputs))
        self.engine.scores(X, out, thread_count(n_threads))
        return out

    def apply(self, X: Any, n_threads: int | None = 1) -> NDArray[np.int32]:
        """Return the leaf that each row reaches in each tree.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
        n_threads : int or None, default 1

        Returns
        -------
        int32 array of shape (n_rows, n_trees)
            Global node indices.
        """
        if (answers := in_blocks(X, lambda rows: self.apply(rows, n_threads))) is not None:
            return answers
        X = as_rows(self, X)
        out = np.empty((len(X), self.n_trees), np.int32)
        self.leaf_engine.leaves(X, out, thread_count(n_threads))
        return out

    def tree_scores(self, X: Any) -> NDArray[np.float64]:
        """Return what each tree adds to the score of each row, on the grid on which early exits count.

        With two classes, a row is positive iff its scores add up to at least `score_threshold`. With more, they are
        added to `score_start`, and the class with the largest sum is the label. Scores are rounded to a grid that is so
        fine that the largest possible sum has about 31 bits. So a rule fitted to them decides as a predictor runs it.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        float64 array of shape (n_rows, n_trees), or (n_rows, n_rounds, n_classes) for more than two classes

        Examples
        --------
        >>> import scurry
        >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
        ...          "value": [[0.5, 0.5], [0.75, 0.25], [0, 1]]}
        >>> forest = scurry.Forest.from_trees([stump] * 2)
        >>> forest.tree_scores([[0.0], [1.0]]).tolist(), forest.score_threshold
        ([[-0.25, -0.25], [0.5, 0.5]], 0.0)
        """
        if self.n_classes < 2:
            raise InputError("scores decide between classes, and this model is a regressor or has one class")
        step, leaves = score_step(self), self.apply(X)
        if self.n_classes == 2:
            return (np.rint(leaf_scores(self) / step) * step)[leaves]
        values = np.rint(self.leaf_values() / step) * step
        if self.tree_output[0] < 0:
            return values[leaves]
        size = self.trees_per_round
        scores = np.zeros((len(leaves), self.n_rounds, self.n_classes))
        for tree, output in enumerate(self.tree_output):
            scores[:, tree // size, output] += values[leaves[:, tree], 0]
        return scores

    def keep_splits(self, stays: NDArray[np.bool_]) -> Self:
        """Return the forest with only some of its splits; the other inner nodes become leaves or disappear.

        Parameters
        ----------
        stays : bool array of shape (n_nodes,)
            Which inner nodes stay splits; a node's parent must stay with it. Entries of leaves are ignored.

        Returns
        -------
        Forest
            Nodes keep their order and their values; a new leaf answers with its own value. The header is unchanged.

        Examples
        --------
        >>> import numpy as np, scurry
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> forest = scurry.from_model(DecisionTreeClassifier().fit([[0], [1], [2]], [0, 1, 1]))
        >>> pruned = forest.keep_splits(np.zeros(forest.n_nodes, bool))
        >>> forest.n_nodes, pruned.n_nodes, pruned.predict([[0.0]]).tolist()
        (3, 1, [1])
        """
        split = stays & (self.left >= 0)
        # A node is still there if it is a root or a child of a split that stays.
        present = np.zeros(self.n_nodes, np.bool_)
        present[self.tree_offset[:-1]] = True
        present[self.left[split]] = present[self.right[split]] = True
        index = np.append(np.cumsum(present, dtype=np.int32) - 1, np.int32(-1))
        leaf = ~split[present]
        arrays = {name: getattr(self, name)[present] for name in (*NODE_ARRAYS, "value")}
        for side in ("left", "right"):
            arrays[side] = np.where(leaf, np.int32(-1), index[arrays[side]])
        # Leaves read none of these, but what is left there of a split would change digests and saved files.
        for name, entry in _AT_LEAVES.items():
            arrays[name] = np.where(leaf, np.asarray(entry, arrays[name].dtype), arrays[name])
        arrays["tree_offset"] = np.append(index[self.tree_offset[:-1]], present.sum())
        return self.replace(**arrays)

    def replace(self, **fields: Any) -> Self:
        """Return a forest that differs in some fields.

        Parameters
        ----------
        **fields
            Arguments of `Forest`.

        Returns
        -------
        Forest

        Examples
        --------
        >>> import scurry
        >>> leaf = {"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": [[0.7, 0.3]]}
        >>> forest = scurry.Forest.from_trees([leaf], n_features=1)
        >>> forest.replace(classes=["no", "yes"]).predict([[1.0]])
        array(['no'], dtype='<U3')
        """
        others = ("classes", "feature_names", "categories", "raw_rows", "front", "wrapper")
        if self.wrapper is not None and self.wrapper.members and "wrapper" not in fields and fields.keys() & ARRAYS:
            raise InputError(
                f"the trees of this forest belong to models inside: it is {self.wrapper.describe()}; change one of them"
            )
        own = {name: getattr(self, name) for name in (*ARRAYS, *HEADER, *others)}
        if self.integer_dtype != self.input_dtype:
            own["integer_dtype"] = self.integer_dtype
        return type(self)(**own | fields)

    def save(self, path: str | PathLike[str], *, inner_values: bool = True, engine: bool = False) -> None:
        """Write the forest to a packed ``.scurry`` file that executes nothing when loaded.

        A front is stored by skops; a file with types that skops does not trust is loaded by
        ``scurry.load(path, trusted=[…])``.

        Parameters
        ----------
        path : str or path
        inner_values : bool, default True
            Whether values of inner nodes, and covers, are kept as they are. Only `scurry.anytime`, `scurry.prune` and
            `scurry.compress` read them. With False, inner nodes have the mean of their leaves, and covers are not
            known, which takes no bytes: it halves the file of a boosted model. Random forests whose file has counts of
            training rows keep everything, because it takes no bytes either.
        engine : bool, default False
            Whether the native engine is written too, about 8 bytes for each node. It is then not made when the file is
            loaded, and processes that load the file share one copy of it. Symmetric trees (CatBoost's), trees that
            are cut into smaller ones, and forests that hold others are written without: theirs is made when they are
            loaded.
        """
        kept = self if check_flag("inner_values", inner_values) else self._with_means_of_leaves()
        parts = self.with_engine(*kept.to_packed_parts()) if check_flag("engine", engine) else kept.to_packed_parts()
        write_container(path, "forest", *self.with_front(*parts))

    def with_engine(
        self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the packed parts of the forest with the native engine, where that can be stored."""
        has_members = self.wrapper is not None and len(self.wrapper.members) > 0
        # The engine of trees that were cut into smaller ones is not that of the trees of the file.
        can_store = self.engine.can_store and self.engine.n_trees == self.n_trees
        if header.get("layout") != "packed" or has_members or not can_store:
            return header, arrays
        return pack_lowered(self.engine, self._header_of_core, header, arrays)

    def _with_means_of_leaves(self) -> Self:
        if self.to_packed_parts()[0].get("packed", {}).get("cover") == "counts":
            return self
        unknown = np.full(self.n_nodes, np.nan)
        return self.replace(value=average_leaves(self, self.value, unknown), cover=unknown)

    def with_front(
        self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the parts of a file with the front, which is no part of the digest: equal ones differ in bytes."""
        if self.front is None:
            return header, arrays
        about, stored = self.front.to_parts()
        return header | {"front": about}, arrays | stored

    def refuse_front(self, purpose: str) -> None:
        """Raise where rows pass through a front, because `purpose` would do without it."""
        if self.front is not None:
            raise InputError(f"this forest cannot {purpose}: {self.front.describe()}. {self.front.way_out}")

    def refuse_wrapper(self, purpose: str) -> None:
        """Raise where labels do not come from one sum over the trees, because `purpose` would need that."""
        if self.wrapper is not None and self.wrapper.decides:
            raise InputError(
                f"this forest cannot {purpose}: its label is that of {self.wrapper.describe()}, not of one sum over "
                "all trees. Import one of the models inside instead, or use scurry.early_exit with the promise Labels"
            )

    def as_sum(self, purpose: str) -> Self:
        """Return the forest as one sum over all trees, if its labels or values are those of the sum up to rounding.

        A soft vote of random forests is the mean of all their trees, for example. Raise where there is no such sum,
        because `purpose` needs one.
        """
        if self.wrapper is None or not (self.wrapper.decides or self.wrapper.members):
            return self
        if not self.wrapper.adds_up:
            self.refuse_wrapper(purpose)
        return self.replace(wrapper=None)


def _receive(data: bytes, front: Front | Combinations | None = None) -> Forest:
    forest = Forest.from_container(container_of(data))
    return forest if front is None else forest.replace(front=front)
