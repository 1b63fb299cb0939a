"""What the select_best step does, before it exports and evaluates."""

import logging
from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

from qcnn.trainer.errors import ArtifactError
from qcnn.trainer.folders import new_file
from qcnn.trainer.startup import one_line_errors
from qcnn.trainer.study.failures import load_failure
from qcnn.trainer.study.table import shown, table, table_csv, table_page
from qcnn.trainer.study.trials import FailedTrial, Trial, best
from qcnn.trainer.training import checkpoints
from qcnn.trainer.training.history import exported_epoch

logger = logging.getLogger("qcnn")


def select_best(trainings: Sequence[str], results: str, page: str) -> int:
    """Write the table of all trials, as CSV and as HTML; return the number of the best.

    A trial that failed is a row of it; if all trials failed, the study fails.
    """
    with one_line_errors():
        trials = [read_trial(Path(training)) for training in trainings]
        header, rows = table(trials)
        for path, text in ((Path(results), table_csv(header, rows)), (Path(page), table_page(header, rows))):
            with new_file(path) as unfinished:
                unfinished.write_text(text, encoding="utf-8")
        for line in tabulate(shown(rows), header, "simple", disable_numparse=True).splitlines():
            logger.info("%s", line)
        return best(trials)


def read_trial(training: Path) -> Trial | FailedTrial:
    """Return what a trial's training has left.

    Raises:
        ArtifactError: it has left nothing.
    """
    if failed := load_failure(training):
        return failed
    checkpoint = checkpoints.load_latest(training / checkpoints.FOLDER)
    if checkpoint is None:
        raise ArtifactError(f"training: the folder has no checkpoint. Given: {training}")
    config = checkpoint.config
    chosen = exported_epoch(checkpoint.history, config.options.weights)
    return Trial(config, checkpoint.epochs, chosen, checkpoint.fresh_mse)
