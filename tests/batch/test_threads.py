"""Threads of a run: in one thread while all are busy, in the background once some are idle."""

import threading

import pytest

from scurry.batch.run import BackgroundWriter, ThreadBudget, _Cancelled, read_ahead

BUSY, IDLE = (1, 1), (2, 1)


@pytest.fixture(params=[BUSY, IDLE], ids=["busy", "idle"])
def threads(request):
    return ThreadBudget(*request.param)


def test_threads_become_idle_when_fragments_are_finished():
    threads = ThreadBudget(n_threads=2, n_fragments=3)
    found = []
    for _ in range(3):
        found.append(threads.has_idle_threads())
        threads.finish_fragment()
    assert found == [False, False, True]


def test_items_are_the_same_and_in_order(threads):
    assert list(read_ahead(range(1, 20), threads)) == list(range(1, 20))
    assert list(read_ahead([], threads)) == []


def test_items_are_made_in_another_thread_once_one_is_idle():
    threads, makers = ThreadBudget(1, 1), []

    def make():
        for i in range(1, 6):
            makers.append(threading.current_thread() is threading.main_thread())
            yield i

    for i in read_ahead(make(), threads):
        if i == 2:
            threads.finish_fragment()
    assert makers == [True, True, False, False, False]


def test_an_error_while_reading_reaches_the_reader(threads):
    def make():
        yield 1
        raise ValueError("broken")

    items = read_ahead(make(), threads)
    assert next(items) == 1
    with pytest.raises(ValueError, match="broken"):
        list(items)


def test_items_are_written_in_order(threads):
    written = []
    with BackgroundWriter(written.append, threads) as writer:
        for i in range(20):
            writer.write(i)
    assert written == list(range(20))


def test_an_error_while_writing_is_raised(threads):
    def fail(item):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), BackgroundWriter(fail, threads) as writer:
        writer.write(1)


def test_an_error_of_the_block_is_raised_before_that_of_a_write():
    def fail(item):
        raise OSError("disk full")

    def interrupt(writer):
        writer.write(1)
        raise KeyError

    with pytest.raises(KeyError), BackgroundWriter(fail, ThreadBudget(*IDLE)) as writer:
        interrupt(writer)


def test_a_cancelled_run_stops_its_threads():
    threads = ThreadBudget(1, 1)
    threads.raise_if_cancelled()
    threads.cancel()
    with pytest.raises(_Cancelled):
        threads.raise_if_cancelled()


def write_all(write, threads, n_items):
    with BackgroundWriter(write, threads) as writer:
        for item in range(n_items):
            writer.write(item)


@pytest.mark.parametrize("n_items", [1, 3])
def test_the_last_write_may_fail_too(threads, n_items):
    written = []

    def write(item):
        if item == n_items - 1:
            raise OSError("disk full")
        written.append(item)

    with pytest.raises(OSError, match="disk full"):
        write_all(write, threads, n_items)
    assert written == list(range(n_items - 1))


def test_nothing_is_written_after_a_write_that_failed():
    written = []

    def write(item):
        if item == 1:
            raise OSError("disk full")
        written.append(item)

    with pytest.raises(OSError, match="disk full"):
        write_all(write, ThreadBudget(*IDLE), 5)
    assert written == [0]
