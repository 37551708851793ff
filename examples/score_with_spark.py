"""
Scoring with Spark
==================

A `scurry.distributed.Scorer` turns Arrow batches into Arrow batches, which is what ``mapInArrow`` expects. It is sent
to the workers together with its model. They need scurry and pyarrow installed, but no model file.

    pip install 'scurry[batch]' pyspark          (and Java 17 or later)
    python examples/score_with_spark.py
"""

from __future__ import annotations

import os
import sys

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import scurry
from scurry.distributed import Scorer


def scored(rows, scorer: Scorer):
    """Return a Spark DataFrame with the scorer's columns, from one that has the model's features."""
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    return rows.mapInArrow(scorer, from_arrow_schema(scorer.schema(to_arrow_schema(rows.schema))))


def main() -> None:
    from pyspark.sql import SparkSession

    data = load_breast_cancer(as_frame=True)
    model = RandomForestClassifier(100, random_state=0).fit(data.data, data.target)
    fast = scurry.early_exit(model, data.data, max_disagreement=0.02, method="minimixed", random_state=0)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    rows = spark.createDataFrame(data.data.assign(patient=data.data.index)).repartition(4)
    result = scored(rows, Scorer(fast, columns=("label", "trees", "reason"), keep=("patient",)))
    result.show(5)
    result.groupBy("reason").avg("trees").show()
    spark.stop()


if __name__ == "__main__":
    main()
