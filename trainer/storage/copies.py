"""Local copies of folders in buckets: to read from, to write a result into, to work in."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from trainer.errors import ArtifactError, one_line
from trainer.folders import whole_files
from trainer.storage.address import in_bucket, is_below
from trainer.storage.interface import Store
from trainer.storage.mirror import Mirror
from trainer.storage.stores import open_store


class WorkingCopy:
    """A local folder to work in; if it stands for a folder in a bucket, what is written is copied there."""

    def __init__(self, folder: Path, mirror: Mirror | None) -> None:
        self.folder = folder
        self._mirror = mirror

    def flush(self) -> None:
        """Copy everything that the bucket lacks, and return when it is there.

        Raises:
            ConfigError: the bucket refuses.
            UnreachableError: it does not answer, and has been waited for.
        """
        if self._mirror:
            self._mirror.flush()

    def check(self) -> None:
        """Raise the error that ended the copying, if one did.

        Raises:
            ConfigError: the bucket refuses.
        """
        if self._mirror:
            self._mirror.check()


@contextlib.contextmanager
def local_copy(address: str) -> Iterator[Path]:
    """Yield a local folder with everything at an address: the folder itself, or a temporary copy."""
    if not (place := in_bucket(address)):
        yield Path(address)
        return
    with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
        folder = Path(temporary) / (PurePosixPath(place.folder).name or place.bucket)
        folder.mkdir()
        with contextlib.closing(open_store(place)) as store:
            download(store, folder)
        yield folder


@contextlib.contextmanager
def new_copy(address: str, last: str) -> Iterator[Path]:
    """Yield a local folder, not there yet, whose files go to an address when the block ends well.

    In a bucket the file `last` is written last of all: where it is, everything is.
    """
    if not (place := in_bucket(address)):
        yield Path(address)
        return
    with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
        folder = Path(temporary) / "new"
        yield folder
        with contextlib.closing(open_store(place)) as store:
            for name in sorted(whole_files(folder), key=lambda name: (name == last, name)):
                store.write(folder / name, name)


def is_whole(address: str, last: str) -> bool:
    """Whether what `new_copy` writes is at an address."""
    if not (place := in_bucket(address)):
        return (Path(address) / last).is_file()
    with contextlib.closing(open_store(place)) as store:
        return last in store.names()


@contextlib.contextmanager
def working_copy(address: str, *, filled: bool = False, written: bool = False) -> Iterator[WorkingCopy]:
    """Yield a local folder that stands for an address while it is worked in.

    For a folder in a bucket it holds at first what is there if `filled`, else nothing; if it is `written`, what
    changes is copied to the bucket within seconds and at the end of the block.
    """
    if not (place := in_bucket(address)):
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
        mirror = stack.enter_context(contextlib.closing(Mirror(folder, store)))
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
        reason = one_line(error.strerror or error)
        raise ArtifactError(f"bucket: no file can have such a name here ({reason}). Given: {name}") from None
    return path
