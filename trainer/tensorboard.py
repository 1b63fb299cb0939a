"""What TensorBoard shows of a training; written by the chief alone."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import tensorflow as tf

from trainer.history import Epoch

# The folder of each split's events and the prefix of its fields in an epoch; equal tags share a chart.
_SPLITS = {"train": "train", "validation": "val"}


class EventLog:
    """Writes events at the step, the number of updates so far, that they belong to."""

    def __init__(self, writers: Mapping[str, tf.summary.SummaryWriter]) -> None:
        self._writers = writers

    def epoch(self, epoch: Epoch, step: int) -> None:
        """Write the measures of an epoch that ended after `step` updates."""
        for split, writer in self._writers.items():
            with writer.as_default(step=step):
                for measure in ("loss", "accuracy"):
                    tf.summary.scalar(measure, getattr(epoch, f"{_SPLITS[split]}_{measure}"))


@contextlib.contextmanager
def event_log(folder: Path, is_chief: bool) -> Iterator[EventLog]:
    """Yield the log of this process; it writes nothing unless this is the chief."""
    with contextlib.ExitStack() as stack:
        writers = {}
        for split in _SPLITS if is_chief else ():
            writers[split] = tf.summary.create_file_writer(str(folder / split), flush_millis=5000)
            stack.callback(writers[split].close)
        yield EventLog(writers)
