"""Worker processes without a launcher: exit codes, errors, signals and outputs."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

import pytest

from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs.local.fork_client import ChildProcess, start_process
from qcnn.model.checkpoints import load_history, load_latest
from qcnn.process.local_ports import reserved_ports
from qcnn.process.operating_system import cores
from qcnn.trainer import worker
from qcnn.trainer.distribution.joining import answers
from tests.forks import run, started
from tests.monitored_process import port_in, scrape, values

ENDLESS = from_mapping({"qubits": 4, "epochs": 100_000})
SHORT = from_mapping({"qubits": 4, "epochs": 2})
RETRYABLE = 138
WORKER = ("-m", "qcnn.trainer.worker")
# Log lines of TensorFlow, which must not appear.
_OF_LIBRARIES = re.compile(r"^(?:[IWEF]\d{4} |.*absl::).*$", re.MULTILINE)
# Worker that is killed when all files are written, but before they are published.
LOST_WHILE_PUBLISHING = """
import os, signal
from qcnn.trainer import worker
from qcnn.storage.copies import WorkingCopy
WorkingCopy.flush = lambda _: os.kill(os.getpid(), signal.SIGKILL)
worker.main()
"""


class Pair:
    """Two workers of one training job, each of which generates the dataset."""

    def __init__(self, folder: Path, config: ExperimentConfig, chief: Sequence[str] = WORKER) -> None:
        self._folder, self._config = folder, config
        self._logs = [folder / f"worker-{index}.log" for index in (0, 1)]
        self._ports = contextlib.ExitStack()
        ports = self._ports.enter_context(reserved_ports(len(self._logs)))
        self._addresses = [f"127.0.0.1:{port}" for port in ports]
        self.processes = [self.start(0, chief), self.start(1)]

    def start(self, index: int, program: Sequence[str] = WORKER) -> ChildProcess:
        """Start a worker, by the fork server if this process has one."""
        cluster = {"cluster": {"worker": self._addresses}, "task": {"type": "worker", "index": index}}
        folders = [word for name in ("workdir", "logs", "export") for word in (f"--{name}", str(self._folder / name))]
        with self._logs[index].open("w") as file, Path(os.devnull).open() as nothing:
            return start_process(
                [sys.executable, *program, "--experiment", self._config.to_json(), *folders],
                {**os.environ, "TF_CONFIG": json.dumps(cluster)},
                stdin=nothing.fileno(),
                stdout=file.fileno(),
                stderr=file.fileno(),
            )

    def wait_until_training(self) -> None:
        while "epoch 3/" not in self._logs[0].read_text():
            assert all(process.poll() is None for process in self.processes), self.output(0) + self.output(1)
            time.sleep(0.02)

    def output(self, index: int) -> str:
        return self._logs[index].read_text()

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self._ports.close()


@pytest.fixture
def unused_ports() -> Iterator[list[int]]:
    """Local ports on which nothing listens."""
    with reserved_ports(2) as ports:
        yield ports


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path, ENDLESS)
    try:
        pair.wait_until_training()
        yield pair
    finally:
        pair.close()


@pytest.mark.usefixtures("forks")
@pytest.mark.long
@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["dead", "hanging"])
def test_worker_with_failed_peer_exits_retryable_with_its_name(pair: Pair, lost: int, how: int) -> None:
    os.kill(pair.processes[lost].pid, how)
    survivor = 1 - lost
    # The documented limit is 30 s, but the machine may be busy.
    exit_code = pair.processes[survivor].wait(90)
    lines = [line for line in pair.output(survivor).splitlines() if line.startswith("error: ")]
    assert exit_code == RETRYABLE, pair.output(survivor)
    assert len(lines) == 1
    assert f"lost worker {lost}: " in lines[0]
    assert "Traceback" not in pair.output(survivor)


@pytest.mark.usefixtures("forks")
@pytest.mark.long
def test_each_worker_serves_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCNN_METRICS_PORT", "0")
    with contextlib.closing(Pair(tmp_path, ENDLESS)) as pair:
        pair.wait_until_training()
        ports = [next(filter(None, map(port_in, pair.output(index).splitlines()))) for index in (0, 1)]
        chief, other = (values(scrape(port)) for port in ports)
    for index, found in enumerate((chief, other)):
        labels, epoch = found["qcnn_epoch"]
        assert labels == {"job_name": "", "role": "worker", "index": str(index)}
        assert epoch >= 2
    # Only the chief writes checkpoints.
    assert chief.keys() - other.keys() == {"qcnn_checkpoint_timestamp_seconds"}


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_worker_exits_on_signal(pair: Pair, number: signal.Signals) -> None:
    for index in (0, 1):
        assert not _OF_LIBRARIES.findall(pair.output(index))
    os.kill(pair.processes[1].pid, number)
    assert pair.processes[1].wait(60) == 128 + number
    assert f"ended by {number.name}; the last checkpoint is kept" in pair.output(1)
    assert pair.processes[0].wait(90) == RETRYABLE


def _waiting(folder: Path, port: int) -> contextlib.AbstractContextManager[tuple[ChildProcess, TextIO]]:
    """Start worker 0 of two, where the other is never started."""
    cluster = {"worker": [f"127.0.0.1:{port}", "127.0.0.1:1"]}
    config = from_mapping({"qubits": 4, "epochs": 2})
    folders = [word for name in ("workdir", "logs") for word in (f"--{name}", str(folder / name))]
    return started(
        *(*WORKER, "--experiment", config.to_json(), "--profiler-port", "0", *folders),
        environment={
            **os.environ,
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}),
            "QCNN_METRICS_PORT": "0",
        },
    )


def _ended(process: ChildProcess, number: signal.Signals) -> int | None:
    """Send a signal until the process exits, because TensorFlow's server may handle a SIGTERM while it starts."""
    for _ in range(3):
        os.kill(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(20)
    return None


@pytest.mark.usefixtures("forks")
def test_worker_waiting_for_peers_handles_signals_and_metrics(tmp_path: Path, unused_ports: list[int]) -> None:
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(_waiting(tmp_path / str(port), port)) for port in unused_ports]
        for (process, lines), port, number in zip(waiting, unused_ports, (signal.SIGTERM, signal.SIGINT), strict=True):
            metrics = next(filter(None, map(port_in, lines)))
            # TensorFlow listens and waits for the other worker.
            while not answers(f"127.0.0.1:{port}"):
                assert process.poll() is None
                time.sleep(0.02)
            assert values(scrape(metrics))["qcnn_epochs"][1] == 2
            assert _ended(process, number) == 128 + number
            devices, end = lines.read().splitlines()
            assert devices.startswith("devices: ")
            assert end == f"ended by {number.name}; the last checkpoint is kept"


