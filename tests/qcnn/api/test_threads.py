"""Training runs in several threads of one Python process."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import qcnn
from qcnn.results.local_run import read_record
from tests.qcnn.api.conftest import SMALL

ROOT = Path(__file__).parents[3]
# Trains in three threads, one of which fails, runs a study in another and predicts in the last, while the main thread
# prints numbered lines on both streams.
PROGRAM = f"""
import concurrent.futures
import itertools
import json
import os
import signal
import sys

import qcnn
from qcnn.process.library_loading import own_environment

def train(seed, **fields):
    experiment = qcnn.Experiment(**{{**{SMALL!r}, "seed": seed, **fields}})
    return qcnn.train(experiment, f"run-{{seed}}", progress=False).metrics["mse"]

def study():
    study = qcnn.study(qcnn.Experiment(**{SMALL!r}), grid={{"seed": [0, 2]}}, folder="study", progress=False)
    return [trial["fresh_mse"] for trial in study.trials]

def predict():
    model = qcnn.load(sys.argv[1])
    return [model.predict(qubit=[0, 3], angle=[0.1, -2.0]).tolist() for _ in range(20)]

def identity():
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    files = [(file.st_dev, file.st_ino) for file in map(os.fstat, (1, 2))]
    return [sys.stdout, sys.stderr, handlers, files, own_environment()]

before = identity()
with concurrent.futures.ThreadPoolExecutor(5) as pool:
    runs = [pool.submit(train, 0), pool.submit(train, 1, learning_rate=1e300), pool.submit(train, 2)]
    runs += [pool.submit(study), pool.submit(predict)]
    for number in itertools.count(1):
        done, waiting = concurrent.futures.wait(runs, timeout=0.05)
        print(f"line {{number}}", flush=True)
        print(f"line {{number}}", file=sys.stderr, flush=True)
        if not waiting:
            break
assert identity() == before
errors = [type(run.exception()).__name__ for run in runs]
print(json.dumps([number, errors, [run.result() for run in runs if not run.exception()]]))
"""


@pytest.mark.long
def test_threads_equal_single_runs_and_keep_streams(training: qcnn.TrainingResult, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(training.exported)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    *lines, result = done.stdout.splitlines()
    count, errors, measured = json.loads(result)
    expected = [f"line {number}" for number in range(1, count + 1)]
    # Names what a run has printed.
    assert [line for line in (*lines, *done.stderr.splitlines()) if line not in expected] == []
    assert lines == done.stderr.splitlines() == expected
    assert errors == ["NoneType", "TrainingError", "NoneType", "NoneType", "NoneType"]
    alone = [qcnn.train(qcnn.Experiment(**SMALL, seed=seed), tmp_path / f"alone-{seed}") for seed in (0, 2)]
    *trained, searched, predicted = measured
    assert trained == [each.metrics["mse"] for each in alone]
    assert searched == [each.metrics["fresh_mse"] for each in alone]
    assert predicted == 20 * [training.model.predict(qubit=[0, 3], angle=[0.1, -2.0]).tolist()]
    for log in tmp_path.glob("run-*/log.txt"):
        text = log.read_text()
        assert "training samples" in text
        assert not any(line in text.splitlines() for line in expected)


INTERRUPTED = f"""
import concurrent.futures
import qcnn
from qcnn.process.library_loading import own_environment

def train(seed):
    qcnn.train(qcnn.Experiment(**{{**{SMALL!r}, "epochs": 100_000, "seed": seed}}), f"run-{{seed}}", progress=False)

with concurrent.futures.ThreadPoolExecutor(2) as pool:
    runs = [pool.submit(train, seed) for seed in (0, 1)]
    concurrent.futures.wait(runs)
"""


@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
def test_interrupt_from_terminal_ends_runs_of_all_threads(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        logs = [tmp_path / f"run-{seed}" / "log.txt" for seed in (0, 1)]
        while not all(log.exists() and "epoch 1/" in log.read_text() for log in logs):
            with contextlib.suppress(subprocess.TimeoutExpired):
                pytest.fail(f"the process exited with code {process.wait(0.1)}")
        family = psutil.Process(process.pid).children(recursive=True)
        # A terminal sends SIGINT to all processes.
        os.killpg(process.pid, signal.SIGINT)
        _, stderr = process.communicate()
    assert stderr.rstrip().endswith("KeyboardInterrupt")
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive
    assert [read_record(log.parent).state for log in logs] == ["interrupted"] * 2


SETTINGS = f"""
import matplotlib
import tensorflow as tf

matplotlib.rcParams["text.usetex"] = True
tf.config.run_functions_eagerly(True)
tf.debugging.enable_check_numerics()

import qcnn

experiment = qcnn.Experiment(**{SMALL!r})
print(qcnn.train(experiment, "run", progress=False).metrics["mse"])
print(qcnn.study(experiment, grid={{"seed": [0]}}, folder="study", progress=False).best.metrics["mse"])
"""


@pytest.mark.long
def test_settings_of_session_do_not_reach_runs(training: qcnn.TrainingResult, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SETTINGS],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(training.metrics["mse"])] * 2
