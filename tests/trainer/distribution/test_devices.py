"""The devices of a process, each asked for before TensorFlow computes anything."""

import subprocess
import sys
from typing import Any

import pytest
import tensorflow as tf

from qcnn.trainer.config import from_mapping
from qcnn.trainer.distribution.devices import check_gpus, device_names, set_up
from qcnn.trainer.errors import ConfigError
from tests.trainer.conftest import ROOT

_PROGRAM = """
import sys
import tensorflow as tf
from qcnn.trainer.config import from_mapping
from qcnn.trainer.distribution.devices import device_names, set_up
config = from_mapping({"strategy": "mirrored", "workers": 1, "options": {"devices": 3, "intra_threads": 2}})
set_up(config)
print("found", len(device_names(config)), tf.config.threading.get_intra_op_parallelism_threads())
set_up(from_mapping({"strategy": "mirrored", "workers": 1, "options": {"devices": 2, "intra_threads": 2}}))
try:
    set_up(from_mapping({"strategy": "mirrored", "workers": 1, "options": {"devices": 4, "intra_threads": 2}}))
except Exception as error:
    print("refused", error)
"""

no_gpu = pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="this machine has a GPU")


@no_gpu
def test_a_processor_is_parted_once() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "found 3 2",
        "refused devices: this process has computed with 3 already. Given: 4",
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
def test_gpus_that_are_not_there_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        set_up(from_mapping({"options": options}))
    assert str(error.value) == message


@no_gpu
def test_without_words_a_process_has_one_processor() -> None:
    config = from_mapping({"strategy": "mirrored", "workers": 1})
    set_up(config)
    assert device_names(config) == ["/device:CPU:0"]


@no_gpu
def test_requested_gpus_without_a_gpu_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCNN_IMAGE", "registry/qcnn:1")
    with pytest.raises(ConfigError, match=r"^pod\.gpus: .* Given: gpus 2, image registry/qcnn:1$"):
        check_gpus(2, {"gpu_memory": "growth"})
    check_gpus(0, {})
