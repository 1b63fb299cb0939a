"""What runs left on disk, read without TensorFlow and in whatever state they are."""

import datetime
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from qcnn.artifact_io import text_of
from qcnn.atomic_files import readable
from qcnn.errors import ArtifactError, ConfigError, one_line
from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_saved
from qcnn.model.history import HISTORY, Epoch, load_history
from qcnn.results.local_run import FILE, RunRecord, read_record
from qcnn.targets.base import ComparedRun

# Of releases that kept no record: what makes a folder a run's.
_OLD_MARKS = ("log.txt", "generate-data")
_BEGINNING = datetime.datetime.min.replace(tzinfo=datetime.timezone.utc)


def find_runs(names: Sequence[str], root: Path) -> list[Path]:
    """Return the folders of the runs named, by their path or their name under `root`; of all under it, newest last.

    Raises:
        ArtifactError: a name is no folder of a run.
    """
    if not names:
        folders = [folder for folder in root.iterdir() if _is_run(folder)] if root.is_dir() else []
        return sorted(folders, key=lambda folder: (_started(folder), folder.name))
    found = [folder if _is_run(folder := Path(name)) else root / name for name in names]
    for name, folder in zip(names, found, strict=True):
        if not _is_run(folder):
            marks = ", ".join((FILE, *_OLD_MARKS))
            raise ArtifactError(f"run: must be a run's folder, with one of {marks} in it. Given: {name}")
    return found


def read_run(folder: Path) -> ComparedRun:
    """Read a run; a file that is not there yet leaves blanks, one that cannot be read makes it damaged.

    The state of a run of a release that kept no record is not known.
    """
    damaged = False

    def part(read: Callable[[Path], Any], blank: Any) -> Any:
        nonlocal damaged
        try:
            return read(folder)
        except FileNotFoundError:
            pass
        except Exception:  # Whatever a damaged file has its reader raise.
            damaged = True
        return blank

    record: RunRecord | None = part(read_record, None)
    parameters = _flat(record.words) if record else part(_parameters, {})
    metrics, history = part(_metrics, {}), part(_history, ())
    state = "damaged" if damaged else record.state if record else "unknown"
    return ComparedRun(folder.name, state, parameters, metrics, history, record.seconds if record else None)


def _is_run(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in (FILE, *_OLD_MARKS))


def _started(folder: Path) -> datetime.datetime:
    """Return when a run began; those of which that cannot be read come first, by their names."""
    try:
        return read_record(folder).started
    except (OSError, ValueError):
        return _BEGINNING


def _parameters(folder: Path) -> dict[str, Any]:
    output = json.loads(text_of(folder / "generate-data" / "executor_output.json"))
    return _flat(json.loads(output["parameterValues"]["experiment"]))


def _flat(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return an experiment's words with its options among them."""
    options = words.get("options", {})
    return {name: value for name, value in words.items() if name != "options"} | dict(options)


def _metrics(folder: Path) -> dict[str, float]:
    metrics = json.loads(text_of(folder / "evaluate" / "metrics"))
    return {name: float(value) for name, value in dict(metrics).items()}


def _history(folder: Path) -> tuple[Epoch, ...]:
    path = folder / "train" / "training" / HISTORY
    return load_history(path) if path.exists() else ()


def read_metadata(run: Path, step: str, artifact: str) -> dict[str, Any]:
    """Return the metadata of an artifact, as Kubeflow's executor wrote it.

    Raises:
        ArtifactError: the run has no such artifact.
    """
    path = run / step / "executor_output.json"
    try:
        with readable("run", path):
            metadata = json.loads(text_of(path))["artifacts"][artifact]["artifacts"][0]["metadata"]
            return dict(metadata)
    except ArtifactError:
        raise ArtifactError(f"run: has no finished step {step} with artifact {artifact}. Given: {run}") from None


def read_experiment(run: Path, step: str = "generate-data", artifact: str = "dataset") -> ExperimentConfig:
    """Return the experiment in an artifact's metadata; by default of a run whose first step finished.

    Raises:
        ArtifactError: the folder is not such a run.
    """
    metadata = read_metadata(run, step, artifact)
    try:
        return from_saved(json.loads(str(metadata.get("experiment"))))
    except (ConfigError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"run: its experiment cannot be read ({one_line(error)}). Given: {run}") from None
