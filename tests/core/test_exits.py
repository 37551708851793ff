"""Native early exits against a plain numpy replay of every tree, for any batch, order of rows and number of threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scurry import Forest, _core
from scurry.plan import ExitSide
from support.strategies import complete_forest

INT = np.iinfo(np.int32)


def exit_run(native, rows, n_threads=1):
    n = len(rows)
    sums, trees, sides = np.full(n, -7, np.int32), np.full(n, -7, np.int32), np.full(n, 9, np.uint8)
    native.run(rows, sums, trees, sides, n_threads)
    return sums, trees, sides


def make_exit(
    forest: Forest, increments, policies, order=None, seed=0, shuffle_rows=False, pieces=((), (), ()), n_weights=None
):
    order = np.arange(forest.n_trees) if order is None else order
    weights, lower, upper = (np.array(part) for part in zip(*policies, strict=True))
    return _core.EarlyExit(
        _core.Nodes(forest.arrays, increments.astype(np.int32)),
        order=order.astype(np.int32),
        weights=np.resize(weights.astype(np.float64), n_weights or len(weights)),
        lower=lower.astype(np.int32),
        upper=upper.astype(np.int32),
        piece_offset=np.array(pieces[0], np.uint32),
        piece_edges=np.array(pieces[1], np.int32),
        piece_sides=np.array(pieces[2], np.uint8),
        seed=seed,
        shuffle_rows=shuffle_rows,
    )


def replay(sums_by_tree, lower, upper):
    """(sum, trees, side) per row from running sums of shape (n_rows, n_trees + 1), the first column being 0."""
    stop = (sums_by_tree <= lower) | (sums_by_tree >= upper)
    stop[:, -1] = True
    trees = stop.argmax(axis=1)
    sums = sums_by_tree[np.arange(len(trees)), trees]
    side = np.where(sums >= upper[trees], ExitSide.POSITIVE, ExitSide.CONTINUE)
    side = np.where(sums <= lower[trees], ExitSide.NEGATIVE, side)
    return sums, trees, side


def random_thresholds(rng, n_trees, scale):
    """Thresholds that close in as trees are evaluated, with positions where no row may leave."""
    width = scale * np.sqrt(np.arange(n_trees + 1) + 1.0) * rng.uniform(0.3, 2)
    lower, upper = np.floor(-width), np.ceil(width)
    closed = rng.random(n_trees + 1) < 0.3
    return np.where(closed, INT.min, lower), np.where(closed, INT.max, upper)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_rows=st.sampled_from([1, 3, 5, 33, 200, 1000]),
    depth=st.integers(1, 14),
    n_features=st.sampled_from([6, 20, 40, 60, 100]),
    missing=st.sampled_from([0.0, 0.1]),
)
def test_thresholds_on_sums(seed, n_rows, depth, n_features, missing):
    rng = np.random.default_rng(seed)
    forest = complete_forest(n_trees=40, depth=min(depth, 9), seed=seed, n_columns=2, n_features=n_features)
    increments = rng.integers(-50, 51, forest.n_nodes)
    order = rng.permutation(40)
    lower, upper = random_thresholds(rng, 40, 40)
    lower[0], upper[0] = INT.min, INT.max
    rows = rng.normal(size=(n_rows, n_features))
    rows[rng.random(rows.shape) < missing] = np.nan
    native = make_exit(forest, increments, [(1.0, lower, upper)], order)
    by_tree = np.pad(np.cumsum(increments[forest.apply(rows)][:, order], axis=1), ((0, 0), (1, 0)))
    for got, expected in zip(exit_run(native, rows), replay(by_tree, lower, upper), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("first_stop", [3, 9, 12])
@pytest.mark.parametrize("n_features", [6, 40, 100])
def test_more_rows_continue_than_are_kept_together(first_stop, n_features):
    """Rows that cannot stop in their first trees, and so many of them that they are finished in several lots."""
    rng = np.random.default_rng(first_stop)
    forest = complete_forest(n_trees=12, depth=4, n_columns=2, n_features=n_features)
    votes = rng.integers(0, 2, forest.n_nodes)
    lower, upper = np.full(13, -1), np.arange(13) + 1
    lower[first_stop:], upper[first_stop:] = 1, first_stop - 1
    rows = rng.normal(size=(10_000, n_features)).astype(np.float32)
    by_tree = np.pad(np.cumsum(votes[forest.apply(rows)], axis=1), ((0, 0), (1, 0)))
    native = make_exit(forest, votes, [(1.0, lower, upper)])
    for n_threads in (1, 2):
        for got, expected in zip(exit_run(native, rows, n_threads), replay(by_tree, lower, upper), strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("seed", [0, 1])
def test_pieces(seed):
    """Sums cut into intervals, some of which stop a row, and some of which keep it to the end."""
    rng = np.random.default_rng(seed)
    n_trees = 20
    forest = complete_forest(n_trees=n_trees, depth=6, n_columns=2)
    increments = rng.integers(-50, 51, forest.n_nodes)
    edges = [np.sort(rng.choice(np.arange(-200, 200), rng.integers(0, 9), replace=False)) for _ in range(n_trees + 1)]
    sides = [rng.choice([*[ExitSide.CONTINUE] * 9, ExitSide.FULL, *ExitSide], len(e) + 1) for e in edges]
    sides[0][:] = ExitSide.CONTINUE
    never = [(1.0, np.full(n_trees + 1, INT.min), np.full(n_trees + 1, INT.max))]
    pieces = (np.cumsum([0, *map(len, edges)]), np.concatenate(edges), np.concatenate(sides))
    native = make_exit(forest, increments, never, pieces=pieces)
    rows = rng.normal(size=(700, 6))
    expected, n_kept = [], 0
    for row in np.cumsum(increments[forest.apply(rows)], axis=1):
        side, full = ExitSide.CONTINUE, False
        for i, total in enumerate(row, start=1):
            side = ExitSide.CONTINUE if full else sides[i][np.searchsorted(edges[i], total, side="right")]
            full = full or side == ExitSide.FULL
            if side in (ExitSide.NEGATIVE, ExitSide.POSITIVE):
                break
        expected.append((total, i, ExitSide.CONTINUE if full else side))
        n_kept += full
    assert n_kept > 50
    for got, wanted in zip(exit_run(native, rows), zip(*expected, strict=True), strict=True):
        np.testing.assert_array_equal(got, wanted)
    for at in range(0, 60, 3):  # a few rows are walked one by one
        for part, whole in zip(exit_run(native, rows[at : at + 3]), exit_run(native, rows, 2), strict=True):
            np.testing.assert_array_equal(part, whole[at : at + 3])


@pytest.mark.parametrize("n_features", [2, 3])
def test_rows_that_differ_in_one_value_draw_by_themselves(n_features):
    """Whether the core has an even or an odd number of columns, the last of which is the category."""
    features, sets = [0, -1, -1, 1, -1, -1, 1, -1, -1], [-1, -1, -1, 0, -1, -1, 0, -1, -1]
    bits = {"category_offset": [0, 7], "category_bits": [0x55555555] * 7}
    forest = complete_forest(3, 1, n_features, 2, feature=features, category_set=sets, **bits)
    at_once, never = np.zeros(4, np.int64), np.full(4, INT.min)
    policies = [(0.5, at_once, np.full(4, INT.max)), (0.5, never, np.full(4, INT.max))]
    native = make_exit(forest, np.zeros(forest.n_nodes), policies)
    for varied in (0, 1):
        rows = np.zeros((200, n_features))
        rows[:, varied] = np.arange(200)
        assert 60 < (exit_run(native, rows)[1] == 0).sum() < 140


@pytest.fixture(scope="module")
def mixture():
    rng = np.random.default_rng(5)
    forest = complete_forest(n_trees=30, depth=7, n_columns=2)
    increments = rng.integers(-50, 51, forest.n_nodes)
    policies = []
    for weight in (0.5, 0.3, 0.2):
        lower, upper = random_thresholds(rng, 30, 60)
        lower[0], upper[0] = INT.min, INT.max
        policies.append((weight, lower, upper))
    policies[2][1][0] = 0  # the last policy answers at once
    return forest, increments, policies, rng.normal(size=(5000, 6))


@pytest.mark.parametrize("shuffle_rows", [False, True])
def test_draws_depend_on_the_row_alone(mixture, shuffle_rows):
    forest, increments, policies, rows = mixture
    native = make_exit(forest, increments, policies, seed=3, shuffle_rows=shuffle_rows)
    whole = exit_run(native, rows)
    order = np.random.default_rng(0).permutation(len(rows))
    for shuffled, plain in zip(exit_run(native, rows[order], 3), whole, strict=True):
        np.testing.assert_array_equal(shuffled, plain[order])
    for size in (1, 4, 5, 31, 64, 700):
        for part, plain in zip(exit_run(native, np.asfortranarray(rows[:size])), whole, strict=True):
            np.testing.assert_array_equal(part, plain[:size])


def test_more_policies_than_a_vector_holds(mixture):
    """Every row follows one of them to the end, the same one in a batch and alone."""
    forest, increments, _, rows = mixture
    rng = np.random.default_rng(8)
    policies = [(1 / 20, *random_thresholds(rng, 30, 40)) for _ in range(20)]
    for _, lower, upper in policies:
        lower[0], upper[0] = INT.min, INT.max
    native = make_exit(forest, increments, policies)
    rows = rows[:600]
    got = exit_run(native, rows)
    by_tree = np.pad(np.cumsum(increments[forest.apply(rows)], axis=1), ((0, 0), (1, 0)))
    follows = [np.logical_and.reduce([g == e for g, e in zip(got, replay(by_tree, lower, upper), strict=True)])
               for _, lower, upper in policies]  # fmt: skip
    assert np.any(follows, axis=0).all()
    assert all(not follow.all() for follow in follows)
    alone = [exit_run(native, row[None]) for row in rows[:40]]
    for part, whole in zip(zip(*alone, strict=True), got, strict=True):
        np.testing.assert_array_equal(np.concatenate(part), whole[:40])


def test_policies_are_drawn_with_their_weights(mixture):
    forest, increments, policies, rows = mixture
    by_tree = np.pad(np.cumsum(increments[forest.apply(rows)], axis=1), ((0, 0), (1, 0)))
    replays = [replay(by_tree, lower, upper) for _, lower, upper in policies]
    counts = []
    for seed in range(4):
        got = np.stack(exit_run(make_exit(forest, increments, policies, seed=seed), rows))
        same = [(got == np.stack(expected)).all(axis=0) for expected in replays]
        assert np.any(same, axis=0).all()
        counts.append(float((got[1] == 0).mean()))
    assert abs(np.mean(counts) - 0.2) < 4 * np.sqrt(0.16 / (4 * len(rows)))
    assert len(set(counts)) > 1


def test_shuffled_rows_evaluate_each_tree_equally_often():
    """Trees whose leaves add distinct powers of two tell which trees were evaluated for a row."""
    trees = [{"feature": [0, -1, -1], "threshold": [np.inf] * 3, "left": [1, -1, -1], "right": [2, -1, -1],
              "value": [[0.0, 1.0]] * 3}] * 12  # fmt: skip
    forest = Forest.from_trees(trees)
    increments = np.repeat(1 << np.arange(12), 3)
    upper = np.full(13, INT.max)
    upper[4] = -1  # stop after four trees
    native = make_exit(forest, increments, [(1.0, np.full(13, INT.min), upper)], shuffle_rows=True)
    rows = np.random.default_rng(0).normal(size=(20_000, 1))
    sums, n_trees, _ = exit_run(native, rows)
    assert (n_trees == 4).all()
    evaluated = (sums[:, None] >> np.arange(12)) & 1
    assert (evaluated.sum(axis=1) == 4).all()
    share = evaluated.mean(axis=0)
    assert np.abs(share - 1 / 3).max() < 5 * np.sqrt(2 / 9 / len(rows))


@pytest.mark.parametrize("trees_per_round", [1, 3])
def test_leader(trees_per_round):
    rng = np.random.default_rng(trees_per_round)
    n_rounds = 12
    outputs = None if trees_per_round == 1 else np.arange(n_rounds * 3) % 3
    header = {} if outputs is None else {"tree_output": outputs, "base_score": np.zeros(3), "classes": np.arange(3)}
    forest = complete_forest(
        n_trees=n_rounds * trees_per_round,
        n_columns=1 if trees_per_round == 3 else 3,
        depth=6,
        aggregation="sum",
        **header,
    )
    increments = rng.integers(0, 40, forest.value.shape).astype(np.int32)
    order = np.arange(forest.n_trees, dtype=np.int32)
    start = np.array([3, 0, 1], np.int32)
    lead = np.r_[INT.max, np.full(n_rounds - 1, 60), INT.max].astype(np.int32)
    native = _core.LeaderExit(
        forest.arrays,
        order=order,
        trees_per_round=trees_per_round,
        increments=increments,
        start=start,
        lead=lead,
        need=np.empty((0, 0), np.int32),
    )
    rows = rng.normal(size=(3000, 6))
    leaf = increments[forest.apply(rows)]
    if trees_per_round == 3:
        leaf = leaf.reshape(len(rows), n_rounds, 3)
    sums = np.cumsum(leaf, axis=1) + start
    ranked = np.sort(sums, axis=2)
    stop = ranked[:, :, 2] - ranked[:, :, 1] >= 60
    stop[:, -1] = True
    rounds = stop.argmax(axis=1)
    final = sums[np.arange(len(rows)), rounds]
    for size, n_threads in ((3000, 1), (3000, 2), (1, 1), (4, 1), (100, 2)):
        got = (
            np.empty((size, 3), np.int32),
            np.empty(size, np.int32),
            np.empty(size, np.int32),
            np.empty(size, np.uint8),
        )
        native.run(rows[:size], *got, n_threads)
        np.testing.assert_array_equal(got[0], final[:size])
        np.testing.assert_array_equal(got[1], (rounds[:size] + 1) * trees_per_round)
        np.testing.assert_array_equal(got[2], final[:size].argmax(axis=1))
        np.testing.assert_array_equal(got[3], rounds[:size] < n_rounds - 1)


@pytest.mark.parametrize("n_features", [6, 60])
@pytest.mark.parametrize("n_classes", [3, 8, 9, 20])
def test_leaders_of_many_rows(n_classes, n_features):
    """Vectors of every width; rows that stop in their first trees, and so many others that they are gathered twice."""
    rng, n_trees = np.random.default_rng(n_classes), 12
    forest = complete_forest(n_trees=n_trees, n_columns=n_classes, depth=7, n_features=n_features)
    assert forest.engine.loop == "walked"
    increments = rng.integers(0, 40, forest.value.shape).astype(np.int32)
    lead = np.r_[INT.max, INT.max, rng.integers(10, 90, n_trees - 2), INT.max].astype(np.int32)
    native = leader_exit(forest, increments=increments, lead=lead)
    rows = rng.normal(size=(9000, n_features)).astype(np.float32)
    rows[::70] = np.nan
    sums = np.cumsum(increments[forest.apply(rows)], axis=1)
    two = np.sort(sums, axis=2)[:, :, -2:]
    stop = two[:, :, 1] - two[:, :, 0] >= lead[1:]
    stop[:, -1] = True
    stops_at = stop.argmax(axis=1)
    assert len(np.unique(stops_at)) > 5
    for n_threads in (1, 2):
        found, trees, leaders = (np.empty(shape, np.int32) for shape in ((9000, n_classes), 9000, 9000))
        native.run(rows, found, trees, leaders, np.empty(9000, np.uint8), n_threads)
        np.testing.assert_array_equal(trees, stops_at + 1)
        np.testing.assert_array_equal(found, sums[np.arange(9000), stops_at])
        np.testing.assert_array_equal(leaders, found.argmax(axis=1))


def leader_exit(forest: Forest, **changes):
    """One tree a round, whose leaves add nothing; `changes` replace arguments."""
    parts = {
        "order": np.arange(forest.n_trees, dtype=np.int32),
        "trees_per_round": 1,
        "increments": np.zeros(forest.value.shape, np.int32),
        "start": np.zeros(forest.n_outputs, np.int32),
        "lead": np.full(forest.n_trees + 1, INT.max, np.int32),
        "need": np.empty((0, 0), np.int32),
    }
    return _core.LeaderExit(forest.arrays, **(parts | changes))


@pytest.mark.parametrize("n_rows", [1, 100])
def test_leader_of_very_negative_sums(n_rows):
    """Whatever the sums, nothing but the classes leads."""
    forest = complete_forest(n_trees=4, n_columns=3, depth=3)
    start = np.array([-(2**30) - 9, -(2**30) - 19, INT.min + 9], np.int32)
    native = leader_exit(forest, start=start, lead=np.array([INT.max, 11, 10, INT.max, INT.max], np.int32))
    sums, trees, leaders = (np.empty(shape, np.int32) for shape in ((n_rows, 3), n_rows, n_rows))
    decided = np.empty(n_rows, np.uint8)
    native.run(np.zeros((n_rows, 6)), sums, trees, leaders, decided, 1)
    assert (sums == start).all()
    assert (trees == 2).all()
    assert (leaders == 0).all()
    assert decided.all()


def test_rules_that_do_not_fit_the_forest_are_refused():
    """Each of these would make the core read outside an array."""
    many, one = complete_forest(n_trees=3, n_columns=3, depth=2), complete_forest(n_trees=3, n_columns=1, depth=2)
    with pytest.raises(ValueError, match="a start is needed for every output"):
        leader_exit(many, start=np.zeros(4, np.int32))
    with pytest.raises(ValueError, match="a start is needed for every output"):
        leader_exit(one, start=np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="where a tree adds one vote"):
        leader_exit(many, increments=np.full(many.value.shape, 2, np.int32), need=np.ones((4, 4), np.int32))
    with pytest.raises(ValueError, match="need 32 bits"):
        leader_exit(many, increments=np.full(many.value.shape, 2**30, np.int32))
    never = [(1.0, np.full(4, INT.min), np.full(4, INT.max))]
    with pytest.raises(ValueError, match="a weight and thresholds"):
        make_exit(many, np.zeros(many.n_nodes), never, n_weights=2)
    with pytest.raises(ValueError, match="need 32 bits"):
        make_exit(many, np.full(many.n_nodes, -(2**30)), never)
    native = make_exit(many, np.zeros(many.n_nodes), never)
    wider = complete_forest(n_trees=3, n_columns=2, n_features=90).engine
    with pytest.raises(ValueError, match="of another forest"):
        native.labels(np.zeros((1, 6)), np.empty(1, np.int64), wider, 0, 1, 0, 0, 1)


def test_leader_by_votes_needed():
    rng = np.random.default_rng(1)
    forest = complete_forest(n_trees=25, n_columns=4, depth=5)
    increments = np.eye(4, dtype=np.int32)[forest.value.argmax(axis=1)]
    need = rng.integers(3, 20, (26, 26)).astype(np.int32)
    native = _core.LeaderExit(
        forest.arrays,
        order=np.arange(25, dtype=np.int32),
        trees_per_round=1,
        increments=increments,
        start=np.zeros(4, np.int32),
        lead=np.zeros(26, np.int32),
        need=need,
    )
    rows = rng.normal(size=(500, 6))
    sums = np.cumsum(increments[forest.apply(rows)], axis=1)
    ranked = np.sort(sums, axis=2)
    stop = ranked[:, :, 3] >= need[np.arange(1, 26), ranked[:, :, 2]]
    stop[:, -1] = True
    got = np.empty((500, 4), np.int32), np.empty(500, np.int32), np.empty(500, np.int32), np.empty(500, np.uint8)
    native.run(rows, *got, 1)
    np.testing.assert_array_equal(got[1], stop.argmax(axis=1) + 1)
