"""Slow and obvious answers about prunings, independent of the library: rows are walked, all prunings listed.

`solve` and what follows it call the library, for tests that compare the two.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import linprog

from scurry import Forest
from scurry.pruning import PruningPath, exact_path


@dataclass(frozen=True)
class Instance:
    """A forest to prune, its errors, and the cost options of `scurry.prune`."""

    forest: Forest
    X: np.ndarray
    node_errors: np.ndarray
    n_error: int
    options: dict[str, Any] = field(default_factory=dict)

    def path_of(self, row):
        """Yield the inner nodes that a row passes, tree by tree from the root."""
        forest = self.forest
        for root in forest.tree_offset[:-1].tolist():
            node, nodes = root, []
            while forest.left[node] >= 0:
                nodes.append(node)
                goes_left = np.float32(row[forest.feature[node]]) <= forest.threshold[node]
                node = int((forest.left if goes_left else forest.right)[node])
            yield nodes

    def prices(self):
        """Return the exact costs of features, the group of each, costs of groups, and the cost of a step."""
        n_features = self.forest.n_features
        groups = self.options.get("groups", [-1] * n_features)
        default = [0 if "groups" in self.options else 1] * n_features
        own = [exact(cost) for cost in self.options.get("feature_costs", default)]
        shared = [exact(cost) for cost in self.options.get("group_costs", [1] * (max(groups, default=-1) + 1))]
        return own, groups, shared, exact(self.options.get("step_cost", 0))

    def error(self, kept) -> Fraction:
        forest = self.forest

        def below(node):
            if node not in kept:
                return exact(self.node_errors[node])
            return below(int(forest.left[node])) + below(int(forest.right[node]))

        return sum(map(below, forest.tree_offset[:-1].tolist())) / (self.n_error * forest.n_trees)

    def cost(self, kept) -> Fraction:
        own, groups, shared, step = self.prices()
        total = Fraction(0)
        for row in self.X:
            passed = [node for nodes in self.path_of(row) for node in nodes if node in kept]
            features = {int(self.forest.feature[node]) for node in passed}
            used_groups = {groups[feature] for feature in features} - {-1}
            total += sum((own[f] for f in features), Fraction(0)) + sum((shared[g] for g in used_groups), Fraction(0))
            total += step * len(passed)
        return total / len(self.X)

    def prunings(self):
        """Yield every pruning as the set of inner nodes it keeps."""
        forest = self.forest

        def of_subtree(node):
            if forest.left[node] < 0:
                return [frozenset()]
            pairs = product(of_subtree(int(forest.left[node])), of_subtree(int(forest.right[node])))
            return [frozenset(), *(left | right | {node} for left, right in pairs)]

        for parts in product(*map(of_subtree, forest.tree_offset[:-1].tolist())):
            yield frozenset().union(*parts)

    def relaxation(self, lam: float) -> float:
        """Solve the linear relaxation in x (a node stays a split) and w (a row pays a charge) by HiGHS.

        A row's charge is bounded from below by every node of its paths that causes it, not only by the first.
        """
        own, groups, shared, step = self.prices()
        forest = self.forest
        inner = np.flatnonzero(forest.left >= 0).tolist()
        index = {node: at for at, node in enumerate(inner)}
        scale = self.n_error * forest.n_trees / len(self.X)
        gain = [
            self.node_errors[h] - self.node_errors[forest.left[h]] - self.node_errors[forest.right[h]] for h in inner
        ]
        objective = [-float(g) for g in gain]
        smaller, larger = [], []
        for node in inner:
            for child in (int(forest.left[node]), int(forest.right[node])):
                if child in index:
                    smaller.append(index[child])
                    larger.append(index[node])
        for row in self.X:
            charge = {}
            for node in [node for nodes in self.path_of(row) for node in nodes]:
                objective[index[node]] += lam * scale * float(step)
                feature = int(forest.feature[node])
                prices = {("feature", feature): own[feature]}
                if groups[feature] >= 0:
                    prices["group", groups[feature]] = shared[groups[feature]]
                for name, price in prices.items():
                    if name not in charge:
                        charge[name] = len(objective)
                        objective.append(lam * scale * float(price))
                    smaller.append(index[node])
                    larger.append(charge[name])
        roots = sum(float(self.node_errors[root]) for root in forest.tree_offset[:-1])
        if not objective:
            return roots / (self.n_error * forest.n_trees)
        rows = np.zeros((len(smaller), len(objective)))
        rows[np.arange(len(smaller)), smaller] = 1.0
        rows[np.arange(len(smaller)), larger] -= 1.0
        result = linprog(objective, A_ub=rows, b_ub=np.zeros(len(smaller)), bounds=(0, 1), method="highs")
        return (roots + result.fun) / (self.n_error * forest.n_trees)


def exact(number) -> Fraction:
    """Return a number as written in decimal."""
    return Fraction(str(float(number)))


def lower_hull(points):
    """Return the points (error, cost) that are best for some lambda > 0, by falling cost, and where they meet."""
    best = {}
    for error, cost in points:
        best[cost] = min(error, best.get(cost, error))
    vertices = []
    for cost, error in sorted(best.items()):
        if vertices and error >= vertices[-1][0]:
            continue
        while len(vertices) > 1 and slope(vertices[-1], (error, cost)) >= slope(vertices[-2], vertices[-1]):
            vertices.pop()
        vertices.append((error, cost))
    vertices.reverse()
    return vertices, [slope(b, a) for a, b in pairwise(vertices)]


def slope(cheap, expensive) -> Fraction:
    """Return the error saved per cost added."""
    return (cheap[0] - expensive[0]) / (expensive[1] - cheap[1])


def solve(instance: Instance) -> PruningPath:
    """Return the library's exact path of an instance."""
    return exact_path(
        instance.forest, instance.X, node_errors=instance.node_errors, n_error=instance.n_error, **instance.options
    )


