"""Copies a local folder into a bucket while it is written: TensorFlow itself writes to few kinds of buckets."""

import dataclasses
import logging
import threading
import time
from pathlib import Path

from qcnn.trainer.folders import whole_files
from qcnn.trainer.storage.interface import Store, UnreachableError

logger = logging.getLogger("qcnn")

# The folder is looked at this often, in seconds; what is new in it is copied at once.
_LOOK_SECONDS = 0.5
# A file that changes is copied again after this time at least (Cloud Storage takes one change of a name a second),
# and after this many times what the copy took.
_LEAST_SECONDS, _SHARE = 5.0, 10.0
# Where the bucket takes no file, all are tried again after this time, and for so long where they are waited for.
_AGAIN_SECONDS, _LAST_SECONDS = 5.0, 120.0
# The copy under way gets this long to end when nobody waits for it any more, in seconds.
_GRACE = 5.0

# Size and time of change.
_State = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class _Copy:
    state: _State
    # Not before this moment of time.monotonic().
    again: float


class Mirror:
    """Copies what is written, and removes what is removed; what was there at first is in the bucket already.

    A file that the bucket has not taken for `patience` seconds is waited for in `check`.
    """

    def __init__(self, folder: Path, store: Store, patience: float) -> None:
        self._folder = folder
        self._store = store
        self._patience = patience
        # When the bucket was given the oldest file that it lacks (time.monotonic()).
        self._behind_since: float | None = None
        self._copies = {name: _Copy(state, 0.0) for name, state in self._found().items()}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._fault: Exception | None = None
        self._thread = threading.Thread(target=self._follow, name=f"mirror of {folder}", daemon=True)
        self._thread.start()

    def flush(self) -> None:
        """Copy everything that is not yet copied.

        Raises:
            ConfigError: the bucket refuses.
            UnreachableError: it does not answer, or is full, and has been waited for.
        """
        end = time.monotonic() + _LAST_SECONDS
        while True:
            try:
                self._copy(everything=True)
                return
            except UnreachableError:
                if time.monotonic() + _AGAIN_SECONDS > end:
                    raise
            time.sleep(_AGAIN_SECONDS)

    def check(self) -> None:
        """Raise the error that ended the copying, if one did; wait if the bucket is behind for too long.

        Raises:
            ConfigError: the bucket refuses.
            UnreachableError: it does not answer, or is full, and has been waited for.
        """
        if self._fault:
            raise self._fault
        since = self._behind_since
        if since is not None and time.monotonic() - since > self._patience:
            logger.warning("the bucket has taken no file for %g s; training waits for it", self._patience)
            self.flush()

    def close(self) -> None:
        """Stop copying; what is not yet copied is left out."""
        self._ended.set()
        self._thread.join(_GRACE)

    def _follow(self) -> None:
        takes = True
        while not self._ended.wait(_LOOK_SECONDS if takes else _AGAIN_SECONDS):
            try:
                self._copy(everything=False)
                takes = True
            except UnreachableError as error:
                if takes:
                    after = "it is tried again, and training waits for it after"
                    logger.warning("%s; %s %g s", error, after, self._patience)
                takes = False
            except Exception as error:  # Of any kind: nobody else sees an error of this thread.
                self._fault = error
                return

    def _copy(self, *, everything: bool) -> None:
        with self._lock:
            found = self._found()
            for name, state in found.items():
                copy = self._copies.get(name)
                if copy and (copy.state == state or not (everything or time.monotonic() >= copy.again)):
                    continue
                began = time.monotonic()
                if self._behind_since is None:
                    self._behind_since = began
                try:
                    self._store.write(self._folder / name, name)
                except FileNotFoundError:
                    # It was replaced by a newer one meanwhile.
                    continue
                ended = time.monotonic()
                self._copies[name] = _Copy(state, ended + max(_LEAST_SECONDS, _SHARE * (ended - began)))
            for name in self._copies.keys() - found.keys():
                self._store.delete(name)
                del self._copies[name]
            self._behind_since = None

    def _found(self) -> dict[str, _State]:
        """Return the state of every whole file by its name, the oldest first."""
        states = {}
        for name in whole_files(self._folder):
            try:
                status = (self._folder / name).stat()
            except FileNotFoundError:
                continue
            states[name] = (status.st_size, status.st_mtime_ns)
        return dict(sorted(states.items(), key=lambda item: item[1][1]))
