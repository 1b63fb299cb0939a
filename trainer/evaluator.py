"""The evaluator process, which evaluates the checkpoints of a training run and keeps the best."""

import contextlib
import csv
import dataclasses
import io
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras

from qcnn import data
from qcnn.artifact_io import check_size
from qcnn.atomic_files import exclusive_lock, library_errors, new_file, readable, writable
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.model import checkpoints
from qcnn.model.checkpoints import Checkpoint
from qcnn.model.history_file import MAX_HISTORY_BYTES
from qcnn.model.losses import correct, losses
from qcnn.model.network import build_model
from qcnn.planning.machine import steps_of
from qcnn.process.library_loading import start_compiler
from qcnn.results.serving import exact_predictor, fresh_mse
from qcnn.simulators.structure.gates import fingerprint
from qcnn.trainer.events import Listener, ignore

logger = logging.getLogger("qcnn")

# Subfolder for the evaluator's files in the training and event folders.
FOLDER = "evaluation"
_MEASUREMENTS = "evaluation.csv"
# Seconds between two checks for new checkpoints.
_POLL_SECONDS = 0.5


@dataclasses.dataclass(frozen=True)
class CheckpointEvaluation:
    """Metrics of a checkpoint without shot noise, on the validation split and on fresh samples.

    A regression has no accuracy, and most data sources have no fresh samples.
    """

    epoch: int
    val_loss: float
    val_accuracy: float | None
    fresh_mse: float | None

    @property
    def measures(self) -> dict[str, float]:
        """Available metrics by name."""
        values = {"val_loss": self.val_loss, "val_accuracy": self.val_accuracy, "fresh_mse": self.fresh_mse}
        return {name: value for name, value in values.items() if value is not None}


def evaluate_checkpoints(
    config: ExperimentConfig,
    dataset: data.Dataset,
    current_folder: Callable[[], Path],
    folder: Path,
    logs: Path,
    *,
    listener: Listener = ignore,
    observer: Listener = ignore,
) -> tuple[CheckpointEvaluation, ...]:
    """Evaluate the checkpoints of a training run until it is complete, and return all results.

    Training does not wait. If checkpoints are written faster than they are evaluated, only the newest is used. A
    restarted evaluator continues after its last result.

    Args:
        config: Experiment.
        dataset: Dataset of the training run.
        current_folder: Function that returns an up-to-date copy of the training folder.
        folder: Output folder for `evaluation.csv` and `checkpoints/`, whose newest has the lowest validation loss.
        logs: Folder for TensorBoard events.
        listener: Callback for changes of state.
        observer: Callback for every result.

    Raises:
        ArtifactError: If the checkpoints are of another experiment, or a folder cannot be written.
    """
    # The simulator may compile a part of the circuit.
    start_compiler()
    model, circuit = build_model(config), fingerprint(config.model, config.qubits)
    updates, _ = steps_of(config)
    with exclusive_lock(folder), _events(logs) as write:
        done = list(_resume(folder / _MEASUREMENTS))
        best = min(done, key=_val_loss, default=None)
        listener("state", state="waiting for checkpoints")
        while True:
            checkpoint = _latest(current_folder())
            if checkpoint:
                checkpoints.check_continues(checkpoint, config, dataset.digest, circuit)
            if checkpoint and _is_new(checkpoint, done):
                listener("state", state=f"evaluating epoch {checkpoint.epochs}")
                result = _evaluate(checkpoint, model, dataset)
                done.append(result)
                if best is None or result.val_loss <= best.val_loss:
                    best = result
                    checkpoints.save(checkpoint.with_epochs(), folder / checkpoints.FOLDER)
                _append(result, folder / _MEASUREMENTS)
                write(result, result.epoch * updates)
                observer("epoch", epoch=result.epoch, val_loss=result.val_loss)
                values = ", ".join(f"{name} {value:.4f}" for name, value in result.measures.items())
                logger.info("epoch %d: %s", result.epoch, values)
            elif checkpoint and checkpoint.completes(config):
                break
            else:
                time.sleep(_POLL_SECONDS)
    best = min(done, key=_val_loss)
    logger.info("best of %d evaluated epochs: epoch %d, val_loss %.4f", len(done), best.epoch, best.val_loss)
    listener("state", state="done")
    return tuple(done)


def _latest(workdir: Path) -> Checkpoint | None:
    """Return the newest checkpoint, or None if there is none or the chief replaces them concurrently."""
    with contextlib.suppress(ArtifactError):
        return checkpoints.load_latest(workdir / checkpoints.FOLDER)
    return None


def _is_new(checkpoint: Checkpoint, done: list[CheckpointEvaluation]) -> bool:
    """Return whether to evaluate a checkpoint, which is False while initializations are tried."""
    if checkpoint.is_undecided:
        return False
    return not done or checkpoint.epochs > done[-1].epoch


def _evaluate(checkpoint: Checkpoint, model: tf_keras.Model, dataset: data.Dataset) -> CheckpointEvaluation:
    weights, samples = checkpoint.line.weights, dataset.validation
    outputs = exact_predictor(model, weights)(samples.inputs).reshape(len(samples), -1)
    label, rounding = samples.label.astype(np.float64), model.get_layer("quantum").rounding
    accuracy = float(np.mean(correct(label, outputs, rounding)))
    return CheckpointEvaluation(
        checkpoint.epochs,
        float(np.mean(losses(label, outputs))),
        None if dataset.layout.is_regression else accuracy,
        fresh_mse(model, checkpoint.config, weights),
    )


def _val_loss(result: CheckpointEvaluation) -> float:
    return result.val_loss


def _resume(path: Path) -> tuple[CheckpointEvaluation, ...]:
    """Read earlier results, or none if there is no file, and remove an incomplete last row."""
    if not path.exists():
        return ()
    with readable("evaluation", path):
        check_size(path, MAX_HISTORY_BYTES)
        text = path.read_bytes().decode()
        complete = text[: text.rfind("\n") + 1]
        results = tuple(map(_parse_row, csv.DictReader(io.StringIO(complete, newline=""))))
    if complete != text:
        with new_file(path) as unfinished:
            unfinished.write_text(complete, encoding="utf-8", newline="")
    return results


def _parse_row(row: Mapping[str, str]) -> CheckpointEvaluation:
    accuracy, fresh = (float(row[name]) if row.get(name) else None for name in ("val_accuracy", "fresh_mse"))
    return CheckpointEvaluation(int(row["epoch"]), float(row["val_loss"]), accuracy, fresh)


def _append(result: CheckpointEvaluation, path: Path) -> None:
    with writable(path), path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if not file.tell():
            writer.writerow(("epoch", *result.measures))
        writer.writerow((result.epoch, *result.measures.values()))


@contextlib.contextmanager
def _events(logs: Path) -> Iterator[Callable[[CheckpointEvaluation, int], None]]:
    """Context manager that returns a function to write a result as TensorBoard events."""
    with library_errors("logs", logs, tf.errors.OpError):
        writer = tf.summary.create_file_writer(str(logs))

    def write(result: CheckpointEvaluation, step: int) -> None:
        with library_errors("logs", logs, tf.errors.OpError), writer.as_default(step=step):
            for name, value in result.measures.items():
                tf.summary.scalar(name.removeprefix("val_"), value)
            writer.flush()

    try:
        yield write
    finally:
        with library_errors("logs", logs, tf.errors.OpError):
            writer.close()
