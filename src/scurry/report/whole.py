"""The story of a forest that asks every tree: a pruned one, or one for which stopping early would not pay."""

from __future__ import annotations

from typing import Any

import numpy as np

from scurry.forest import Forest
from scurry.report.figures import number, share
from scurry.report.story import BLOCK, Claim, Column, Runner, Story, TestRows, Tile, Work


def tell(forest: Forest, test: TestRows, facts: dict[str, Any]) -> Story:
    """What there is to say about a forest without a plan."""
    depth = forest.node_depth
    blocks = [test.rows[at : at + BLOCK] for at in range(0, len(test), BLOCK)]
    steps = np.concatenate([depth[forest.apply(block, None)].sum(axis=1, dtype=np.int64) for block in blocks])
    tiles = [
        Tile("trees", number(forest.n_trees), f"{forest.n_nodes:,} nodes"),
        Tile("node tests per row", number(float(steps.mean())), f"at most {int(forest.tree_depth.sum()):,}"),
    ]
    if test.y is not None:
        tiles.append(Tile(test.quality_name, test.shown(test.quality(test.full)), f"on {len(test):,} test rows"))
    why = f" {facts['chosen_because']}." if "chosen_because" in facts else ""
    return Story(
        kind="Forest",
        verdict=f"It asks all of its {forest.n_trees:,} trees for every row: {number(float(steps.mean()))} node tests."
        + why,
        tiles=tiles,
        promise=str(facts.get("promise", "the model's own answers, always")),
        claims=[Claim("answers other than the model's", "none", share(0.0), "kept"), *test.quality_claims(test.full)],
        work=Work("node tests", steps, float(forest.tree_depth.sum()), "How many nodes test rows pass in all trees."),
        picture=None,
        curve=None,
        answers=test.full,
        effort=[Column("node tests", steps)],
        runners=[Runner("all trees, scurry", forest.predict)],
        recipe="scurry.from_model(model)",
        facts=facts,
    )
