"""Cluster: what a caller calls one, as a Dask client."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scurry.errors import InputError, MissingDependencyError


@contextmanager
def connected(cluster: Any) -> Iterator[Any]:
    """A Dask client for what a caller calls a cluster; closed again if it was made here."""
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingDependencyError("a cluster needs Dask: pip install 'scurry[dask]'") from error
    if isinstance(cluster, Client):
        yield cluster
    elif cluster == "local":
        with (
            LocalCluster(threads_per_worker=1, processes=True, dashboard_address=":0") as local,
            Client(local) as client,
        ):
            yield client
    elif isinstance(cluster, str) and "://" in cluster:
        try:
            client = Client(cluster, timeout=5)
        except (OSError, TimeoutError) as error:
            raise InputError(f"no Dask scheduler answers at {cluster}; start one with: dask scheduler") from error
        with client:
            yield client
    else:
        raise InputError(
            f"cluster must be 'local', an address such as 'tcp://scheduler:8786' or a Client, got {cluster!r}"
        )


def shared(client: Any, value: Any) -> Any:
    """`value` on the cluster, as a future. A worker that dies with it is no loss: it can be made again."""
    return client.submit(pickle.loads, pickle.dumps(value))
