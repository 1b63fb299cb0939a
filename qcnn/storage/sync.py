"""Stores of bucket URIs, and synchronization of local folders with buckets during a training run."""

import contextlib
import dataclasses
import importlib
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from qcnn import plugins
from qcnn.atomic_files import complete_files
from qcnn.errors import QcnnError
from qcnn.storage.store import SCHEMES, BucketUri, MissingFileError, Store, UnreachableError, is_below, parse_bucket_uri


def open_store(uri: BucketUri) -> Store:
    """Return the store of a bucket URI.

    Raises:
        ConfigError: If there are no credentials, or the plug-in of the scheme cannot be imported.
    """
    kind: Callable[[BucketUri], Store]
    if uri.scheme in SCHEMES:
        # Imports only the required library, because each takes a second.
        module, _, name = SCHEMES[uri.scheme].partition(":")
        kind = getattr(importlib.import_module(module), name)
    else:
        kind = plugins.load("uri", plugins.STORES, uri.scheme, f"that of {', '.join(SCHEMES)}")
    return kind(uri)


logger = logging.getLogger("qcnn")

# Seconds between two listings of a bucket.
_POLL_SECONDS = 5.0
# Seconds that a copy in progress may take after `close`.
_GRACE_SECONDS = 5.0
_CHUNK = 1 << 20

# Function from the name of a file in the bucket to its name in the folder, or to None if the file is not copied.
LocalName = Callable[[str], str | None]


@contextlib.contextmanager
def updated_copy(uri: str, prefixes: tuple[str, ...]) -> Iterator[Callable[[], Path]]:
    """Context manager that yields a function, which updates a local copy of a folder and returns its path.

    A local folder is returned itself.

    Args:
        uri: Path or bucket URI of the folder.
        prefixes: Starts of the names of the files to copy from a bucket.
    """
    if not (bucket_uri := parse_bucket_uri(uri)):
        yield lambda: Path(uri)
        return
    with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
        folder = Path(temporary)
        store = open_store(bucket_uri)
        with contextlib.closing(
            FolderDownloader(store, folder, lambda name: name if name.startswith(prefixes) else None)
        ) as downloader:

            def current_folder() -> Path:
                downloader.update()
                return folder

            yield current_folder


