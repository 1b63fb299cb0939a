"""Process of the training job, for all roles: python -m examples.linear_regression.train --help."""

import argparse
import contextlib
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qcnn.artifact_io import open_arrays
from qcnn.atomic_files import exclusive_lock, new_file, readable
from qcnn.errors import ConfigError
from qcnn.experiment.requirements import serving
from qcnn.process.error_lines import exit_immediately, one_line_errors
from qcnn.process.library_loading import load_tensorflow
from qcnn.process.signals import end_on_signals
from qcnn.process.standard_streams import open_standard_streams
from qcnn.storage.copies import WorkingCopy, local_copy, working_copy
from qcnn.trainer.distribution.roles import ClusterConfig, parse_cluster
from qcnn.trainer.events import Listener, ignore, to_pipe

if TYPE_CHECKING:
    from examples.linear_regression.model import Line

logger = logging.getLogger("qcnn")

STRATEGY = "parameter_server"
HEARTBEAT_TIMEOUT_SECONDS = 60.0
_CHECKPOINT = "line.npz"
_MAX_BYTES = 2**20
# Updates between two checks of the save interval.
_UPDATES_PER_CALL = 50


def main() -> None:
    """Train or serve, depending on the role in TF_CONFIG."""
    open_standard_streams()
    parser = argparse.ArgumentParser(description="Process of the training job.")
    parser.add_argument("--output", required=True, metavar="URI", help="output folder, local or in a bucket")
    parser.add_argument("--updates", type=int, required=True, help="number of updates")
    parser.add_argument("--save-seconds", type=float, default=2.0, help="minimum seconds between checkpoints")
    parser.add_argument("--events", type=int, help="file descriptor of a pipe for heartbeats")
    arguments = parser.parse_args()
    end_on_signals()
    send = ignore if arguments.events is None else to_pipe(arguments.events)
    with one_line_errors():
        cluster = parse_cluster(os.environ)
        if cluster is None:
            raise ConfigError("TF_CONFIG: must define a chief, workers and parameter servers. Given: none")
        load_tensorflow()
        if cluster.role in serving(STRATEGY):
            from qcnn.trainer.distribution.parameter_servers import serve

            serve(cluster, lambda: _updates(arguments.output) >= arguments.updates, HEARTBEAT_TIMEOUT_SECONDS)
        else:
            with working_copy(
                arguments.output, filled=True, written=True, patience=HEARTBEAT_TIMEOUT_SECONDS
            ) as output:
                _coordinate(cluster, output, arguments.updates, arguments.save_seconds, send)


def _updates(uri: str) -> int:
    """Return the number of updates of the last checkpoint at a URI."""
    with local_copy(uri) as folder:
        return _saved_updates(folder)


def _saved_updates(folder: Path) -> int:
    """Return the number of updates of the checkpoint in a folder, or 0 if it does not exist."""
    path = folder / _CHECKPOINT
    if not path.exists():
        return 0
    with readable("line", path), open_arrays(path, _MAX_BYTES) as saved:
        return int(saved["updates"])


def _coordinate(cluster: ClusterConfig, output: WorkingCopy, updates: int, save_seconds: float, send: Listener) -> None:
    """Train as the chief up to the given number of updates, from the last checkpoint."""
    folder = output.folder
    import tensorflow as tf

    from examples.linear_regression.model import Line, batches
    from qcnn.trainer.distribution.joining import translate_peer_errors
    from qcnn.trainer.distribution.parameter_servers import Coordinator
    from qcnn.trainer.distribution.strategies import parameter_servers

    with exclusive_lock(folder), translate_peer_errors(cluster), contextlib.ExitStack() as stack:
        if _saved_updates(folder) >= updates:
            # The other processes exit too, so the chief must not connect to them.
            return
        strategy = parameter_servers(cluster, HEARTBEAT_TIMEOUT_SECONDS)
        line = Line()
        done = _restore(line, folder)
        if done:
            logger.info("continuing after update %d", done)
        coordinator = Coordinator(strategy, len(cluster.addresses["ps"]), line)
        writer = tf.summary.create_file_writer(str(folder / "logs"))
        stack.callback(writer.close)
        send("state", state="training")
        saved_at = time.monotonic()
        while done < updates:
            chunk = range(done, min(done + _UPDATES_PER_CALL, updates))
            error = coordinator.run(batches(chunk))[:, 0].mean()
            done = chunk.stop
            slope, intercept = (float(weight[0]) for weight in line.weights)
            with writer.as_default(step=done):
                for name, value in (("mse", error), ("w", slope), ("b", intercept)):
                    tf.summary.scalar(name, value)
            if time.monotonic() - saved_at >= save_seconds or done == updates:
                output.check()
                _save(line, done, folder)
                saved_at = time.monotonic()
                logger.info("update %d/%d: w %.4f, b %.4f, mse %.4f", done, updates, slope, intercept, error)


def _restore(line: "Line", folder: Path) -> int:
    """Restore the checkpoint in a folder, if any, and return its number of updates."""
    path = folder / _CHECKPOINT
    if not path.exists():
        return 0
    variables = [*line.weights, *line.optimizer.variables]
    with readable("line", path), open_arrays(path, _MAX_BYTES) as saved:
        for number, variable in enumerate(variables):
            variable.assign(saved[f"variable_{number}"])
        return int(saved["updates"])


def _save(line: "Line", updates: int, folder: Path) -> None:
    variables = [*line.weights, *line.optimizer.variables]
    arrays = {f"variable_{number}": variable.numpy() for number, variable in enumerate(variables)}
    with new_file(folder / _CHECKPOINT) as unfinished, unfinished.open("wb") as file:
        np.savez(file, updates=np.array(updates), **arrays)


if __name__ == "__main__":
    with exit_immediately():
        main()
