"""Trains an experiment as qcnn run does, and the trials of a study."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from qcnn.api import progress as steps
from qcnn.api.experiments import Experiment, from_config, require_experiment, to_plain
from qcnn.api.models import Model, load
from qcnn.circuits.formats.loading import with_circuits
from qcnn.components.local_steps import run_experiment, run_trial, select
from qcnn.components.steps.study import read_trial
from qcnn.components.steps.train_local import LOADED
from qcnn.experiment import ExperimentConfig
from qcnn.extras import check, translate_errors
from qcnn.frozen import frozen
from qcnn.jobs.local.fork_client import fork_server
from qcnn.jobs.local.runner import ProcessPool
from qcnn.model.history import HISTORY, EpochMetrics, load_history
from qcnn.results.local_run import RunFolders, of_run, of_trial, read_metrics
from qcnn.simulators.registry import check_published
from qcnn.startup import errors_raised
from qcnn.studies.record import table
from qcnn.studies.trials import plan, search_from_mapping

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
    history: tuple[EpochMetrics, ...]
    metrics: Mapping[str, float]

    @property
    def model(self) -> Model:
        """The trained network."""
        return load(self.exported)


@translate_errors("qcnn.train", "run")
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
    folders, config = of_run(made.absolute()), require_experiment(experiment).config
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


@dataclasses.dataclass(frozen=True)
class Study:
    """The trials of a study: a row of words and losses for each, and the training of the best by validation loss."""

    folder: Path
    trials: Sequence[Mapping[str, Any]]
    best: Training


@translate_errors("qcnn.study", "run")
def study(
    experiment: Experiment,
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    ranges: Mapping[str, Sequence[Any]] | None = None,
    random: int = 0,
    folder: str | PathLike[str] | None = None,
    progress: bool = True,
) -> Study:
    """Train an experiment with other words, one trial after the other, and evaluate the best by validation loss.

    `grid` has values by word; `ranges` has (low, high) or (low, high, "log") by word, of which `random` trials are
    drawn. Each trial has a seed of its own, counted up from the experiment's, unless the seed is searched. A trial that
    fails is a row with its reason. All else as `qcnn.train`.

    Raises:
        ConfigError: the search is none, or a trial could not run.
        TrainingError: all trials have failed.

    >>> import qcnn
    >>> experiment = qcnn.Experiment(qubits=4, rounds=10, epochs=2, workers=1, strategy="none")
    >>> study = qcnn.study(experiment, grid={"learning_rate": [0.01, 0.1]}, folder="search")
    >>> [trial["learning_rate"] for trial in study.trials], study.best.experiment.qubits
    ([0.01, 0.1], 4)
    """
    search: dict[str, Any] = {
        name: {word: _listed(of_word) for word, of_word in found.items()} if isinstance(found, Mapping) else found
        for name, found in (("grid", grid), ("range", ranges))
    }
    search["grid"] = with_circuits(search["grid"])
    configs = plan(require_experiment(experiment).given, search_from_mapping({**search, "random": random}))
    root = Path(folder) if folder is not None else RUNS / f"qcnn-study-{datetime.datetime.now():%Y-%m-%d-%H-%M-%S-%f}"
    root = root.absolute()
    places = [_of_trial(root, number) for number in range(len(configs))]
    check("run")
    for config in configs:
        check_published(config.simulator)
    with fork_server(LOADED), errors_raised():
        _train_all(configs, places, progress=progress)
        selected = select(root, places)
    header, rows = table([read_trial(place.training) for place in places])
    trials = frozen([dict(zip(header, row, strict=True)) for row in rows])
    return Study(root, trials, read(from_config(configs[selected.best]), selected.folders))


def _listed(values: Any) -> Any:
    """Return values as a file has them; what is no list stays as it is, to be refused."""
    if isinstance(values, Iterable) and not isinstance(values, str | Mapping):
        return [to_plain(value) for value in values]
    return values


def _of_trial(study: Path, number: int) -> RunFolders:
    return of_trial(study / f"trial-{number}")


def _train_all(configs: Sequence[ExperimentConfig], places: Sequence[RunFolders], *, progress: bool) -> None:
    """Train the trials that have not been trained; their processes live on from one to the next."""
    with contextlib.closing(ProcessPool(lives_on=True)) as crew:
        for config, folders in zip(configs, places, strict=True):
            if steps.has_ended(folders.run, config):
                continue
            with steps.surrounded(config, folders.run, progress=progress) as given:
                run_trial(config, folders, crew.run, *given)
