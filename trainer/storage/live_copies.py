"""Copies a folder in a bucket into a local one while it is written: the opposite of mirror.py."""

import contextlib
import logging
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from qcnn.trainer.errors import QcnnError
from qcnn.trainer.storage.address import in_bucket, is_below
from qcnn.trainer.storage.interface import Store, UnreachableError
from qcnn.trainer.storage.stores import open_store

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
    if not (place := in_bucket(address)):
        yield lambda: Path(address)
        return
    with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
        folder = Path(temporary)
        store = open_store(place)
        with contextlib.closing(
            Follower(store, folder, lambda name: name if name.startswith(prefix) else None)
        ) as copy:

            def look() -> Path:
                copy.update()
                return folder

            yield look


class Follower:
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
            self._copy(name, self._folder / place)
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
