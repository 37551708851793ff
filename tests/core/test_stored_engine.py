"""Stored engines: they answer bit by bit as the engine they were made of, and no number in them is believed.

Under the sanitizers (`make sanitize`) a number that is used without a check is seen even where nothing crashes.
"""

import numpy as np
import pytest
from hypothesis import given, settings

from scurry import Forest, _core
from support.strategies import forests

RNG = np.random.default_rng(0)


def grown(n_nodes: int, n_values: int, seed: int, **fields) -> Forest:
    """A forest of random trees with so many nodes, some of whose leaves are near the root; categories on feature 2."""
    rng = np.random.default_rng(seed)
    trees = []
    for _ in range(3):
        left, right, is_open = [-1], [-1], [0]
        while len(left) < n_nodes:
            node = is_open.pop(int(rng.integers(len(is_open))))
            left[node], right[node] = len(left), len(left) + 1
            is_open += [len(left), len(left) + 1]
            left += [-1, -1]
            right += [-1, -1]
        n, inner = len(left), np.array(left) >= 0
        tree = {
            "feature": np.where(inner, rng.integers(3, size=n), -1),
            "threshold": np.where(inner, rng.normal(size=n).round(1), 0.0),
            "left": left,
            "right": right,
            "value": rng.integers(9, size=(n, n_values)) / 8,
        }
        trees.append(tree)
    forest = Forest.from_trees(trees, n_features=4, classes=np.arange(n_values) if n_values > 1 else None,
                               aggregation="mean" if n_values > 1 else "sum")  # fmt: skip
    return forest.replace(**fields)


def with_categories(forest: Forest) -> Forest:
    sets = np.where((forest.left >= 0) & (forest.feature == 2), np.arange(forest.n_nodes) % 3, -1)
    return forest.replace(category_set=sets, category_offset=[0, 1, 2, 4], category_bits=[5, 2, 2**31, 6])


def with_directions(forest: Forest) -> Forest:
    """Missing values go left at some nodes of a feature and right at others."""
    return forest.replace(default_left=(forest.left >= 0) & (np.arange(forest.n_nodes) % 2 == 0))


def many_sets(forest: Forest) -> Forest:
    """So many sets that nodes look up codes."""
    n = 200
    sets = np.where((forest.left >= 0) & (forest.feature == 2), np.arange(forest.n_nodes) % n, -1)
    return forest.replace(category_set=sets, category_offset=np.arange(n + 1), category_bits=np.arange(1, n + 1))


FORESTS = {
    "two classes": grown(301, 2, 0),
    "three classes": grown(301, 3, 1),
    "a regressor": grown(301, 1, 2),
    "in doubles": grown(301, 2, 3, input_dtype="float64"),
    "in float32": grown(301, 1, 4, score_dtype="float32"),
    "sets as columns": with_categories(grown(301, 2, 5)),
    "codes": many_sets(grown(801, 2, 6)),
    "missing both ways": with_directions(grown(301, 2, 7)),
    "all of it": with_directions(many_sets(grown(801, 3, 8, input_dtype="float64"))),
}


def rows(forest: Forest, n: int = 200) -> np.ndarray:
    X = np.random.default_rng(1).normal(size=(n, forest.n_features)).round(1) * 1.5
    X[:, 2 % forest.n_features] = np.arange(n) % 40
    X[::7] = np.nan
    return X


def mapped(forest: Forest, parts: dict) -> _core.MappedEngine:
    return _core.MappedEngine(forest.arrays, classes=forest.engine_labels, parts=parts)


def answers(forest: Forest, engine: _core.Engine, X: np.ndarray) -> tuple[bytes, ...]:
    labels, shape = np.empty(len(X), np.int64), (len(X), max(forest.n_classes, 1))
    probabilities, scores = np.empty(shape), np.empty((len(X), forest.n_outputs))
    engine.labels(X, labels, 1)
    engine.probabilities(X, probabilities, 1)
    engine.scores(X, scores, 1)
    alone = np.empty((1, shape[1]))
    singly = []
    for row in X[:9]:
        engine.probabilities(row[None], alone, 1)
        singly.append(alone.tobytes())
    return labels.tobytes(), probabilities.tobytes(), scores.tobytes(), *singly


@pytest.mark.parametrize("kind", FORESTS)
def test_they_answer_as_the_engine_they_were_made_of(kind):
    forest = FORESTS[kind]
    assert forest.engine.loop == "walked"
    parts = forest.engine.store()
    X = rows(forest)
    expected = answers(forest, forest.engine, X)
    engine = mapped(forest, parts)
    assert answers(forest, engine, X) == expected
    assert (engine.node_bytes, engine.leaf_bytes) == (forest.engine.node_bytes, forest.engine.leaf_bytes)
    again = engine.store()
    assert again.keys() == parts.keys()
    assert all(again[name].tobytes() == parts[name].tobytes() for name in parts)
    if forest.engine.column_bytes > 1024 * forest.n_features:  # rows may be bytes
        ranks = RNG.integers(256, size=X.shape).astype(np.uint8)
        assert answers(forest, engine, ranks) == answers(forest, forest.engine, ranks)


