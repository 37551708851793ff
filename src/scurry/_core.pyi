from typing import Any

from numpy.typing import NDArray

class Engine:
    def __init__(self, **fields: Any) -> None: ...
    def labels(self, rows: NDArray[Any], out: NDArray[Any], n_threads: int, /) -> None: ...
    def probabilities(self, rows: NDArray[Any], out: NDArray[Any], n_threads: int, /) -> None: ...
    def scores(self, rows: NDArray[Any], out: NDArray[Any], n_threads: int, /) -> None: ...
    def leaves(self, rows: NDArray[Any], out: NDArray[Any], n_threads: int, /) -> None: ...
    @property
    def node_bytes(self) -> int: ...
    @property
    def leaf_bytes(self) -> int: ...

def logistic_threshold(scale: float, float32: bool) -> float: ...
def kernels() -> str: ...

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
