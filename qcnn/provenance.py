"""Provenance of a result in the metadata of artifacts, sufficient to reproduce it."""

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

from qcnn import plugins
from qcnn.experiment.config import ExperimentConfig
from qcnn.process import installation
from qcnn.simulators.registry import SIMULATORS
from qcnn.storage.store import SCHEMES

# Image of the process.
IMAGE_VARIABLE = "QCNN_IMAGE"

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("cirq-core", "kfp", "numpy", "tensorflow", "tensorflow-quantum", "tf-keras")


def provenance(config: ExperimentConfig, simulator_used: str = "") -> dict[str, str]:
    """Return the commit, lock file hash, image, versions, plug-ins and experiment as a flat mapping of strings.

    An image has no git: its build sets QCNN_COMMIT and QCNN_DIRTY, the compiled pipeline sets QCNN_IMAGE.

    Args:
        config: Experiment. Its `simulator` may be auto.
        simulator_used: Simulator that ran, or empty if nothing was simulated.
    """
    commit, dirty = _git()
    lock = _ROOT / "uv.lock"
    return {
        "commit": commit,
        "dirty": dirty,
        "lock_sha256": hashlib.sha256(lock.read_bytes()).hexdigest() if lock.is_file() else "unknown",
        "image": os.environ.get(IMAGE_VARIABLE, "none"),
        "seed": str(config.seed),
        "simulator": config.simulator,
        **({"simulator_used": simulator_used} if simulator_used else {}),
        "python": platform.python_version(),
        "qcnn": installation.version(),
        **{package: _version(package) for package in _PACKAGES},
        **_plugins(config, simulator_used),
        "experiment": config.to_json(),
    }


def _git() -> tuple[str, str]:
    if not (_ROOT / ".git").exists():
        return os.environ.get("QCNN_COMMIT", "unknown"), os.environ.get("QCNN_DIRTY", "unknown")
    try:
        commit, status = (
            # Ctrl-C in a terminal would end it in a thread that does not know of the interrupt.
            subprocess.run(
                ["git", *command], cwd=_ROOT, capture_output=True, text=True, check=True, start_new_session=True
            ).stdout.strip()
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown", "unknown"
    return commit, "yes" if status else "no"


def _plugins(config: ExperimentConfig, simulator_used: str) -> dict[str, str]:
    """Return the packages and versions of the plug-ins that an experiment uses."""
    fields = config.model_dump()
    texts = [str(value) for value in (*fields.pop("options").values(), *fields.values())]
    named = {(plugins.SIMULATORS, name) for name in (config.simulator, simulator_used)}
    named |= {(plugins.STORES, text.partition("://")[0]) for text in texts if "://" in text}
    own = {"", "auto", *SIMULATORS, *SCHEMES}
    used = {each for each in named if each[1] not in own and each[1] in plugins.installed(each[0])}
    return {"plugins": ", ".join(sorted(" ".join(plugins.distribution(*each)) for each in used))} if used else {}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"
