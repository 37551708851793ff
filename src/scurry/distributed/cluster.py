"""A Dask cluster: connect to it, share values with its workers, and call functions on parts of the data there.

A worker may die at any time. Every call therefore carries all that it needs; what a worker keeps between calls is a
cache and no more, and the worker that takes its place makes it again.

Values travel between the processes of one cluster as pickles, as everything does in Dask. Nothing here pickles to a
file, and nothing unpickles data from outside the cluster.
"""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from scurry.errors import InputError, require_extra

T = TypeVar("T")
_MAX_CACHED = 64  # values per worker: an ordering set and a search for each of some thirty files
_CONNECT_S = 5  # a scheduler that exists answers within milliseconds

_cache: OrderedDict[object, Any] = OrderedDict()
_cache_lock = threading.Lock()


@contextmanager
def connect(cluster: Any) -> Iterator[Any]:
    """Yield a Dask client for the `cluster` argument of a caller.

    Parameters
    ----------
    cluster : "local", address or distributed.Client
        "local" starts one worker process per core until the end of the block. A client is used and left open.
    """
    with require_extra("dask", "a cluster"):
        from distributed import Client, LocalCluster
    if isinstance(cluster, Client):
        yield cluster
    elif cluster == "local":
        # Tasks are bound by the processor: one process per core, with one thread each.
        with (
            LocalCluster(threads_per_worker=1, processes=True, dashboard_address=":0") as local,
            Client(local) as client,
        ):
            yield client
    elif isinstance(cluster, str) and "://" in cluster:
        try:
            client = Client(cluster, timeout=_CONNECT_S)
        except (OSError, TimeoutError) as error:
            raise InputError(
                f"no Dask scheduler answers at {cluster}; start one with: dask scheduler", argument="cluster"
            ) from error
        with client:
            yield client
    else:
        raise InputError(
            f"cluster must be 'local', an address such as 'tcp://scheduler:8786' or a Client, got {cluster!r}",
            argument="cluster",
        )


def share(client: Any, value: Any) -> Any:
    """Return a future of `value` on the cluster, for the arguments of many calls."""
    # Not `scatter`: scattered data are lost with their worker, while a task is run again.
    return client.submit(pickle.loads, pickle.dumps(value))


def submit(client: Any, function: Callable[..., Any], parts: Sequence[Any], *arguments: Any) -> list[Any]:
    """Call a function for each part of the data, in the same worker each time as long as it lives.

    Parameters
    ----------
    client : distributed.Client
    function : callable
        Called as ``function(part, *arguments)``.
    parts : sequence
    arguments
        Passed to every call.

    Returns
    -------
    list of distributed.Future
        In the order of `parts`.
    """
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])

    def place(index: int) -> dict[str, Any]:
        return {"workers": [workers[index % len(workers)]], "allow_other_workers": True} if workers else {}

    # Not `pure`: Dask would return earlier results for the same arguments, though files may have changed since.
    return [client.submit(function, part, *arguments, pure=False, **place(index)) for index, part in enumerate(parts)]


def gather(client: Any, function: Callable[..., T], parts: Sequence[Any], *arguments: Any) -> list[T]:
    """Return the results of `submit`, in the order of `parts`."""
    results: list[T] = client.gather(submit(client, function, parts, *arguments))
    return results


def get_or_make(key: object, make: Callable[[], T]) -> T:
    """Return the value of `key` from the cache of this process; if there is none, make it."""
    with _cache_lock:
        if key in _cache:
            _cache.move_to_end(key)
            found: T = _cache[key]
            return found
    # Made without the lock: reading a file takes long. Two threads may make the same value, which does no harm.
    made = make()
    with _cache_lock:
        _cache[key] = made
        while len(_cache) > _MAX_CACHED:
            _cache.popitem(last=False)
    return made
