"""Trials of a study that several threads train."""

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest

from qcnn.errors import TrainingError
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs.local.runner import ProcessPool
from qcnn.results.local_run import of_trial, read_record
from qcnn.targets.local import study_runs
from qcnn.targets.local.observer import Observer
from qcnn.targets.local.trial_threads import Caller


def test_ground_states_of_killed_process_are_generated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def call_step(*_: object) -> None:
        raise TrainingError("trial_data_step ended with exit code -9: ")

    monkeypatch.setattr(study_runs, "call_step", call_step)
    trained: list[Any] = []
    monkeypatch.setattr(study_runs, "train_step", lambda config, *_, **__: trained.append(config))
    config = from_mapping({"qubits": 4, "rounds": 10, "data": "annni", "classes": 3, "loss": "cross_entropy"})
    folders = of_trial(tmp_path / "trial")
    with contextlib.closing(ProcessPool(lives_on=True)) as processes:
        thread = study_runs._Thread(processes, threading.Lock(), Caller())
        study_runs._run_trial(config, folders, Observer(), thread)
    assert trained
    assert folders.dataset.is_dir()
    assert read_record(folders.run).state == "succeeded"
