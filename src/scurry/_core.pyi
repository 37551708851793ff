from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Items = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]

class ForestArrays:
    def __init__(
        self, arrays: dict[str, NDArray[Any]], header: dict[str, Any], packed: PackedForest | None = None
    ) -> None: ...

class PackedForest:
    def __init__(self, arrays: dict[str, NDArray[Any]], *, n_splits: int, n_leaves: int, node_order: str) -> None: ...
    def check(self) -> None: ...
    def expand(self) -> dict[str, NDArray[np.int32]]: ...
    @property
    def n_nodes(self) -> int: ...
    @property
    def tree_offset(self) -> NDArray[np.int64]: ...
    @property
    def tree_depth(self) -> NDArray[np.int32]: ...

def level_order(
    tree_offset: NDArray[np.int64], left: NDArray[np.int32], right: NDArray[np.int32]
) -> tuple[NDArray[np.int32], str]: ...
def distinct_rows(rows: NDArray[np.uint8]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]: ...
def pack_bits(numbers: NDArray[np.uint32], width: int) -> NDArray[np.uint8]: ...
def unpack_bits(bytes: NDArray[np.uint8], n: int, width: int) -> NDArray[np.uint32]: ...
def pack_thresholds(
    thresholds: NDArray[np.float64], feature_splits: NDArray[np.uint32]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]: ...
def unpack_thresholds(
    first_threshold: NDArray[np.float64],
    feature_splits: NDArray[np.uint32],
    shift: NDArray[np.uint8],
    width: NDArray[np.uint8],
    delta: NDArray[np.uint8],
) -> NDArray[np.float64]: ...
def check_thresholds(
    first_threshold: NDArray[np.float64],
    feature_splits: NDArray[np.uint32],
    shift: NDArray[np.uint8],
    width: NDArray[np.uint8],
    delta: NDArray[np.uint8],
) -> None: ...

class AbortFlag:
    def __init__(self) -> None: ...
    def set(self) -> None: ...
    def clear(self) -> None: ...
    def is_set(self) -> bool: ...

class Anytime:
    def __init__(
        self,
        forest: ForestArrays,
        *,
        classes: NDArray[np.int64],
        steps: NDArray[np.int32],
        weights: NDArray[np.float64],
    ) -> None: ...
    def run(
        self,
        rows: NDArray[Any],
        n_threads: int,
        max_steps: int,
        time_us: float,
        abort: AbortFlag | None,
        *,
        labels: NDArray[np.int64] | None = None,
        probabilities: NDArray[np.float64] | None = None,
        scores: NDArray[np.float64] | None = None,
        n_steps: NDArray[np.int32] | None = None,
        reasons: NDArray[np.uint8] | None = None,
        times_us: NDArray[np.float64] | None = None,
    ) -> None: ...
    @property
    def bytes(self) -> int: ...

class AnytimeRow:
    def __init__(self, anytime: Anytime, row: NDArray[Any]) -> None: ...
    def advance(self, n: int, /) -> None: ...
    def answer(self, label: NDArray[np.int64], probabilities: NDArray[np.float64], /) -> None: ...
    @property
    def n_steps(self) -> int: ...

class ArrowTable:
    def __init__(self, stream: object) -> None: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def is_table(self) -> bool: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def kinds(self) -> tuple[str, ...]: ...
    @property
    def formats(self) -> tuple[str, ...]: ...
    def read(
        self,
        order: NDArray[np.int64],
        recipes: list[Categories | None],
        out: NDArray[Any],
        *,
        ranks: ByteRanks | None = None,
    ) -> tuple[int, str, Any] | None: ...

class ByteRanks:
    def __init__(self, forest: ForestArrays) -> None: ...
    @property
    def available(self) -> bool: ...

class RowsTaken:
    def __init__(
        self, *, float32: bool, float64: bool, limits: NDArray[np.float64], otherwise: Callable[[Any], Any]
    ) -> None: ...

def any_missing(rows: NDArray[Any], columns: NDArray[np.int64], /) -> bool: ...
def any_at_most(rows: NDArray[Any], limits: NDArray[np.float64], /) -> bool: ...

class Categories:
    def __init__(
        self,
        values: list[Any],
        *,
        numbers: str,
        missing_code: float = ...,
        na_code: float | None = None,
        null_code: float | None = None,
    ) -> None: ...
    @property
    def has_rounded(self) -> bool: ...