class FolderDownloader:
    """Downloader of new and changed files of a bucket.

    If a file has grown, its new end is appended, so that readers of the open file can continue. Files that were deleted
    in the bucket are kept, unless `deletes`.
    """

    def __init__(self, store: Store, folder: Path, local_name: LocalName = str, *, deletes: bool = False) -> None:
        self._store = store
        self._folder = folder
        self._local_name = local_name
        self._deletes = deletes
        self._versions: dict[str, str] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"download to {folder}", daemon=True)

    def update(self) -> None:
        """Download the current changes.

        Raises:
            ConfigError: If the bucket rejects a request.
            UnreachableError: If the bucket does not respond within the retry timeout.
        """
        found = self._store.versions()
        for name in self._versions.keys() - found.keys() if self._deletes else ():
            (self._folder / str(self._local_name(name))).unlink(missing_ok=True)
            del self._versions[name]
        for name, version in sorted(found.items()):
            local_name = self._local_name(name)
            if local_name is None or self._versions.get(name) == version or not is_below(local_name):
                continue
            try:
                self._copy(name, self._folder / local_name)
            except MissingFileError:
                # The file was deleted after the listing. For example, the chief replaces checkpoints.
                continue
            self._versions[name] = version

    def start(self) -> None:
        """Download changes in a thread until `close`. Requests to an unreachable bucket are retried."""
        self._thread.start()

    def close(self) -> None:
        """Stop downloading and close the store."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(_GRACE_SECONDS)
        self._store.close()

    def _follow(self) -> None:
        while not self._stopped.wait(_POLL_SECONDS):
            try:
                self.update()
            except UnreachableError as error:
                logger.warning("%s; retrying", error)
            except QcnnError as error:
                logger.warning("%s; the download from this bucket stops", error)
                return

    def _copy(self, name: str, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Downloads to another folder first, so that readers never see a partial file.
        with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
            new = Path(temporary, "new")
            self._store.read(name, new)
            if not _append(new, path):
                shutil.move(new, path)


def _append(new: Path, path: Path) -> bool:
    """Append the end of a newer version of a file, or return False if its start differs from the old file."""
    with contextlib.suppress(FileNotFoundError), path.open("r+b") as old, new.open("rb") as source:
        while chunk := old.read(_CHUNK):
            if source.read(len(chunk)) != chunk:
                return False
        while chunk := source.read(_CHUNK):
            old.write(chunk)
        return True
    return False


# Seconds between two scans of a local folder. New files are uploaded immediately.
_SCAN_SECONDS = 0.5
# Minimum seconds between two uploads of a changed file, also of one for which other files wait, and minimum ratio of
# this interval to the duration of the upload. Cloud Storage accepts one change of an object per second.
_MIN_INTERVAL_SECONDS, _MIN_FIRST_INTERVAL_SECONDS, _MIN_INTERVAL_RATIO = 5.0, 1.0, 10.0
# Seconds between retries if the bucket accepts no file, and the timeout of `flush`.
_RETRY_SECONDS, _RETRY_TIMEOUT_SECONDS = 5.0, 120.0

# Size in bytes and modification time in ns.
_State = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class _Copy:
    state: _State
    # Earliest time of the next upload (time.monotonic()).
    next_copy: float


class FolderUploader:
    """Uploader of the changes in a local folder, including deletions.

    The initial files must be in the bucket already.

    If a file could not be uploaded for `patience` seconds, `check` waits for it. Files for which `is_first` returns
    True are uploaded before other files: a file that refers to their content is never in the bucket without it.
    """

    def __init__(
        self, folder: Path, store: Store, patience: float, is_first: Callable[[str], bool] = lambda name: False
    ) -> None:
        self._folder = folder
        self._store = store
        self._patience = patience
        self._is_first = is_first
        # Time of the first attempt to upload the oldest missing file (time.monotonic()).
        self._behind_since: float | None = None
        self._copies = {name: _Copy(state, 0.0) for name, state in self._file_states().items()}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._follow, name=f"upload of {folder}", daemon=True)
        self._thread.start()

    def flush(self) -> None:
        """Upload all changes and wait until the upload is complete.

        Raises:
            ConfigError: If the bucket rejects a request.
            UnreachableError: If the bucket does not respond or is full until the retry timeout.
        """
        end = time.monotonic() + _RETRY_TIMEOUT_SECONDS
        while True:
            try:
                self._copy(everything=True)
                return
            except UnreachableError:
                if time.monotonic() + _RETRY_SECONDS > end:
                    raise
            time.sleep(_RETRY_SECONDS)

    def check(self) -> None:
        """Raise the error of a failed upload, or wait for an upload that is delayed beyond `patience`.

        Raises:
            ConfigError: If the bucket rejects a request.
            UnreachableError: If the bucket does not respond or is full until the retry timeout.
        """
        if self._error:
            raise self._error
        since = self._behind_since
        if since is not None and time.monotonic() - since > self._patience:
            logger.warning("the bucket has accepted no file for %g s; training pauses until it does", self._patience)
            self.flush()

    def close(self) -> None:
        """Stop uploading. Changes that are not uploaded yet are dropped."""
        self._stopped.set()
        self._thread.join(_GRACE_SECONDS)

    def _follow(self) -> None:
        is_reachable = True
        while not self._stopped.wait(_SCAN_SECONDS if is_reachable else _RETRY_SECONDS):
            try:
                self._copy(everything=False)
                is_reachable = True
            except UnreachableError as error:
                if is_reachable:
                    logger.warning("%s; retrying, training pauses after %g s", error, self._patience)
                is_reachable = False
            except Exception as error:  # `check` raises errors of this thread.
                self._error = error
                return

    def _copy(self, *, everything: bool) -> None:
        # Next to the folder, because links cannot lead to another file system.
        with self._lock, tempfile.TemporaryDirectory(prefix="qcnn-", dir=self._folder.parent) as temporary:
            states, links = self._link_changes(Path(temporary))
            waiting = set() if everything else {name for name in links if not self._is_due(name)}
            is_held_back = any(map(self._is_first, waiting))
            for name, link in links.items():
                if name not in waiting and (self._is_first(name) or not is_held_back):
                    self._upload(name, link, states[name])
            if not is_held_back:
                for name in self._copies.keys() - states.keys():
                    self._store.delete(name)
                    del self._copies[name]
            self._behind_since = None

    def _is_due(self, name: str) -> bool:
        return name not in self._copies or time.monotonic() >= self._copies[name].next_copy

    def _upload(self, name: str, path: Path, state: _State) -> None:
        began = time.monotonic()
        if self._behind_since is None:
            self._behind_since = began
        self._store.write(path, name)
        ended = time.monotonic()
        minimum = _MIN_FIRST_INTERVAL_SECONDS if self._is_first(name) else _MIN_INTERVAL_SECONDS
        interval = max(minimum, _MIN_INTERVAL_RATIO * (ended - began))
        self._copies[name] = _Copy(state, ended + interval)

    def _link_changes(self, folder: Path) -> tuple[dict[str, _State], dict[str, Path]]:
        """Link the files that differ from the bucket, so that they can be uploaded if the originals are deleted.

        Args:
            folder: Folder for the links.

        Returns:
            The state of each complete file, and the links by name in the order of the upload. All files existed at the
            same time. A link to a file that grows shows its current content.
        """
        while True:
            links = Path(tempfile.mkdtemp(dir=folder))
            try:
                states = self._file_states()
                changed = [
                    name for name in states if name not in self._copies or self._copies[name].state != states[name]
                ]
                changed.sort(key=lambda name: (not self._is_first(name), states[name][1]))
                for index, name in enumerate(changed):
                    os.link(self._folder / name, links / str(index))
            except FileNotFoundError:
                # A file was replaced after the listing.
                continue
            return states, {name: links / str(index) for index, name in enumerate(changed)}

    def _file_states(self) -> dict[str, _State]:
        """Return the state of each complete file by name.

        Raises:
            FileNotFoundError: If a file is deleted after the listing.
        """
        states = {}
        for name in complete_files(self._folder):
            status = (self._folder / name).stat()
            states[name] = (status.st_size, status.st_mtime_ns)
        return states
