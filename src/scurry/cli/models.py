"""Commands about a model file: `inspect` and `export`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scurry.cli.files import Model, read_model
from scurry.cli.options import AsJson, ModelFile, TrustPickle
from scurry.cli.program import app
from scurry.cli.screen import in_bytes, show, some, working

if TYPE_CHECKING:
    from scurry.forest import Forest


@app.command(epilog="Example: [bold]scurry inspect model.json[/bold]")
def inspect(model: ModelFile, as_json: AsJson = False, trust_pickle: TrustPickle = False) -> None:
    """Show what is in a model file: its trees, how it decides, the memory it takes, the plan it runs by."""
    with working(f"Reading {model.name}"):
        read = read_model(model, trust_pickle=trust_pickle)
        facts = {"file": str(model), "file_bytes": model.stat().st_size} | _facts(read.forest) | _plan_facts(read)
    show(facts, as_json, _rows(facts))


def _facts(forest: Forest) -> dict[str, Any]:
    from scurry.forest import ARRAYS

    inner = ~forest.is_leaf
    n_splits = np.bincount(forest.feature[inner], minlength=forest.n_features)
    names = forest.feature_names or [f"column {j}" for j in range(forest.n_features)]
    used = np.argsort(-n_splits, kind="stable")[: np.count_nonzero(n_splits)]
    return {
        "n_trees": forest.n_trees,
        "n_nodes": forest.n_nodes,
        "n_leaves": int(forest.is_leaf.sum()),
        "min_depth": int(forest.tree_depth.min()),
        "mean_depth": float(forest.tree_depth.mean()),
        "max_depth": forest.max_depth,
        "n_features": forest.n_features,
        "splits_by_feature": {names[j]: int(n_splits[j]) for j in used},
        "n_categorical_splits": int((forest.category_set[inner] >= 0).sum()),
        "classes": None if forest.classes is None else forest.classes.tolist(),
        "aggregation": forest.aggregation,
        "score_dtype": forest.score_dtype,
        "link": forest.link,
        "comparison": forest.comparison,
        "input_dtype": forest.input_dtype,
        "array_bytes": sum(getattr(forest, name).nbytes for name in ARRAYS),
        "engine_bytes": forest._engine.node_bytes + forest._engine.leaf_bytes,
        "digest": forest.digest,
    }


def _plan_facts(model: Model) -> dict[str, Any]:
    return {} if model.subject is model.forest else {"plan": model.predictor.plan.facts}


def _rows(facts: dict[str, Any]) -> dict[str, str]:
    splits, classes = facts["splits_by_feature"], facts["classes"]
    plan = facts.get("plan", {})
    return {
        "file": f"{facts['file']} ({in_bytes(facts['file_bytes'])})",
        "trees": f"{facts['n_trees']:,}",
        "nodes": f"{facts['n_nodes']:,}, of which {facts['n_leaves']:,} leaves",
        "depth": f"{facts['min_depth']} to {facts['max_depth']}, mean {facts['mean_depth']:.1f}",
        "features": f"{len(splits)} of {facts['n_features']} used",
        "most splits": some([f"{feature} ({count:,})" for feature, count in splits.items()]),
        "classes": "none, it is a regressor" if classes is None else f"{len(classes)}: {some(classes)}",
        "decides by": f"{facts['aggregation']} of the trees in {facts['score_dtype']}, link {facts['link']}",
        "split": f"left if {facts['input_dtype']}(x) {facts['comparison']} threshold; "
        f"{facts['n_categorical_splits']:,} categorical splits",
        "memory": f"arrays {in_bytes(facts['array_bytes'])}, engine {in_bytes(facts['engine_bytes'])} "
        f"({facts['engine_bytes'] / facts['n_nodes']:.1f} bytes per node)",
        "digest": facts["digest"],
    } | {
        name.removeprefix("n_").replace("_", " "): f"{value:.6g}" if isinstance(value, float) else str(value)
        for name, value in plan.items()
    }
