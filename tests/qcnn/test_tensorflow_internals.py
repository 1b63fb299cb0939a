"""Private parts of TensorFlow: the installed release has them, and a release without them is reported in one line."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from qcnn import tensorflow_internals
from qcnn.circuits import circuits
from qcnn.errors import ConfigError
from qcnn.simulators import SimulatorLimits, kernels, registry
from qcnn.simulators.kernels import library
from qcnn.simulators.structure.gates import read_network

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernels are compiled on Linux only")
GIVEN = rf"Given: TensorFlow {tf.__version__.replace('.', '[.]')}$"


class FfiVersion(ctypes.Structure):
    """First fields of XLA_FFI_Api."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("size", "extension", "version_size", "version_extension")] + [
        (name, ctypes.c_int) for name in ("major", "minor")
    ]


def test_importing_module_does_not_load_tensorflow() -> None:
    program = (
        "import sys; from qcnn.simulators import kernels; print(kernels.missing_reason(), 'tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "False"


@needs_linux
def test_installed_release_runs_kernels() -> None:
    assert tensorflow_internals.missing_ffi() == ""
    library.register()
    # A second registration changes nothing.
    library.register.__wrapped__()


@needs_linux
def test_release_without_ffi_lets_auto_select_other_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorflow_internals, "_FFI", "XLA_FFI_GetNothing")
    reason = f"TensorFlow {tf.__version__} has no XLA_FFI_GetNothing, which the release of the extra run has"
    assert kernels.missing_reason.__wrapped__() == reason
    monkeypatch.setattr(kernels, "missing_reason", kernels.missing_reason.__wrapped__)
    network, limits = read_network(circuits.build("deep", 16), circuits.ring(16)), SimulatorLimits(2**30, 32)
    assert registry.cheapest(registry.estimates(network, limits), network, limits).simulator != "statevector_cpu"
    with pytest.raises(ConfigError, match=rf"cannot run here: {reason}\. Given: statevector_cpu$"):
        registry.check("statevector_cpu", network, limits)
    with pytest.raises(ConfigError, match=rf"^TensorFlow: must have XLA_FFI_GetNothing to run the kernels .*{GIVEN}"):
        library.register.__wrapped__()


@needs_linux
@pytest.mark.parametrize(("major", "minor"), [(1, 0), (0, 0)])
def test_other_version_of_ffi_is_one_line(major: int, minor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    api = FfiVersion(major=major, minor=minor)
    interface = ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: ctypes.addressof(api))
    monkeypatch.setattr(tensorflow_internals, "_load", lambda name: {tensorflow_internals._FFI: interface})
    with pytest.raises(ConfigError, match=rf"XLA_FFI_GetApi \(version {major}\.{minor} instead of 0\.1\) .*{GIVEN}"):
        library.register.__wrapped__()


def test_tensorflow_without_library_has_reason_and_no_tensorflow_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorflow_internals, "_folder", lambda: tmp_path)
    assert tensorflow_internals.missing_ffi().startswith("TensorFlow ")
    monkeypatch.setattr(tensorflow_internals, "_folder", lambda: None)
    assert tensorflow_internals.missing_ffi() == ""


def test_liveness_check_of_installed_release_finds_process() -> None:
    # In a separate process, which cannot leave its cluster.
    program = """
import tensorflow as tf
from qcnn.tensorflow_internals import liveness_check
server = tf.distribute.Server.create_local_server()
tf.config.experimental_connect_to_host(server.target, "ps")
tf.config.list_logical_devices()
print(liveness_check()("/job:ps/replica:0/task:0"))
"""
    environment = {**os.environ, "no_grpc_proxy": "localhost"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True"], done.stderr


def test_release_without_liveness_check_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorflow.python.eager import context

    monkeypatch.delattr(context, "check_alive")
    with pytest.raises(ConfigError, match=rf"^TensorFlow: must have context\.check_alive to monitor .*{GIVEN}"):
        tensorflow_internals.liveness_check()


def test_installed_release_joins_without_interpreter_lock() -> None:
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import context

    tf.constant(0)
    original = pywrap_tfe.TFE_EnableCollectiveOps
    with tensorflow_internals.without_interpreter_lock():
        enable = pywrap_tfe.TFE_EnableCollectiveOps
    assert enable is not original
    assert pywrap_tfe.TFE_EnableCollectiveOps is original
    # TensorFlow's function runs, and rejects what is no ServerDef.
    with pytest.raises(tf.errors.InvalidArgumentError, match="ServerDef"):
        enable(context.context()._handle, b"\xff")


@pytest.mark.parametrize("missing", ["binding", "function"])
def test_release_without_collectives_is_one_line(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorflow.python import pywrap_tfe

    original: Any = pywrap_tfe.TFE_EnableCollectiveOps
    if missing == "binding":
        monkeypatch.delattr(pywrap_tfe, "TFE_EnableCollectiveOps")
    else:
        monkeypatch.setattr(tensorflow_internals, "_load", lambda name: object())
    message = rf"^TensorFlow: must have TFE_EnableCollectiveOps to join .*{GIVEN}"
    with pytest.raises(ConfigError, match=message), tensorflow_internals.without_interpreter_lock():
        pass
    assert getattr(pywrap_tfe, "TFE_EnableCollectiveOps", original) is original
