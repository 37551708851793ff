"""Loading what was saved."""

from __future__ import annotations

from os import PathLike

from scurry.errors import FormatError, InputError
from scurry.forest import Forest
from scurry.storage import read_container


def load(path: str | PathLike[str]) -> Forest:
    """Load a ``.scurry`` file; nothing in it is executed.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Forest

    Examples
    --------
    >>> import scurry, tempfile, os
    >>> stump = {"feature": [0, -1, -1], "threshold": [0.5, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
    ...          "value": [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]]}
    >>> forest = scurry.Forest.from_trees([stump])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     forest.save(os.path.join(folder, "stump.scurry"))
    ...     scurry.load(os.path.join(folder, "stump.scurry")).digest == forest.digest
    True
    """
    try:
        container = read_container(path)
        if container.kind != "forest":
            raise FormatError(f"it holds a {container.kind!r}, which this version of scurry does not know")
        return Forest._from_container(container)
    except InputError as error:
        raise FormatError(f"{path} does not hold a sound forest: {error}") from error
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error


load_forest = load