@pytest.mark.usefixtures("forks")
@pytest.mark.long
def test_workers_join_despite_proxy_variables(
    tmp_path: Path, unused_ports: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{unused_ports[0]}")
    for variable in ("no_proxy", "no_grpc_proxy"):
        monkeypatch.delenv(variable, raising=False)
    with contextlib.closing(Pair(tmp_path, SHORT)) as pair:
        assert [process.wait(300) for process in pair.processes] == [0, 0], pair.output(0)


@pytest.mark.usefixtures("forks")
@pytest.mark.long
def test_workers_wait_for_publication_and_chief_resumes_alone(
    tmp_path: Path,
) -> None:
    with contextlib.closing(Pair(tmp_path, SHORT, ("-c", LOST_WHILE_PUBLISHING))) as pair:
        assert pair.processes[0].wait(120) == -signal.SIGKILL
        assert pair.processes[1].wait(90) == RETRYABLE, pair.output(1)
        # The chief completes alone, as if the other worker had succeeded.
        pair.processes[0] = pair.start(0)
        assert pair.processes[0].wait(120) == 0, pair.output(0)
        description = json.loads((tmp_path / "export" / "model.json").read_text())
        assert description["experiment"] == SHORT.model_dump()
        # The chief restarts once more after its model was written.
        pair.processes[0] = pair.start(0)
        assert pair.processes[0].wait(120) == 0, pair.output(0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "error: TF_CONFIG: must be JSON"),
        ('{"cluster": {"worker": ["a:1"]}}', "error: TF_CONFIG: task must have type and index"),
        ('{"cluster": {"boss": ["a:1"]}, "task": {"type": "boss", "index": 0}}', "error: TF_CONFIG: roles are"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 4}}', "error: TF_CONFIG: task.index"),
    ],
)
def test_worker_with_invalid_cluster_exits_with_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.setenv("TF_CONFIG", text)
    folders = [word for name in ("dataset", "workdir", "logs") for word in (f"--{name}", str(tmp_path / name))]
    monkeypatch.setattr("sys.argv", ["worker", "--experiment", "{}", *folders])
    # pytest handles the signals of this process.
    monkeypatch.setattr(worker, "end_on_signals", lambda: None)
    with pytest.raises(SystemExit) as error:
        worker.main()
    assert error.value.code == 2
    assert capfd.readouterr().err.startswith(message)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("forks")
