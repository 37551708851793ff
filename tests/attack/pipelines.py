"""Random pipelines × hostile rows: a folded forest answers as the pipeline does, on every row that it takes."""

import warnings

import numpy as np
from threadpoolctl import threadpool_limits

import scurry
from attack.findings import Findings, check_equal
from scurry.errors import ScurryError
from support.pipelines import accepted, draw_case, hostile_table

N_ROWS = 20_000


def attack(n: int, seed: int, n_rows: int = N_ROWS) -> Findings:
    """Compare `n` pipelines, one for each seed from `seed` on, with scikit-learn, on `n_rows` rows each."""
    findings = Findings()
    with threadpool_limits(1), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for at in range(seed, seed + n):
            with findings.of("pipelines", at):
                _attack_one(np.random.default_rng([7, at]), n_rows, findings)
    return findings


def _attack_one(rng: np.random.Generator, n_rows: int, findings: Findings) -> None:
    counts = findings.counts
    try:
        case = draw_case(rng)
    except ScurryError:
        raise
    except Exception:  # a pipeline that cannot be fitted so, which is its own affair
        counts["pipelines not fitted"] += 1
        return
    rows = "float32" if getattr(case.X, "dtype", None) == np.float32 else "float64"
    forest = scurry.from_model(case.pipeline, rows=rows)
    counts["pipelines"] += 1
    if forest.front is not None:
        counts["pipelines with a front"] += 1
        return
    table = hostile_table(rng, case, forest, n_rows)
    try:
        expected = case.pipeline.predict(table)
    except ValueError:
        table = table[accepted(case, table)]
        expected = case.pipeline.predict(table) if len(table) else np.zeros(0)
    counts["pipeline rows"] += len(table)
    if len(table):
        check_equal(forest.predict(table), expected, "labels of the pipeline")
