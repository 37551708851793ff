"""
Scoring with Ray Data
=====================

A `scurry.distributed.Scorer` turns an Arrow table into Arrow tables, which is what ``map_batches`` expects. It is sent
to the workers together with its model. They need scurry and pyarrow installed, but no model file.

    pip install 'scurry[batch]' 'ray[data]'
    python examples/score_with_ray.py
"""

from __future__ import annotations

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.distributed import Scorer


def scored(dataset, scorer: Scorer):
    """Return a Ray dataset with the scorer's columns, from one that has the model's features."""
    return dataset.map_batches(scorer, batch_format="pyarrow", batch_size=1 << 16)


def main() -> None:
    import ray

    data = load_breast_cancer(as_frame=True)
    model = RandomForestClassifier(100, random_state=0).fit(data.data, data.target)
    fast = scurry.early_exit(model, data.data, max_disagreement=0.02, method="minimixed", random_state=0)
    rows = ray.data.from_pandas(data.data.assign(patient=data.data.index)).repartition(4)
    result = scored(rows, Scorer(fast, columns=("label", "trees", "reason"), keep=("patient",)))
    result.show(5)
    print(result.groupby("reason").mean("trees").take_all())


if __name__ == "__main__":
    main()
