"""The answers of an early exit, from the definition of its rule: all sums of all rows after every tree, in numpy."""

import numpy as np

from scurry import Predictor
from scurry.forest import reference
from scurry.plan import ExitRule, ExitSide, LeaderRule


def exit_answers(predictor: Predictor, X: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Numbers of trees and labels of each row, under each policy that the rule may draw for it."""
    rule = predictor.plan.stop
    if isinstance(rule, LeaderRule):
        return [_leader_answers(predictor, X, rule)]
    return [_policy_answers(predictor, X, rule, policy) for policy in range(len(rule.weights))]


def _leaves_in_order(predictor: Predictor, X: np.ndarray) -> np.ndarray:
    return reference.apply(predictor.forest, X)[:, predictor.plan.order]


def _policy_answers(predictor: Predictor, X: np.ndarray, rule: ExitRule, policy: int) -> tuple[np.ndarray, np.ndarray]:
    forest, n_trees = predictor.forest, predictor.forest.n_trees
    leaves, values = _leaves_in_order(predictor, X), reference.leaf_values(forest)
    if rule.kind == "votes":
        units = (forest.value.argmax(axis=1) == 1).astype(np.int64)[leaves]
    elif forest.n_outputs == 1:
        units = np.rint(values[leaves, 0] / rule.step)
    elif forest.tree_output[0] >= 0:
        sign = np.where(forest.tree_output[predictor.plan.order] == 1, 0.5, -0.5)
        units = np.rint(sign * values[leaves, 0] / rule.step)
    else:
        units = np.rint((values[leaves, 1] - values[leaves, 0]) / 2 / rule.step)
    sums = np.concatenate([np.zeros((len(X), 1)), units.cumsum(axis=1)], axis=1)
    trees, labels = np.full(len(X), n_trees), reference.predict(forest, X)
    if rule.kind == "votes":
        labels = forest.classes.take((sums[:, -1] > n_trees / 2).astype(int))
    for row in range(len(X)):
        for n_seen in range(n_trees + 1):
            side = _side(rule, policy, n_seen, sums[row, n_seen])
            if side == ExitSide.FULL:
                break
            if side != ExitSide.CONTINUE:
                trees[row], labels[row] = n_seen, forest.classes[int(side == ExitSide.POSITIVE)]
                break
    return trees, labels


def _side(rule: ExitRule, policy: int, n_seen: int, total: float) -> int:
    if not len(rule.piece_offset):
        if total <= rule.lower[policy, n_seen]:
            return ExitSide.NEGATIVE
        return ExitSide.POSITIVE if total >= rule.upper[policy, n_seen] else ExitSide.CONTINUE
    first, last = rule.piece_offset[n_seen : n_seen + 2]
    n_below = sum(total >= edge for edge in rule.piece_edges[first:last])
    return int(rule.piece_sides[int(first) + n_seen + n_below])


def _leader_answers(predictor: Predictor, X: np.ndarray, rule: LeaderRule) -> tuple[np.ndarray, np.ndarray]:
    forest, n_classes = predictor.forest, predictor.forest.n_classes
    leaves, values = _leaves_in_order(predictor, X), reference.leaf_values(forest)
    size = forest.n_trees // (len(rule.lead) - 1)  # trees in a round
    if rule.kind == "votes":
        values, start = np.eye(n_classes)[forest.value.argmax(axis=1)], np.zeros(n_classes)
    else:
        start = np.rint(forest.base_score / rule.step)
    sums = np.tile(start, (len(X), 1))
    trees, labels, going = np.full(len(X), forest.n_trees), reference.predict(forest, X), np.ones(len(X), bool)
    for n_rounds in range(forest.n_trees // size + 1):
        ranked = np.sort(sums, axis=1)
        first, second = ranked[:, -1], ranked[:, -2]
        if rule.need.size:
            stops = going & (first >= rule.need[n_rounds, second.astype(int)])
        else:
            stops = going & (first - second >= rule.lead[n_rounds])
        if n_rounds * size == forest.n_trees:  # nothing to stop: only votes decide here, scores are the model's own
            stops = going & (rule.kind == "votes")
        trees[stops] = n_rounds * size
        labels[stops] = forest.classes.take(sums.argmax(axis=1))[stops]
        going &= ~stops
        for at in range(n_rounds * size, min((n_rounds + 1) * size, forest.n_trees)):
            output = forest.tree_output[predictor.plan.order[at]]
            if output < 0:
                sums += np.rint(values[leaves[:, at]] / rule.step)
            else:
                sums[:, output] += np.rint(values[leaves[:, at], 0] / rule.step)
    return trees, labels
