"""The native engine against the numpy reference, bit for bit, on rows made to break it."""

import math
import os
import shlex
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scurry import Forest, _core
from scurry.forest import reference
from scurry.forest.structure import ARRAYS, HEADER
from support.strategies import SPECIAL, adversarial_rows, complete_forest, forests

RNG = np.random.default_rng(0)


def test_a_sanitized_run_tests_the_sanitized_core():
    if os.environ.get("SCURRY_SANITIZED"):
        assert "sanitized" in _core.__file__


def assert_equals_reference(forest: Forest, rows: np.ndarray) -> None:
    np.testing.assert_array_equal(forest.apply(rows), reference.apply(forest, rows))
    scores = reference.scores(forest, rows)
    for same in (rows, np.asfortranarray(rows), rows[::-1][::-1]):
        np.testing.assert_array_equal(forest.scores(same), scores)
    np.testing.assert_array_equal(forest.predict(rows), reference.predict(forest, rows))
    if forest.is_classifier:
        np.testing.assert_allclose(forest.predict_proba(rows), reference.probabilities(forest, rows), rtol=1e-6)


@settings(max_examples=150, deadline=None)
@given(forest=forests(), seed=st.integers(0, 1000), n_rows=st.sampled_from([1, 2, 7, 33, 64, 130]))
def test_random_forests(forest, seed, n_rows):
    rows = np.random.default_rng(seed).choice(np.r_[SPECIAL, forest.threshold], (n_rows, forest.n_features))
    assert_equals_reference(forest, adversarial_rows(forest, rows, n_rows, seed))
    with np.errstate(over="ignore"):
        assert_equals_reference(forest, rows.astype(np.float32))


@pytest.mark.parametrize("aggregation", ["sum", "mean"])
@pytest.mark.parametrize("n_columns", [2, 3, 9])
def test_vectors_summed_in_float32(n_columns, aggregation):
    """As onnxruntime sums the leaves of a forest that has weights for every class."""
    forest = complete_forest(n_columns=n_columns, depth=4, score_dtype="float32", aggregation=aggregation)
    rows = RNG.normal(size=(130, forest.n_features))
    assert_equals_reference(forest, rows)
    assert_equals_reference(forest, rows[:1])
    wide = forest.replace(score_dtype="float64")
    assert (forest.scores(rows) != wide.scores(rows).astype(np.float32)).any()


