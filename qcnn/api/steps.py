"""What surrounds the steps of a run in Python: its record, a bar and a log."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qcnn.api.progress import bar
from qcnn.components.local_steps import Around, recorded
from qcnn.errors import ArtifactError
from qcnn.experiment import ExperimentConfig
from qcnn.jobs.local.processes import EventHandler
from qcnn.results.local_run import FILE, Recorder, read_record

_LOG = "log.txt"
_TRAIN = "train"


def has_ended(folder: Path, config: ExperimentConfig) -> bool:
    """Whether the run of this experiment is in a folder and has ended well.

    Raises:
        ArtifactError: the folder holds something else.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    try:
        record = read_record(folder)
    except (OSError, ValueError):
        what = f"must be new or empty, or hold a run of this experiment, with {FILE}"
        raise ArtifactError(f"folder: {what}. Given: {folder}") from None
    if record.words != config.model_dump():
        raise ArtifactError(f"folder: holds a run of another experiment. Given: {folder}")
    return record.state == "succeeded"


@contextlib.contextmanager
def surrounded(config: ExperimentConfig, run: Path, *, progress: bool) -> Iterator[tuple[Around, EventHandler]]:
    """Record the steps that are run in this block; what the processes of a training print goes into the run's log."""
    shown = bar(progress)
    with Recorder(config.model_dump()) as recorder:

        @contextlib.contextmanager
        def around(name: str) -> Iterator[None]:
            with recorded(recorder, name, run), contextlib.ExitStack() as stack:
                if name == _TRAIN:
                    stack.callback(shown.close)
                    log = stack.enter_context((run / _LOG).open("a", encoding="utf-8"))
                    stack.enter_context(contextlib.redirect_stdout(log))
                yield

        def on_event(process: str, event: Mapping[str, Any]) -> None:
            shown.handle({"process": process, **event})

        yield around, on_event
