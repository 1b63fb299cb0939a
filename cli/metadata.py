"""The metadata of a run's artifacts."""

import json
from pathlib import Path
from typing import Any

from trainer.config import ExperimentConfig, from_json
from trainer.errors import ArtifactError, ConfigError


def read_metadata(run: Path, step: str, artifact: str) -> dict[str, Any]:
    """Return the metadata of an artifact, as Kubeflow's executor wrote it.

    Raises:
        ArtifactError: the run has no such artifact.
    """
    path = run / step / "executor_output.json"
    try:
        metadata = json.loads(path.read_text(encoding="utf-8"))["artifacts"][artifact]["artifacts"][0]["metadata"]
        return dict(metadata)
    except (OSError, ValueError, LookupError, TypeError):
        raise ArtifactError(f"run: has no finished step {step} with artifact {artifact}. Given: {run}") from None


def read_experiment(run: Path) -> ExperimentConfig:
    """Return the experiment of a run whose first step finished.

    Raises:
        ArtifactError: the folder is not such a run.
    """
    try:
        return from_json(read_metadata(run, "generate-data", "dataset")["experiment"])
    except (KeyError, ConfigError) as error:
        raise ArtifactError(f"run: its experiment cannot be read ({error}). Given: {run}") from None
