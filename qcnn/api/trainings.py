"""Trains an experiment as qcnn run does."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from qcnn.api import progress as steps
from qcnn.api.experiments import Experiment, checked
from qcnn.api.models import Model, load
from qcnn.components.local_steps import run_experiment
from qcnn.components.steps.train_local import LOADED
from qcnn.extras import check, explained
from qcnn.frozen import frozen
from qcnn.jobs.local.fork_client import fork_server
from qcnn.model.history import HISTORY, Epoch, load_history
from qcnn.results.local_run import RunFolders, of_run, read_metrics
from qcnn.simulators.registry import check_published
from qcnn.startup import errors_raised

# The folder in which those are made that are given no folder.
RUNS = Path("runs")


@dataclasses.dataclass(frozen=True)
class Training:
    """What training an experiment has left: the losses of every epoch, the metrics of the held-out samples, folders.

    `dataset`, `training` (checkpoints), `logs` (TensorBoard), `exported` (the model) and `report` (a page) lie in
    `folder`.
    """

    experiment: Experiment
    folder: Path
    dataset: Path
    training: Path
    logs: Path
    exported: Path
    report: Path
    history: tuple[Epoch, ...]
    metrics: Mapping[str, float]

    @property
    def model(self) -> Model:
        """The trained network."""
        return load(self.exported)


@explained("qcnn.train", "run")
def train(experiment: Experiment, folder: str | PathLike[str] | None = None, *, progress: bool = True) -> Training:
    """Train an experiment on this machine, export the network and measure its error, all as `qcnn run` does.

    The training runs in `workers` processes of its own: this one may train again, and an interrupt ends them. All is
    written into `folder`, by default a new one in runs/, whose layout is that of qcnn run: `qcnn compare` and
    `qcnn tensorboard` know it too. The folder of a training that was interrupted is continued, that of one that has
    ended is read. `progress` shows a bar in a notebook and in a terminal.

    Raises:
        ArtifactError: the folder has other content, or cannot be written.
        ConfigError: the experiment cannot run here.
        TrainingError: training cannot go on, as where a loss is no longer finite.
        RetryableError: processes were lost too often; the folder can be continued.

    >>> import qcnn
    >>> experiment = qcnn.Experiment(qubits=4, rounds=10, epochs=2, workers=1, strategy="none")
    >>> training = qcnn.train(experiment, "first")
    >>> [epoch.epoch for epoch in training.history], sorted(training.metrics)[:3]
    ([1, 2], ['accuracy', 'epoch_seconds', 'epochs'])
    >>> training.model.predict(qubit=[0, 3], angle=[0.1, -2.0]).shape
    (2,)
    """
    made = Path(folder) if folder is not None else RUNS / f"qcnn-{datetime.datetime.now():%Y-%m-%d-%H-%M-%S-%f}"
    folders, config = of_run(made.absolute()), checked(experiment).config
    if not steps.has_ended(folders.run, config):
        check("run")
        check_published(config.simulator)
        with fork_server(LOADED), errors_raised(), steps.surrounded(config, folders.run, progress=progress) as given:
            run_experiment(config, folders, *given)
    return read(experiment, folders)


def read(experiment: Experiment, folders: RunFolders) -> Training:
    """Return a training that has ended."""
    return Training(
        experiment=experiment,
        folder=folders.run,
        dataset=folders.dataset,
        training=folders.training,
        logs=folders.logs,
        exported=folders.exported,
        report=folders.report,
        history=load_history(folders.training / HISTORY),
        metrics=frozen(read_metrics(folders)),
    )
