"""Searches an experiment's words as qcnn study does."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from qcnn.api import progress as steps
from qcnn.api import trainings
from qcnn.api.experiments import Experiment, checked, of, plain
from qcnn.circuits.formats.loading import with_circuits
from qcnn.components.local_steps import run_trial, select
from qcnn.components.steps.study import read_trial
from qcnn.components.steps.train_local import LOADED
from qcnn.experiment import ExperimentConfig
from qcnn.extras import check, explained
from qcnn.frozen import frozen
from qcnn.jobs.local.fork_client import fork_server
from qcnn.jobs.local.runner import Crew
from qcnn.results.local_run import RunFolders, of_trial
from qcnn.simulators.registry import check_published
from qcnn.startup import errors_raised
from qcnn.studies.record import table
from qcnn.studies.trials import plan, search_from_mapping


@dataclasses.dataclass(frozen=True)
class Study:
    """The trials of a study: a row of words and losses for each, and the training of the best by validation loss."""

    folder: Path
    trials: Sequence[Mapping[str, Any]]
    best: trainings.Training


@explained("qcnn.study", "run")
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
    configs = plan(checked(experiment).given, search_from_mapping({**search, "random": random}))
    root = (
        Path(folder)
        if folder is not None
        else trainings.RUNS / f"qcnn-study-{datetime.datetime.now():%Y-%m-%d-%H-%M-%S-%f}"
    )
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
    return Study(root, trials, trainings.read(of(configs[selected.best]), selected.folders))


def _listed(values: Any) -> Any:
    """Return values as a file has them; what is no list stays as it is, to be refused."""
    if isinstance(values, Iterable) and not isinstance(values, str | Mapping):
        return [plain(value) for value in values]
    return values


def _of_trial(study: Path, number: int) -> RunFolders:
    return of_trial(study / f"trial-{number}")


def _train_all(configs: Sequence[ExperimentConfig], places: Sequence[RunFolders], *, progress: bool) -> None:
    """Train the trials that have not been trained; their processes live on from one to the next."""
    with contextlib.closing(Crew(lives_on=True)) as crew:
        for config, folders in zip(configs, places, strict=True):
            if steps.has_ended(folders.run, config):
                continue
            with steps.surrounded(config, folders.run, progress=progress) as given:
                run_trial(config, folders, crew.run, *given)
