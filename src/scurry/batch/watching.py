"""A watch over files: each file is counted by a branch of the watch, which joins it once the file's output is there."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from threading import Lock

from scurry.batch.files import Fragment
from scurry.checks import check_instance
from scurry.errors import InputError
from scurry.monitoring import Watch
from scurry.predictor import Predictor


class WatchedFiles:
    """Counts the rows of files in a watch, in the order of the files, and saves it after each.

    A branch joins the watch after its output has appeared, and a file whose output is complete is not read again. So a
    run that is killed loses the rows since the last save, and another run counts no row twice.

    Parameters
    ----------
    watch : Watch
    path : str, path or None
        Where the watch is saved after each file.
    fragments : sequence of Fragment
    """

    def __init__(self, watch: Watch, path: str | PathLike[str] | None, fragments: Sequence[Fragment]) -> None:
        self.watch, self.path = watch, path
        self._waiting, self._done = list(fragments), dict[Fragment, Watch | None]()
        self._lock = Lock()

    def branch(self, fragment: Fragment) -> Watch:
        """Return the watch that counts the rows of one file."""
        return self.watch.branch(fragment.name)

    def finish(self, fragment: Fragment, branch: Watch | None) -> None:
        """Let a branch join as soon as those of all files before have; None if its file was not scored."""
        with self._lock:
            self._done[fragment] = branch
            while self._waiting and self._waiting[0] in self._done:
                joining = self._done.pop(self._waiting.pop(0))
                if joining is not None:
                    self.watch.join(joining)
                    if self.path is not None:
                        self.watch.save(self.path)


def check_watch(watch: Watch | None, predictor: Predictor) -> None:
    """Raise an error unless `watch` can count what `predictor` answers."""
    if watch is None:
        return
    check_instance("watch", watch, Watch, hint="; make one with scurry.watch(predictor)")
    if watch.predictor.digest != predictor.digest:
        raise InputError("watch is of another predictor than the one that scores the files", argument="watch")
    if not callable(watch.on_alarm) and watch.on_alarm != "warn":
        raise InputError(
            f'files are scored by the predictor as it is, also after an alarm; set watch.on_alarm to "warn" instead of '
            f'"{watch.on_alarm}"',
            argument="watch",
        )
    if watch.promise.NEEDS_LABELS:
        raise InputError(
            "the promise is tested by labels, which files of rows do not have; call watch.predict(X, ids=…)",
            argument="watch",
        )
