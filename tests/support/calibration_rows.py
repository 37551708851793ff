"""Rows to calibrate on and to test with, and the vote that an early exit of votes promises to repeat."""

import numpy as np


def two_classes(n_rows, seed):
    """Two overlapping Gaussians: new rows are drawn, never split off a pool."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    X = rng.normal(size=(n_rows, 6)) + 0.7 * (2 * y[:, None] - 1) * np.array([1, 0.8, 0.5, 0.2, 0, 0])
    return X, y


def full_vote(model, X):
    votes = np.stack([tree.predict(X) for tree in model.estimators_], axis=1).astype(int)
    counts = np.stack([(votes == k).sum(axis=1) for k in range(len(model.classes_))], axis=1)
    return model.classes_[counts.argmax(axis=1)]
