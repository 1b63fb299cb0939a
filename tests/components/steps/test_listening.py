"""Local training processes accept local connections only."""

import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from qcnn import data
from qcnn.experiment.parsing import from_mapping

_WORKERS = 2
# Each worker has a gRPC server for the other workers and a profiler server.
_SERVERS = 2


def _outside() -> list[str]:
    addresses = [each for all_of in psutil.net_if_addrs().values() for each in all_of if each.family == socket.AF_INET]
    return [each.address for each in addresses if not each.address.startswith("127.")]


@pytest.mark.long
def test_training_processes_accept_local_connections_only(tmp_path: Path) -> None:
    options = {"checkpoint_seconds": 3600.0}
    config = from_mapping({"qubits": 4, "rounds": 20, "epochs": 1_000_000, "workers": _WORKERS, "options": options})
    data.save(data.generate(config), tmp_path / "dataset")
    folders = [str(tmp_path / name) for name in ("dataset", "training", "logs")]
    program = f"from qcnn.components.steps.train_local import train; train({config.to_json()!r}, *{folders!r})"
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as training:
        try:
            assert training.stdout
            assert any("epoch 2/" in line for line in training.stdout)
            step = psutil.Process(training.pid)
            ports = [
                each.laddr.port
                for process in (step, *step.children(recursive=True))
                for each in process.net_connections("inet")
                if each.status == psutil.CONN_LISTEN
            ]
            assert len(ports) == _WORKERS * _SERVERS
            for port in ports:
                socket.create_connection(("127.0.0.1", port)).close()
                for address in _outside():
                    with pytest.raises(ConnectionRefusedError):
                        socket.create_connection((address, port))
        finally:
            training.terminate()
            training.communicate()