@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_features", [1, 10, 20, 40, 60, 100, 300])
def test_every_row_stride(n_features, input_dtype):
    forest = complete_forest(n_features=n_features, input_dtype=input_dtype)
    rows = RNG.normal(size=(150, n_features))
    assert_equals_reference(forest, adversarial_rows(forest, rows, 150))
    assert_equals_reference(forest, rows)
    assert_equals_reference(forest, rows.astype(np.float32))
    rows[77, n_features // 2] = np.nan  # one missing value makes a block of rows heed where they go
    assert_equals_reference(forest, rows)
    assert_equals_reference(forest, rows[77:78])


@pytest.mark.parametrize("n_features", [10, 40, 400])
@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
def test_features_that_no_node_reads(n_features, input_dtype):
    few = RNG.choice(n_features, 3, replace=False)
    base = complete_forest(n_features=n_features)
    forest = complete_forest(n_features=n_features, feature=few[base.feature % 3], input_dtype=input_dtype)
    rows = adversarial_rows(forest, RNG.normal(size=(50, n_features)), 150)
    assert_equals_reference(forest, rows)
    with np.errstate(over="ignore"):
        assert_equals_reference(forest, rows.astype(np.float32))


@pytest.mark.parametrize("comparison", ["<=", "<"])
def test_numbers_around_thresholds_between_floats(comparison):
    """A number that is no float is told from its float neighbours only by a threshold between the same two floats."""
    base = complete_forest(depth=7)
    floats = np.r_[RNG.normal(size=200), 0.0, 1e-45, -1e-45, 3.4028234e38, -3.4028234e38].astype(np.float32)
    with np.errstate(over="ignore"):
        least = np.nextafter(floats, np.float32(np.inf)).astype(np.float64)
    # One threshold in each gap at most: no ranks.
    within = np.where(np.isfinite(least), (floats + least) / 2, 1e300)
    threshold = RNG.choice(np.r_[within, -1e300, -1e-60, 1e-60], base.n_nodes)
    forest = complete_forest(depth=7, threshold=threshold, input_dtype="float64", comparison=comparison)
    near = np.r_[threshold, np.nextafter(threshold, np.inf), np.nextafter(threshold, -np.inf), floats, least]
    with np.errstate(over="ignore"):
        near = np.r_[near, near.astype(np.float32)]
    near = np.r_[near, 0.0, -0.0, 1e-70, -1e-70, np.inf, -np.inf, np.nan, RNG.normal(size=99)]
    assert_equals_reference(forest, RNG.choice(near, (600, forest.n_features)))
    assert_equals_reference(forest, RNG.choice(near, (1, forest.n_features)))


@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
@pytest.mark.parametrize("comparison", ["<=", "<"])
def test_thresholds_at_infinity(comparison, input_dtype):
    """No number is below -inf, but -inf is not above it; some columns have keys that are ranks."""
    base = complete_forest()
    lowest = -np.finfo(np.float64).max
    ends = RNG.choice([-np.inf, np.nextafter(-np.inf, 0), lowest / 1.1, np.inf, 0.1, 0.1 + 1e-12], base.n_nodes)
    threshold = np.where(base.feature < 4, ends, np.where(RNG.random(base.n_nodes) < 0.3, -np.inf, base.threshold))
    forest = complete_forest(threshold=threshold, input_dtype=input_dtype, comparison=comparison)
    rows = RNG.choice([-np.inf, np.inf, np.nan, 0.1, 0.1 + 1e-12, lowest, lowest / 1.1, -1e300], (300, 6))
    assert_equals_reference(forest, rows)
    for row in rows[:20]:
        assert_equals_reference(forest, row[None])


@pytest.mark.parametrize("comparison", ["<=", "<"])
def test_thresholds_that_no_float_separates(comparison):
    """Some columns have float64 thresholds within one float32, whose keys are ranks; others have none."""
    base = complete_forest()
    close = 1 + RNG.integers(0, 9, base.n_nodes) * 1e-12
    threshold = np.where(base.feature < 3, close, base.threshold)
    forest = complete_forest(threshold=threshold, input_dtype="float64", comparison=comparison)
    rows = adversarial_rows(forest, RNG.normal(size=(50, 6)), 300)
    rows[:, :3] = np.where(RNG.random((300, 3)) < 0.5, RNG.choice(close, (300, 3)), rows[:, :3])
    assert_equals_reference(forest, rows)
    assert_equals_reference(forest, np.asfortranarray(rows))
    with np.errstate(over="ignore"):
        assert_equals_reference(forest, rows.astype(np.float32))


@pytest.mark.parametrize("n_columns", [1, 2, 3, 5, 8, 9, 17, 26, 40, 130])
def test_every_leaf_width(n_columns):
    forest = complete_forest(n_columns=n_columns, n_trees=9, depth=4)
    assert_equals_reference(forest, RNG.normal(size=(100, 6)))


@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
@pytest.mark.parametrize("comparison", ["<=", "<"])
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_missing_rules(input_dtype, comparison, kind):
    forest = complete_forest(input_dtype=input_dtype, comparison=comparison)
    fields = {
        name: getattr(forest, name) for name in ("tree_offset", "feature", "left", "right", "value", "default_left")
    }
    threshold = np.where(RNG.random(forest.n_nodes) < 0.3, 0.0, forest.threshold)
    forest = Forest(
        **fields,
        threshold=threshold,
        n_features=6,
        classes=forest.classes,
        missing=np.full(forest.n_nodes, kind),
        input_dtype=input_dtype,
        comparison=comparison,
    )
    assert_equals_reference(forest, adversarial_rows(forest, RNG.normal(size=(50, 6)), 400))


@pytest.mark.parametrize("n_sets", [6, 60, 200])
@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
def test_few_and_many_sets_in_deep_trees(n_sets, input_dtype):
    """Few sets are columns of their own to trees that are walked; many are looked up."""
    base = complete_forest(n_features=5, depth=8, n_trees=3)
    sets = np.where(base.feature >= 2, RNG.integers(0, n_sets, base.n_nodes), -1)
    words = RNG.integers(1, 4, n_sets)
    forest = complete_forest(
        n_features=5,
        depth=8,
        n_trees=3,
        category_set=sets,
        category_offset=np.r_[0, np.cumsum(words)],
        category_bits=RNG.integers(0, 2**32, words.sum(), dtype=np.uint32),
        default_left=RNG.random(base.n_nodes) < 0.5,
        input_dtype=input_dtype,
    )
    assert forest.engine.loop == "walked"
    rows = adversarial_rows(forest, RNG.normal(size=(50, 5)), 400)
    rows[:, 2:] = RNG.choice([*range(100), 2.5, -0.5, -1, 1e9, 1e30, np.inf, -np.inf, np.nan], (400, 3))
    assert_equals_reference(forest, rows)
    assert_equals_reference(forest, rows[:1])
    with np.errstate(over="ignore"):
        assert_equals_reference(forest, rows.astype(np.float32))


@pytest.mark.parametrize("rounding", ["floor", "trunc"])
@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
def test_categories(rounding, input_dtype):
    base = complete_forest(n_features=4)
    sets = np.where((base.feature >= 2) & (RNG.random(base.n_nodes) < 0.8), RNG.integers(0, 20, base.n_nodes), -1)
    words = RNG.integers(1, 5, 20)
    forest = complete_forest(
        n_features=4,
        input_dtype=input_dtype,
        category_set=sets,
        category_offset=np.r_[0, np.cumsum(words)],
        category_bits=RNG.integers(0, 2**32, words.sum(), dtype=np.uint32),
        category_rounding=rounding,
    )
    rows = RNG.integers(-3, 170, (300, 4)) + RNG.choice([0.0, 0.5, -0.5], (300, 4))
    rows[RNG.random((300, 4)) < 0.1] = np.nan
    rows[RNG.random((300, 4)) < 0.05] = np.inf
    rows[RNG.random((300, 4)) < 0.05] = 1e12
    assert_equals_reference(forest, rows)


def test_categories_above_numeric_top_levels():
    """A category at the root leaves no level to test ahead; deeper ones leave some."""
    base = complete_forest(n_trees=6, depth=6, n_features=2)
    for level in range(7):
        at_level = base.node_depth == level
        forest = complete_forest(
            n_trees=6,
            depth=6,
            n_features=2,
            category_set=np.where(at_level, 0, -1),
            category_offset=[0, 1],
            category_bits=[0b1010],
        )
        assert_equals_reference(forest, RNG.integers(-1, 5, (200, 2)).astype(float))


def deep_chain(length: int) -> Forest:
    """One tree that is a chain: row x reaches depth floor(x)."""
    nodes = np.arange(2 * length + 1)
    inner = nodes % 2 == 0
    inner[-1] = False
    left = np.where(inner, nodes + 1, -1)
    return Forest(
        tree_offset=[0, len(nodes)],
        feature=np.zeros(len(nodes)),
        threshold=nodes / 2 + 0.5,
        left=left,
        right=np.where(inner, nodes + 2, -1),
        value=nodes[:, None],
        n_features=1,
    )


@pytest.mark.parametrize("length", [1, 5, 11, 12, 13, 60, 40_000])
def test_deep_trees_and_wide_nodes(length):
    """40,000 links make 80,001 nodes: too many for 16-bit distances only if they were absolute positions."""
    forest = deep_chain(length)
    rows = np.r_[0.0, 1.0, RNG.uniform(0, length + 1, 100), length + 5.0][:, None]
    np.testing.assert_array_equal(forest.predict(rows), reference.predict(forest, rows))
    np.testing.assert_array_equal(forest.predict(rows[:1]), reference.predict(forest, rows[:1]))


def test_wide_layout_with_many_columns():
    n_features = 70_000
    trees = [
        {
            "feature": [f, -1, -1],
            "threshold": [0.0] * 3,
            "left": [1, -1, -1],
            "right": [2, -1, -1],
            "value": [[0], [1], [2]],
        }
        for f in range(n_features)
    ]
    forest = Forest.from_trees(trees, aggregation="sum")
    rows = RNG.normal(size=(3, n_features))
    np.testing.assert_array_equal(forest.predict(rows), 1 + (rows > 0).sum(axis=1) + (n_features - 1))


def test_single_leaf_trees():
    forest = Forest.from_trees(
        [{"feature": [-1], "threshold": [0], "left": [-1], "right": [-1], "value": [[0.3, 0.7]]}] * 3
    )
    assert forest.max_depth == 0
    rows = np.empty((70, 0), np.float32)
    np.testing.assert_array_equal(forest.predict(rows), np.ones(70))
    np.testing.assert_array_equal(forest.predict(rows[:1]), [1])


@pytest.mark.parametrize("n_rows", [0, 1, 2, 31, 32, 63, 64, 65, 511, 512, 513, 4096, 4097, 9000])
def test_batch_size_and_threads_change_nothing(n_rows):
    forest = complete_forest(n_trees=15, depth=7)
    rows = adversarial_rows(forest, RNG.normal(size=(50, 6)), 9000, seed=3)
    whole = forest.scores(rows)
    for n_threads in (1, 2, 5, None):
        np.testing.assert_array_equal(forest.scores(rows[:n_rows], n_threads=n_threads), whole[:n_rows])
        np.testing.assert_array_equal(forest.apply(rows[:n_rows], n_threads), forest.apply(rows)[:n_rows])
        assert forest.predict(rows[:n_rows], n_threads).shape == (n_rows,)


def test_any_memory_order():
    forest = complete_forest()
    rows = RNG.normal(size=(301, 6))
    expected = forest.scores(rows)
    wide = np.zeros((301, 13))
    wide[:, 1::2] = rows
    for same in (np.asfortranarray(rows), wide[:, 1::2], rows[::-1][::-1], rows[:, ::-1][:, ::-1]):
        np.testing.assert_array_equal(forest.scores(same), expected)
    np.testing.assert_array_equal(forest.scores(rows[::-3]), expected[::-3])


def test_many_python_threads_share_one_forest():
    forest = complete_forest(n_trees=40, n_columns=4)
    batches = [RNG.normal(size=(n, 6)) for n in (1, 3, 200, 1, 5000, 64, 1, 700)] * 6
    expected = [reference.predict(forest, batch) for batch in batches[:8]] * 6
    fresh = Forest.from_trees([{"feature": [0, -1, -1], "threshold": [0] * 3, "left": [1, -1, -1], "right": [2, -1, -1],
                                "value": [[1, 0], [1, 0], [0, 1]]}])  # fmt: skip
    with ThreadPoolExecutor(16) as pool:
        lowered = list(pool.map(lambda i: fresh.predict([[i - 8.0]])[0], range(16)))
        got = list(pool.map(forest.predict, batches, [1, 2] * 24))
    assert lowered == [int(i > 8) for i in range(16)]
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def only_willing_switches():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("only_willing_switches")
@pytest.mark.parametrize("n_rows", [1, 16])
def test_other_python_threads_run_meanwhile(n_rows):
    """Few rows are long work too where there are many trees."""
    forest = complete_forest(n_trees=30_000 // n_rows, depth=3)
    forest.predict(np.zeros((n_rows, 6)))
    turns, done = 0, threading.Event()

    def count():
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0)

    other = threading.Thread(target=count)
    other.start()
    before = turns
    for _ in range(300):  # the system may be slow to wake the other thread
        forest.predict(np.zeros((n_rows, 6)))
        if turns > before:
            break
    seen = turns
    done.set()
    other.join()
    assert seen > before


def test_more_threads_than_the_system_gives(tmp_path):
    """Where no thread can be started (their stacks would not fit any memory), the calling one does all the work."""
    complete_forest().save(tmp_path / "f.scurry")
    program = (
        "import sys, numpy, scurry; f = scurry.load(sys.argv[1] + '/f.scurry'); X = numpy.zeros((1000, 6));"
        "print(len(f.predict(X, n_threads=8)), (f.predict(X, n_threads=8) == f.predict(X)).all())"
    )
    limited = f"ulimit -s {2**37}; exec {sys.executable} -c {shlex.quote(program)} {tmp_path}"
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(["sh", "-c", limited], env=environment, capture_output=True, text=True)
    assert run.stdout.split() == ["1000", "True"], run.stderr


def test_engines_do_what_they_were_lowered_for():
    forest = complete_forest(n_trees=3, n_columns=2)
    rows = np.zeros((2, 6))
    with pytest.raises(ValueError, match="for leaves alone"):
        forest.leaf_engine.scores(rows, np.empty((2, 2)), 1)
    with pytest.raises(ValueError, match="not lowered for leaves"):
        forest.engine.leaves(rows, np.empty((2, 3), np.int32), 1)
    with pytest.raises(ValueError, match="a label is needed for every class"):
        _core.Engine(forest.arrays, classes=np.arange(1), leaf_ids=False)


def test_arrays_of_another_type_are_not_taken_for_a_forest():
    """They would be converted, and the copies be gone when the core reads them."""
    forest = complete_forest(n_trees=3)
    header = {name: getattr(forest, name) for name in HEADER} | {"n_classes": 3}
    arrays = {name: getattr(forest, name) for name in ARRAYS} | {"threshold": forest.threshold.astype(np.float32)}
    with pytest.raises(RuntimeError):
        _core.ForestArrays(arrays, header)


@pytest.mark.parametrize("isa", ["portable", "avx2"])
def test_every_instruction_set_gives_the_same_bits(isa, tmp_path):
    forest = complete_forest(n_trees=25, n_columns=5, depth=9)
    rows = adversarial_rows(forest, RNG.normal(size=(50, 6)), 1000)
    forest.save(tmp_path / "f.scurry")
    np.save(tmp_path / "rows.npy", rows)
    program = (
        "import sys, numpy, scurry; f = scurry.load(sys.argv[1] + '/f.scurry');"
        "rows = numpy.load(sys.argv[1] + '/rows.npy'); numpy.save(sys.argv[1] + '/out.npy', f.scores(rows));"
        "numpy.save(sys.argv[1] + '/out32.npy', f.scores(rows.astype('f4')));"
        "print(scurry._core.kernels())"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env=os.environ | {"SCURRY_ISA": isa},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() in (isa, "portable")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), forest.scores(rows))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(np.load(tmp_path / "out32.npy"), forest.scores(rows.astype(np.float32)))


