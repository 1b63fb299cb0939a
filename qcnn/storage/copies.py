"""Local copies of folders and files in buckets: to read from, to write a result into, to work in."""

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from qcnn.atomic_files import complete_files, new_file
from qcnn.errors import ArtifactError, ConfigError, single_line
from qcnn.storage.store import BucketUri, Store, is_below, parse_bucket_uri
from qcnn.storage.sync import FolderUploader, open_store


class WorkingCopy:
    """A local folder to work in; if it stands for a folder in a bucket, what is written is copied there."""

    def __init__(self, folder: Path, mirror: FolderUploader | None) -> None:
        self.folder = folder
        self._mirror = mirror

    def flush(self) -> None:
        """Copy everything that the bucket lacks, and return when it is there.

        Raises:
            ConfigError: the bucket refuses.
            UnreachableError: it does not answer, or is full, and has been waited for.
        """
        if self._mirror:
            self._mirror.flush()

    def check(self) -> None:
        """Raise the error that ended the copying, if one did; wait if the bucket is behind for too long.

        Raises:
            ConfigError: the bucket refuses.
            UnreachableError: it does not answer, or is full, and has been waited for.
        """
        if self._mirror:
            self._mirror.check()


@contextlib.contextmanager
def local_copy(address: str) -> Iterator[Path]:
    """Yield a local folder with everything at an address: the folder itself, or a temporary copy."""
    if not (place := parse_bucket_uri(address)):
        yield Path(address)
        return
    with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
        folder = Path(temporary) / (PurePosixPath(place.folder).name or place.bucket)
        folder.mkdir()
        with contextlib.closing(open_store(place)) as store:
            download(store, folder)
        yield folder


@contextlib.contextmanager
def local_file(address: str) -> Iterator[Path]:
    """Yield a local file with what a file at an address holds: the file itself, or a temporary copy of its name.

    Raises:
        ConfigError: the bucket refuses, or the address names no file.
    """
    if not (place := parse_bucket_uri(address)):
        yield Path(address)
        return
    folder, name = _split(place)
    with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
        path = Path(temporary, name)
        with contextlib.closing(open_store(folder)) as store:
            store.read(name, path)
        yield path


@contextlib.contextmanager
def new_file_copy(address: str) -> Iterator[Path]:
    """Yield a temporary local file that becomes the file at an address when the block ends well.

    Raises:
        ArtifactError: it cannot be written here.
        ConfigError: the bucket refuses, or the address names no file.
    """
    if not (place := parse_bucket_uri(address)):
        with new_file(Path(address)) as unfinished:
            yield unfinished
        return
    folder, name = _split(place)
    with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
        path = Path(temporary, name)
        with new_file(path) as unfinished:
            yield unfinished
        with contextlib.closing(open_store(folder)) as store:
            store.write(path, name)


def _split(place: BucketUri) -> tuple[BucketUri, str]:
    """Return the folder of a file in a bucket, and the file's name.

    Raises:
        ConfigError: it is a bucket.
    """
    folder, _, name = place.folder.rpartition("/")
    if not name:
        raise ConfigError(f"address: must name a file in a bucket. Given: {place}")
    return dataclasses.replace(place, folder=folder), name


@contextlib.contextmanager
def new_copy(address: str, last: str) -> Iterator[Path]:
    """Yield a local folder, not there yet, whose files go to an address when the block ends well.

    In a bucket the file `last` is written last of all: where it is, everything is.
    """
    if not (place := parse_bucket_uri(address)):
        yield Path(address)
        return
    with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
        folder = Path(temporary) / "new"
        yield folder
        with contextlib.closing(open_store(place)) as store:
            for name in sorted(complete_files(folder), key=lambda name: (name == last, name)):
                store.write(folder / name, name)


def is_whole(address: str, last: str) -> bool:
    """Whether what `new_copy` writes is at an address."""
    if not (place := parse_bucket_uri(address)):
        return (Path(address) / last).is_file()
    with contextlib.closing(open_store(place)) as store:
        return last in store.names()


@contextlib.contextmanager
def working_copy(
    address: str, *, filled: bool = False, written: bool = False, patience: float = 60.0
) -> Iterator[WorkingCopy]:
    """Yield a local folder that stands for an address while it is worked in.

    For a folder in a bucket it holds at first what is there if `filled`, else nothing; if it is `written`, what
    changes is copied to the bucket within seconds and at the end of the block; a file that it has not taken for
    `patience` seconds is waited for in `check`.
    """
    if not (place := parse_bucket_uri(address)):
        yield WorkingCopy(Path(address), None)
        return
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qcnn-")))
        store = stack.enter_context(contextlib.closing(open_store(place)))
        if filled:
            download(store, folder)
        if not written:
            yield WorkingCopy(folder, None)
            return
        mirror = stack.enter_context(contextlib.closing(FolderUploader(folder, store, patience)))
        yield WorkingCopy(folder, mirror)
        mirror.flush()


def download(store: Store, folder: Path) -> None:
    """Copy all files of a store into a local folder.

    Raises:
        ArtifactError: a file's name leads out of the folder, or is none here.
    """
    for name in store.names():
        # Consoles mark folders by empty files of their names.
        if name and not name.endswith("/"):
            store.read(name, _place(folder, name))


def _place(folder: Path, name: str) -> Path:
    """Return where a file of a bucket goes below a folder.

    Raises:
        ArtifactError: it would go elsewhere, or a file system has no such name.
    """
    if not is_below(name):
        raise ArtifactError(f"bucket: a file's name leads out of its folder. Given: {name}")
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError("another file's name goes on where this one ends")
    except OSError as error:
        reason = single_line(error.strerror or error)
        raise ArtifactError(f"bucket: no file can have such a name here ({reason}). Given: {name}") from None
    return path
