"""A real cluster of two worker processes, shared by the tests of a run."""

from contextlib import contextmanager

import pytest
from distributed import Client, LocalCluster
from sklearn.datasets import load_breast_cancer


@contextmanager
def _two_workers():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="session")
def cluster():
    with _two_workers() as client:
        yield client


@pytest.fixture(scope="session")
def cluster_to_harm():
    """A function that makes a cluster whose workers may be killed."""
    return _two_workers


@pytest.fixture(scope="session")
def frame():
    return load_breast_cancer(as_frame=True).data
