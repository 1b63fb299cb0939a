"""Finds TensorBoard logs by what a user typed: of runs of this machine, and in buckets."""

import collections
import dataclasses
from collections.abc import Iterable
from pathlib import Path, PurePath, PurePosixPath

from qcnn.errors import ArtifactError
from qcnn.storage.uri import in_bucket

_LOGS = Path("train", "logs")
_EVENTS = "*tfevents*"


@dataclasses.dataclass(frozen=True)
class Logs:
    """Logs that are shown under a name.

    `address` is their folder, here or in a bucket; or, where `of_run`, that of a run in a bucket, which has a folder
    "logs" for each of its trainings.
    """

    name: str
    address: str
    of_run: bool = False


def runs_here(runs: Path) -> list[Logs]:
    """Return the logs of all runs of a folder.

    Raises:
        ArtifactError: there are none.
    """
    found = [Logs(path.name, str(path / _LOGS)) for path in sorted(runs.glob("*")) if (path / _LOGS).is_dir()]
    if not found:
        raise ArtifactError(f"runs: the folder holds no run with logs; `qcnn run` makes one. Given: {runs}")
    return found


def logs_here(chosen: str, runs: Path) -> Logs | None:
    """Return the logs at an address in a bucket, or in the folder of a run or of logs, or of that name in `runs`.

    Raises:
        ConfigError: it is an address of no known kind.
    """
    if place := in_bucket(chosen):
        return Logs(_name(PurePosixPath(place.bucket, place.folder)), chosen)
    for folder in (Path(chosen), runs / chosen):
        if (folder / _LOGS).is_dir():
            return Logs(folder.resolve().name, str(folder / _LOGS))
    if Path(chosen).is_dir() and next(Path(chosen).rglob(_EVENTS), None):
        return Logs(_name(Path(chosen).resolve()), chosen)
    return None


def _name(folder: PurePath) -> str:
    """Return the name of logs: that of the folder without the ending that all logs of runs or TFJobs share."""
    parts = list(folder.parts)
    for part in reversed(_LOGS.parts):
        if len(parts) > 1 and parts[-1] == part:
            parts.pop()
    return parts[-1]


def distinct(found: Iterable[Logs]) -> list[Logs]:
    """Return logs without duplicates.

    Raises:
        ArtifactError: two different ones have one name.
    """
    unique = {
        str(Path(logs.address).resolve()) if not in_bucket(logs.address) else logs.address: logs for logs in found
    }
    names = collections.Counter(logs.name for logs in unique.values())
    if twice := [name for name, count in names.items() if count > 1]:
        raise ArtifactError(f"run: two different runs have the same name. Given: {twice[0]}")
    return list(unique.values())