def solved_case(seed: int) -> tuple[Instance, PruningPath, list[Fraction]]:
    """Return an instance, its exact path, and trade-offs on, between and beyond its breakpoints."""
    rng = np.random.default_rng(seed)
    instance = random_instance(rng, n_trees=int(rng.integers(2, 8)), n_splits=9, n_features=5, n_rows=12)
    path = solve(instance)
    lambdas = {0.0, *path.lambdas[:: max(len(path) // 3, 1)].tolist(), *rng.exponential(0.2, 2).tolist()}
    return instance, path, [Fraction(lam) for lam in sorted(lambdas)]


def objectives_of(path: PruningPath, lambdas) -> np.ndarray:
    """Return error + lambda * cost of the pruning that a path has for each lambda."""
    return path.errors + np.array([float(lam) for lam in lambdas]) * path.costs


def nodes_kept(path, index) -> frozenset:
    """Return the forest's nodes that a pruning of a path keeps as splits."""
    return frozenset(path.problem.nodes[path.kept(index)].tolist())


def random_instance(
    rng: np.random.Generator, *, n_trees=3, n_splits=4, n_features=4, n_rows=6, prices=(0, 1, 1, 2, 0.5, 7.27)
) -> Instance:
    """Return small trees of any shape with costs that have ties and zeros."""
    trees = []
    for _ in range(n_trees):
        size = 2 * int(rng.integers(0, n_splits + 1)) + 1
        left, right = np.full(size, -1), np.full(size, -1)
        leaves, used = [0], 1
        while used < size:
            node = leaves.pop(rng.integers(len(leaves)))
            left[node], right[node] = used, used + 1
            leaves += [used, used + 1]
            used += 2
        trees.append(
            {
                "feature": rng.integers(0, n_features, size),
                "threshold": rng.choice([0.25, 0.5, 0.75], size),
                "left": left,
                "right": right,
                "value": rng.random((size, 2)),
            }
        )
    forest = Forest.from_trees(trees, n_features=n_features)
    options: dict[str, Any] = {}
    kind = rng.integers(4)
    if kind in (0, 2):
        options["feature_costs"] = rng.choice(prices, n_features).tolist()
    if kind in (1, 2):
        some, all_in_one, one_each = rng.integers(-1, 3, n_features), np.zeros(n_features, int), np.arange(n_features)
        options["groups"] = (some, all_in_one, one_each)[rng.choice(3, p=[0.6, 0.2, 0.2])].tolist()
        options["group_costs"] = rng.choice(prices, max(options["groups"]) + 1).tolist()
    if rng.random() < 0.4:
        options["step_cost"] = float(rng.choice([0.25, 1.0]))
    rows = rng.random((n_rows, n_features)).astype(np.float32)
    return Instance(forest, rows, random_errors(rng, forest), int(rng.integers(1, 20)), options)


def random_errors(rng: np.random.Generator, forest: Forest) -> np.ndarray:
    """Return counts whose gains are mostly positive, with ties and zeros, some of them negative."""
    most, worst = int(rng.choice([1, 3, 12])), int(rng.choice([0, 0, 2]))
    errors = rng.integers(0, 2, forest.n_nodes)
    for node in np.flatnonzero(forest.left >= 0)[::-1].tolist():
        below = errors[forest.left[node]] + errors[forest.right[node]]
        errors[node] = max(below + rng.integers(-worst, most + 1), 0)
    return errors


def instances(**sizes: Any):
    """Return a hypothesis strategy of random instances."""
    return st.integers(0, 2**32 - 1).map(lambda seed: random_instance(np.random.default_rng(seed), **sizes))
