"""Folders of local runs."""

import json
from pathlib import Path
from typing import Any

from qcnn.experiment.parsing import from_mapping
from qcnn.model import checkpoints
from qcnn.model.history import EpochMetrics, Progress, history_columns
from qcnn.model.history_file import HISTORY, HistoryFile


def run_folder(
    root: Path,
    name: str,
    fields: dict[str, Any],
    mse: float | None = None,
    trained: int = 50,
    **record_values: Any,
) -> Path:
    """Create the folder of a run.

    Args:
        root: Parent folder.
        name: Name of the run.
        fields: Fields of the experiment.
        mse: Test error. None: the run has not been evaluated.
        trained: Number of trained epochs.
        **record_values: Values that override those of the record.
    """
    folder = root / name
    training, config = folder / "train" / "training", from_mapping(fields)
    epochs = tuple(EpochMetrics(epoch, 1 / epoch, 0.5, 2 / epoch, 0.5, 1.0) for epoch in (1, 2))
    history = HistoryFile(training / HISTORY, history_columns(has_accuracy=True, has_staleness=False), epochs)
    line = checkpoints.InitializationRun(Progress.of(epochs), weights=(), optimizer=(), history=history.store())
    checkpoints.save(checkpoints.Checkpoint(config, "", "", line), training / checkpoints.FOLDER)
    if mse is not None:
        (folder / "evaluate").mkdir()
        (folder / "evaluate" / "metrics").write_text(
            json.dumps({"mse": mse, "accuracy": 1.0, "epochs": float(trained)})
        )
    record = {
        "state": "succeeded",
        "started": "2026-11-20T23:00:00Z",
        "ended": "2026-11-20T23:00:01Z",
        "steps": [],
        "words": config.model_dump(),
    }
    (folder / "run.json").write_text(json.dumps({**record, **record_values}))
    return folder


def old_run_folder(root: Path, name: str) -> Path:
    """Create the folder of a run of a release that wrote no record."""
    folder = run_folder(root, name, {}, 0.75)
    (folder / "run.json").unlink()
    (folder / "generate-data").mkdir()
    output = {"parameterValues": {"experiment": from_mapping({"seed": 9}).to_json()}, "artifacts": {}}
    (folder / "generate-data" / "executor_output.json").write_text(json.dumps(output))
    (folder / "log.txt").write_text("10:00:01.000 - INFO - Pipeline 'qcnn' finished with status SUCCESS\n")
    return folder