def test_worker_on_vertex_uses_folders_and_reports_to_tuner(tmp_path: Path) -> None:
    cluster = {"cluster": {"workerpool0": ["127.0.0.1:2222"]}, "task": {"type": "workerpool0", "index": 0}}
    folders = {"CHECKPOINT_DIR": "checkpoints", "TENSORBOARD_LOG_DIR": "logs", "MODEL_DIR": "model"}
    environment = {
        "CLUSTER_SPEC": json.dumps(cluster),
        "CLOUD_ML_JOB_ID": "1",
        "CLOUD_ML_TRIAL_ID": "3",
        "CLOUD_ML_HP_METRIC_FILE": str(tmp_path / "output.metrics"),
        **{f"AIP_{variable}": f"{tmp_path / name}/" for variable, name in folders.items()},
    }
    one = from_mapping({"qubits": 4, "epochs": 5, "workers": 1}).to_json()
    searched = ["--epochs=2.0", "--learning_rate=0.03125", "--model=hybrid"]
    command = (*WORKER, "--experiment", one, "--profiler-port", "0", *searched)
    done = run(*command, environment={**os.environ, **environment})
    done.check_returncode()
    (devices,) = re.findall(r"^devices: (.*)$", done.stderr + done.stdout, re.MULTILINE)
    assert re.fullmatch(rf"(\d+ GPUs? \(.+\), )?{cores()} CPU cores?", devices)
    history = load_history(tmp_path / "checkpoints")
    reports = [json.loads(line) for line in (tmp_path / "output.metrics").read_text().splitlines()]
    assert [line["val_loss"] for line in reports] == [str(epoch.val_loss) for epoch in history]
    assert len(history) == 2
    found = load_latest(tmp_path / "checkpoints" / "checkpoints")
    assert found
    assert found.config.learning_rate == 0.03125
    assert (tmp_path / "model" / "model.json").is_file()
    assert list((tmp_path / "logs").rglob("*tfevents*"))


@pytest.mark.skipif(any(Path("/dev").glob("nvidia[0-9]*")), reason="this machine has a GPU")
@pytest.mark.parametrize(
    ("program", "environment", "options", "message"),
    [
        ("qcnn.trainer.worker", {"QCNN_GPUS": "1"}, {}, r"error: pod\.gpus: TensorFlow sees no GPU .* Given: gpus 1"),
        ("qcnn.trainer.worker", {}, {"visible_gpus": "0"}, r"error: visible_gpus: this machine has no GPU\. Given: 0"),
        ("qcnn.trainer.predict", {"QCNN_GPUS": "2"}, {}, r"error: pod\.gpus: TensorFlow sees no GPU .* Given: gpus 2"),
    ],
)
@pytest.mark.usefixtures("forks")
def test_process_without_gpu_exits_before_reading_data(
    tmp_path: Path, program: str, environment: dict[str, str], options: dict[str, str], message: str
) -> None:
    """Dataset and model are missing, too, which would be the error if they were read first."""
    config = from_mapping({"qubits": 4, "epochs": 2, "workers": 1, "strategy": "none", "options": options})
    folders = [word for name in ("dataset", "workdir", "logs") for word in (f"--{name}", str(tmp_path / name))]
    arguments = {
        "qcnn.trainer.worker": ("--experiment", config.to_json(), *folders),
        "qcnn.trainer.predict": ("--model", str(tmp_path / "model")),
    }
    done = run("-m", program, *arguments[program], environment={**os.environ, **environment})
    # Exit code 2 is a permanent error.
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(message, done.stderr.strip())
    assert list(tmp_path.iterdir()) == []
