"""What the artifacts of a run tell of it: metrics, models, the experiment that was run, and where its logs are."""

import collections
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from qcnn.components.steps.tensorboard import BACKENDS_OWN
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment import ALL_FIELDS
from qcnn.experiment_io import current_name, from_mapping, from_saved, with_current_names
from qcnn.storage.store import parse_bucket_uri

_LOGS = Path("train", "logs")
_EVENTS = "*tfevents*"


@dataclasses.dataclass(frozen=True)
class LogSource:
    """Logs that are shown under a name.

    `address` is their folder, here or in a bucket; or, where `of_run`, that of a run in a bucket, which has a folder
    "logs" for each of its trainings.
    """

    name: str
    address: str
    of_run: bool = False


def local_run_logs(runs: Path) -> list[LogSource]:
    """Return the logs of all runs of a folder.

    Raises:
        ArtifactError: there are none.
    """
    found = [LogSource(path.name, str(path / _LOGS)) for path in sorted(runs.glob("*")) if (path / _LOGS).is_dir()]
    if not found:
        raise ArtifactError(f"runs: the folder holds no run with logs; `qcnn run` makes one. Given: {runs}")
    return found


def resolve_logs(chosen: str, runs: Path) -> LogSource | None:
    """Return the logs at an address in a bucket, or in the folder of a run or of logs, or of that name in `runs`.

    Raises:
        ConfigError: it is an address of no known kind.
    """
    if place := parse_bucket_uri(chosen):
        return LogSource(_name(PurePosixPath(place.bucket, place.folder)), chosen)
    for folder in (Path(chosen), runs / chosen):
        if (folder / _LOGS).is_dir():
            return LogSource(folder.resolve().name, str(folder / _LOGS))
    if Path(chosen).is_dir() and next(Path(chosen).rglob(_EVENTS), None):
        return LogSource(_name(Path(chosen).resolve()), chosen)
    return None


def _name(folder: PurePath) -> str:
    """Return the name of logs: that of the folder without the ending that all logs of runs or TFJobs share."""
    parts = list(folder.parts)
    for part in reversed(_LOGS.parts):
        if len(parts) > 1 and parts[-1] == part:
            parts.pop()
    return parts[-1]


def deduplicate(found: Iterable[LogSource]) -> list[LogSource]:
    """Return logs without duplicates.

    Raises:
        ArtifactError: two different ones have one name.
    """
    unique = {
        str(Path(logs.address).resolve()) if not parse_bucket_uri(logs.address) else logs.address: logs
        for logs in found
    }
    names = collections.Counter(logs.name for logs in unique.values())
    if twice := [name for name, count in names.items() if count > 1]:
        raise ArtifactError(f"run: two different runs have the same name. Given: {twice[0]}")
    return list(unique.values())


_METRICS, _MODEL = "system.Metrics", "system.Model"
_LOGS_OF_ARTIFACTS = "logs"
_FIRST = ("mse", "accuracy")
# The parameters of a study's pipeline with what its trials share, and with what they differ in.
_SHARED, _SEARCHED = "experiment", ("grid", "ranges")


@dataclasses.dataclass(frozen=True)
class Artifact:
    """One artifact; `metadata` is what its step has written beside it."""

    type: str
    uri: str
    metadata: Mapping[str, Any]


def run_metrics(artifacts: Sequence[Artifact]) -> dict[str, float]:
    """Return the metrics of a run, first those that are looked at first: stores keep them in no order."""
    return {
        name: float(value)
        for artifact in artifacts
        if artifact.type == _METRICS
        for name, value in sorted(artifact.metadata.items(), key=_place)
        if name not in BACKENDS_OWN and isinstance(value, int | float)
    }


def run_models(artifacts: Sequence[Artifact]) -> list[str]:
    """Return the addresses of the models that a run has exported."""
    return list(dict.fromkeys(artifact.uri for artifact in artifacts if artifact.type == _MODEL))


def only_model(addresses: Sequence[str], job: str) -> str:
    """Return the address of the one model of a run.

    Raises:
        ArtifactError: there is none, or there are several.
    """
    if len(addresses) != 1:
        raise ArtifactError(f"model: the run has exported {', '.join(addresses) or 'none'}. Given: {job}")
    return addresses[0]


def run_fields(artifacts: Sequence[Artifact], submitted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words of the experiment that was run, which may differ from those that were submitted.

    A schedule gives each run a seed of its own, a study each trial its words; the artifacts record them. Of a study
    that has made none, these are the words that its trials share. Parameters that are no words, as those of another
    pipeline, are left out.
    """
    tagged = [
        (artifact.type, artifact.metadata["experiment"]) for artifact in artifacts if "experiment" in artifact.metadata
    ]
    of_models = {experiment for kind, experiment in tagged if kind == _MODEL}
    known = of_models or {experiment for _, experiment in tagged}
    recorded = json.loads(known.pop()) if len(known) == 1 else None
    shared = submitted.get(_SHARED)
    words = recorded or dict(shared if isinstance(shared, Mapping) else submitted)
    # It stands beside the words of every run.
    words.pop("data_sha256", None)
    try:
        words = (from_saved(words) if recorded else from_mapping(with_current_names(words))).model_dump()
    except ConfigError:
        # The run's first step refuses it too; what was submitted is still worth a row.
        words = dict(words)
    options = words.pop("options", {})
    words = {**words, **(options if isinstance(options, dict) else {})}
    if recorded:
        return words
    searched = {current_name(name, lambda line: None) for kind in _SEARCHED for name in submitted.get(kind) or ()}
    return {name: value for name, value in words.items() if name in ALL_FIELDS and name not in searched}


def run_logs(name: str, run: str, artifacts: Sequence[Artifact], *, ended: bool) -> list[LogSource]:
    """Return the logs of a run, called `name`: those that are its artifacts; while it runs, all that lie in its folder.

    A backend knows an artifact once the step that makes it has ended. It knows the folder from the first step on: the
    one of the run's id, in Kubeflow (GenerateOutputURI in the backend's driver: root, pipeline, run, task, attempt,
    artifact) and on Vertex AI (root, project, run, task, artifact).
    """
    homes = {f"{before}/{run}" for before, found, _ in (each.uri.partition(f"/{run}/") for each in artifacts) if found}
    if not ended and homes:
        return [LogSource(name, min(homes), of_run=True)]
    addresses = sorted({each.uri for each in artifacts if each.metadata.get("display_name") == _LOGS_OF_ARTIFACTS})
    return [
        LogSource(name if number == 1 else f"{name}-{number}", address)
        for number, address in enumerate(addresses, start=1)
    ]


def _place(item: tuple[str, Any]) -> tuple[int, str]:
    """Return what metrics are sorted by."""
    name, _ = item
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)
