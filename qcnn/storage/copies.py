"""Local copies of files and folders in buckets, for reading, writing and working."""

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from qcnn.atomic_files import complete_files, new_file
from qcnn.errors import ArtifactError, ConfigError, single_line
from qcnn.storage.store import BucketUri, MissingFileError, Store, is_below, parse_bucket_uri
from qcnn.storage.sync import FolderUploader, open_store


class WorkingCopy:
    """Local working folder, whose changes are uploaded if it is the copy of a folder in a bucket."""

    def __init__(self, folder: Path, uploader: FolderUploader | None) -> None:
        self.folder = folder
        self._uploader = uploader

    def flush(self) -> None:
        """Upload all changes and wait until the upload is complete.

        Raises:
            ConfigError: If the bucket rejects a request.
            UnreachableError: If the bucket does not respond or is full until the retry timeout.
        """
        if self._uploader:
            self._uploader.flush()

    def check(self) -> None:
        """Raise the error of a failed upload, or wait for an upload that is delayed beyond `patience`.

        Raises:
            ConfigError: If the bucket rejects a request.
            UnreachableError: If the bucket does not respond or is full until the retry timeout.
        """
        if self._uploader:
            self._uploader.check()


@contextlib.contextmanager
def local_copy(uri: str) -> Iterator[Path]:
    """Context manager that yields a local folder itself, or a temporary copy of a folder in a bucket."""
    if not (bucket_uri := parse_bucket_uri(uri)):
        yield Path(uri)
        return
    with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
        folder = Path(temporary) / (PurePosixPath(bucket_uri.folder).name or bucket_uri.bucket)
        folder.mkdir()
        with contextlib.closing(open_store(bucket_uri)) as store:
            download(store, folder)
        yield folder


@contextlib.contextmanager
def local_file(uri: str) -> Iterator[Path]:
    """Context manager that yields a local file itself, or a temporary copy of a file in a bucket.

    The copy has the same name.

    Raises:
        ConfigError: If the bucket rejects a request, or the URI does not name a file.
    """
    if not (bucket_uri := parse_bucket_uri(uri)):
        yield Path(uri)
        return
    folder, name = _split(bucket_uri)
    with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
        path = Path(temporary, name)
        with contextlib.closing(open_store(folder)) as store:
            store.read(name, path)
        yield path


@contextlib.contextmanager
def new_file_copy(uri: str) -> Iterator[Path]:
    """Context manager that yields a temporary local file, and writes it to a URI if the block succeeds.

    Raises:
        ArtifactError: If the local file cannot be written.
        ConfigError: If the bucket rejects a request, or the URI does not name a file.
    """
    if not (bucket_uri := parse_bucket_uri(uri)):
        with new_file(Path(uri)) as unfinished:
            yield unfinished
        return
    folder, name = _split(bucket_uri)
    with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
        path = Path(temporary, name)
        with new_file(path) as unfinished:
            yield unfinished
        with contextlib.closing(open_store(folder)) as store:
            store.write(path, name)


def _split(bucket_uri: BucketUri) -> tuple[BucketUri, str]:
    """Return the folder and the name of a file in a bucket.

    Raises:
        ConfigError: If the URI is that of a bucket.
    """
    folder, _, name = bucket_uri.folder.rpartition("/")
    if not name:
        raise ConfigError(f"uri: must name a file in a bucket. Given: {bucket_uri}")
    return dataclasses.replace(bucket_uri, folder=folder), name


@contextlib.contextmanager
def new_copy(uri: str, last: str) -> Iterator[Path]:
    """Context manager that yields the path of a new local folder, and uploads it if the block succeeds.

    A local folder is written directly.
    In a bucket, the file `last` is written after all others, so its presence marks a complete upload.
    """
    if not (bucket_uri := parse_bucket_uri(uri)):
        yield Path(uri)
        return
    with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
        folder = Path(temporary) / "new"
        yield folder
        with contextlib.closing(open_store(bucket_uri)) as store:
            for name in sorted(complete_files(folder), key=lambda name: (name == last, name)):
                store.write(folder / name, name)


def is_complete(uri: str, last: str) -> bool:
    """Return whether a URI has the complete output of `new_copy`."""
    if not (bucket_uri := parse_bucket_uri(uri)):
        return (Path(uri) / last).is_file()
    with contextlib.closing(open_store(bucket_uri)) as store:
        return last in store.names()


@contextlib.contextmanager
def working_copy(
    uri: str,
    *,
    filled: bool = False,
    written: bool = False,
    patience: float = 60.0,
    is_first: Callable[[str], bool] = lambda name: False,
) -> Iterator[WorkingCopy]:
    """Context manager that yields a local folder itself, or a working copy of a folder in a bucket.

    Args:
        uri: Path or bucket URI of the folder.
        filled: Whether the working copy starts with the content of the bucket. By default, it starts empty.
        written: Whether changes are uploaded within seconds and at the end of the block.
        patience: Seconds that an upload may be delayed before `check` waits for it.
        is_first: Whether the file of a name is uploaded before others (see `FolderUploader`).
    """
    if not (bucket_uri := parse_bucket_uri(uri)):
        yield WorkingCopy(Path(uri), None)
        return
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qcnn-")))
        store = stack.enter_context(contextlib.closing(open_store(bucket_uri)))
        if filled:
            download(store, folder)
        if not written:
            yield WorkingCopy(folder, None)
            return
        uploader = stack.enter_context(contextlib.closing(FolderUploader(folder, store, patience, is_first)))
        yield WorkingCopy(folder, uploader)
        uploader.flush()


def download(store: Store, folder: Path) -> None:
    """Download all files of a store into a local folder, except files that are deleted meanwhile.

    Raises:
        ArtifactError: If a file name leads out of the folder, or is invalid in the local file system.
    """
    for name in store.names():
        # Consoles create empty objects with the names of folders.
        if name and not name.endswith("/"):
            # A running training replaces its checkpoints.
            with contextlib.suppress(MissingFileError):
                store.read(name, _local_path(folder, name))


def _local_path(folder: Path, name: str) -> Path:
    """Return the local path of a file of a bucket, and create its folder.

    Raises:
        ArtifactError: If the path is outside of the folder, or invalid in the local file system.
    """
    if not is_below(name):
        raise ArtifactError(f"bucket: a file's name leads out of its folder. Given: {name}")
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError("the name is that of the folder of another file")
    except OSError as error:
        reason = single_line(error.strerror or error)
        raise ArtifactError(f"bucket: the local file system rejects the file name ({reason}). Given: {name}") from None
    return path