class Combinations:
    def __init__(
        self,
        *,
        code_offset: NDArray[np.int64],
        code_hash: NDArray[np.int64],
        element_offset: NDArray[np.int64],
        column: NDArray[np.int32],
        kind: NDArray[np.uint8],
        border: NDArray[np.float32],
        wanted: NDArray[np.int64],
        key_offset: NDArray[np.int64],
        key: NDArray[np.uint64],
        output_offset: NDArray[np.int64],
        value: NDArray[np.float32],
    ) -> None: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_outputs(self) -> int: ...
    def compute(self, rows: NDArray[Any], /) -> NDArray[np.float32]: ...

class CellExit:
    def __init__(
        self,
        forest_and_router: ForestArrays,
        *,
        increments: NDArray[np.int32],
        order: NDArray[np.int32],
        lower: NDArray[np.int32],
        upper: NDArray[np.int32],
        first_open: NDArray[np.int32],
    ) -> None: ...
    def run(
        self,
        rows: NDArray[Any],
        sums: NDArray[np.int32],
        n_trees: NDArray[np.int32],
        sides: NDArray[np.uint8],
        cells: NDArray[np.int32],
        n_threads: int,
        /,
    ) -> None: ...
    def labels(
        self,
        rows: NDArray[Any],
        out: NDArray[np.int64],
        exact: Engine,
        negative_label: int,
        positive_label: int,
        threshold: int,
        tolerance: int,
        n_threads: int,
        /,
    ) -> None: ...
    def one_row(
        self,
        exact: Engine,
        negative_label: int,
        positive_label: int,
        threshold: int,
        tolerance: int,
        *,
        labels: tuple[Any, ...] | None,
        rows: RowsTaken,
    ) -> Callable[[Any], Any]: ...
    @property
    def bytes(self) -> int: ...

def find_router(
    forest: ForestArrays,
    *,
    increments: NDArray[np.int32],
    rows: NDArray[np.float64],
    n_cells: int,
    progress: Callable[[int, int], object] | None,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]: ...
def draw_rows(forest: ForestArrays, *, cover: NDArray[np.float64], n_rows: int, seed: int) -> NDArray[np.float64]: ...
def bound_cells(
    forest_and_router: ForestArrays, *, increments: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]: ...

class Nodes:
    def __init__(self, source: ForestArrays | Engine, payloads: NDArray[np.int32], /) -> None: ...
    @property
    def should_merge(self) -> bool: ...
    @property
    def bytes(self) -> int: ...
    @property
    def shared_bytes(self) -> int: ...

class EarlyExit:
    def __init__(
        self,
        nodes: Nodes,
        *,
        order: NDArray[np.int32],
        weights: NDArray[np.float64],
        lower: NDArray[np.int32],
        upper: NDArray[np.int32],
        piece_offset: NDArray[np.uint32],
        piece_edges: NDArray[np.int32],
        piece_sides: NDArray[np.uint8],
        seed: int,
        shuffle_rows: bool,
    ) -> None: ...
    def run(
        self,
        rows: NDArray[Any],
        sums: NDArray[np.int32],
        n_trees: NDArray[np.int32],
        sides: NDArray[np.uint8],
        n_threads: int,
        /,
    ) -> None: ...
    def labels(
        self,
        rows: NDArray[Any],
        out: NDArray[np.int64],
        exact: Engine,
        negative_label: int,
        positive_label: int,
        threshold: int,
        tolerance: int,
        n_threads: int,
        /,
    ) -> None: ...
    def one_row(
        self,
        exact: Engine,
        negative_label: int,
        positive_label: int,
        threshold: int,
        tolerance: int,
        *,
        labels: tuple[Any, ...] | None,
        rows: RowsTaken,
    ) -> Callable[[Any], Any]: ...
    @property
    def bytes(self) -> int: ...
    @property
    def shared_bytes(self) -> int: ...

