"""Description of a tracked run: name, parameters, tags and the study that contains it, and its results."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from qcnn.errors import ArtifactError, redact_credentials
from qcnn.experiment.config import ExperimentConfig, all_fields
from qcnn.experiment.parsing import with_display_values
from qcnn.monitoring.logs import JOB_VARIABLE
from qcnn.provenance import provenance
from qcnn.results.local_run import FILE as RUN_FILE
from qcnn.results.local_run import of_run
from qcnn.studies.record import is_study, load_trials, metrics_by_trial
from qcnn.tracking.identity import read_identity

# Prefix of the tags with the URI of an artifact.
ARTIFACT = "artifact."
# Provenance that a tag contains. The experiment is in the parameters.
_TAGS = ("commit", "dirty", "lock_sha256", "image", "qcnn", "python", "tensorflow", "plugins")


@dataclasses.dataclass(frozen=True)
class TrackedRun:
    """Run to send to a server.

    Attributes:
        name: Name of the run.
        folder: Training folder, or folder of a study, with the identity of the run.
        parameters: Fields of the experiment as text. Empty for a study.
        tags: Provenance and the URIs of artifacts.
        study: Folder of the study that contains the run, or None.
    """

    name: str
    folder: Path
    parameters: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tags: Mapping[str, str] = dataclasses.field(default_factory=dict)
    study: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the run as JSON values."""
        return json.loads(json.dumps(dataclasses.asdict(self), default=str))  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "TrackedRun":
        """Return the run of JSON values."""
        study = values["study"]
        return cls(**{**values, "folder": Path(values["folder"]), "study": Path(study) if study else None})


@dataclasses.dataclass(frozen=True)
class Results:
    """Results of a run that is evaluated: metrics, the URIs of artifacts, and the path or URI of the model.

    `trials` has the metrics of test splits by the keys of the runs that become children of the run, because trials of a
    pipeline begin before it. Only trials of repeated rows have such metrics.
    """

    metrics: Mapping[str, float]
    artifacts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    model: str | None = None
    trials: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)

    @property
    def tags(self) -> dict[str, str]:
        """Tags with the URIs of the artifacts."""
        return artifact_tags(self.artifacts)


def artifact_tags(uris: Mapping[str, str]) -> dict[str, str]:
    """Return the tags with the URIs of artifacts, without credentials."""
    return {f"{ARTIFACT}{name}": redact_credentials(uri) for name, uri in uris.items()}


def training_run(
    config: ExperimentConfig, folder: Path, uris: Mapping[str, str], found: Mapping[str, str] | None = None
) -> TrackedRun:
    """Return the run of a training folder.

    Args:
        config: Experiment.
        folder: Training folder, or a local copy of it.
        uris: URIs of the artifacts that training writes: training, logs, and model, which is empty without export.
        found: Provenance of the run. None: that of this process.
    """
    found = provenance(config) if found is None else found
    root = run_folder(folder)
    return TrackedRun(
        name=os.environ.get(JOB_VARIABLE, "") or (root.name if root else _name_in(uris["training"])),
        folder=folder.absolute(),
        parameters=parameters_of(config),
        tags={
            **{f"qcnn.{name}": found[name] for name in _TAGS if name in found},
            **artifact_tags({name: uri for name, uri in uris.items() if uri}),
        },
        study=root.parent if root and is_study(root.parent) else None,
    )


def _name_in(uri: str) -> str:
    """Return the name of the folder that contains a training folder, which is that of the job."""
    return PurePosixPath(uri).parent.name or uri


def run_folder(training: Path) -> Path | None:
    """Return the folder of the local run that contains a training folder, or None for one of another target."""
    root = training.absolute().parents[1]
    is_local = of_run(root).training == training.absolute() and (root / RUN_FILE).exists()
    return root if is_local else None


def study_run(study: Path) -> TrackedRun:
    """Return the run of a local study, the parent of the runs of its trials, with the fields that they share."""
    trials = [parameters_of(trial) for trial in load_trials(study)]
    shared = {name: value for name, value in trials[0].items() if all(trial[name] == value for trial in trials)}
    return TrackedRun(name=study.absolute().name, folder=study.absolute(), parameters=shared)


def tracked_trials(study: Path) -> dict[str, Mapping[str, float]]:
    """Return the metrics of the test splits of a local study's trials, by the key of the run's identity."""
    found = {}
    for trial, metrics in metrics_by_trial(study).items():
        # A trial that was not tracked has none.
        with contextlib.suppress(ArtifactError):
            found[read_identity(of_run(trial).training).key] = metrics
    return found


def parameters_of(config: ExperimentConfig) -> dict[str, str]:
    """Return the fields of an experiment as text."""
    values = with_display_values(all_fields(config))
    return {name: str(int(value) if isinstance(value, bool) else value) for name, value in values.items()}
