"""What saving and logging add to an epoch: python -m benchmarks.logging_cost."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
from tabulate import tabulate

from qcnn import data
from qcnn.experiment_io import from_mapping
from qcnn.model import checkpoints
from qcnn.model.history import epoch_seconds, save_history
from qcnn.trainer.loop import train
from qcnn.trainer.state import TrainingState, load_saved
from qcnn.trainer.tensorboard import event_log

# On one process an epoch of these takes about a second on two cores.
EXPERIMENT = {
    "qubits": 16,
    "rounds": 20,
    "batch_size": 32,
    "epochs": 10,
    "simulator": "statevector",
    "strategy": "none",
    "workers": 1,
}
REPEATS = 50


def measure(words: dict[str, object]) -> list[object]:
    """Return qubits, seconds an epoch, and milliseconds and share of it for checkpoint and log together."""
    config = from_mapping({**EXPERIMENT, **words})
    dataset = data.generate(config)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        history = train(config, dataset, folder / "trained")
        kept = folder / "trained" / checkpoints.FOLDER
        saved = load_saved(config, dataset, kept)
        training = TrainingState(config, dataset, kept, tf.distribute.get_strategy(), saved)
        steps = -(-len(dataset.train) // config.batch_size)
        measures = np.ones((steps, 3))

        def save() -> None:
            training.save()
            save_history(history, folder / "history.csv")

        saving = _median(lambda _: save())
        with event_log(
            folder / "logs", config, training.model, training.optimizer, dataset.validation, is_chief=True
        ) as log:
            assert log
            logging = _median(lambda epoch: log.epoch(history[-1], measures, epoch * steps))
    seconds = epoch_seconds(history)
    share = (saving + logging) / seconds
    return [config.qubits, config.options.log_every, seconds, 1e3 * saving, 1e3 * logging, f"{share:.1%}"]


def _median(action: Callable[[int], None]) -> float:
    """Return the median seconds of an action, without the first, which compiles."""
    times = []
    for repeat in range(REPEATS):
        start = time.perf_counter()
        action(repeat)
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:]))


def main() -> None:
    """Print the cost of a checkpoint and of the events of an epoch, beside the epoch itself."""
    rows = [measure({}), measure({"options": {"log_every": "batch"}})]
    titles = ["qubits", "log_every", "epoch, s", "checkpoint, ms", "log, ms", "share"]
    print(tabulate(rows, titles, floatfmt=("", "", ".2f", ".1f", ".1f")))


if __name__ == "__main__":
    main()
