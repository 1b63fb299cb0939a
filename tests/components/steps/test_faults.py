"""Fault injection: a killed training job resumes and ends with bitwise equal weights.

`make test-long` kills processes at five moments, `make test-faults` at all.
"""

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from qcnn.experiment.parsing import from_mapping
from qcnn.model.checkpoints import Checkpoint
from tests.components.steps.local_jobs import (
    EPOCHS,
    Moment,
    last_checkpoint,
    launched,
    train_step,
    wait_for,
    with_dataset,
)

# A checkpoint after each epoch.
OPTIONS = {"max_restarts": 1, "checkpoint_seconds": 1e-9}
CONFIG = from_mapping({"qubits": 4, "rounds": 10, "epochs": EPOCHS, "batch_size": 8, "options": OPTIONS})
VICTIMS = ("worker 0", "worker 1", "launcher", "everything")


# Seeds that include each victim and each phase.
ALWAYS = (0, 5, 10, 7, 8)
MOMENTS = [
    pytest.param(moment, id=str(moment), marks=() if moment.seed in ALWAYS else pytest.mark.faults)
    for moment in (Moment.draw(seed, VICTIMS) for seed in range(24))
]


def _folder(folder: Path) -> Path:
    return with_dataset(folder, CONFIG)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder = _folder(tmp_path_factory.mktemp("undisturbed"))
    with launched(train_step(folder, CONFIG), CONFIG.replicas) as launcher:
        assert launcher.finish() == 0, launcher.output
    return last_checkpoint(folder)


def _assert_same(checkpoint: Checkpoint, undisturbed: Checkpoint) -> None:
    losses = [[(e.epoch, e.train_loss, e.val_loss) for e in run.history] for run in (checkpoint, undisturbed)]
    assert losses[0] == losses[1]
    for one, other in zip(
        checkpoint.line.weights + checkpoint.line.optimizer,
        undisturbed.line.weights + undisturbed.line.optimizer,
        strict=True,
    ):
        assert np.array_equal(one, other)


@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_training_ends_with_equal_weights(tmp_path: Path, undisturbed: Checkpoint, moment: Moment) -> None:
    folder = _folder(tmp_path)
    with launched(train_step(folder, CONFIG), CONFIG.replicas) as launcher:
        reported = wait_for(moment, launcher, folder)
        launcher.kill(moment.victim)
        exit_code = launcher.finish()
        output = launcher.output
    if moment.victim.startswith("worker"):
        assert exit_code == 0, output
        assert f"{moment.victim} was killed by SIGKILL; restarting all workers (1 of 1)" in output
    else:
        assert exit_code == -signal.SIGKILL
        with launched(train_step(folder, CONFIG), CONFIG.replicas) as launcher:
            assert launcher.finish() == 0, launcher.output
            output = launcher.output
    continued = [int(epoch) for epoch in re.findall(r"continuing after epoch (\d+)", output)]
    assert max(continued, default=0) >= reported - 1
    _assert_same(last_checkpoint(folder), undisturbed)
    assert not list(folder.rglob(".unfinished-*"))


@pytest.mark.long
def test_killed_training_of_circuit_with_inputs_ends_with_equal_weights(tmp_path: Path) -> None:
    """Both workers compute the angles of gates from the features of their samples."""
    examples = {"data": "examples/moons.csv", "model": "examples/reuploading.qasm", "inputs": "u,v"}
    fields = {**examples, "encoding": "circuit", "qubits": 2, "epochs": EPOCHS, "batch_size": 32, "options": OPTIONS}
    config, finished = from_mapping(fields), []
    for victim in (None, "worker 1"):
        folder = with_dataset(tmp_path / str(victim), config)
        with launched(train_step(folder, config), config.replicas) as launcher:
            if victim:
                launcher.read_until("epoch 4/")
                launcher.kill(victim)
            assert launcher.finish() == 0, launcher.output
        finished.append(last_checkpoint(folder))
    assert "worker 1 was killed by SIGKILL; restarting all workers (1 of 1)" in launcher.output
    assert re.search(r"continuing after epoch [1-9]", launcher.output)
    _assert_same(*finished)


@pytest.mark.long
def test_suspended_worker_is_restarted(tmp_path: Path, undisturbed: Checkpoint) -> None:
    options = CONFIG.options.model_copy(update={"heartbeat_timeout_seconds": 20.0})
    command = train_step(_folder(tmp_path), CONFIG.model_copy(update={"options": options}))
    with launched(command, CONFIG.replicas) as launcher:
        launcher.read_until("epoch 3/")
        launcher.workers()["worker 1"].suspend()
        assert launcher.finish() == 0, launcher.output
    # TensorFlow's heartbeat may time out first. Both messages have the name of the worker.
    noticed = r"(worker 1 sent no heartbeat for 20 s|lost worker 1: .*); restarting all workers \(1 of 1\)"
    assert re.search(noticed, launcher.output)
    _assert_same(last_checkpoint(tmp_path), undisturbed)


@pytest.mark.long
def test_occupied_port_is_replaced(tmp_path: Path, undisturbed: Checkpoint) -> None:
    program = """
    import socket, sys
    from qcnn.jobs.local import runner
    from qcnn.components.steps.train_local import train
    from qcnn.process.error_lines import one_line_errors
    write, taken = runner.tf_config, []
    def write_then_lose(addresses, role, index):
        if not taken:
            host, port = addresses["worker"][0].split(":")
            taken.append(socket.create_server((host, int(port))))
        return write(addresses, role, index)
    runner.tf_config = write_then_lose
    with one_line_errors():
        train(*sys.argv[1:])
    """
    folders = [str(path) for path in (_folder(tmp_path) / "dataset", tmp_path / "training", tmp_path / "logs")]
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), CONFIG.to_json(), *folders],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    message = r"cannot listen on this worker's address, which may be in use\. Given: 127.0.0.1:\d+"
    assert re.search(message, finished.stdout)
    _assert_same(last_checkpoint(tmp_path), undisturbed)
