"""A forest to acquire features for, rows to acquire them from, and what should come of that."""

import numpy as np
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import scurry

WINE = load_wine(return_X_y=True)
WINE_FOREST = scurry.from_model(RandomForestClassifier(12, max_depth=4, random_state=0).fit(WINE[0][::2], WINE[1][::2]))


def from_table(X):
    return lambda row, feature: X[row][feature]


def simulate(forest, x, order, costs, max_cost, by_step):
    """What happens to a row, told once more: nodes reached and features bought."""
    nodes, bought, spent = [int(root) for root in forest.tree_offset[:-1]], [], 0.0
    for tree in order:
        while forest.left[nodes[tree]] >= 0:
            feature = int(forest.feature[nodes[tree]])
            if feature not in bought:
                if spent + costs[feature] > max_cost:
                    break
                bought.append(feature)
                spent += costs[feature]
            goes_left = np.float32(x[feature]) <= forest.threshold[nodes[tree]]
            nodes[tree] = int((forest.left if goes_left else forest.right)[nodes[tree]])
            if by_step:
                break
    return np.array(nodes), bought
