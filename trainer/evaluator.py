"""The evaluator: a process beside a training that measures its checkpoints as they come, and keeps the best."""

import contextlib
import csv
import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras

from qcnn import data
from qcnn.artifact_io import check_size
from qcnn.atomic_files import exclusive_lock, new_file, readable, written_by_library
from qcnn.errors import ArtifactError
from qcnn.experiment import ExperimentConfig
from qcnn.model import checkpoints
from qcnn.model.checkpoints import Checkpoint
from qcnn.model.history import MAX_HISTORY_BYTES, is_complete, is_undecided
from qcnn.model.network import build_model
from qcnn.planning.machine import steps_of
from qcnn.results.serving import exact_predictor, fresh_mse
from qcnn.simulators.structure.gates import fingerprint
from qcnn.trainer.events import Listener, ignore

logger = logging.getLogger("qcnn")

# The folder of its own in those of the training and of the events.
FOLDER = "evaluation"
_MEASUREMENTS = "evaluation.csv"
# Seconds between two looks at the checkpoints.
_LOOK_SECONDS = 0.5


@dataclasses.dataclass(frozen=True)
class CheckpointEvaluation:
    """The network after an epoch, without the noise of shots: on the validation split, and on fresh samples.

    Of a regression there is no accuracy, and of most data there are no fresh samples.
    """

    epoch: int
    val_loss: float
    val_accuracy: float | None
    fresh_mse: float | None

    @property
    def measures(self) -> dict[str, float]:
        """Those that there are, by name."""
        values = {"val_loss": self.val_loss, "val_accuracy": self.val_accuracy, "fresh_mse": self.fresh_mse}
        return {name: value for name, value in values.items() if value is not None}


def evaluate_beside(
    config: ExperimentConfig,
    dataset: data.Dataset,
    look: Callable[[], Path],
    folder: Path,
    logs: Path,
    *,
    listener: Listener = ignore,
    observer: Listener = ignore,
) -> tuple[CheckpointEvaluation, ...]:
    """Measure the checkpoints of a training until it is complete; return all measurements.

    `look` returns the training's folder as it is now. Training does not wait: of checkpoints that come faster than
    they are measured, the newest counts. Into `folder` go `evaluation.csv` and `checkpoints/`, whose newest is the one
    with the lowest validation loss; TensorBoard events go into `logs`. One that is started again goes on. `observer` is
    told of every measurement.

    Raises:
        ArtifactError: the checkpoints are another experiment's, or a folder cannot be written.
    """
    model, circuit = build_model(config), fingerprint(config.model, config.qubits)
    updates, _ = steps_of(config)
    with exclusive_lock(folder), _events(logs) as write:
        done = list(_load(folder / _MEASUREMENTS))
        listener("state", state="waiting for checkpoints")
        while True:
            found = _latest(look())
            if found:
                checkpoints.check_continues(found, config, dataset.digest, circuit)
            if found and _is_new(found, done):
                listener("state", state=f"measuring epoch {found.epochs}")
                measured = _measure(found, model, dataset)
                done.append(measured)
                if measured.val_loss <= min(each.val_loss for each in done):
                    checkpoints.save(found, folder / checkpoints.FOLDER)
                _save(done, folder / _MEASUREMENTS)
                write(measured, measured.epoch * updates)
                observer("epoch", epoch=measured.epoch, val_loss=measured.val_loss)
                values = ", ".join(f"{name} {value:.4f}" for name, value in measured.measures.items())
                logger.info("epoch %d: %s", measured.epoch, values)
            elif found and is_complete(found.history, config, found.tried):
                break
            else:
                time.sleep(_LOOK_SECONDS)
    best = min(done, key=lambda each: each.val_loss)
    logger.info("the best of %d measured epochs is %d: val_loss %.4f", len(done), best.epoch, best.val_loss)
    listener("state", state="done")
    return tuple(done)


def _latest(workdir: Path) -> Checkpoint | None:
    """Return the newest checkpoint; None where there is none yet, or the chief has just replaced those there were."""
    with contextlib.suppress(ArtifactError):
        return checkpoints.load_latest(workdir / checkpoints.FOLDER)
    return None


def _is_new(found: Checkpoint, done: list[CheckpointEvaluation]) -> bool:
    """Whether a checkpoint is to be measured; of starts that are still tried none is."""
    return not is_undecided(found.config, found.tried) and (not done or found.epochs > done[-1].epoch)


def _measure(found: Checkpoint, model: tf_keras.Model, dataset: data.Dataset) -> CheckpointEvaluation:
    weights, samples = found.line.weights, dataset.validation
    predictions = exact_predictor(model, weights)(samples.inputs)
    accuracy = float(np.mean((predictions >= 0) == (samples.label > 0)))
    return CheckpointEvaluation(
        found.epochs,
        float(np.mean((predictions - samples.label) ** 2)),
        None if dataset.layout.is_regression else accuracy,
        fresh_mse(model, found.config, weights),
    )


def _load(path: Path) -> tuple[CheckpointEvaluation, ...]:
    """Read what an evaluator has measured before; nothing where there is no file."""
    if not path.exists():
        return ()
    with readable("evaluation", path), path.open(newline="", encoding="utf-8") as file:
        check_size(path, MAX_HISTORY_BYTES)
        return tuple(map(_measurement, csv.DictReader(file)))


def _measurement(row: Mapping[str, str]) -> CheckpointEvaluation:
    accuracy, fresh = (float(row[name]) if row.get(name) else None for name in ("val_accuracy", "fresh_mse"))
    return CheckpointEvaluation(int(row["epoch"]), float(row["val_loss"]), accuracy, fresh)


def _save(done: list[CheckpointEvaluation], path: Path) -> None:
    with new_file(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("epoch", *done[0].measures))
        writer.writerows((each.epoch, *each.measures.values()) for each in done)


@contextlib.contextmanager
def _events(logs: Path) -> Iterator[Callable[[CheckpointEvaluation, int], None]]:
    """Yield a function that writes a measurement as events of TensorBoard."""
    with written_by_library("logs", logs, tf.errors.OpError):
        writer = tf.summary.create_file_writer(str(logs))

    def write(measured: CheckpointEvaluation, step: int) -> None:
        with written_by_library("logs", logs, tf.errors.OpError), writer.as_default(step=step):
            for name, value in measured.measures.items():
                tf.summary.scalar(name.removeprefix("val_"), value)
            writer.flush()

    try:
        yield write
    finally:
        with written_by_library("logs", logs, tf.errors.OpError):
            writer.close()
