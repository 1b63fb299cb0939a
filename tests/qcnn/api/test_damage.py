"""Every file of a run with a flipped bit, truncated or empty: a single-line error, or the original content."""

import logging
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import qcnn
from qcnn import data
from qcnn.api.training import has_succeeded
from qcnn.model import checkpoints
from qcnn.results.local_run import of_run, read_metrics
from qcnn.results.weights import load_trained
from qcnn.targets.local.target import read_experiment, read_metadata
from tests.trainer.test_damage import same

Read = Callable[[Path], Any]

_SAMPLES: dict[str, Any] = {"qubit": [0, 1, 2, 3], "angle": [0.1, -1.0, 2.0, -3.0]}
# Random bits that are flipped in each file.
_BITS = 40


def _predictions(run: Path) -> Any:
    return qcnn.load(run).predict(_SAMPLES)


def _checkpoints(run: Path) -> Any:
    """Read each checkpoint alone, because an intact one replaces a damaged one."""
    found = []
    for path in sorted((of_run(run).training / checkpoints.FOLDER).iterdir()):
        folder = run / "single"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copy(path, folder)
        found.append(checkpoints.load_latest(folder))
    return tuple(found)


def _state(run: Path) -> Any:
    return has_succeeded(run, read_experiment(run))


# Readers of the files of a run.
READERS: dict[str, tuple[Read, ...]] = {
    "run.json": (_state,),
    "generate-data/executor_output.json": (read_experiment,),
    "generate-data/dataset/*": (lambda run: data.load(of_run(run).dataset),),
    "train/executor_output.json": (lambda run: read_metadata(run, "train", "training"),),
    "train/training/checkpoints/*": (_checkpoints,),
    "train/training/history.csv": (lambda run: checkpoints.load_history(of_run(run).training),),
    "export-weights/executor_output.json": (lambda run: read_metadata(run, "export-weights", "model"),),
    "export-weights/model/model.json": (_predictions,),
    "export-weights/model/predictor.json": (_predictions,),
    "export-weights/model/qcnn.weights.h5": (_predictions, lambda run: load_trained(of_run(run).exported).values),
    "evaluate/executor_output.json": (
        lambda run: read_metrics(of_run(run)),
        lambda run: read_metadata(run, "evaluate", "metrics"),
    ),
    "evaluate/metrics": (lambda run: read_metrics(of_run(run)),),
}
# Files that are written for users and other programs.
NOT_READ = (
    *("log.txt", "train/logs/**/*", "tensorboard/*"),
    "export-weights/model/saved_model/**/*",
    *("evaluate/confusion", "evaluate/predictions/*", "evaluate/report.html", "evaluate/summary.md"),
)


def _files(run: Path, pattern: str) -> set[Path]:
    return {path for path in run.glob(pattern) if path.is_file()}


def _damaged(content: bytes, draw: random.Random) -> Iterator[bytes]:
    """Yield the content with one flipped bit, with its end removed, and empty."""
    for _ in range(_BITS):
        changed = bytearray(content)
        changed[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        yield bytes(changed)
    yield content[: draw.randrange(1, len(content))]
    yield content[:-1]
    yield b""


def test_all_files_of_run_are_damaged_or_not_read(training: qcnn.Training) -> None:
    known = [path for pattern in (*READERS, *NOT_READ) for path in _files(training.folder, pattern)]
    assert sorted(known) == sorted(_files(training.folder, "**/*"))
    assert all(_files(training.folder, pattern) for pattern in READERS)


@pytest.mark.parametrize(
    ("pattern", "read"),
    [(pattern, read) for pattern, readers in READERS.items() for read in readers],
    ids=[f"{pattern} {number}" for pattern, readers in READERS.items() for number in range(len(readers))],
)
def test_damaged_file_of_run_raises_or_is_read_unchanged(
    training: qcnn.Training, tmp_path: Path, pattern: str, read: Read, capfd: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(training.folder, tmp_path / "run")
    expected, draw = read(run), random.Random(pattern)
    messages, outputs = list[str](), set[str]()
    capfd.readouterr()
    logging.getLogger("qcnn").disabled = True
    try:
        for path in sorted(_files(run, pattern)):
            content = path.read_bytes()
            for damaged in _damaged(content, draw):
                path.unlink()
                path.write_bytes(damaged)
                try:
                    found = read(run)
                except qcnn.ArtifactError as error:
                    messages.append(str(error))
                    outputs |= {*capfd.readouterr()}
                else:
                    # An intact SavedModel causes log lines of TensorFlow.
                    capfd.readouterr()
                    assert same(found, expected)
            path.write_bytes(content)
    finally:
        logging.getLogger("qcnn").disabled = False
    assert same(read(run), expected)
    assert messages
    assert all(map(str.isprintable, messages))
    assert outputs == {""}