def test_engine_memory():
    forest = complete_forest(n_trees=50, depth=10)
    assert forest.engine.node_bytes < 16 * forest.n_nodes


def test_equal_siblings_are_merged_without_changing_a_score():
    rng = np.random.default_rng(1)
    forest = complete_forest(n_trees=20, depth=10, n_columns=2, aggregation="vote")
    assert not forest.engine.slices_large  # which would take more bytes beside the nodes
    assert forest.engine.node_bytes < 8 * forest.n_nodes
    assert_equals_reference(forest, rng.normal(size=(300, 6)))


@pytest.mark.parametrize("link", ["identity", "logistic", "exp", "signed-square", "log1p-exp", "step"])
@pytest.mark.parametrize("score_dtype", ["float32", "float64"])
def test_links_of_a_regressor(link, score_dtype):
    forest = complete_forest(
        n_columns=1, aggregation="sum", link=link, link_scale=0.7, score_dtype=score_dtype, base_score=[-9.0]
    )
    rows = RNG.normal(size=(200, 6))
    np.testing.assert_array_equal(forest.scores(rows), reference.scores(forest, rows))
    np.testing.assert_allclose(forest.predict(rows), reference.predict(forest, rows), rtol=2e-6)


@pytest.mark.parametrize("score_dtype", ["float32", "float64"])
@pytest.mark.parametrize("link", ["softmax", "logistic-each"])
def test_boosted_classes(link, score_dtype):
    forest = complete_forest(
        n_columns=1,
        aggregation="sum",
        tree_output=np.arange(30) % 3,
        link=link,
        classes=["a", "b", "c"],
        base_score=[0.1, 0.2, 0.3],
        score_dtype=score_dtype,
    )
    rows = RNG.normal(size=(200, 6))
    assert_equals_reference(forest, rows)
    assert_equals_reference(forest, rows[:1])


