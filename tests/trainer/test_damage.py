"""Readers of damaged files raise a single-line error or return the original content."""

import dataclasses
import json
import logging
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qcnn import data
from qcnn.artifact_io import save_description
from qcnn.errors import ArtifactError, ConfigError
from qcnn.experiment.parsing import from_mapping
from qcnn.model import checkpoints
from qcnn.model.history import EpochMetrics, Progress, history_columns
from qcnn.model.history_file import HISTORY as HISTORY_FILE
from qcnn.model.history_file import HistoryFile
from qcnn.results.local_run import METADATA
from qcnn.results.model_folder import describe
from qcnn.studies.record import load_trials, read_table, save_trials
from qcnn.studies.trials import FailedTrial, load_failure, save_failure
from qcnn.targets.local.target import read_experiment, read_run
from qcnn.yaml_files import read_file

CONFIG = from_mapping({"qubits": 4, "rounds": 10})
# Long enough that parts of a checkpoint are read in chunks, so that the reader processes damaged data before it checks
# the checksum.
HISTORY = tuple(EpochMetrics(number, 0.5 / number, 0.75, 0.25, 1.0, 0.125) for number in range(1, 61))
CHECKPOINT = checkpoints.Checkpoint(
    config=CONFIG,
    dataset_digest="0" * 64,
    circuit="",
    line=checkpoints.InitializationRun(
        Progress.of(HISTORY),
        weights=(np.linspace(0, 1, 21), np.ones((64, 16))),
        optimizer=(np.int64(7) * np.ones((), np.int64), np.zeros(21)),
        best_weights=(np.zeros(21), np.zeros((64, 16))),
        history=HISTORY,
    ),
    passed=len(HISTORY),
)
DESCRIPTION = {
    "experiment": CONFIG.model_dump(),
    "dataset_digest": "0" * 64,
    "weights_sha256": "1" * 64,
    "circuit": "",
    "training": {"epochs": 5, "train_loss": 0.1},
}
RECORD = {
    "state": "succeeded",
    "started": "2026-11-21T12:00:00Z",
    "ended": "2026-11-21T12:00:09.500Z",
    "steps": [{"name": "train", "state": "succeeded", "seconds": 9.5}],
    "words": CONFIG.model_dump(),
}


def same(one: Any, other: Any) -> bool:
    """Compare dataclasses with arrays in them."""
    if dataclasses.is_dataclass(one):
        return all(same(getattr(one, field.name), getattr(other, field.name)) for field in dataclasses.fields(one))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else bool(one == other)


def a_checkpoint(folder: Path) -> tuple[Path, Callable[[], Any]]:
    checkpoints.save(CHECKPOINT, folder)
    return folder / "epoch-000060.npz", lambda: checkpoints.load_latest(folder)


def samples(folder: Path) -> tuple[Path, Callable[[], Any]]:
    data.save(data.generate(CONFIG), folder / "dataset")
    return folder / "dataset" / "dataset.npz", lambda: data.load(folder / "dataset")


def a_dataset(folder: Path) -> tuple[Path, Callable[[], Any]]:
    data.save(data.generate(CONFIG), folder / "dataset")
    return folder / "dataset" / "dataset.json", lambda: data.load(folder / "dataset")


def a_model(folder: Path) -> tuple[Path, Callable[[], Any]]:
    save_description(DESCRIPTION, folder / "model.json")
    return folder / "model.json", lambda: describe(folder)


def a_history(folder: Path) -> tuple[Path, Callable[[], Any]]:
    columns = history_columns(has_accuracy=True, has_staleness=False)
    stored = HistoryFile(folder / HISTORY_FILE, columns, HISTORY).store()
    line = dataclasses.replace(CHECKPOINT.line, history=stored)
    checkpoints.save(dataclasses.replace(CHECKPOINT, line=line), folder / checkpoints.FOLDER)
    return folder / HISTORY_FILE, lambda: checkpoints.load_history(folder)


def metadata(folder: Path) -> tuple[Path, Callable[[], Any]]:
    path = folder / "generate-data" / "executor_output.json"
    path.parent.mkdir()
    artifact = {"artifacts": [{"metadata": {"experiment": CONFIG.to_json()}}]}
    save_description({"artifacts": {"dataset": artifact}}, path)
    return path, lambda: read_experiment(folder)


def a_study(folder: Path) -> tuple[Path, Callable[[], Any]]:
    save_trials([CONFIG, CONFIG.model_copy(update={"seed": 1})], folder)
    return folder / "study.json", lambda: tuple(load_trials(folder))


