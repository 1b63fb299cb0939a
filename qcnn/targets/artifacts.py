"""Metrics, models, experiment fields and logs of a run, read from its artifacts."""

import collections
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from qcnn.components.steps.tensorboard import BACKEND_METADATA
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment.config import ALL_FIELDS, all_fields
from qcnn.experiment.parsing import from_mapping
from qcnn.experiment.saved import from_saved
from qcnn.storage.store import parse_bucket_uri

_LOGS = Path("train", "logs")
_EVENTS = "*tfevents*"


@dataclasses.dataclass(frozen=True)
class LogSource:
    """Logs with a display name.

    `address` is a local folder or a bucket URI. With `of_run`, it is the folder of a pipeline run in a bucket, which
    has a folder "logs" for each training step.
    """

    name: str
    address: str
    of_run: bool = False


def local_run_logs(runs: Path) -> list[LogSource]:
    """Return the logs of all runs in a folder.

    Raises:
        ArtifactError: If no run has logs.
    """
    found = [LogSource(path.name, str(path / _LOGS)) for path in sorted(runs.glob("*")) if (path / _LOGS).is_dir()]
    if not found:
        raise ArtifactError(f"runs: the folder has no run with logs; `qcnn run` creates one. Given: {runs}")
    return found


def resolve_logs(chosen: str, runs: Path) -> LogSource | None:
    """Return the logs at a bucket URI, in a run folder or log folder, or of a run in `runs`.

    Returns None if nothing of this name has logs.

    Raises:
        ConfigError: If the text is a URI of an unknown scheme.
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
    """Return the display name of logs: the folder name without the suffix that all log folders share."""
    parts = list(folder.parts)
    for part in reversed(_LOGS.parts):
        if len(parts) > 1 and parts[-1] == part:
            parts.pop()
    return parts[-1]


def deduplicate(found: Iterable[LogSource]) -> list[LogSource]:
    """Return logs without duplicates.

    Raises:
        ArtifactError: If different logs have the same name.
    """
    unique = {
        str(Path(logs.address).resolve()) if not parse_bucket_uri(logs.address) else logs.address: logs
        for logs in found
    }
    names = collections.Counter(logs.name for logs in unique.values())
    if twice := [name for name, count in names.items() if count > 1]:
        raise ArtifactError(f"run: names must be unique among different runs. Given: {twice[0]}")
    return list(unique.values())


_METRICS, _MODEL = "system.Metrics", "system.Model"
_LOGS_OF_ARTIFACTS = "logs"
_FIRST = ("mse", "loss", "accuracy")
# Pipeline parameters of a study: the fields that all trials share, and the fields that differ.
_SHARED, _SEARCHED = "experiment", ("grid", "ranges")


@dataclasses.dataclass(frozen=True)
class Artifact:
    """An output artifact with the `metadata` that its step recorded."""

    type: str
    uri: str
    metadata: Mapping[str, Any]


def run_metrics(artifacts: Sequence[Artifact]) -> dict[str, float]:
    """Return the metrics of a run in display order. Metadata stores return them unordered."""
    return {
        name: float(value)
        for artifact in artifacts
        if artifact.type == _METRICS
        for name, value in sorted(artifact.metadata.items(), key=_display_order)
        if name not in BACKEND_METADATA and isinstance(value, int | float)
    }


def run_models(artifacts: Sequence[Artifact]) -> list[str]:
    """Return the URIs of the models that a run exported."""
    return list(dict.fromkeys(artifact.uri for artifact in artifacts if artifact.type == _MODEL))


def only_model(uris: Sequence[str], job: str) -> str:
    """Return the URI of a run's only model.

    Raises:
        ArtifactError: If the run has no model or several.
    """
    if len(uris) != 1:
        raise ArtifactError(
            f"model: the run must have one exported model, not {', '.join(uris) or 'none'}. Given: {job}"
        )
    return uris[0]


def run_fields(artifacts: Sequence[Artifact], submitted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the experiment fields that a run used, which may differ from the submitted ones.

    Schedules replace the seed of each run, and studies set the fields of each trial. Artifacts record the result. For a
    study without artifacts, the fields that all trials share are returned. Parameters of other pipelines are omitted.
    """
    tagged = [
        (artifact.type, artifact.metadata["experiment"]) for artifact in artifacts if "experiment" in artifact.metadata
    ]
    of_models = {experiment for kind, experiment in tagged if kind == _MODEL}
    known = of_models or {experiment for _, experiment in tagged}
    recorded = json.loads(known.pop()) if len(known) == 1 else None
    shared = submitted.get(_SHARED)
    fields = recorded or dict(shared if isinstance(shared, Mapping) else submitted)
    # A separate pipeline parameter, not a field.
    fields.pop("data_sha256", None)
    try:
        fields = all_fields(from_saved(fields) if recorded else from_mapping(fields))
    except ConfigError:
        # The run fails in its first step for the same reason. The submitted fields can still be compared.
        fields = dict(fields)
    options = fields.pop("options", {})
    fields = {**fields, **(options if isinstance(options, dict) else {})}
    if recorded:
        return fields
    searched = {name for kind in _SEARCHED for name in submitted.get(kind) or ()}
    return {name: value for name, value in fields.items() if name in ALL_FIELDS and name not in searched}


def run_logs(name: str, run: str, artifacts: Sequence[Artifact], *, ended: bool) -> list[LogSource]:
    """Return the logs of a run: its log artifacts, or its output folder while the run is active.

    A step's artifacts are registered when the step ends, but the folder exists from the first step on. Its name is the
    run ID, in KFP (GenerateOutputURI in the driver: root, pipeline, run, task, attempt, artifact) and on Vertex AI
    (root, project, run, task, artifact).

    Args:
        name: Display name of the logs.
        run: ID of the run.
        artifacts: Artifacts that the run has created so far.
        ended: Whether the run has ended.
    """
    folders = {f"{root}/{run}" for root, found, _ in (each.uri.partition(f"/{run}/") for each in artifacts) if found}
    if not ended and folders:
        return [LogSource(name, min(folders), of_run=True)]
    uris = sorted({each.uri for each in artifacts if each.metadata.get("display_name") == _LOGS_OF_ARTIFACTS})
    return [LogSource(name if number == 1 else f"{name}-{number}", uri) for number, uri in enumerate(uris, start=1)]


def _display_order(item: tuple[str, Any]) -> tuple[int, str]:
    """Return the sort key of a metric."""
    name, _ = item
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)
