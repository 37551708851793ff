"""The cluster: who is one, what travels to it, and what its workers remember."""

import operator
from concurrent.futures import ThreadPoolExecutor

import pytest

from scurry.distributed.cluster import connect, gather, get_or_make, share
from scurry.errors import InputError
from support.counting import add_process


def test_a_client_is_used_and_left_open(cluster):
    with connect(cluster) as client:
        assert client is cluster
    assert cluster.submit(operator.add, 1, 2).result() == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [("everywhere", "must be 'local'"), (None, "must be 'local'"), ("tcp://127.0.0.1:9", "answers")],
)
def test_what_is_no_cluster_is_named(given, message):
    with pytest.raises(InputError, match=message) as raised, connect(given):
        pass
    assert raised.value.argument == "cluster"


def test_results_come_in_order_and_a_part_keeps_its_worker(cluster):
    base = share(cluster, 100)
    first, second = (gather(cluster, add_process, range(5), base) for _ in range(2))
    assert [value for value, _ in first] == [100, 101, 102, 103, 104]
    assert first == second
    assert len({process for _, process in first}) == 2


def test_the_cache_serves_any_number_of_threads():
    def call(worker):
        for turn in range(400):
            key = (worker * turn) % 90  # more than the cache holds
            assert get_or_make(key, lambda key=key: key) == key

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(1, 9)))


def test_the_cache_makes_a_value_once_and_forgets_the_oldest():
    made = []

    def make(key):
        made.append(key)
        return key

    for key in [("a", 0), *(("a", i) for i in range(80)), ("a", 79), ("a", 0)]:
        assert get_or_make(key, lambda key=key: make(key)) == key
    assert made == [*(("a", i) for i in range(80)), ("a", 0)]
