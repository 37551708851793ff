"""Rules that stop after any step."""

import numpy as np
import pytest

from scurry.errors import InputError
from scurry.plan import StepRule
from support.strategies import complete_forest


def test_inner_nodes_count_by_the_square_of_their_depth():
    forest = complete_forest(1, 2, 1, 2)
    np.testing.assert_allclose(StepRule(readout="weighted").node_weights(forest), [1 / 9, 4 / 9, 4 / 9, 1, 1, 1, 1])


def test_plain_read_outs_count_every_node_once():
    assert len(StepRule().node_weights(complete_forest(1, 2, 1, 2))) == 0


def test_unknown_read_outs_are_refused():
    with pytest.raises(InputError, match="readout"):
        StepRule(readout="bold")