class LeaderExit:
    def __init__(
        self,
        source: ForestArrays | Engine,
        /,
        *,
        order: NDArray[np.int32],
        trees_per_round: int,
        increments: NDArray[np.int32],
        start: NDArray[np.int32],
        lead: NDArray[np.int32],
        need: NDArray[np.int32],
    ) -> None: ...
    def run(
        self,
        rows: NDArray[Any],
        sums: NDArray[np.int32],
        n_trees: NDArray[np.int32],
        leaders: NDArray[np.int32],
        decided: NDArray[np.uint8],
        n_threads: int,
        /,
    ) -> None: ...
    def labels(
        self,
        rows: NDArray[Any],
        out: NDArray[np.int64],
        exact: Engine,
        classes: NDArray[np.int64],
        tolerance: int,
        n_threads: int,
        /,
    ) -> None: ...
    def one_row(
        self,
        exact: Engine,
        classes: NDArray[np.int64],
        tolerance: int,
        *,
        labels: tuple[Any, ...] | None,
        rows: RowsTaken,
    ) -> Callable[[Any], Any]: ...
    @property
    def bytes(self) -> int: ...
    @property
    def shared_bytes(self) -> int: ...

class SentinelExit:
    def __init__(
        self,
        forest: ForestArrays,
        *,
        classes: NDArray[np.int64],
        order: NDArray[np.int32],
        lanes: NDArray[np.int32],
        spread_lane: int,
        sentinels: NDArray[np.int32],
        lane: NDArray[np.int32],
        scale: NDArray[np.float64],
        offset: NDArray[np.float64],
        square: NDArray[np.float64],
        edge_offset: NDArray[np.uint32],
        edges: NDArray[np.int32],
        limits: NDArray[np.float64],
        engine: Engine | None = None,
        value_of_node: NDArray[np.int32] | None = None,
    ) -> None: ...
    def run(
        self,
        rows: NDArray[Any],
        n_threads: int,
        *,
        stops: NDArray[np.int32] | None = None,
        scores: NDArray[np.float64] | None = None,
        labels: NDArray[np.int64] | None = None,
        probabilities: NDArray[np.float64] | None = None,
    ) -> None: ...
    def rank(
        self,
        rows: NDArray[Any],
        offset: NDArray[np.int64],
        *,
        k: int,
        as_set: bool,
        scores: NDArray[np.float64],
        n_threads: int,
        stops: NDArray[np.int32] | None = None,
    ) -> None: ...
    def one_row(
        self,
        answer: str,
        *,
        labels: tuple[Any, ...] | None,
        rows: RowsTaken,
    ) -> Callable[[Any], Any]: ...
    @property
    def bytes(self) -> int: ...
    @property
    def shared_bytes(self) -> int: ...

class ScoreMap:
    def __init__(
        self,
        slope: NDArray[np.float64],
        intercept: NDArray[np.float64],
        *,
        lowest: tuple[float, float],
        highest: tuple[float, float],
        margin: float,
        sums_to_one: bool,
    ) -> None: ...
    def two_classes(
        self,
        sums: NDArray[np.int32],
        positions: NDArray[np.int32],
        is_positive: NDArray[np.uint8],
        out: NDArray[np.float64],
        /,
    ) -> None: ...
    def classes(
        self,
        sums: NDArray[np.int32],
        positions: NDArray[np.int32],
        leaders: NDArray[np.int32],
        out: NDArray[np.float64],
        /,
    ) -> None: ...

class Engine:
    def __init__(self, forest: ForestArrays, *, classes: NDArray[np.int64], leaf_ids: bool) -> None: ...
    def prepare(self) -> None: ...
    def labels(self, rows: NDArray[Any], out: NDArray[Any], n_threads: int, /) -> None: ...
    def probabilities(self, rows: NDArray[Any], out: NDArray[Any], n_threads: int, /) -> None: ...
    def scores(self, rows: NDArray[Any], out: NDArray[Any], n_threads: int, /) -> None: ...
    def leaves(self, rows: NDArray[Any], out: NDArray[Any], n_threads: int, /) -> None: ...
    def one_row(
        self,
        answer: str,
        *,
        labels: tuple[Any, ...] | None,
        rows: RowsTaken,
    ) -> Callable[[Any], Any]: ...
    def store(self) -> dict[str, NDArray[Any]]: ...
    @property
    def can_store(self) -> bool: ...
    @property
    def loop(self) -> str: ...
    @property
    def slices_tops(self) -> bool: ...
    @property
    def slices_large(self) -> bool: ...
    @property
    def n_trees(self) -> int: ...
    @property
    def values(self) -> NDArray[np.float64]: ...
    def most_of_trees(self, numbers: NDArray[np.float64], /) -> NDArray[np.float64]: ...
    @property
    def node_bytes(self) -> int: ...
    @property
    def leaf_bytes(self) -> int: ...
    @property
    def column_bytes(self) -> int: ...