def softmax_forest(score_dtype, values):
    """Two rounds of three classes whose leaves have some of these values."""
    of_classes = {"tree_output": np.arange(6) % 3, "classes": [3, 1, 2], "link": "softmax", "score_dtype": score_dtype}
    forest = complete_forest(6, 6, n_columns=1, aggregation="sum", **of_classes)
    return forest.replace(value=np.random.default_rng(3).choice(values, forest.value.shape))


@pytest.mark.parametrize("score_dtype", ["float32", "float64"])
def test_labels_of_softmax_with_close_scores(score_dtype):
    """Rounding makes ties of probabilities that are none of scores: the label is that of the probabilities."""
    epsilon = np.finfo(score_dtype).eps
    forest = softmax_forest(score_dtype, np.outer([1, 2**-11 / epsilon], epsilon * np.arange(-4.0, 5) / 16).ravel())
    rows = RNG.normal(size=(3000, 6))
    labels = forest.predict(rows)
    np.testing.assert_array_equal(labels, forest.classes[forest.predict_proba(rows).argmax(axis=1)])
    assert 0 < (labels != forest.classes[forest.scores(rows).argmax(axis=1)]).mean() < 0.5
    np.testing.assert_array_equal([forest.predict(row[None])[0] for row in rows[:50]], labels[:50])