def a_failure(folder: Path) -> tuple[Path, Callable[[], Any]]:
    save_failure(FailedTrial(CONFIG, "loss: must be finite. Given: nan"), folder)
    return folder / "failure.json", lambda: load_failure(folder)


def a_table(folder: Path) -> tuple[Path, Callable[[], Any]]:
    path = folder / "results.csv"
    path.write_text("trial,val_loss,chosen\n0,0.25,\n1,0.125,best\n")
    save_description({}, folder / METADATA, [path.name])
    return path, lambda: tuple(read_table(path))


def a_run(folder: Path) -> tuple[Path, Callable[[], Any]]:
    """Run whose record and metrics are damaged; reading must succeed."""
    path = folder / "damaged"
    (folder / "evaluate").mkdir()
    path.write_text(json.dumps(RECORD) + "\0" + json.dumps({"mse": 0.25, "accuracy": 1.0}))

    def read() -> Any:
        parts = [*path.read_bytes().split(b"\0", 1), b""]
        for name, content in zip(("run.json", "evaluate/metrics"), parts, strict=False):
            (folder / name).write_bytes(content)
        return read_run(folder)

    return path, read


def an_experiment(folder: Path) -> tuple[Path, Callable[[], Any]]:
    path = folder / "experiment.yaml"
    path.write_text(
        "qubits: 10\nmodel: deep  # mine\nlearning_rate: 1e-2\noptions: &o\n  train_fraction: 0.8\ngrid: *o\n"
    )
    return path, lambda: read_file(path)


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Return content with a bit or byte changed, a section zeroed, removed or swapped, or the end removed."""
    changed = bytearray(content)
    start, length = draw.randrange(len(content)), draw.choice([1, 2, 8, 64])
    # Most bytes of an archive are numbers, so half of the damage is in or near zip headers.
    if (headers := [match.start() for match in re.finditer(b"PK", content)]) and draw.random() < 0.5:
        start = min(len(content) - 1, draw.choice(headers) + draw.randrange(200))
    match draw.randrange(6):
        case 0:
            changed[start] ^= 1 << draw.randrange(8)
        case 1:
            changed[start] = draw.randrange(256)
        case 2:
            changed[start : start + length] = bytes(len(changed[start : start + length]))
        case 3:
            del changed[start : start + length]
        case 4:
            other = draw.randrange(len(content))
            section = changed[other : other + length]
            changed[other : other + length], changed[start : start + length] = changed[start : start + length], section
        case 5:
            del changed[start:]
    return bytes(changed)


# Number of cases for each reader, 10,000 in total, and whether the content must equal what was written.
READERS: list[tuple[Callable[[Path], tuple[Path, Callable[[], Any]]], int, bool]] = [
    (a_checkpoint, 2200, True),
    (samples, 2200, True),
    (a_dataset, 1000, True),
    (a_model, 1600, True),
    (a_history, 1200, True),
    (metadata, 500, True),
    (a_study, 100, True),
    (a_failure, 100, True),
    (a_table, 100, True),
    (a_run, 600, False),
    (an_experiment, 400, False),
]


@pytest.mark.parametrize(("make", "cases", "exact"), READERS, ids=[make.__name__ for make, _, _ in READERS])
def test_damaged_file_raises_one_line_or_is_read_unchanged(
    make: Callable[[Path], tuple[Path, Callable[[], Any]]], cases: int, exact: bool, tmp_path: Path
) -> None:
    path, read = make(tmp_path)
    content, original = path.read_bytes(), read()
    draw = random.Random(make.__name__)
    logging.getLogger("qcnn").disabled = True
    errors = 0
    try:
        for _ in range(cases):
            # A new file, because some file systems flush immediately when existing content is replaced.
            path.unlink()
            path.write_bytes(damaged(content, draw))
            try:
                result = read()
            except (ArtifactError, ConfigError) as error:
                errors += 1
                message = str(error)
            else:
                message = ""
                assert not exact or same(result, original)
            assert message.isprintable()
            assert len(message) < 700
    finally:
        logging.getLogger("qcnn").disabled = False
    assert errors > cases / 2 or not exact


def test_checkpoint_with_zeroed_header_raises(tmp_path: Path) -> None:
    """NumPy raises an error of Python's tokenizer."""
    path, read = a_checkpoint(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:118] + bytes(64) + content[182:])
    with pytest.raises(ArtifactError, match=r"^checkpoint: epoch-000060.npz is damaged \(.*Given: "):
        read()


def test_damage_cases_are_10000() -> None:
    assert sum(cases for _, cases, _ in READERS) == 10_000
