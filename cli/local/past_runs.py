"""What runs left on disk, read without TensorFlow and in whatever state they are."""

import dataclasses
import datetime
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trainer.errors import ArtifactError
from trainer.training.history import Epoch, load_history

_STARTED = re.compile(r"\d{4}(?:-\d\d){5}-\d{6}$")
_STAMP = re.compile(r"^(\d\d):(\d\d):(\d\d\.\d+) - [A-Z]+ - ", re.MULTILINE)
_FAILED = re.compile(rf"{_STAMP.pattern}Task '.+' finished with status FAILURE$", re.MULTILINE)
_FINISHED = re.compile(rf"{_STAMP.pattern}Pipeline '.+' finished with status SUCCESS$", re.MULTILINE)
_DAY = 86400
_MINUTE = 60


@dataclasses.dataclass(frozen=True)
class Run:
    """One run: `state` is finished, failed, unfinished or damaged; what cannot be read is empty.

    `parameters` are the experiment's words, options among them; `duration` is in seconds, None until the run has ended.
    """

    name: str
    state: str
    parameters: dict[str, Any]
    metrics: dict[str, float]
    history: tuple[Epoch, ...]
    duration: float | None


def find_runs(names: Sequence[str], root: Path) -> list[Path]:
    """Return the folders of the runs named, by their path or their name under `root`; of all under it, newest last.

    Raises:
        ArtifactError: a name is no folder of a run.
    """
    if not names:
        folders = [folder for folder in root.iterdir() if _is_run(folder)] if root.is_dir() else []
        return sorted(folders, key=lambda folder: (_start(folder.name) or datetime.datetime.min, folder.name))
    found = [folder if _is_run(folder := Path(name)) else root / name for name in names]
    for name, folder in zip(names, found, strict=True):
        if not _is_run(folder):
            raise ArtifactError(f"run: must be a run's folder, with log.txt or generate-data in it. Given: {name}")
    return found


def read_run(folder: Path) -> Run:
    """Read a run; a file that is not there yet leaves blanks, one that cannot be read makes it damaged."""
    readers: dict[str, tuple[Callable[[Path], Any], Any]] = {
        "parameters": (_parameters, {}),
        "metrics": (_metrics, {}),
        "history": (_history, ()),
        "log": (_log, ""),
    }
    damaged = False
    parts: dict[str, Any] = {}
    for name, (read, blank) in readers.items():
        try:
            parts[name] = read(folder)
        except FileNotFoundError:
            parts[name] = blank
        except Exception:  # Whatever a damaged file has its reader raise.
            parts[name], damaged = blank, True
    log = parts.pop("log")
    failed, finished = _FAILED.search(log), _FINISHED.search(log) or parts["metrics"]
    state = "damaged" if damaged else "failed" if failed else "finished" if finished else "unfinished"
    return Run(folder.name, state, duration=_duration(folder, log), **parts)


def _is_run(folder: Path) -> bool:
    return (folder / "log.txt").is_file() or (folder / "generate-data").is_dir()


def _start(name: str) -> datetime.datetime | None:
    """Return the local time in a folder's name, as Kubeflow's local runner writes it."""
    found = _STARTED.search(name)
    try:
        return datetime.datetime.strptime(found[0], "%Y-%m-%d-%H-%M-%S-%f") if found else None
    except ValueError:
        return None


def _parameters(folder: Path) -> dict[str, Any]:
    output = json.loads((folder / "generate-data" / "executor_output.json").read_text(encoding="utf-8"))
    experiment = dict(json.loads(output["parameterValues"]["experiment"]))
    return experiment | dict(experiment.pop("options", {}))


def _metrics(folder: Path) -> dict[str, float]:
    metrics = json.loads((folder / "evaluate" / "metrics").read_text(encoding="utf-8"))
    return {name: float(value) for name, value in dict(metrics).items()}


def _history(folder: Path) -> tuple[Epoch, ...]:
    path = folder / "train" / "training" / "history.csv"
    return load_history(path) if path.exists() else ()


def _log(folder: Path) -> str:
    return (folder / "log.txt").read_text(encoding="utf-8")


def _duration(folder: Path, log: str) -> float | None:
    """Return the seconds between the first and the last time that the lines of an ended run's log carry.

    Those times survive a copy of the folder, but have no date. The days come from the log's own file time less the
    time in the folder's name, where the two agree with the lines on the time of day; a copy's file time will not.
    """
    if not (_FAILED.search(log) or _FINISHED.search(log)):
        return None
    stamps = _STAMP.findall(log)
    first, last = ((int(h) * 60 + int(m)) * 60 + float(s) for h, m, s in (stamps[0], stamps[-1]))
    seconds = round((last - first) % _DAY, 3)
    if start := _start(folder.name):
        end = datetime.datetime.fromtimestamp((folder / "log.txt").stat().st_mtime)
        days, rest = divmod((end - start).total_seconds() - seconds + _MINUTE, _DAY)
        if days > 0 and rest < 2 * _MINUTE:
            return seconds + days * _DAY
    return seconds
