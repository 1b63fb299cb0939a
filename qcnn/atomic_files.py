"""Files and folders that a reader sees whole or not at all."""

import contextlib
import errno
import fcntl
import hashlib
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from qcnn.errors import ArtifactError, single_line

_UNFINISHED = ".unfinished-"
# Seconds that a process which was told to end may take until another one gets its folder.
_PATIENCE = 10.0
# How file systems say that they cannot rename folders; a bucket that is mounted by gcsfuse says the first
# (cloud.google.com/storage/docs/gcsfuse-cli, --rename-dir-limit).
_NO_RENAMING = (errno.EMFILE, errno.ENOSYS, errno.ENOTSUP)
# Bytes that are read at a time, or written to find out whether they can be.
_CHUNK = 2**20


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `folder` that takes its name when the block ends well.

    An empty folder of that name is replaced; one with content is never touched. Where folders cannot be renamed, as in
    a mounted bucket, its files are, in the order in which they were written: what proves the rest comes last.

    Raises:
        ArtifactError: the folder has content, or cannot be written.
    """
    if folder.is_dir() and any(folder.iterdir()):
        raise ArtifactError(f"output: the folder must be new or empty. Given: {folder}")
    with writable(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            yield unfinished
            unfinished.chmod(0o777 & ~_umask())
            _rename(unfinished, folder)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise


def _rename(unfinished: Path, folder: Path) -> None:
    try:
        unfinished.replace(folder)
        return
    except OSError as error:
        if error.errno not in _NO_RENAMING:
            raise
    files = [path for path in unfinished.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: path.stat().st_mtime_ns):
        target = folder / path.relative_to(unfinished)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
    shutil.rmtree(unfinished)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; what was written there replaces `path` when the block ends well.

    Raises:
        ArtifactError: the folder cannot be written.
    """
    unfinished = path.with_name(f"{_UNFINISHED}{path.name}.{os.getpid()}")
    with writable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        try:
            yield unfinished
            # The name must not reach the disk before the content does.
            with unfinished.open("rb") as content:
                os.fsync(content.fileno())
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


@contextlib.contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; one that is just ending is waited for.

    What a process that was killed has left half-written in it is removed, but not in a folder below that another holds.

    Raises:
        ArtifactError: another process keeps it, or it cannot be written.
    """
    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        held = os.open(folder, os.O_RDONLY)
    try:
        end = time.monotonic() + _PATIENCE
        while not _locked(held):
            if time.monotonic() > end:
                raise ArtifactError(f"training: another process trains in this folder. Given: {folder}")
            time.sleep(0.1)
        others = [below for below in folder.iterdir() if below.is_dir() and _is_held(below)]
        for unfinished in folder.rglob(f"{_UNFINISHED}*"):
            if not any(unfinished.is_relative_to(other) for other in others):
                unfinished.unlink(missing_ok=True)
        yield
    finally:
        os.close(held)


def check_disk_space(folder: Path, size: int) -> None:
    """Find out whether a file of so many bytes can be written in a folder, by writing one.

    Libraries that write files themselves report a full disk in many lines, without its name, or by a crash.

    Raises:
        OSError: it cannot be written.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        for start in range(0, size, _CHUNK):
            file.write(bytes(min(_CHUNK, size - start)))
        file.flush()


@contextlib.contextmanager
def written_by_library(kind: str, folder: Path, failure: type[Exception]) -> Iterator[None]:
    """Report in one line why a library cannot write into a folder, which says only by `failure` that it cannot.

    Raises:
        ArtifactError: a file cannot be written.
    """
    try:
        yield
    except failure:
        raise ArtifactError(f"{kind}: cannot be written ({_why_not_written(folder)}). Given: {folder}") from None


def _why_not_written(folder: Path) -> str:
    """Return why files in a folder cannot grow."""
    try:
        check_disk_space(folder, _CHUNK)
    except OSError as error:
        return _reason(error)
    limit = _largest_file()
    return _limited(limit) if limit is not None else "the system does not say why"


@contextlib.contextmanager
def readable(kind: str, path: Path) -> Iterator[None]:
    """Turn whatever the block raises while it reads a file of an artifact, such as a checkpoint, into one line.

    Readers raise nearly anything for a damaged file: that of zip files errors of tokenize, struct, codecs, ...

    Raises:
        ArtifactError: the file is missing, cannot be read, or is damaged; or the block says so itself.
    """
    try:
        yield
    except ArtifactError:
        raise
    except FileNotFoundError:
        raise ArtifactError(f"{kind}: {path.name} is missing. Given: {path.parent}") from None
    except Exception as error:
        # Libraries raise OSError for damage too; only an error of the system has a number.
        refused = isinstance(error, OSError) and error.errno is not None
        what = "cannot be read" if refused else "is damaged"
        reason = f"{type(error).__name__}: {error}" if isinstance(error, LookupError) else error
        raise ArtifactError(f"{kind}: {path.name} {what} ({single_line(reason)}). Given: {path}") from None


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, whatever its size.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def complete_files(folder: Path) -> list[str]:
    """Return the names of all files below a folder that are not being written, with "/" between parts."""
    paths = (path for path in folder.rglob("*") if not path.name.startswith(_UNFINISHED))
    return [path.relative_to(folder).as_posix() for path in paths if path.is_file()]


def _is_held(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        return not _locked(descriptor)
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def writable(path: Path) -> Iterator[None]:
    """Turn an error of the system while a block writes a file or folder into one line.

    Raises:
        ArtifactError: it cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise ArtifactError(f"output: cannot be written ({_reason(error)}). Given: {path}") from None


def _reason(error: OSError) -> str:
    limit = _largest_file()
    if error.errno == errno.EFBIG and limit is not None:
        return _limited(limit)
    return single_line(error.strerror or error)


def _largest_file() -> int | None:
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return None if limit == resource.RLIM_INFINITY else limit


def _limited(limit: int) -> str:
    return f"this process may write files of at most {limit} bytes, see ulimit -f"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
