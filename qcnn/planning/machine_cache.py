"""Cache of the local machine's profile, so that plans do not repeat the benchmark."""

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
from qcnn.planning.machine import MachineProfile, fastest, spread
from qcnn.process.library_loading import load_tensorflow, start_compiler
from qcnn.process.operating_system import cores, processor

# Version of the benchmark. Increase it with every change of the benchmark or of the estimate of an epoch's seconds.
_MEASUREMENT = 4
# Rates that differ by more than this fraction indicate a busy machine.
_MAX_IDLE_SPREAD = 0.2
# A machine is benchmarked at least and at most this often, until two results agree.
_MIN_BENCHMARKS, _MAX_BENCHMARKS = 2, 3


@dataclasses.dataclass(frozen=True)
class CachedMachine:
    """Machine profile with the day of the benchmark and the cache file.

    `path` is None if the file could not be written. `spread` is that of `qcnn.planning.machine.spread` on that day.
    """

    machine: MachineProfile
    day: str
    path: Path | None
    spread: float

    @property
    def was_busy(self) -> bool:
        """Whether results differ by more than those of an idle machine."""
        return self.spread > _MAX_IDLE_SPREAD

    @property
    def is_due(self) -> bool:
        """Whether the machine should be measured again, because it was busy on an earlier day."""
        return self.was_busy and self.day != _today()


def load() -> CachedMachine | None:
    """Return the cached profile of the local machine, or None if it is missing or damaged."""
    with contextlib.suppress(ArtifactError, KeyError, TypeError, ValueError):
        path = _path()
        content = load_description("machine", path)
        if content["key"] == _key():
            machine = TypeAdapter(MachineProfile).validate_python(content["machine"])
            return CachedMachine(machine, str(content["day"]), path, float(content["spread"]))
    return None


def load_or_measure(announce: Callable[[], None] = lambda: None) -> CachedMachine:
    """Return the cached profile of the local machine, or measure it if the profile is missing or due.

    `announce` is called before the benchmark.
    """
    cached = load()
    if cached and not cached.is_due:
        return cached
    announce()
    return measure()


def measure() -> CachedMachine:
    """Benchmark the local machine repeatedly, which takes several seconds, and cache the best rates.

    A previously cached profile counts as one more result.
    """
    load_tensorflow()
    start_compiler()
    from qcnn.planning.machine_benchmark import benchmark_machine

    before = load()
    return keep_fastest(benchmark_machine, [before.machine] if before else [])


def keep_fastest(benchmark: Callable[[], MachineProfile], before: Sequence[MachineProfile] = ()) -> CachedMachine:
    """Benchmark a machine until two results agree, two or three times, and cache the best rates."""
    profiles = [*before, *(benchmark() for _ in range(_MIN_BENCHMARKS))]
    while spread(profiles) > _MAX_IDLE_SPREAD and len(profiles) < len(before) + _MAX_BENCHMARKS:
        profiles.append(benchmark())
    return keep(fastest(profiles), spread(profiles))


def keep(machine: MachineProfile, difference: float = 0.0) -> CachedMachine:
    """Cache a profile of the local machine with today's date, if the file can be written."""
    day = _today()
    content = {"key": _key(), "day": day, "machine": dataclasses.asdict(machine), "spread": difference}
    try:
        path = _path()
        with new_file(path) as unfinished:
            save_description(content, unfinished)
    except ArtifactError:
        return CachedMachine(machine, day, None, difference)
    return CachedMachine(machine, day, path, difference)


def _today() -> str:
    return datetime.date.today().isoformat()


def _path() -> Path:
    """Return the cache file of the local machine.

    Its name is unique among machines that share a home folder. It is in the folder of the XDG Base Directory
    Specification, "XDG_CACHE_HOME".

    Raises:
        ArtifactError: If the user has no home folder.
    """
    cache_home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The specification requires that relative paths are ignored.
    try:
        folder = cache_home if cache_home.is_absolute() else Path("~/.cache").expanduser()
    except RuntimeError as error:
        raise ArtifactError(f"machine: {single_line(error)}. Given: ~/.cache") from None
    name = hashlib.sha256(json.dumps(_key()).encode()).hexdigest()[:12]
    return folder / "qcnn" / f"machine-{name}.json"


def _key() -> dict[str, str | int]:
    """Return the properties on which the rates depend."""
    return {
        "processor": processor(),
        "cores": cores(),
        "tensorflow": importlib.metadata.version("tensorflow"),
        "measurement": _MEASUREMENT,
    }
