"""Profiles of two running workers, captured through their profiler servers and opened in TensorBoard."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from qcnn import data
from qcnn.experiment.parsing import from_mapping
from tests.tensorboard_server import opened

_TABLE = "framework_op_stats"
_PORT = re.compile(r"\[worker (\d)\] profiler server on port (\d+)")


@pytest.mark.long
def test_profiler_servers_of_two_workers_capture_profiles(tmp_path: Path) -> None:
    options = {"checkpoint_seconds": 3600.0, "profile_batches": ""}
    config = from_mapping({"qubits": 4, "epochs": 1_000_000, "options": options})
    dataset, run = tmp_path / "dataset", tmp_path / "runs" / "watched"
    data.save(data.generate(config), dataset)
    folders = (str(dataset), str(run / "train/training"), str(run / "train/logs"))
    program = f"from qcnn.components.steps.train_local import train; train({config.to_json()!r}, *{folders!r})"
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as training:
        try:
            assert training.stdout
            ports: dict[str, str] = {}
            for line in training.stdout:
                if found := _PORT.search(line):
                    ports[found[1]] = found[2]
                if "epoch 2/" in line:
                    break
            assert set(ports) == {"0", "1"}
            for port in ports.values():
                # TensorBoard searches for profiles in runs that have events.
                tf.profiler.experimental.client.trace(
                    f"grpc://127.0.0.1:{port}", f"{folders[2]}/train", 300, num_tracing_attempts=20
                )
            assert training.poll() is None
        finally:
            training.terminate()
            training.communicate()
    with opened(folder=tmp_path) as board:
        # Two folders, or one if both profiles were captured within the same second.
        opens = {}
        for profile in board.wait("plugin/profile/runs", len):
            assert profile.startswith("profiles/watched/train/")
            for host in board.get("plugin/profile/hosts", run=profile, tag=_TABLE):
                if (name := host["hostname"]) == "ALL_HOSTS":
                    continue
                table, *_ = board.get("plugin/profile/data", run=profile, tag=_TABLE, host=name)
                opens[name.rpartition("_")[2]] = set(re.findall("Collective", str(table["rows"])))
        # The collective shows that the worker trains synchronously with the other.
        assert opens == {port: {"Collective"} for port in ports.values()}
    # Compiled operations have this name only.
    traces = list(Path(folders[2]).rglob("*.xplane.pb"))
    assert len(traces) == len(ports)
    assert all(b"ThunkExecutor::Execute" in trace.read_bytes() for trace in traces)
