"""Whatever is damaged in a file, its reader refuses it in one line, or reads what was there."""

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
from qcnn.experiment_io import from_mapping, read_file
from qcnn.model import checkpoints
from qcnn.model.history import EpochMetrics, load_history, save_history
from qcnn.results.model_folder import describe
from qcnn.targets.local.target import read_experiment, read_run

CONFIG = from_mapping({"qubits": 4, "rounds": 10})
# So long that a checkpoint's parts are read in pieces: the reader comes to a damaged one before it knows that.
HISTORY = tuple(EpochMetrics(number, 0.5 / number, 0.75, 0.25, 1.0, 0.125) for number in range(1, 61))
CHECKPOINT = checkpoints.Checkpoint(
    config=CONFIG,
    dataset_digest="0" * 64,
    circuit="",
    line=checkpoints.InitializationRun(
        history=HISTORY,
        weights=(np.linspace(0, 1, 21), np.ones((64, 16))),
        optimizer=(np.int64(7) * np.ones((), np.int64), np.zeros(21)),
        best_weights=(np.zeros(21), np.zeros((64, 16))),
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
    save_history(HISTORY, folder / "history.csv")
    return folder / "history.csv", lambda: load_history(folder / "history.csv")


def metadata(folder: Path) -> tuple[Path, Callable[[], Any]]:
    path = folder / "generate-data" / "executor_output.json"
    path.parent.mkdir()
    artifact = {"artifacts": [{"metadata": {"experiment": CONFIG.to_json()}}]}
    path.write_text(json.dumps({"artifacts": {"dataset": artifact}}))
    return path, lambda: read_experiment(folder)


def a_run(folder: Path) -> tuple[Path, Callable[[], Any]]:
    """Has a row whatever is damaged in it; here its record and its metrics by turns."""
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
    """Return content with a bit or a byte changed, a stretch zeroed or gone, two swapped, or its end cut off."""
    changed = bytearray(content)
    place, length = draw.randrange(len(content)), draw.choice([1, 2, 8, 64])
    # Of an archive most is numbers: half of the damage goes to where it says what they are.
    if (parts := [found.start() for found in re.finditer(b"PK", content)]) and draw.random() < 0.5:
        place = min(len(content) - 1, draw.choice(parts) + draw.randrange(200))
    match draw.randrange(6):
        case 0:
            changed[place] ^= 1 << draw.randrange(8)
        case 1:
            changed[place] = draw.randrange(256)
        case 2:
            changed[place : place + length] = bytes(len(changed[place : place + length]))
        case 3:
            del changed[place : place + length]
        case 4:
            other = draw.randrange(len(content))
            there = changed[other : other + length]
            changed[other : other + length], changed[place : place + length] = changed[place : place + length], there
        case 5:
            del changed[place:]
    return bytes(changed)


# How many cases each reader gets, 10,000 in all; whether what it reads must be all that was written.
READERS: list[tuple[Callable[[Path], tuple[Path, Callable[[], Any]]], int, bool]] = [
    (a_checkpoint, 2200, True),
    (samples, 2200, True),
    (a_dataset, 1000, True),
    (a_model, 1600, True),
    (a_history, 1200, False),
    (metadata, 800, False),
    (a_run, 600, False),
    (an_experiment, 400, False),
]


@pytest.mark.parametrize(("make", "cases", "exact"), READERS, ids=[make.__name__ for make, _, _ in READERS])
def test_a_damaged_file_is_refused_or_read_as_it_was(
    make: Callable[[Path], tuple[Path, Callable[[], Any]]], cases: int, exact: bool, tmp_path: Path
) -> None:
    path, read = make(tmp_path)
    content, whole = path.read_bytes(), read()
    draw = random.Random(make.__name__)
    logging.getLogger("qcnn").disabled = True
    refused = 0
    try:
        for _ in range(cases):
            # A new file: file systems may write at once what takes the place of an older content.
            path.unlink()
            path.write_bytes(damaged(content, draw))
            try:
                found = read()
            except (ArtifactError, ConfigError) as error:
                refused += 1
                message = str(error)
            else:
                message = ""
                assert not exact or same(found, whole)
            assert message.isprintable()
            assert len(message) < 700
    finally:
        logging.getLogger("qcnn").disabled = False
    assert refused > cases / 2 or not exact


def test_a_checkpoint_with_64_zeros_in_a_header_is_refused(tmp_path: Path) -> None:
    """NumPy leaves it to the tokenizer of Python to complain."""
    path, read = a_checkpoint(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:118] + bytes(64) + content[182:])
    with pytest.raises(ArtifactError, match=r"^checkpoint: epoch-000060.npz is damaged \(.*Given: "):
        read()


def test_the_readers_get_10000_cases() -> None:
    assert sum(cases for _, cases, _ in READERS) == 10_000
