import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import scurry
from support.calibration_rows import two_classes


@pytest.fixture(scope="session")
def model():
    X, y = two_classes(1200, 0)
    return RandomForestClassifier(31, max_depth=5, random_state=0).fit(X, y)


@pytest.fixture(scope="session")
def fast(model):
    return scurry.early_exit(model, two_classes(5000, 1)[0], max_disagreement=0.02, random_state=0)


@pytest.fixture(scope="session")
def accurate(model):
    """Keep a promise that is tested by labels."""
    return scurry.early_exit(model, *two_classes(5000, 1), promise=scurry.promises.Accuracy(0.03), random_state=0)


@pytest.fixture(scope="session")
def rows():
    return two_classes(4000, 2)[0]


@pytest.fixture(scope="session")
def draw_drifted(fast):
    """Draw rows of another kind: a tenth of them change, because rows that do have become more frequent."""
    pool = two_classes(60_000, 7)[0]
    changed = fast.predict(pool) != fast.forest.predict(pool)

    def draw(n_rows, seed):
        rng = np.random.default_rng(seed)
        is_changed = rng.random(n_rows) < 0.1
        return np.where(is_changed[:, None], rng.choice(pool[changed], n_rows), rng.choice(pool[~changed], n_rows))

    return draw


@pytest.fixture(scope="session")
def drifted(draw_drifted):
    return draw_drifted(4000, 0)
