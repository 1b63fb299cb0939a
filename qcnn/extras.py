"""Which extra of this package brings which library, and what is said where one is missing. Imports none of them."""

import contextlib
import dataclasses
import importlib.util
from collections.abc import Iterator

from qcnn import operating_system
from qcnn.errors import QcnnError


class MissingLibraryError(QcnnError):
    """A library is not installed; the message is one line that says for what it is needed, and how to get it."""


@dataclasses.dataclass(frozen=True)
class _Library:
    """What people call a library, and the extras that bring it, the first for those who ask for nothing else.

    `platform` is the one for which alone it is published, as `operating_system.name` has it; empty for all.
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
# By the names under which they are imported; those come first that are named first where all are missing.
LIBRARIES = {
    "kfp": _SDK,
    "kfp.kubernetes": _SDK,
    "kfp_server_api": _SDK,
    "tensorflow": _Library("TensorFlow", ("serve", "run")),
    "tensorflow_quantum": _Library("TensorFlow Quantum", ("run",), "Linux x86_64"),
    "tf_keras": _Library("Keras", ("run",)),
    "tensorboard": _TENSORBOARD,
    "tensorboard_plugin_profile": _TENSORBOARD,
    "cirq": _CIRQ,
    "sympy": _CIRQ,
    "qiskit": _Library("Qiskit", ("run",)),
    "qiskit_qasm3_import": _Library("Qiskit's reader of OpenQASM 3", ("run",)),
    "scipy": _Library("SciPy", ("run",)),
    "matplotlib": _Library("matplotlib", ("run",)),
    "h5py": _Library("h5py", ("run",)),
    "pyarrow": _Library("pyarrow", ("serve", "vertex", "run")),
    "prometheus_client": _Library("Prometheus' client", ("run",)),
    "google.protobuf": _GOOGLE,
    "google.api_core": _GOOGLE,
    "google.cloud": _GOOGLE,
    "google.cloud.aiplatform": _VERTEX,
    "google.cloud.aiplatform_v1": _VERTEX,
    "google.cloud.logging_v2": _Library("Cloud Logging's client", ("vertex",)),
    "google.cloud.storage": _Library("Cloud Storage's client", ("run", "vertex", "kubeflow")),
    "boto3": _AMAZON,
    "botocore": _AMAZON,
}
# The folder that all of Google's libraries share; it is what Python misses where none of them is installed.
_SHARED = {"google": _Library("Google's libraries", ("run", "vertex", "kubeflow"))}


def missing(error: ModuleNotFoundError, asker: str, extra: str = "") -> str | None:
    r"""Return what to say of a library that `asker` could not import, None where it belongs to no extra.

    >>> missing(ModuleNotFoundError(name="kfp.dsl"), "qcnn run", "run")
    'qcnn run needs Kubeflow\'s SDK: pip install "qcnn[run]". Given: kfp is not installed'
    """
    name, known = error.name or "", {**_SHARED, **LIBRARIES}
    while name and name not in known:
        name = name.rpartition(".")[0]
    if not name:
        return None
    library = known[name]
    wanted = extra if extra in library.extras else library.extras[0]
    return f'{asker} needs {library.title}: pip install "qcnn[{wanted}]". Given: {name} is not installed'


@contextlib.contextmanager
def translate_errors(asker: str, extra: str) -> Iterator[None]:
    """Say in one line which extra brings a library that this block, or the function it decorates, could not import.

    Raises:
        MissingLibraryError: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if message := missing(error, asker, extra):
            raise MissingLibraryError(message) from None
        raise


def unpublished(name: str) -> str:
    """Say for what machines alone a library is published, empty if this is one of them."""
    platform = LIBRARIES[name].platform
    if platform in ("", operating_system.name()):
        return ""
    return f"{name}, which is published for {platform.replace(' ', ' on ')} alone".replace("_", "-")


def check(extra: str) -> None:
    """Look whether all libraries of an extra are there, before processes are started that need them.

    Raises:
        ModuleNotFoundError: the first that is not.
    """
    for name, library in LIBRARIES.items():
        # What needs a library that is not published for this machine says so.
        if extra in library.extras and not unpublished(name):
            check_library(name)


def check_library(name: str) -> None:
    """Look whether a library is there, without importing it.

    Raises:
        ModuleNotFoundError: it is not.
    """
    if importlib.util.find_spec(name) is None:
        raise ModuleNotFoundError(name=name)
