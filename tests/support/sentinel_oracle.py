"""What sentinel rules do, from their definition: all sums of all rows at every sentinel, in numpy."""

import numpy as np

from scurry import Forest
from scurry.forest import reference
from scurry.plan import SentinelRule


def random_rule(rng: np.random.Generator, forest: Forest, order: np.ndarray, X: np.ndarray, **options) -> SentinelRule:
    """A rule with random lanes whose limits stop about `share` of the rows of X that reach each sentinel."""
    n_sentinels, n_lanes = options.get("n_sentinels", 4), options.get("n_lanes", 6)
    spread, share, n_edges = options.get("spread", True), options.get("share", 0.4), options.get("n_edges", 3)
    most = options.get("most", 1000)
    sentinels = np.sort(rng.choice(np.arange(1, forest.n_trees), n_sentinels, replace=False)).astype(np.int32)
    lanes = rng.integers(-most, most + 1, (forest.n_nodes, n_lanes)).astype(np.int32)
    lane = rng.integers(0, n_lanes, n_sentinels).astype(np.int32)
    spread_lane = int(rng.integers(0, n_lanes)) if spread else -1
    square = np.where(rng.random(n_sentinels) < 0.5, 1 / sentinels / most, 0.0)
    sums = lanes[forest.apply(X)[:, order]].cumsum(axis=1)
    edges, limits = [], []
    for j, n_trees in enumerate(sentinels):
        of_lane = sums[:, n_trees - 1, lane[j]].astype(float)
        spreads = (sums[:, n_trees - 1, spread_lane] if spread else 0) - square[j] * of_lane**2
        edges.append(np.sort(rng.choice(of_lane, n_edges)).astype(np.int32))
        limit = np.quantile(spreads, rng.uniform(0, 2 * share, n_edges + 1))
        draw = rng.random(n_edges + 1)
        never = (draw > 0.9) | ((not spread) & (square[j] == 0))
        limits.append(np.where(draw < share / 4, np.inf, np.where(never, -np.inf, limit)))
    return SentinelRule(
        sentinels=sentinels,
        lanes=lanes,
        lane=lane,
        scale=rng.normal(size=n_sentinels) / most,
        offset=rng.normal(size=n_sentinels),
        spread_lane=spread_lane,
        square=square,
        edge_offset=np.cumsum([0, *map(len, edges)]).astype(np.uint32),
        edges=np.concatenate(edges) if edges else np.empty(0, np.int32),
        limits=np.concatenate(limits) if limits else np.empty(0),
    )


def sentinel_answers(
    forest: Forest, order: np.ndarray, rule: SentinelRule, X: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The number of trees, the estimate (NaN: none) and the sentinel at which each row stops."""
    leaves = reference.apply(forest, X)[:, order]
    n, end = len(X), len(rule.sentinels)
    trees, estimates, at = np.full(n, forest.n_trees), np.full(n, np.nan), np.full(n, end)
    for row in range(n):
        for j in range(end):
            sums = rule.lanes[leaves[row, : rule.sentinels[j]]].astype(np.int64).sum(axis=0).tolist()
            total = sums[rule.lane[j]]
            spread = float(sums[rule.spread_lane]) if rule.spread_lane >= 0 else 0.0
            spread -= float(rule.square[j]) * (float(total) * float(total))
            edges = rule.edges[rule.edge_offset[j] : rule.edge_offset[j + 1]]
            n_below = sum(total >= edge for edge in edges)
            if spread <= rule.limits[int(rule.edge_offset[j]) + j + n_below]:
                trees[row], at[row] = rule.sentinels[j], j
                estimates[row] = rule.offset[j] + rule.scale[j] * total
                break
    return trees, estimates, at
