"""Workers without a launcher around them: how they end, and what they say."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainer import data
from trainer.config import from_mapping

CONFIG = from_mapping({"qubits": 4, "epochs": 100_000})
RETRYABLE = 138


class Pair:
    """Two workers of one training that would go on for ever."""

    def __init__(self, folder: Path) -> None:
        data.save(data.generate(CONFIG), folder / "dataset")
        self._logs = [folder / f"worker-{index}.log" for index in (0, 1)]
        held = [socket.create_server(("127.0.0.1", 0)) for _ in self._logs]
        addresses = [f"127.0.0.1:{server.getsockname()[1]}" for server in held]
        for server in held:
            server.close()
        self.processes = []
        for index, log in enumerate(self._logs):
            cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            folders = [word for name in ("dataset", "workdir", "logs") for word in (f"--{name}", str(folder / name))]
            with log.open("w") as file:
                process = subprocess.Popen(
                    [sys.executable, "-m", "trainer.worker", "--experiment", CONFIG.to_json(), *folders],
                    env={**os.environ, "TF_CONFIG": json.dumps(cluster)},
                    stdout=file,
                    stderr=subprocess.STDOUT,
                )
            self.processes.append(process)

    def wait_until_training(self) -> None:
        while "epoch 3/" not in self._logs[0].read_text():
            assert all(process.poll() is None for process in self.processes), self.said(0) + self.said(1)

    def said(self, index: int) -> str:
        return self._logs[index].read_text()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    try:
        pair.wait_until_training()
        yield pair
    finally:
        for process in pair.processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["dead", "hanging"])
def test_the_survivor_of_a_lost_peer_names_it_and_ends_to_be_retried(pair: Pair, lost: int, how: int) -> None:
    pair.processes[lost].send_signal(how)
    survivor = 1 - lost
    # 30 s are what is promised; the machine may be busy.
    exit_code = pair.processes[survivor].wait(90)
    lines = [line for line in pair.said(survivor).splitlines() if line.startswith("error: ")]
    assert exit_code == RETRYABLE, pair.said(survivor)
    assert len(lines) == 1
    assert f"lost worker {lost}: " in lines[0]
    assert "Traceback" not in pair.said(survivor)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_end_does_so_at_once(pair: Pair, number: signal.Signals) -> None:
    pair.processes[1].send_signal(number)
    assert pair.processes[1].wait(10) == 128 + number
    assert f"ended by {number.name}; the last checkpoint counts" in pair.said(1)
    assert pair.processes[0].wait(90) == RETRYABLE
