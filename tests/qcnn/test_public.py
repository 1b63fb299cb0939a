"""Public names of qcnn, and the modules that importing it loads."""

import subprocess
import sys
import types
from pathlib import Path

import qcnn

ROOT = Path(__file__).parents[2]

PUBLIC = """
Ansatz ArtifactError ConfigError Dataset DatasetTable EpochMetrics Evaluation Experiment Finding Job JobStatus
MissingLibraryError Model Plan QcnnError QuantumLayer RetryableError Samples Study Training TrainingError
TrainingResult __version__ compare dataset doctor evaluate expectations generate get_job list_jobs load plan requests
runs study submit train
"""
HEAVY = ("tensorflow", "tf_keras", "cirq", "kfp", "kubernetes", "matplotlib", "pandas", "IPython")


def test_public_names() -> None:
    assert qcnn.__all__ == PUBLIC.split()
    assert {name for name in dir(qcnn) if _is_public(name, getattr(qcnn, name))} == set(qcnn.__all__) - {"__version__"}
    assert all(getattr(qcnn, name).__doc__ for name in qcnn.__all__)


def test_package_has_type_marker() -> None:
    """Type checkers ignore the types of packages without py.typed."""
    packages = {getattr(qcnn, name).__module__.split(".")[0] for name in qcnn.__all__ if name != "__version__"}
    assert packages == {"qcnn"}
    assert (ROOT / "qcnn" / "py.typed").is_file()


def _is_public(name: str, value: object) -> bool:
    return not (name.startswith("_") or isinstance(value, types.ModuleType) or name == "TYPE_CHECKING")


def test_import_loads_no_heavy_libraries() -> None:
    program = f"import sys, qcnn; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