@pytest.mark.parametrize(("score_dtype", "largest"), [("float32", 3e38), ("float64", 1.7e308)])
def test_labels_of_softmax_with_infinite_scores(score_dtype, largest):
    """There are no probabilities then, and the first class is the label."""
    forest = softmax_forest(score_dtype, [-1.0, largest])
    rows = RNG.normal(size=(500, 6))
    with np.errstate(over="ignore", invalid="ignore"):
        has_infinity = np.isinf(forest.scores(rows)).any(axis=1)
    labels = forest.predict(rows)
    assert 50 < has_infinity.sum() < 450
    assert (labels[has_infinity] == 3).all()
    finite = forest.scores(rows[~has_infinity])
    np.testing.assert_array_equal(labels[~has_infinity], forest.classes[finite.argmax(axis=1)])


@pytest.mark.parametrize("float32", [True, False])
@pytest.mark.parametrize("scale", [1.0, 0.5, 3.0])
def test_logistic_threshold_is_the_smallest_positive_score(float32, scale):
    real = np.float32 if float32 else np.float64
    threshold = real(_core.logistic_threshold(scale, float32))

    def p(x):
        # The C library's exponential, as the frameworks call it: numpy's own differs in the last bit here.
        return real(1) / (real(1) + real(math.exp(-(real(scale) * x))))

    assert p(threshold) > 0.5
    assert not p(np.nextafter(threshold, real(0))) > 0.5