class MappedEngine(Engine):
    def __init__(self, forest: ForestArrays, *, classes: NDArray[np.int64], parts: dict[str, NDArray[Any]]) -> None: ...

def give_back_memory() -> None: ...
def logistic_threshold(scale: float, float32: bool) -> float: ...
def log_float32(x: float) -> float: ...
def logistic(x: NDArray[np.float64], out: NDArray[np.float64]) -> None: ...
def kernels() -> str: ...
def fit_margins(
    scores: NDArray[Any],
    positive: NDArray[Any],
    costs: NDArray[Any],
    order: NDArray[Any],
    *,
    max_mistakes: int,
    upfront: bool,
    sides: str,
    slack: float,
    progress: Callable[[int, int], Any] | None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], int]: ...

class Draws:
    def __init__(self, share: float, seed: int) -> None: ...
    def between(self, start: int, stop: int, /) -> NDArray[np.int64]: ...
    def none_before(self, start: int, /) -> int: ...

class ShadowRows:
    def __init__(self, share: float, seed: int, *, n_features: int, is_float32: bool) -> None: ...
    def draw(self, rows: NDArray[Any], first_number: int, /) -> tuple[NDArray[np.int64], int]: ...
    def add(self, rows: NDArray[Any], numbers: NDArray[np.int64], /) -> None: ...
    def held(self) -> tuple[NDArray[Any], NDArray[np.int64]]: ...
    def clear(self) -> None: ...
    def __len__(self) -> int: ...

DRAW_BLOCK: int

def mix_bits(value: int) -> int: ...
def follow_bets(
    counts: NDArray[Any],
    started: NDArray[Any],
    log_gains: NDArray[Any],
    *,
    first_capital: float,
    log_capital: NDArray[Any],
    begun: NDArray[Any],
    e_values: NDArray[Any],
    changes: NDArray[Any],
) -> None: ...
def greedy_order(
    leaves: NDArray[Any],
    offset: NDArray[Any],
    weight: NDArray[Any],
    target: NDArray[Any],
    *,
    ridge: float,
    n_steps: int,
    shrink: float,
    exact: bool,
    progress: Callable[[int, int], Any] | None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]: ...
def refit_leaves(
    leaves: NDArray[Any],
    offset: NDArray[Any],
    weight: NDArray[Any],
    target: NDArray[Any],
    *,
    ridge: float,
    trees: NDArray[Any],
    n_sweeps: int,
    rate: float,
    progress: Callable[[int, int], Any] | None,
) -> tuple[NDArray[Any], NDArray[Any]]: ...

class VoteSweep:
    def __init__(self, n_voters: int, time_measures: NDArray[Any], risk_measures: NDArray[Any]) -> None: ...
    def cheapest(
        self,
        time_price: NDArray[Any],
        risk_price: NDArray[Any],
        lower: NDArray[Any],
        upper: NDArray[Any],
        time: NDArray[Any],
        risk: NDArray[Any],
        stops: NDArray[Any],
        /,
    ) -> None: ...

def vote_outcomes(
    n_voters: int,
    weight: NDArray[Any],
    lower: NDArray[Any],
    upper: NDArray[Any],
    votes: NDArray[Any],
    disagreement: NDArray[Any],
    /,
) -> None: ...

class Descent:
    def __init__(
        self,
        *,
        tree_offset: NDArray[Any],
        left: NDArray[Any],
        right: NDArray[Any],
        level: NDArray[Any],
        change: NDArray[Any],
        leaf: NDArray[Any],
        target: NDArray[Any],
        start: NDArray[Any],
        regression: bool,
        last_class_wins_ties: bool,
    ) -> None: ...
    @property
    def n_steps(self) -> int: ...
    def losses(self, steps: NDArray[np.int32]) -> NDArray[np.float64]: ...

class Squirrel:
    def __init__(self, descent: Descent, *, down: bool) -> None: ...
    def look(self) -> NDArray[np.float64]: ...
    def step(self, tree: int) -> None: ...

