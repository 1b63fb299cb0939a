"""Identity of a tracked run, in a file of its training folder, so that a resumed run is the same run on the server."""

import contextlib
import dataclasses
import datetime
import uuid
from collections.abc import Iterator
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
            with new_file(path) as unfinished:
                save_description({"key": uuid.uuid4().hex, "started": int(now.timestamp() * 1000)}, unfinished)
        content = load_description("run", path)
        with readable("run", path):
            identity = Identity(str(content["key"]), int(content["started"]))
        yield identity
