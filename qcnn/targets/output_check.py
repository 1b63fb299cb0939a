"""The check of an output folder, local or in a bucket."""

import contextlib
import os
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path

from qcnn.errors import ArtifactError, QcnnError
from qcnn.storage.store import parse_bucket_uri
from qcnn.storage.sync import open_store
from qcnn.targets.checks import Check
from qcnn.targets.settings import CheckSettings

# Free space below which a run may not be complete.
_MIN_BYTES = 2**30


def output_checks(settings: CheckSettings) -> Sequence[Check]:
    """Return the check of the output folder, or none without one."""
    if settings.output is None:
        return ()
    uri, read_only = settings.output, settings.read_only
    return (Check("output", lambda: check_output(uri, read_only=read_only)),)


def check_output(uri: str, *, read_only: bool) -> str:
    """Return what an output folder allowed.

    Args:
        uri: Path or URI of the folder.
        read_only: Whether to only list it, instead of writing, reading and deleting a file of a random name.

    Raises:
        QcnnError: If it does not exist, or a request is denied.
    """
    bucket = parse_bucket_uri(uri)
    if bucket is None:
        return check_folder("output", Path(uri))
    with contextlib.closing(open_store(bucket)) as store:
        files = len(store.names())
        if read_only:
            return f"{bucket}: {files:,} files, not written to"
        name, content = f"qcnn-doctor-{secrets.token_hex(8)}", os.urandom(64)
        with tempfile.TemporaryDirectory(prefix="qcnn-") as folder:
            written, read = Path(folder, "written"), Path(folder, "read")
            written.write_bytes(content)
            try:
                store.write(written, name)
                store.read(name, read)
            except QcnnError:
                with contextlib.suppress(QcnnError):
                    store.delete(name)
                raise
            store.delete(name)
            if read.read_bytes() != content:
                raise ArtifactError(f"output: returned other bytes than it was given. Given: {bucket}")
    return f"{bucket}: {files:,} files; listed, wrote, read and deleted one"


def check_folder(name: str, folder: Path) -> str:
    """Return the free space of the nearest existing folder, in which a file can be created.

    Raises:
        ArtifactError: If no file can be created, or less than 1 GiB is free.
    """
    existing = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            state = os.statvfs(existing)
    except OSError as error:
        raise ArtifactError(f"{name}: must be a folder to write to ({error.strerror}). Given: {folder}") from None
    free = state.f_bavail * state.f_frsize
    if free < _MIN_BYTES:
        raise ArtifactError(
            f"{name}: must have {_MIN_BYTES // 2**30} GiB free. Given: {free / 2**30:.2f} GiB in {existing}"
        )
    return f"{existing}: {free / 2**30:,.0f} GiB free"