@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
@pytest.mark.parametrize("goes_left", [False, True])
def test_missing_values_that_go_one_way_everywhere(input_dtype, goes_left):
    forest = complete_forest(5, 4, 6, 2, default_left=np.full(5 * 31, goes_left), input_dtype=input_dtype)
    rows = np.random.default_rng(0).normal(size=(200, 6))
    rows[np.random.default_rng(1).random(rows.shape) < 0.3] = np.nan
    assert_equals_reference(forest, rows)


def test_sums_that_differ_may_have_equal_means():
    """Then the first class wins, as where the source compares means."""
    sums = 1.5 + np.arange(100) * 2.0**-52
    tied = np.flatnonzero(sums[:-1] / 3 == sums[1:] / 3)
    assert len(tied) > 0
    for at in tied[:5]:
        value = np.zeros((9, 2))
        value[:3] = sums[at : at + 2]  # the other trees add nothing
        forest = complete_forest(3, 1, 1, 2, value=value)
        assert forest.predict(np.zeros((40, 1))).tolist() == [0] * 40
        assert forest.predict([[0.0]]).tolist() == [0]


def test_a_score_at_the_decision_threshold_is_positive():
    header = {"classes": np.array(["no", "yes"]), "aggregation": "sum", "decision_threshold": 1.0}
    forest = complete_forest(4, 2, 6, 1, value=np.full((28, 1), 0.25), base_score=np.zeros(1), **header)
    rows = RNG.normal(size=(50, 6)).astype(np.float32)
    assert set(forest.predict(rows)) == {"yes"}
    assert set(forest.replace(decision_threshold=np.nextafter(1.0, 2.0)).predict(rows)) == {"no"}


