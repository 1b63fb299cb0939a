"""Identity of a tracked run, in a file of its training folder, so that a resumed run is the same run on the server."""

import contextlib
import dataclasses
import datetime
import hashlib
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from qcnn.artifact_io import load_description, save_description
from qcnn.atomic_files import folder_lock, new_file, readable

# Subfolder of a training or study folder.
FOLDER = "tracking"
_FILE = "identity.json"


@dataclasses.dataclass(frozen=True)
class Identity:
    """Identity of a run on all servers. `started` is the time at which tracking began, in ms since the epoch."""

    key: str
    started: int


@contextlib.contextmanager
def identity_of(folder: Path) -> Iterator[Identity]:
    """Context manager that yields the identity of the run in a folder, and excludes other trackers of the run.

    Args:
        folder: Training folder, or folder of a study.

    Raises:
        ArtifactError: If another process tracks the run, or the folder cannot be read or written.
    """
    path = folder / FOLDER / _FILE
    with folder_lock("tracker", path.parent):
        if not path.exists():
            now = datetime.datetime.now(datetime.UTC)
            write_identity(folder, Identity(uuid.uuid4().hex, int(now.timestamp() * 1000)))
        yield read_identity(folder)


def write_identity(folder: Path, identity: Identity) -> None:
    """Write the identity of the run in a folder.

    Raises:
        ArtifactError: If the folder cannot be written.
    """
    with new_file(folder / FOLDER / _FILE) as unfinished:
        save_description(dataclasses.asdict(identity), unfinished)


def read_identity(folder: Path) -> Identity:
    """Read the identity of the run in a folder.

    Raises:
        ArtifactError: If the run has none, or the file is damaged.
    """
    path = folder / FOLDER / _FILE
    content = load_description("run", path)
    with readable("run", path):
        return Identity(str(content["key"]), int(content["started"]))


def identity_of_study(trials: Sequence[Identity]) -> Identity:
    """Return the identity of a study, which depends only on the identities of its trials."""
    keys = "".join(sorted(trial.key for trial in trials))
    return Identity(hashlib.sha256(keys.encode()).hexdigest()[:32], min(trial.started for trial in trials))