@settings(max_examples=40, deadline=None)
@given(forest=forests())
def test_any_forest(forest):
    whole = _core.Engine(forest.arrays, classes=forest.engine_labels, leaf_ids=False)
    if not whole.can_store:
        with pytest.raises(ValueError, match="symmetric"):
            whole.store()
        return
    X = np.random.default_rng(0).normal(size=(70, forest.n_features)) * 2
    assert answers(forest, mapped(forest, whole.store()), X) == answers(forest, whole, X)


def test_arrays_at_odd_addresses():
    forest = FORESTS["three classes"]
    parts = forest.engine.store()
    moved = np.frombuffer(bytes(8) + parts["values"].tobytes(), np.float64)[1:]
    X = rows(forest)
    assert answers(forest, mapped(forest, parts | {"values": moved}), X) == answers(forest, forest.engine, X)


def test_wide_nodes():
    n = 2**16 + 1
    left, right = np.full(n, -1), np.full(n, -1)
    left[: n // 2], right[: n // 2] = np.arange(1, n, 2), np.arange(2, n, 2)
    inner = left >= 0
    tree = {"feature": np.where(inner, np.arange(n) % 3, -1), "threshold": np.where(inner, RNG.normal(size=n), 0),
            "left": left, "right": right, "value": RNG.normal(size=(n, 1))}  # fmt: skip
    forest = Forest.from_trees([tree], classes=None, aggregation="sum")
    parts = forest.engine.store()
    assert "nodes" not in parts
    X = RNG.normal(size=(99, 3))
    assert answers(forest, mapped(forest, parts), X) == answers(forest, forest.engine, X)
    for name in ("wide_nodes", "trees"):
        hostile = parts[name].copy()
        hostile[2] += 99
        with pytest.raises(ValueError, match="unsound"):
            mapped(forest, parts | {name: hostile})


def node(key: int, column: int, left: int) -> int:
    return key | column << 32 | left << 48


class TestHostile:
    """Each is refused, because a walk would leave the arrays, or would not end."""

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("nodes", lambda a: a[:-1]),
            ("nodes", lambda a: np.append(a, a[:1])),
            ("nodes", lambda a: a[:3]),
            ("nodes", lambda a: np.where(np.arange(len(a)) == 0, a + np.uint64(node(0, 0, 1)), a)),
            ("nodes", lambda a: np.where(np.arange(len(a)) == 0, a + np.uint64(node(0, 9, 0)), a)),
            ("nodes", lambda a: np.where(np.arange(len(a)) == 0, np.uint64(node(0, 4, 0)), a)),
            ("nodes", lambda a: a & np.uint64(0xFFFFFFFFFFFF)),
            ("nodes", lambda a: a | np.uint64(0xFFFF << 48)),
            ("nodes", lambda a: np.where(a >> np.uint64(48), a, a | np.uint64(0xFFFF))),
            ("nodes", lambda a: np.where(a >> np.uint64(48), a, a & np.uint64(0xFFFF0000FFFFFFFF))),
            ("nodes", lambda a: np.zeros_like(a)),
            ("trees", lambda a: a[:-1]),
            ("trees", lambda a: a[:-3]),
            ("trees", lambda a: np.append(a, a)),
            ("trees", lambda a: a + np.uint32(1)),
            ("trees", lambda a: np.where(np.arange(len(a)) == 0, np.uint32(2**32 - 1), a)),
            ("trees", lambda a: np.where(np.arange(len(a)) == 0, np.uint32(0), a)),
            ("trees", lambda a: np.where(np.arange(len(a)) % 3 == 1, np.uint32(6), a)),
            ("trees", lambda a: np.where(np.arange(len(a)) % 3 == 2, np.uint32(99), a)),
            ("shape", lambda a: a[:1]),
            ("shape", lambda a: a + np.uint32(1)),
            ("shape", lambda a: np.uint32([2**31, 2**31])),
            ("shape", lambda a: np.uint32([0, 4])),
            ("columns", lambda a: a[:-1]),
            ("columns", lambda a: a[:-8]),
            ("columns", lambda a: np.where(np.arange(len(a)) % 8 == 0, np.uint32(4), a)),
            ("columns", lambda a: np.where(np.arange(len(a)) % 8 == 1, np.uint32(4), a)),
            ("columns", lambda a: np.where(np.arange(len(a)) % 8 == 1, np.uint32(3), a)),
            ("columns", lambda a: np.where(np.arange(len(a)) % 8 == 3, np.uint32(9), a)),
            ("columns", lambda a: np.where(np.arange(len(a)) % 8 == 3, np.uint32(1), a)),
            ("values", lambda a: a[:-1]),
            ("values", lambda a: a[:2]),
            ("values", lambda a: a[:0]),
            ("byte_keys", lambda a: a[:-1]),
            ("byte_keys", lambda a: a + np.uint32(1)),
            ("label_start", lambda a: np.append(a, a)),
            ("label_start", lambda a: a + 2**31),
            ("label_start", lambda a: np.full_like(a, -(2**63))),
        ],
        ids=lambda x: x if isinstance(x, str) else "",
    )
    def test_parts(self, name, change):
        forest = FORESTS["two classes"]
        parts = forest.engine.store()
        with pytest.raises(ValueError, match="unsound"):
            mapped(forest, parts | {name: change(parts[name])})

    @pytest.mark.parametrize(
        ("kind", "name", "change"),
        [
            ("in doubles", "thresholds", lambda a: a[:-1]),
            ("in doubles", "filters", lambda a: a[:-1]),
            ("in doubles", "columns", lambda a: np.where(np.arange(len(a)) % 8 == 4, a + np.uint32(2**31), a)),
            ("in doubles", "columns", lambda a: np.where(np.arange(len(a)) % 8 == 5, np.uint32(3), a)),
            ("in doubles", "columns", lambda a: np.where(np.arange(len(a)) % 8 == 5, np.uint32(0), a)),
            ("in doubles", "columns", lambda a: np.where(np.arange(len(a)) % 8 == 6, a + np.uint32(2**31), a)),
            ("in doubles", "columns", lambda a: np.where(np.arange(len(a)) % 8 == 7, np.uint32(0), a)),
            ("in doubles", "columns", lambda a: np.where(np.arange(len(a)) % 8 == 7, np.uint32(40), a)),
            ("sets as columns", "sets", lambda a: a[:-5]),
            ("sets as columns", "sets", lambda a: a + np.uint32(1)),
            ("sets as columns", "sets", lambda a: np.where(np.arange(len(a)) % 5 == 3, np.uint32(4096), a)),
            ("sets as columns", "sets", lambda a: np.where(np.arange(len(a)) % 5 == 4, np.uint32(2**32 - 1), a)),
            ("sets as columns", "set_keys", lambda a: a[:-1]),
            ("codes", "category_tests", lambda a: a[:-3]),
            ("codes", "category_tests", lambda a: a + np.uint32(2**31)),
            ("codes", "category_bits", lambda a: a[:-1]),
            ("codes", "marks", lambda a: a[:-1]),
            ("missing both ways", "marks", lambda a: a[:0]),
            ("three classes", "label_words", lambda a: a[:-1]),
            ("three classes", "label_start", lambda a: a[:-1]),
            ("a regressor", "label_start", lambda a: np.zeros(1, np.int64)),
            ("in float32", "values", lambda a: np.zeros(3)),
        ],
        ids=lambda x: x if isinstance(x, str) else "",
    )
    def test_parts_of_other_forests(self, kind, name, change):
        forest = FORESTS[kind]
        parts = forest.engine.store()
        default = {"values": np.zeros(0), "label_start": np.zeros(0, np.int64)}
        with pytest.raises(ValueError, match="unsound"):
            mapped(forest, parts | {name: np.ascontiguousarray(change(parts.get(name, default.get(name))))})

    @pytest.mark.parametrize("kind", FORESTS)
    def test_every_part_is_needed(self, kind):
        forest = FORESTS[kind]
        parts = forest.engine.store()
        for name in parts.keys() - {"byte_keys", "label_start", "category_bits"}:
            with pytest.raises(ValueError, match="unsound"):
                mapped(forest, {other: part for other, part in parts.items() if other != name})

    @pytest.mark.parametrize("kind", FORESTS)
    def test_random_damage(self, kind):
        """Whatever is not refused answers something, within its arrays."""
        forest = FORESTS[kind]
        parts, X = forest.engine.store(), rows(forest, 70)
        n_refused = 0
        for seed in range(120):
            rng = np.random.default_rng(seed)
            name = str(rng.choice(list(parts)))
            raw = bytearray(parts[name].tobytes())
            for _ in range(rng.integers(1, 4)):
                raw[int(rng.integers(len(raw)))] = int(rng.choice([0, 1, 127, 128, 255, int(rng.integers(256))]))
            damaged = np.frombuffer(bytes(raw), parts[name].dtype)
            try:
                engine = mapped(forest, parts | {name: damaged})
            except ValueError:
                n_refused += 1
            else:
                with np.errstate(all="ignore"):
                    answers(forest, engine, X)
        assert n_refused > 0
