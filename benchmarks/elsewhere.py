"""scurry in a process of its own, with the instruction set that SCURRY_ISA names; engines.ScurryElsewhere asks it."""

from __future__ import annotations

import json
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import scurry
from engines import Scurry


class Loaded(Scurry):
    """A saved forest."""

    def __init__(self, model: Any) -> None:
        self.forest = scurry.load(model)


def main(folder: Path, n_single_rows: int) -> None:
    engine = Loaded(folder / "forest.scurry")
    batch = pickle.loads((folder / "batch.pickle").read_bytes())  # written by the parent process
    singles = [batch[at : at + 1].copy() for at in range(n_single_rows)]
    for line in sys.stdin:
        what, *arguments = json.loads(line)
        match what:
            case "kernels":
                answer: Any = scurry._core.kernels()
            case "labels":
                answer = engine.forest.predict(batch[: arguments[0]]).tolist()
            case "batch":
                time.sleep(0.01)
                answer = engine.time_batch(batch[:64], batch, arguments[0])
            case _:
                answer = engine.time_rows(singles, arguments[0])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
