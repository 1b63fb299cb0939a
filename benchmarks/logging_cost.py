"""Time of checkpoints and TensorBoard events per epoch: python -m benchmarks.logging_cost."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
from tabulate import tabulate

from qcnn import data
from qcnn.experiment.parsing import from_mapping
from qcnn.model import checkpoints
from qcnn.model.history import epoch_seconds, history_columns
from qcnn.model.history_file import HistoryFile
from qcnn.trainer.loop import train
from qcnn.trainer.state import TrainingState, load_saved
from qcnn.trainer.tensorboard import event_log

# An epoch takes about a second in one process on two cores.
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


def measure(fields: dict[str, object]) -> list[object]:
    """Return a row of the table. `fields` override those of the experiment."""
    config = from_mapping({**EXPERIMENT, **fields})
    dataset = data.generate(config)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        history = train(config, dataset, folder / "trained")
        saved = load_saved(config, dataset, folder / "trained" / checkpoints.FOLDER)
        training = TrainingState(config, dataset, folder / "trained", tf.distribute.get_strategy(), saved)
        history_file = HistoryFile(folder / "history.csv", history_columns(has_accuracy=True, has_staleness=False))
        steps = -(-len(dataset.train) // config.batch_size)
        values = np.ones((steps, 3))

        def save() -> None:
            history_file.add(history[-1])
            history_file.store()
            training.save()

        saving = _median(lambda _: save())
        with event_log(
            folder / "logs", config, training.model, training.optimizer, dataset.validation, is_chief=True
        ) as log:
            assert log
            logging = _median(lambda epoch: log.epoch(history[-1], values, epoch * steps))
    seconds = epoch_seconds(history)
    share = (saving + logging) / seconds
    return [config.qubits, config.options.log_every, seconds, 1e3 * saving, 1e3 * logging, f"{share:.1%}"]


def _median(action: Callable[[int], None]) -> float:
    """Return the median seconds of an action. The first call, which compiles, is ignored."""
    times = []
    for repeat in range(REPEATS):
        start = time.perf_counter()
        action(repeat)
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:]))


def main() -> None:
    """Print the seconds of an epoch, and of its checkpoint and events."""
    rows = [measure({}), measure({"options": {"log_every": "batch"}})]
    titles = ["qubits", "log_every", "epoch, s", "checkpoint, ms", "log, ms", "share"]
    print(tabulate(rows, titles, floatfmt=("", "", ".2f", ".1f", ".1f")))


if __name__ == "__main__":
    main()
