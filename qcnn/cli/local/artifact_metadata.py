"""The metadata of a run's artifacts."""

import json
from pathlib import Path
from typing import Any

from qcnn.artifact_io import text_of
from qcnn.atomic_files import readable
from qcnn.errors import ArtifactError, ConfigError, one_line
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_saved


def read_metadata(run: Path, step: str, artifact: str) -> dict[str, Any]:
    """Return the metadata of an artifact, as Kubeflow's executor wrote it.

    Raises:
        ArtifactError: the run has no such artifact.
    """
    path = run / step / "executor_output.json"
    try:
        with readable("run", path):
            metadata = json.loads(text_of(path))["artifacts"][artifact]["artifacts"][0]["metadata"]
            return dict(metadata)
    except ArtifactError:
        raise ArtifactError(f"run: has no finished step {step} with artifact {artifact}. Given: {run}") from None


def read_experiment(run: Path, step: str = "generate-data", artifact: str = "dataset") -> ExperimentConfig:
    """Return the experiment in an artifact's metadata; by default of a run whose first step finished.

    Raises:
        ArtifactError: the folder is not such a run.
    """
    metadata = read_metadata(run, step, artifact)
    try:
        return from_saved(json.loads(str(metadata.get("experiment"))))
    except (ConfigError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"run: its experiment cannot be read ({one_line(error)}). Given: {run}") from None
