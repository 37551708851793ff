"""Errors: what they are to Python, and how a message is told under the name of an option."""

import pickle

import pytest
from sklearn.tree import DecisionTreeClassifier

import scurry
from scurry import errors
from scurry.errors import FormatError, InfeasibleError, InputError, MissingDependencyError, OutputError, ScurryError


@pytest.mark.parametrize(
    ("error", "base"),
    [
        (InputError, ValueError),
        (errors.UnsupportedModelError, TypeError),
        (FormatError, ValueError),
        (errors.MissingFileError, FileNotFoundError),
        (OutputError, OSError),
        (InfeasibleError, ValueError),
        (MissingDependencyError, ImportError),
    ],
)
def test_each_is_an_error_of_scurry_and_of_python(error, base):
    assert issubclass(error, ScurryError)
    assert issubclass(error, base)
    assert error.__doc__


def test_nothing_else_is_defined():
    own = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert own == {
        "ScurryError",
        "InputError",
        "ManyOutputsError",
        "UnsupportedModelError",
        "FormatError",
        "OutputError",
        "InfeasibleError",
        "MissingDependencyError",
        "MissingFileError",
        "ScurryWarning",
    }


@pytest.mark.parametrize(
    ("message", "argument", "name", "shown"),
    [
        ("n_trees must be positive", "n_trees", "--trees", "--trees must be positive"),
        ("pass n_trees, not both", "n_trees", "--trees", "--trees: pass n_trees, not both"),
        ("n_trees must be positive", "n_trees", None, "n_trees must be positive"),
        ("n_trees must be positive", None, "--trees", "n_trees must be positive"),
    ],
)
def test_describe(message, argument, name, shown):
    assert InputError(message, argument=argument).describe(name) == shown


def test_what_they_carry():
    error = InfeasibleError("too little", 0.03, n_rows_needed=900, argument="max_cost")
    assert (str(error), error.achievable, error.n_rows_needed, error.argument) == ("too little", 0.03, 900, "max_cost")
    plain = InfeasibleError("too little")
    assert (plain.achievable, plain.n_rows_needed, plain.argument) == (None, None, None)
    assert InputError("wrong").argument is None


def test_they_survive_another_process():
    """Workers of a cluster send errors home by pickle."""
    wrong = pickle.loads(pickle.dumps(InputError("wrong", argument="X")))
    assert (str(wrong), wrong.argument) == ("wrong", "X")
    # Some packages make errors without calling them, from their class and arguments.
    assert isinstance(errors.MissingFileError.__new__(errors.MissingFileError, "no file"), FileNotFoundError)
    missing = pickle.loads(pickle.dumps(errors.MissingFileError("no file", argument="path")))
    assert (str(missing), missing.argument) == ("no file", "path")
    error = pickle.loads(pickle.dumps(InfeasibleError("too little", 0.03, n_rows_needed=9, argument="X")))
    assert (str(error), error.achievable, error.n_rows_needed, error.argument) == ("too little", 0.03, 9, "X")


def test_warnings_name_the_line_that_called_scurry():
    forest = scurry.from_model(DecisionTreeClassifier().fit([[0], [1], [2]], [0, 1, 1]))
    with pytest.warns(errors.ScurryWarning) as caught:
        scurry.prune(forest, [[0.0], [1.0]]).at(max_cost=0)
    with pytest.warns(errors.ScurryWarning) as caught_inside:
        scurry.FeatureBudgetClassifier(forest, max_cost=0).fit([[0.0], [1.0]], [0, 1])
    assert {warning.filename for warning in [*caught, *caught_inside]} == {__file__}
