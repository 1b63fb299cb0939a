"""What a study of this machine writes down, so that it can be resumed: its trials, and which of them have ended."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from qcnn.artifact_io import text_of
from qcnn.atomic_files import new_file, readable
from qcnn.errors import ArtifactError
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_saved
from qcnn.results.local_run import FILE as RUN_FILE
from qcnn.results.local_run import read_record

_FILE = "study.json"


def save_trials(trials: Sequence[ExperimentConfig], folder: Path) -> None:
    """Write the experiments of a study's trials into its folder.

    Raises:
        ArtifactError: the folder cannot be written.
    """
    with new_file(folder / _FILE) as unfinished:
        content = {"trials": [trial.model_dump() for trial in trials]}
        unfinished.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def load_trials(folder: Path) -> list[ExperimentConfig]:
    """Return what `save_trials` wrote.

    Raises:
        ArtifactError: the folder is no study's, or the file is damaged.
    """
    with readable("study", folder / _FILE):
        content = json.loads(text_of(folder / _FILE))
        return [from_saved(words) for words in content["trials"]]


def finished_trials(folder: Path) -> Mapping[ExperimentConfig, Path]:
    """Return the folders of a study's trials that have been trained, also in vain, to their end, by experiment."""
    finished = {}
    for path in folder.glob(f"*/{RUN_FILE}"):
        try:
            record = read_record(path.parent)
        except (OSError, ValueError):
            raise ArtifactError(f"study: a trial's record is damaged. Given: {path}") from None
        if record.state == "succeeded":
            finished[from_saved(record.words)] = path.parent
    return finished
