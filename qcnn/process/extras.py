"""Extras of the package and their libraries, and the error for a missing library.

This module imports none of the libraries.
"""

import contextlib
import dataclasses
import importlib.util
from collections.abc import Iterator

from qcnn.errors import QcnnError
from qcnn.process import operating_system
from qcnn.process.installation import install_command


class MissingLibraryError(QcnnError):
    """Error of a library that is not installed. The message names the command that needs it and the extra."""


@dataclasses.dataclass(frozen=True)
class _Library:
    """Title of a library and the extras that install it, of which messages name the first by default.

    `platform` is the only platform for which the library is published, as `operating_system.name` returns it, or empty.
    """

    title: str
    extras: tuple[str, ...]
    platform: str = ""


_SDK = _Library("Kubeflow's SDK", ("kubeflow", "vertex", "run"))
_GOOGLE = _Library("Google's libraries", ("kubeflow", "vertex", "run"))
_VERTEX = _Library("Vertex AI's client", ("vertex",))
_AMAZON = _Library("Amazon's client", ("run",))
_CIRQ = _Library("cirq", ("run",))
_TENSORBOARD = _Library("TensorBoard", ("run",))
# By import name, in the order in which missing libraries are reported.
LIBRARIES = {
    "kfp": _SDK,
    "kfp.kubernetes": _SDK,
    "kfp_server_api": _SDK,
    "tensorflow": _Library("TensorFlow", ("run",)),
    "tensorflow_quantum": _Library("TensorFlow Quantum", ("tfq",), "Linux x86_64"),
    "tf_keras": _Library("Keras", ("run",)),
    "tensorboard": _TENSORBOARD,
    "tensorboard_plugin_profile": _TENSORBOARD,
    "cirq": _CIRQ,
    "sympy": _CIRQ,
    "qiskit": _Library("Qiskit", ("run",)),
    "qiskit_qasm3_import": _Library("Qiskit's reader of OpenQASM 3", ("run",)),
    "scipy": _Library("SciPy", ("run",)),
    "matplotlib": _Library("matplotlib", ("run",)),
    "sklearn": _Library("scikit-learn", ("run",)),
    "h5py": _Library("h5py", ("serve", "run")),
    "pyarrow": _Library("pyarrow", ("serve", "vertex", "run")),
    "mlflow": _Library("MLflow's client", ("mlflow",)),
    "mr_openapi": _Library("Kubeflow's model registry client", ("kubeflow-registry",)),
    "prometheus_client": _Library("Prometheus' client", ("serve", "run")),
    "uvicorn": _Library("uvicorn", ("serve", "run")),
    "httptools": _Library("httptools", ("serve", "run")),
    "uvloop": _Library("uvloop", ("serve", "run")),
    "google.protobuf": _Library("protobuf", ("kubeflow", "vertex", "serve", "run")),
    "grpc": _Library("gRPC", ("serve", "run")),
    "google.api_core": _GOOGLE,
    "google.cloud": _GOOGLE,
    "google.cloud.aiplatform": _VERTEX,
    "google.cloud.aiplatform_v1": _VERTEX,
    "google.cloud.logging_v2": _Library("Cloud Logging's client", ("vertex",)),
    "google.cloud.storage": _Library("Cloud Storage's client", ("run", "vertex", "kubeflow")),
    "boto3": _AMAZON,
    "botocore": _AMAZON,
}
# Libraries of the extra `run` that only `qcnn serve` needs. The extra `tfq` does not install them.
_OF_SERVER = frozenset({"uvicorn", "httptools", "uvloop"})
# Namespace package of Google's libraries. Python reports it as missing if none of them is installed.
_SHARED = {"google": _Library("Google's libraries", ("run", "vertex", "kubeflow"))}


def missing(error: ModuleNotFoundError, caller: str, extra: str = "") -> str | None:
    r"""Return the message for a library that cannot be imported, or None if no extra installs it.

    Args:
        error: Error of the import.
        caller: Command or function that needs the library.
        extra: Extra to name if it installs the library. By default, the first one that does.

    >>> missing(ModuleNotFoundError(name="kfp.dsl"), "qcnn run", "run")
    'qcnn run needs Kubeflow\'s SDK: pip install "qcnn-pipelines[run]". Given: kfp is not installed'
    """
    name, known = error.name or "", {**_SHARED, **LIBRARIES}
    while name and name not in known:
        name = name.rpartition(".")[0]
    if not name:
        return None
    library = known[name]
    named = extra if extra in library.extras else library.extras[0]
    return f"{caller} needs {library.title}: {install_command(named)}. Given: {name} is not installed"


@contextlib.contextmanager
def translate_errors(caller: str, extra: str) -> Iterator[None]:
    """Context manager and decorator that translates the error of a missing library of an extra.

    Raises:
        MissingLibraryError: If the library is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if message := missing(error, caller, extra):
            raise MissingLibraryError(message) from None
        raise


def platform_clause(name: str) -> str:
    """Return a clause about the only platform of a library, or "" if the library supports this platform."""
    platform = LIBRARIES[name].platform
    if platform in ("", operating_system.name()):
        return ""
    return f"{name}, which is published for {platform.replace(' ', ' on ')} only".replace("_", "-")


def check(extra: str) -> None:
    """Check that the libraries of an extra are installed, before starting processes that need them.

    Those that only a server needs are not checked.

    Raises:
        ModuleNotFoundError: If a library is missing.
    """
    for name, library in LIBRARIES.items():
        # Code that needs a library without a release for this platform raises its own error.
        if extra in library.extras and name not in _OF_SERVER and not platform_clause(name):
            check_library(name)


def check_library(name: str) -> None:
    """Check that a library is installed, without importing it.

    Raises:
        ModuleNotFoundError: If it is missing.
    """
    if importlib.util.find_spec(name) is None:
        raise ModuleNotFoundError(name=name)
