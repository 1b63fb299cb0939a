"""What was measured of a machine, kept in the user's cache folder: it does not change from one plan to the next."""

import contextlib
import dataclasses
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from trainer.descriptions import load_description, save_description
from trainer.errors import ArtifactError, one_line
from trainer.folders import new_file
from trainer.planning.machine import Machine, available_cores
from trainer.startup import load_tensorflow, start_compiler

# Raised with every change of what is measured, or of how an epoch's seconds follow from it.
_MEASUREMENT = 2


@dataclasses.dataclass(frozen=True)
class KeptMachine:
    """What was measured, on which day, and the file that holds it; None where it could not be kept."""

    machine: Machine
    day: str
    path: Path | None


def load() -> KeptMachine | None:
    """Return what was kept of this machine, None where nothing was, or what was is damaged."""
    with contextlib.suppress(ArtifactError, KeyError, ValidationError):
        path = _path()
        content = load_description("machine", path)
        if content["key"] == _key():
            return KeptMachine(TypeAdapter(Machine).validate_python(content["machine"]), str(content["day"]), path)
    return None


def measure() -> KeptMachine:
    """Measure this machine, which takes some seconds, and keep that."""
    load_tensorflow()
    start_compiler()
    from trainer.planning.probe import probe

    return keep(probe())


def keep(machine: Machine) -> KeptMachine:
    """Keep what was measured of this machine today, if its file can be written."""
    day = datetime.date.today().isoformat()
    try:
        path = _path()
        with new_file(path) as unfinished:
            save_description({"key": _key(), "day": day, "machine": dataclasses.asdict(machine)}, unfinished)
    except ArtifactError:
        return KeptMachine(machine, day, None)
    return KeptMachine(machine, day, path)


def _path() -> Path:
    """Return the file of this machine: several may share a home.

    In the folder of the XDG Base Directory Specification, "XDG_CACHE_HOME".

    Raises:
        ArtifactError: there is no home.
    """
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # What is not absolute is to be ignored, says the specification.
    try:
        folder = given if given.is_absolute() else Path("~/.cache").expanduser()
    except RuntimeError as error:
        raise ArtifactError(f"machine: {one_line(error)}. Given: ~/.cache") from None
    name = hashlib.sha256(json.dumps(_key()).encode()).hexdigest()[:12]
    return folder / "qcnn" / f"machine-{name}.json"


def _key() -> dict[str, str | int]:
    """Return what the measured numbers depend on."""
    return {
        "processor": _processor(),
        "cores": available_cores(),
        "tensorflow": importlib.metadata.version("tensorflow"),
        "measurement": _MEASUREMENT,
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.machine()
