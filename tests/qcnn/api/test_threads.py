"""Training runs in several threads of one Python process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import qcnn
from tests.qcnn.api.conftest import SMALL

ROOT = Path(__file__).parents[3]
# Trains in three threads, one of which fails, while the main thread prints numbered lines on both streams.
PROGRAM = f"""
import concurrent.futures
import itertools
import json
import os
import sys

import qcnn

def train(seed, **fields):
    experiment = qcnn.Experiment(**{{**{SMALL!r}, "seed": seed, **fields}})
    return qcnn.train(experiment, f"run-{{seed}}", progress=False).metrics["mse"]

def identity():
    return [sys.stdout, sys.stderr, *((file.st_dev, file.st_ino) for file in map(os.fstat, (1, 2)))]

before = identity()
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    runs = [pool.submit(train, 0), pool.submit(train, 1, learning_rate=1e300), pool.submit(train, 2)]
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
def test_train_in_threads_equals_single_runs_and_keeps_streams(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    *lines, result = done.stdout.splitlines()
    count, errors, measured = json.loads(result)
    expected = [f"line {number}" for number in range(1, count + 1)]
    assert lines == done.stderr.splitlines() == expected
    assert errors == ["NoneType", "TrainingError", "NoneType"]
    alone = [qcnn.train(qcnn.Experiment(**SMALL, seed=seed), tmp_path / f"alone-{seed}") for seed in (0, 2)]
    assert measured == [training.metrics["mse"] for training in alone]
    for log in tmp_path.glob("run-*/log.txt"):
        text = log.read_text()
        assert "training samples" in text
        assert not any(line in text.splitlines() for line in expected)