class Grid:
    def __init__(self, descent: Descent) -> None: ...
    @property
    def n_states(self) -> int: ...
    def seconds(self, n_threads: int) -> float: ...
    def optimal(
        self, *, worst: bool, n_threads: int, progress: Callable[[float], object] | None
    ) -> NDArray[np.int32]: ...

def squirrel_order(descent: Descent, *, down: bool) -> NDArray[np.int32]: ...
def beam_order(
    descent: Descent, *, steepness: float, same_tree: float, other_tree: float, width: int, down: bool
) -> NDArray[np.int32]: ...
def refined_order(
    descent: Descent,
    steps: NDArray[np.int32],
    *,
    steepness: float,
    same_tree: float,
    other_tree: float,
    max_states: int,
    max_sweeps: int,
) -> NDArray[np.int32]: ...
def find_charges(
    feature: NDArray[Any],
    parent: NDArray[Any],
    leaves: NDArray[Any],
    charge_of_feature: NDArray[Any],
    charge_of_group: NDArray[Any],
    n_charges: int,
) -> tuple[_Items, NDArray[Any], NDArray[Any]]: ...
def merge_items(one: _Items, other: _Items) -> _Items: ...
def count_uses(feature: NDArray[Any], parent: NDArray[Any], leaves: NDArray[Any], n_features: int) -> NDArray[Any]: ...
def largest_closure(
    parent: NDArray[Any],
    gain: NDArray[Any],
    cost: NDArray[Any],
    item_offset: NDArray[Any],
    item_node: NDArray[Any],
    item_cost: NDArray[Any],
    gain_weight: int,
    cost_weight: int,
    one_cut_below: int = ...,
) -> NDArray[Any]: ...
def closure_path(
    parent: NDArray[Any],
    gain: NDArray[Any],
    cost: NDArray[Any],
    item_offset: NDArray[Any],
    item_node: NDArray[Any],
    item_cost: NDArray[Any],
    progress: Callable[[int], Any] | None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]: ...
def tree_levels(parent: NDArray[Any], gain: NDArray[Any], cost: NDArray[Any]) -> NDArray[Any]: ...
def best_subtrees(parent: NDArray[Any], weight: NDArray[Any]) -> NDArray[Any]: ...
def family_savings(
    item_offset: NDArray[Any],
    item_node: NDArray[Any],
    item_cost: NDArray[Any],
    kept: NDArray[Any],
    goes_with: NDArray[Any],
    n_families: int,
) -> NDArray[Any]: ...

class ColumnOrders:
    def __init__(self, values: NDArray[np.float32]) -> None: ...

def grow_classes(
    columns: ColumnOrders,
    classes: NDArray[np.int32],
    weights: NDArray[np.int32],
    costs: NDArray[np.float64],
    *,
    n_classes: int,
    impurity: str,
    worst: bool,
    alpha: float,
    max_features: int,
    max_depth: int,
    seed: int,
) -> dict[str, NDArray[Any]]: ...
def grow_residuals(
    columns: ColumnOrders,
    residuals: NDArray[np.float64],
    prices: NDArray[np.float64],
    *,
    max_depth: int,
    leaf_of_row: NDArray[np.int32],
) -> dict[str, NDArray[Any]]: ...

# A submodule, which a stub file can only write as a class. Nothing in scurry itself uses it.
class testing:
    @staticmethod
    def ticks_per_us() -> float: ...
    @staticmethod
    def run_by_fake_clock(
        anytime: Anytime,
        rows: NDArray[Any],
        *,
        max_steps: int,
        time_us: float,
        tick_us: float,
        answer_us: float,
        labels: NDArray[np.int64],
        n_steps: NDArray[np.int32],
        reasons: NDArray[np.uint8],
    ) -> None: ...

    class AnswerTime:
        def __init__(self, from_roots: float) -> None: ...
        def learn(self, taken: float) -> None: ...
        def doubt(self) -> None: ...
        def expected(self, allowance: float) -> float: ...

def read_numbers(texts: list[str]) -> tuple[NDArray[np.float64], NDArray[np.int64]]: ...
def read_columns(
    sources: list[Any],
    recipes: list[Any],
    out: NDArray[Any],
    *,
    dictionary: bool = False,
    codes: bool = False,
    ranks: ByteRanks | None = None,
) -> tuple[int, str, Any] | None: ...
