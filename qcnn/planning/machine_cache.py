"""What was measured of a machine, kept in the user's cache folder: it does not change from one plan to the next."""

import contextlib
import dataclasses
import datetime
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import TypeAdapter

from qcnn.artifact_io import load_description, save_description
from qcnn.atomic_files import new_file
from qcnn.errors import ArtifactError, single_line
from qcnn.operating_system import cores, processor
from qcnn.planning.machine import MachineProfile, fastest, spread
from qcnn.startup import load_tensorflow, start_compiler

# Raised with every change of what is measured, or of how an epoch's seconds follow from it.
_MEASUREMENT = 3
# Rates of two moments that differ by a larger share are not those of an idle machine.
_ALIKE = 0.2
# A machine is measured at so many moments, and at more until two are alike.
_LEAST_MOMENTS, _MOST_MOMENTS = 2, 3


@dataclasses.dataclass(frozen=True)
class CachedMachine:
    """What was measured, on which day, and the file that holds it; None where it could not be kept.

    `spread` is as `qcnn.planning.machine` has it, of the moments of that day.
    """

    machine: MachineProfile
    day: str
    path: Path | None
    spread: float

    @property
    def was_busy(self) -> bool:
        """Whether the moments differ by more than those of an idle machine."""
        return self.spread > _ALIKE

    @property
    def is_due(self) -> bool:
        """Whether it should be measured again: it was busy, on another day than today."""
        return self.was_busy and self.day != _today()


def load() -> CachedMachine | None:
    """Return what was kept of this machine, None where nothing was, or what was is damaged."""
    with contextlib.suppress(ArtifactError, KeyError, TypeError, ValueError):
        path = _path()
        content = load_description("machine", path)
        if content["key"] == _key():
            machine = TypeAdapter(MachineProfile).validate_python(content["machine"])
            return CachedMachine(machine, str(content["day"]), path, float(content["spread"]))
    return None


def load_or_measure(announce: Callable[[], None] = lambda: None) -> CachedMachine:
    """Return what was kept of this machine; call `announce` and measure where nothing was, or where that is due."""
    kept = load()
    if kept and not kept.is_due:
        return kept
    announce()
    return measure()


def measure() -> CachedMachine:
    """Measure this machine at several moments, which takes some seconds, and keep the fastest.

    What was kept before counts as one more moment: it was as fast once.
    """
    load_tensorflow()
    start_compiler()
    from qcnn.planning.machine_benchmark import benchmark_machine

    before = load()
    return keep_fastest(benchmark_machine, [before.machine] if before else [])


def keep_fastest(probe: Callable[[], MachineProfile], before: Sequence[MachineProfile] = ()) -> CachedMachine:
    """Probe a machine at least twice, until two moments are alike or at most so often, and keep the fastest."""
    moments = [*before, *(probe() for _ in range(_LEAST_MOMENTS))]
    while spread(moments) > _ALIKE and len(moments) < len(before) + _MOST_MOMENTS:
        moments.append(probe())
    return keep(fastest(moments), spread(moments))


def keep(machine: MachineProfile, differing: float = 0.0) -> CachedMachine:
    """Keep what was measured of this machine today, if its file can be written."""
    day = _today()
    content = {"key": _key(), "day": day, "machine": dataclasses.asdict(machine), "spread": differing}
    try:
        path = _path()
        with new_file(path) as unfinished:
            save_description(content, unfinished)
    except ArtifactError:
        return CachedMachine(machine, day, None, differing)
    return CachedMachine(machine, day, path, differing)


def _today() -> str:
    return datetime.date.today().isoformat()


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
        raise ArtifactError(f"machine: {single_line(error)}. Given: ~/.cache") from None
    name = hashlib.sha256(json.dumps(_key()).encode()).hexdigest()[:12]
    return folder / "qcnn" / f"machine-{name}.json"


def _key() -> dict[str, str | int]:
    """Return what the measured numbers depend on."""
    return {
        "processor": processor(),
        "cores": cores(),
        "tensorflow": importlib.metadata.version("tensorflow"),
        "measurement": _MEASUREMENT,
    }
