"""Devices and strategies of a process."""

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from qcnn.errors import ConfigError
from qcnn.experiment import requirements
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.trainer.distribution import strategies
from qcnn.trainer.distribution.roles import ClusterConfig
from qcnn.trainer.distribution.strategies import (
    STRATEGIES,
    check_gpus,
    create_strategy,
    describe_devices,
    device_names,
    set_up,
)
from tests.forks import run

_PROGRAM = """
import sys
import tensorflow as tf
from qcnn.experiment.parsing import from_mapping
from qcnn.trainer.distribution.strategies import device_names, set_up
config = from_mapping({"strategy": "mirrored", "workers": 1, "options": {"devices": 3, "intra_threads": 2}})
set_up(config)
print("devices", len(device_names(config)), tf.config.threading.get_intra_op_parallelism_threads())
set_up(from_mapping({"strategy": "mirrored", "workers": 1, "options": {"devices": 2, "intra_threads": 2}}))
try:
    set_up(from_mapping({"strategy": "mirrored", "workers": 1, "options": {"devices": 4, "intra_threads": 2}}))
except Exception as error:
    print("error", error)
"""

no_gpu = pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="this machine has a GPU")


@no_gpu
def test_set_up_splits_processor_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: None) -> None:
    (tmp_path / "program.py").write_text(_PROGRAM)
    monkeypatch.chdir(tmp_path)
    done = run("-m", "program")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "devices 3 2",
        "error devices: must be at most 3, with which TensorFlow was initialized in this process. Given: 4",
    ]


@no_gpu
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"visible_gpus": "0,1"}, "visible_gpus: this machine has no GPU. Given: 0,1"),
        ({"gpu_memory": "growth"}, "gpu_memory: this machine has no GPU. Given: growth"),
        ({"gpu_memory": "1.5"}, "gpu_memory: this machine has no GPU. Given: 1.5"),
    ],
)
def test_set_up_missing_gpus_raises(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        set_up(from_mapping({"options": options}))
    assert str(error.value) == message


@pytest.mark.parametrize(("options", "threads"), [({}, [3, 3]), ({"inter_threads": 1, "intra_threads": 5}, [1, 5])])
def test_set_up_uses_cores_of_cpu_quota(
    options: dict[str, Any], threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []
    for kind in ("inter", "intra"):
        monkeypatch.setattr(tf.config.threading, f"set_{kind}_op_parallelism_threads", given.append)
    monkeypatch.setattr(strategies, "cores_of_quota", lambda: 3)
    set_up(from_mapping({"options": options}))
    assert given == threads


@no_gpu
def test_set_up_default_has_one_device() -> None:
    config = from_mapping({"strategy": "mirrored", "workers": 1})
    set_up(config)
    assert device_names(config) == ["/device:CPU:0"]


@no_gpu
def test_check_gpus_requested_without_gpu_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCNN_IMAGE", "registry/qcnn:1")
    with pytest.raises(ConfigError, match=r"^pod\.gpus: .* Given: gpus 2, image registry/qcnn:1$"):
        check_gpus(2, {"gpu_memory": "growth"})
    check_gpus(0, {})


@no_gpu
@pytest.mark.parametrize(("count", "text"), [(1, "1 CPU core"), (4, "4 CPU cores")])
def test_devices_without_gpu_are_cores(monkeypatch: pytest.MonkeyPatch, count: int, text: str) -> None:
    monkeypatch.setattr(strategies, "cores", lambda: count)
    assert describe_devices() == text


@pytest.mark.parametrize(
    ("models", "text"),
    [
        (["NVIDIA L4"], "1 GPU (NVIDIA L4), 2 CPU cores"),
        (["NVIDIA L4", "NVIDIA L4"], "2 GPUs (NVIDIA L4), 2 CPU cores"),
        (["NVIDIA L4", "Tesla T4", "NVIDIA L4"], "3 GPUs (NVIDIA L4, Tesla T4), 2 CPU cores"),
        ([""], "1 GPU (unknown model), 2 CPU cores"),
    ],
)
def test_devices_with_gpus_include_their_models(monkeypatch: pytest.MonkeyPatch, models: list[str], text: str) -> None:
    def details(gpu: str) -> dict[str, str]:
        return {"device_name": gpu} if gpu else {}

    monkeypatch.setattr(strategies, "cores", lambda: 2)
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: models if kind == "GPU" else [])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", details)
    assert describe_devices() == text


def _config(strategy: str, **options: Any) -> ExperimentConfig:
    return from_mapping({"strategy": strategy, "workers": 1, "options": options})


def test_strategies_are_those_of_requirements() -> None:
    assert set(STRATEGIES) == set(requirements.STRATEGIES)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mirrored", tf.distribute.MirroredStrategy),
        ("central_storage", tf.distribute.experimental.CentralStorageStrategy),
        ("none", tf.distribute.Strategy),
    ],
)
def test_create_strategy_of_single_process_has_one_replica(name: str, kind: type[tf.distribute.Strategy]) -> None:
    strategy = create_strategy(_config(name), None)
    assert isinstance(strategy, kind)
    assert strategy.num_replicas_in_sync == 1


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="this machine has a GPU")
@pytest.mark.parametrize(
    ("config", "message"),
    [
        (_config("mirrored", reduction="nccl"), "reduction: this machine has no GPU. Given: nccl"),
        (_config("multi_worker", communication="nccl"), "communication: this machine has no GPU. Given: nccl"),
        (
            _config("mirrored", reduction="hierarchical_copy"),
            "reduction: hierarchical_copy requires an even number of devices. Given: 1 devices",
        ),
        (_config("tpu"), "strategy: no TPU was found .*Given: tpu"),
    ],
)
def test_create_strategy_missing_devices_raises_one_line(config: ExperimentConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}") as error:
        create_strategy(config, None)
    assert "\n" not in str(error.value)


def test_create_strategy_uses_registered_function(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters: list[ClusterConfig | None] = []

    def custom_strategy(_: ExperimentConfig, cluster: ClusterConfig | None) -> tf.distribute.Strategy:
        clusters.append(cluster)
        return tf.distribute.get_strategy()

    monkeypatch.setitem(STRATEGIES, "none", custom_strategy)
    cluster = ClusterConfig({"worker": ("127.0.0.1:2222",)}, "worker", 0)
    assert create_strategy(_config("none"), cluster) is tf.distribute.get_strategy()
    assert clusters == [cluster]
