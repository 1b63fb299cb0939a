"""Callbacks of training runs: metrics, stops, exceptions, workers and threads."""

import concurrent.futures
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

import qcnn
from qcnn.model import checkpoints
from qcnn.results.local_run import read_record
from tests.qcnn.api.conftest import SMALL
from tests.shared_training_runs import assert_same_training, train

# The learning rate does not depend on the number of epochs.
FIELDS: dict[str, Any] = {
    **{**SMALL, "epochs": 5},
    **{"learning_rate": 0.02, "learning_rate_schedule": "constant", "warmup_fraction": 0.0},
}


class Recorder:
    """Callback that records the metrics of epochs and stops after one of them."""

    def __init__(self, last: int | None = None) -> None:
        self.epochs: list[qcnn.EpochMetrics] = []
        self.threads: set[int] = set()
        self._last = last

    def __call__(self, epoch: qcnn.EpochMetrics) -> bool:
        self.epochs.append(epoch)
        self.threads.add(threading.get_ident())
        return epoch.epoch == self._last


def _started_since(before: Sequence[psutil.Process]) -> list[psutil.Process]:
    return [process for process in psutil.Process().children(recursive=True) if process not in before]


def _equals_run_of(epochs: int, training: qcnn.TrainingResult, folder: Path) -> None:
    """Assert that a run has the weights of a run with another number of epochs."""
    experiment = training.experiment.replace(epochs=epochs, workers=1, strategy="none")
    train(experiment.config, qcnn.generate(experiment), folder)
    assert_same_training(training.training, folder)


@pytest.mark.usefixtures("shared_server")
def test_callback_stops_run_which_is_complete(tmp_path: Path) -> None:
    stopping, other = Recorder(2), Recorder()
    experiment = qcnn.Experiment(**FIELDS)
    training = qcnn.train(experiment, tmp_path / "run", callbacks=[stopping, other])
    assert tuple(stopping.epochs) == tuple(other.epochs) == training.history
    assert len(training.history) == training.metrics["epochs"] == 2
    assert stopping.threads == {threading.get_ident()}
    _equals_run_of(2, training, tmp_path / "two")
    assert read_record(training.folder).state == "succeeded"
    assert "stopped after epoch 2 by a callback" in (training.folder / "log.txt").read_text()
    assert "trained for 2 of 5 epochs" in training.report.read_text()
    # The run is read, also by another call without callbacks.
    assert qcnn.train(experiment, tmp_path / "run", callbacks=[stopping]) == training
    assert qcnn.train(experiment, tmp_path / "run") == training
    assert len(stopping.epochs) == 2


@pytest.mark.usefixtures("shared_server")
@pytest.mark.parametrize(
    "error",
    [
        # Another missing library is an error of the package itself.
        ModuleNotFoundError("no matplotlib", name="matplotlib"),
        KeyboardInterrupt(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_exception_of_callback_ends_run_that_resumes(tmp_path: Path, error: BaseException) -> None:
    before = psutil.Process().children(recursive=True)

    def fail(epoch: qcnn.EpochMetrics) -> None:
        if epoch.epoch == 2:
            raise error

    experiment = qcnn.Experiment(**FIELDS)
    with pytest.raises(type(error)) as caught:
        qcnn.train(experiment, tmp_path / "run", callbacks=[fail])
    assert caught.value is error
    assert error.__cause__ is error.__context__ is None
    _, alive = psutil.wait_procs(_started_since(before), timeout=20)
    assert not alive
    interrupted, log = isinstance(error, KeyboardInterrupt), (tmp_path / "run" / "log.txt").read_text()
    assert read_record(tmp_path / "run").state == ("interrupted" if interrupted else "failed")
    assert interrupted or "error: a callback has raised ModuleNotFoundError: no matplotlib" in log
    assert not [path for path in (tmp_path / "run").rglob("*") if path.name.startswith(".")]
    recorder = Recorder()
    training = qcnn.train(experiment, tmp_path / "run", callbacks=[recorder])
    assert len(training.history) == 5
    assert tuple(recorder.epochs) == training.history[-len(recorder.epochs) :]
    _equals_run_of(5, training, tmp_path / "five")


@pytest.mark.parametrize("callbacks", ["print", [print, 1], print, {"a": print}, None])
def test_callbacks_that_are_no_functions_are_rejected(tmp_path: Path, callbacks: Any) -> None:
    with pytest.raises(qcnn.ConfigError, match=r"^callbacks: must be a list of functions .*\. Given: ."):
        qcnn.train(qcnn.Experiment(**FIELDS), tmp_path / "run", callbacks=callbacks)
    assert not (tmp_path / "run").exists()


@pytest.mark.long
@pytest.mark.usefixtures("shared_server")
def test_workers_stop_after_same_epoch_also_after_restart(tmp_path: Path) -> None:
    """A worker is killed while it waits. The epochs that are trained again are not reported again."""
    experiment = qcnn.Experiment(**{**FIELDS, "workers": 2, "strategy": "multi_worker", "max_restarts": 1})
    before = psutil.Process().children(recursive=True)
    recorder = Recorder(3)

    def kill(epoch: qcnn.EpochMetrics) -> None:
        if epoch.epoch == 2:
            _started_since(before)[-1].kill()

    training = qcnn.train(experiment, tmp_path / "run", callbacks=[kill, recorder])
    assert "restarting all workers (1 of 1)" in (training.folder / "log.txt").read_text()
    assert [epoch.epoch for epoch in recorder.epochs] == [1, 2, 3]
    saved = checkpoints.load_latest(training.training / checkpoints.FOLDER)
    assert saved
    assert (saved.epochs, saved.is_stopped) == (3, True)


@pytest.mark.usefixtures("shared_server")
def test_runs_in_threads_call_their_own_callbacks(tmp_path: Path) -> None:
    recorders = [Recorder(2), Recorder(3)]

    def run(number: int) -> int:
        experiment = qcnn.Experiment(**FIELDS, seed=number)
        training = qcnn.train(experiment, tmp_path / str(number), callbacks=[recorders[number]], progress=False)
        assert tuple(recorders[number].epochs) == training.history
        return threading.get_ident()

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        threads = [*pool.map(run, range(2))]
    assert [len(recorder.epochs) for recorder in recorders] == [2, 3]
    assert [recorder.threads for recorder in recorders] == [{thread} for thread in threads]
