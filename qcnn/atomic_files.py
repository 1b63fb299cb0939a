"""Atomic writes of files and folders, and errors of file access."""

import contextlib
import errno
import fcntl
import hashlib
import os
import resource
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from qcnn.errors import ArtifactError, WriteError, single_line
from qcnn.input_files import check_regular, reason_of

_UNFINISHED = ".unfinished-"
# Seconds to wait for the lock of a process that is terminating.
_LOCK_TIMEOUT_SECONDS, _LOCK_INTERVAL_SECONDS = 10.0, 0.1
# Error numbers of file systems that cannot rename folders. A bucket mounted by gcsfuse reports the first
# (cloud.google.com/storage/docs/gcsfuse-cli, --rename-dir-limit).
_NO_RENAMING = (errno.EMFILE, errno.ENOSYS, errno.ENOTSUP)
# Error numbers of file systems without locks.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)
# Bytes of a read, and of a test write.
_CHUNK = 2**20


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Context manager that yields a temporary folder, and renames it to `folder` if the block succeeds.

    An empty folder of that name is replaced. If folders cannot be renamed, as in a mounted bucket, the files are
    renamed in the order in which they were written, so that the last file marks a complete folder.

    Raises:
        ArtifactError: If the folder has content or cannot be written.
    """
    if folder.is_dir() and any(folder.iterdir()):
        raise ArtifactError(f"output: the folder must be new or empty. Given: {folder}")
    with writable(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Not by `tempfile`, whose folders only their owner can read.
        unfinished = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
        unfinished.mkdir()
        try:
            yield unfinished
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
    """Context manager that yields a temporary path, and renames its file to `path` if the block succeeds.

    Raises:
        ArtifactError: If the file cannot be written.
    """
    # Threads can write files of the same name at the same time.
    unfinished = path.with_name(f"{_UNFINISHED}{path.name}.{os.getpid()}.{threading.get_native_id()}")
    with writable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        try:
            yield unfinished
            # The content must reach the disk before the name.
            with unfinished.open("rb") as content:
                os.fsync(content.fileno())
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


@contextlib.contextmanager
def folder_lock(kind: str, folder: Path) -> Iterator[None]:
    """Context manager that creates a folder and locks it, also against other threads of this process.

    It waits a few seconds for the present owner. The operating system releases the lock when the process ends. On a
    file system without locks, the folder is not locked.

    Args:
        kind: Use of the folder, for the message.
        folder: Folder to lock.

    Raises:
        ArtifactError: If the folder stays locked, or cannot be written.
    """
    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        end = time.monotonic() + _LOCK_TIMEOUT_SECONDS
        while not _try_lock(descriptor):
            if time.monotonic() > end:
                raise ArtifactError(f"{kind}: the folder must not be in use by another {kind}. Given: {folder}")
            time.sleep(_LOCK_INTERVAL_SECONDS)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def exclusive_lock(folder: Path) -> Iterator[None]:
    """Context manager that locks the folder of a training process (see `folder_lock`).

    It deletes the unfinished files of killed processes, except in subfolders that another process has locked.

    Raises:
        ArtifactError: If another process has locked the folder, or the folder cannot be written.
    """
    with folder_lock("training", folder):
        locked = [subfolder for subfolder in folder.iterdir() if subfolder.is_dir() and is_locked(subfolder)]
        for unfinished in folder.rglob(f"{_UNFINISHED}*"):
            if not any(unfinished.is_relative_to(subfolder) for subfolder in locked):
                unfinished.unlink(missing_ok=True)
        yield


def check_disk_space(folder: Path, size: int) -> None:
    """Check that a file of `size` bytes can be written in a folder, by writing a temporary one.

    Libraries that write files themselves report a full disk in many lines, without its name, or by a crash.

    Raises:
        OSError: If the file cannot be written.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        for start in range(0, size, _CHUNK):
            file.write(bytes(min(_CHUNK, size - start)))
        file.flush()


@contextlib.contextmanager
def library_errors(kind: str, folder: Path, failure: type[Exception]) -> Iterator[None]:
    """Context manager that translates a library's error to a single-line error with the reason.

    Args:
        kind: Type of the artifact, for the message.
        folder: Folder to which the library writes.
        failure: Error class that the library raises if it cannot write.

    Raises:
        ArtifactError: If a file cannot be written.
    """
    try:
        yield
    except failure:
        raise WriteError(f"{kind}: cannot be written ({_why_not_written(folder)}). Given: {folder}") from None


def _why_not_written(folder: Path) -> str:
    """Return the reason why files in a folder cannot grow."""
    try:
        check_disk_space(folder, _CHUNK)
    except OSError as error:
        return _reason(error)
    limit = _file_size_limit()
    return _describe_limit(limit) if limit is not None else "unknown reason"


@contextlib.contextmanager
def readable(kind: str, path: Path) -> Iterator[None]:
    """Context manager that translates errors of reading a file to a single-line error.

    Damaged files cause many types of errors. For example, the reader of zip files raises errors of tokenize, struct
    and codecs.

    Args:
        kind: Type of the artifact, for the message.
        path: File that the block reads, or a folder.

    Raises:
        ArtifactError: If the file is missing, unreadable or damaged, or the block raises this error.
    """
    try:
        if path.exists() and not path.is_dir():
            check_regular(path)
        yield
    except ArtifactError:
        raise
    except FileNotFoundError:
        raise ArtifactError(f"{kind}: {path.name} is missing. Given: {path.parent}") from None
    except Exception as error:
        # Libraries also raise OSError for damaged files. Only errors of the operating system have a number.
        is_unreadable = isinstance(error, OSError) and error.errno is not None
        what = "cannot be read" if is_unreadable else "is damaged"
        reason = f"{type(error).__name__}: {error}" if isinstance(error, LookupError) else reason_of(error)
        raise ArtifactError(f"{kind}: {path.name} {what} ({single_line(reason)}). Given: {path}") from None


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal, computed in chunks.

    Raises:
        OSError: If the file cannot be read.
    """
    check_regular(path)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def complete_files(folder: Path) -> list[str]:
    """Return the relative names of all files in a folder, except unfinished ones, with "/" between parts."""
    paths = (path for path in folder.rglob("*") if not path.name.startswith(_UNFINISHED))
    return [path.relative_to(folder).as_posix() for path in paths if path.is_file()]


def is_locked(folder: Path) -> bool:
    """Return whether a folder is locked by `folder_lock`, which on a file system without locks is always True."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


@contextlib.contextmanager
def writable(path: Path) -> Iterator[None]:
    """Context manager that translates errors of writing a file or folder to a single-line error.

    Raises:
        ArtifactError: If the file or folder cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise WriteError(f"output: cannot be written ({_reason(error)}). Given: {path}") from None


def _reason(error: OSError) -> str:
    limit = _file_size_limit()
    if error.errno == errno.EFBIG and limit is not None:
        return _describe_limit(limit)
    return single_line(error.strerror or error)


def _file_size_limit() -> int | None:
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return None if limit == resource.RLIM_INFINITY else limit


def _describe_limit(limit: int) -> str:
    return f"the file size limit of this process is {limit} bytes, see ulimit -f"
