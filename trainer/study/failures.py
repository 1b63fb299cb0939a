"""Why a trial failed, kept where its training would be, so that its study goes on."""

import contextlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path

from qcnn.trainer.config import ExperimentConfig, from_saved
from qcnn.trainer.errors import QcnnError
from qcnn.trainer.folders import new_file, readable
from qcnn.trainer.study.trials import FailedTrial
from qcnn.trainer.untrusted import text_of

logger = logging.getLogger("qcnn")

# Stands in the training folder of a trial that failed.
_FAILURE = "failure.json"


@contextlib.contextmanager
def failure_kept(experiment: ExperimentConfig, training: Path) -> Iterator[None]:
    """Write into a trial's training folder why this block failed, and go on: its study does, too."""
    try:
        yield
    except QcnnError as error:
        logger.error("error: %s", error)
        save_failure(FailedTrial(experiment, str(error)), training)


def save_failure(failed: FailedTrial, training: Path) -> None:
    """Write into a training folder that its trial failed."""
    content = {"experiment": failed.experiment.model_dump(), "reason": failed.reason}
    with new_file(training / _FAILURE) as unfinished:
        unfinished.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def load_failure(training: Path) -> FailedTrial | None:
    """Return what `save_failure` wrote, None where nothing is.

    Raises:
        ArtifactError: the file is damaged.
    """
    path = training / _FAILURE
    if not path.exists():
        return None
    with readable("training", path):
        content = json.loads(text_of(path))
        return FailedTrial(from_saved(content["experiment"]), str(content["reason"]))
