"""Stores by address, and folders that are kept the same there while a training runs."""

import contextlib
import dataclasses
import importlib
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from qcnn.atomic_files import complete_files
from qcnn.errors import QcnnError
from qcnn.storage.store import SCHEMES, BucketUri, MissingFileError, Store, UnreachableError, is_below, parse_bucket_uri


def open_store(address: BucketUri) -> Store:
    """Return the files at an address.

    Raises:
        ConfigError: there are no credentials for it.
    """
    # Only the library that is needed is imported: each takes a second.
    module, _, name = SCHEMES[address.scheme].partition(":")
    kind: Callable[[BucketUri], Store] = getattr(importlib.import_module(module), name)
    return kind(address)


logger = logging.getLogger("qcnn")

# The bucket is looked at this often, in seconds.
_LOOK_SECONDS = 5.0
# The copy under way gets this long to end when nobody waits for it any more, in seconds.
_GRACE = 5.0
_CHUNK = 1 << 20

# Takes the name of a file in the bucket; returns that in the folder, None for one that is not wanted.
Place = Callable[[str], str | None]


@contextlib.contextmanager
def followed(address: str, prefix: str) -> Iterator[Callable[[], Path]]:
    """Yield a function that returns a local folder with what is at an address now, under names that begin so.

    That is the folder itself, or a copy of one in a bucket.
    """
    if not (place := parse_bucket_uri(address)):
        yield lambda: Path(address)
        return
    with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
        folder = Path(temporary)
        store = open_store(place)
        with contextlib.closing(
            FolderDownloader(store, folder, lambda name: name if name.startswith(prefix) else None)
        ) as copy:

            def look() -> Path:
                copy.update()
                return folder

            yield look


class FolderDownloader:
    """Copies what is new or has changed; what is removed stays.

    A file that has grown is appended to, so that whoever reads it can go on from where they are.
    """

    def __init__(self, store: Store, folder: Path, place: Place = str) -> None:
        self._store = store
        self._folder = folder
        self._place = place
        self._versions: dict[str, str] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"following into {folder}", daemon=True)

    def update(self) -> None:
        """Copy what is new now.

        Raises:
            ConfigError: the bucket refuses.
            UnreachableError: it does not answer, and has been waited for.
        """
        for name, version in sorted(self._store.versions().items()):
            place = self._place(name)
            if place is None or self._versions.get(name) == version or not is_below(place):
                continue
            try:
                self._copy(name, self._folder / place)
            except MissingFileError:
                # Its writer has replaced it since the listing, as a chief replaces its checkpoints.
                continue
            self._versions[name] = version

    def start(self) -> None:
        """Keep copying until `close`; a bucket that does not answer is asked again."""
        self._thread.start()

    def close(self) -> None:
        """Stop copying."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_GRACE)
        self._store.close()

    def _follow(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            try:
                self.update()
            except UnreachableError as error:
                logger.warning("%s; it is tried again", error)
            except QcnnError as error:
                logger.warning("%s; nothing more is copied from there", error)
                return

    def _copy(self, name: str, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Copied elsewhere first: nobody must see half a file in the folder.
        with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
            new = Path(temporary, "new")
            self._store.read(name, new)
            if not _append(new, path):
                shutil.move(new, path)


def _append(new: Path, path: Path) -> bool:
    """Append to a file the rest of another one; return whether the other one begins with it."""
    with contextlib.suppress(FileNotFoundError), path.open("r+b") as old, new.open("rb") as source:
        while chunk := old.read(_CHUNK):
            if source.read(len(chunk)) != chunk:
                return False
        while chunk := source.read(_CHUNK):
            old.write(chunk)
        return True
    return False


# The folder is looked at this often, in seconds; what is new in it is copied at once.
_MIRROR_SECONDS = 0.5
# A file that changes is copied again after this time at least (Cloud Storage takes one change of a name a second),
# and after this many times what the copy took.
_LEAST_SECONDS, _SHARE = 5.0, 10.0
# Where the bucket takes no file, all are tried again after this time, and for so long where they are waited for.
_AGAIN_SECONDS, _LAST_SECONDS = 5.0, 120.0

# Size and time of change.
_State = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class _Copy:
    state: _State
    # Not before this moment of time.monotonic().
    again: float


class FolderUploader:
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
        while not self._ended.wait(_MIRROR_SECONDS if takes else _AGAIN_SECONDS):
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
        for name in complete_files(self._folder):
            try:
                status = (self._folder / name).stat()
            except FileNotFoundError:
                continue
            states[name] = (status.st_size, status.st_mtime_ns)
        return dict(sorted(states.items(), key=lambda item: item[1][1]))