def test_averages_of_several_classes_are_over_rounds():
    header = {"classes": np.arange(3), "aggregation": "mean", "tree_output": np.arange(6) % 3}
    forest = complete_forest(6, 2, 6, 1, base_score=np.zeros(3), **header)
    assert_equals_reference(forest, RNG.normal(size=(50, 6)).astype(np.float32))


@pytest.mark.parametrize("n_features", [3, 16, 17, 31, 32, 33, 40])
def test_columns_in_another_order_than_features(n_features):
    """Features that are missing on both sides have two columns, and those behind them are not where they lie."""
    forest = complete_forest(12, 5, n_features)
    rows = np.random.default_rng(n_features).normal(size=(300, n_features)).astype(np.float32)
    mixed = forest.replace(default_left=RNG.random(forest.n_nodes) < 0.5)
    rows[::7, n_features // 2] = np.nan
    assert_equals_reference(mixed, rows)
    few = RNG.permutation(n_features)[: n_features // 2 + 1]
    shifted = forest.replace(feature=np.where(forest.feature < 0, -1, few[forest.feature % len(few)]))
    assert_equals_reference(shifted, rows)
    assert_equals_reference(shifted, rows.astype(np.float64))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_indicators_of_missing_values_beside_thresholds(dtype):
    """A node that asks only whether a value is missing reads a column of its own."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(900, 3)).astype(dtype)
    rows[rng.random(900) < 0.3, 0] = np.nan
    rows[:3, 0] = np.inf, -np.inf, np.finfo(np.float32).max
    n_nodes = 2**9 - 1
    inner = np.arange(n_nodes) < n_nodes // 2
    feature = np.where(inner, rng.integers(0, 3, n_nodes), -1)
    threshold = np.where(rng.random(n_nodes) < 0.3, np.inf, rng.normal(size=n_nodes))
    asks_missing = (feature == 0) & np.isinf(threshold)
    assert asks_missing.any()
    tree = {
        "feature": feature,
        "threshold": np.where(asks_missing & (np.arange(n_nodes) % 2 == 0), -np.inf, threshold),
        "left": np.where(inner, 2 * np.arange(n_nodes) + 1, -1),
        "right": np.where(inner, 2 * np.arange(n_nodes) + 2, -1),
        "value": np.column_stack([np.arange(n_nodes), n_nodes - np.arange(n_nodes)]) / n_nodes,
        "default_left": np.where(asks_missing, np.arange(n_nodes) % 2 == 0, rng.random(n_nodes) < 0.5),
    }
    forest = Forest.from_trees([tree, tree]).replace(input_dtype=np.dtype(dtype).name)
    assert forest.engine.loop == "walked"
    np.testing.assert_array_equal(forest.apply(rows), reference.apply(forest, rows))
    np.testing.assert_array_equal(forest.predict(rows), reference.predict(forest, rows))
    for row in rows[:40]:
        assert forest.predict(row)[0] == reference.predict(forest, row[None])[0]
