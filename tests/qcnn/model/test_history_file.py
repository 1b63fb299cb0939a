"""History files: appending, resuming and damage."""

import dataclasses
from pathlib import Path

import pytest

from qcnn.errors import ArtifactError
from qcnn.model.history import EpochMetrics, from_csv, history_columns
from qcnn.model.history_file import HISTORY, HistoryFile, StoredHistory, is_history_file, trial_file

COLUMNS = history_columns(has_accuracy=True, has_staleness=False)
EPOCHS = tuple(EpochMetrics(number, 1 / number, 0.5, 0.25, 1.0, 0.125) for number in range(1, 6))


def _write(path: Path, *parts: tuple[EpochMetrics, ...]) -> StoredHistory:
    """Write a history file in parts, and return the location of all epochs."""
    history = HistoryFile(path, COLUMNS)
    stored = history.store()
    for part in parts:
        for epoch in part:
            history.add(epoch)
        stored = history.store()
    return stored


def test_history_file_in_parts_equals_file_at_once(tmp_path: Path) -> None:
    at_once = _write(tmp_path / "one.csv", EPOCHS)
    in_parts = _write(tmp_path / "many.csv", EPOCHS[:1], (), EPOCHS[1:3], EPOCHS[3:])
    assert at_once.epochs() == in_parts.epochs() == EPOCHS
    assert dataclasses.replace(in_parts, path=at_once.path) == at_once
    assert (tmp_path / "many.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    assert from_csv((tmp_path / "one.csv").read_text()) == EPOCHS


def test_history_file_without_epochs_writes_nothing(tmp_path: Path) -> None:
    stored = _write(tmp_path / HISTORY)
    assert stored.epochs() == ()
    assert not (tmp_path / HISTORY).exists()
    assert HistoryFile(tmp_path / HISTORY, COLUMNS, stored).store() == stored


@pytest.mark.parametrize("beyond", ["", "6,0.5,0.5,0.5,0.5,0.1\r\n", "6,0.5,0.", "\0\0\0"])
def test_history_file_resumed_removes_later_and_incomplete_rows(tmp_path: Path, beyond: str) -> None:
    """A killed process may leave rows after those of its last checkpoint."""
    path = tmp_path / HISTORY
    stored = _write(path, EPOCHS[:3])
    with path.open("a", newline="") as file:
        file.write(beyond)
    assert stored.epochs() == EPOCHS[:3]
    history = HistoryFile(path, COLUMNS, stored)
    assert from_csv(path.read_text()) == EPOCHS[:3]
    for epoch in EPOCHS[3:]:
        history.add(epoch)
    undisturbed = _write(tmp_path / "undisturbed" / HISTORY, EPOCHS)
    assert dataclasses.replace(history.store(), path=undisturbed.path) == undisturbed
    assert path.read_bytes() == undisturbed.path.read_bytes()


def test_history_file_starts_with_epochs_of_another_file(tmp_path: Path) -> None:
    tried = _write(tmp_path / trial_file(2), EPOCHS[:2])
    (tmp_path / HISTORY).write_text("of a killed process")
    for source in (tried, EPOCHS[:2]):
        history = HistoryFile(tmp_path / HISTORY, COLUMNS, source)
        history.add(EPOCHS[2])
        assert history.store().epochs() == EPOCHS[:3]
    assert tried.epochs() == EPOCHS[:2]


def test_history_file_without_checkpoint_replaces_old_rows(tmp_path: Path) -> None:
    (tmp_path / HISTORY).write_text("rows of a process that was killed before its first checkpoint, " * 100)
    assert _write(tmp_path / HISTORY, EPOCHS[:1]).epochs() == EPOCHS[:1]
    assert from_csv((tmp_path / HISTORY).read_text()) == EPOCHS[:1]


@pytest.mark.parametrize("position", [0, 60, 150, -1])
def test_stored_history_changed_byte_raises_one_line(tmp_path: Path, position: int) -> None:
    path = tmp_path / HISTORY
    stored = _write(path, EPOCHS)
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    message = rf"^training: history\.csv is damaged \(its first {len(content)} bytes .* Given: {path}$"
    for read in (stored.epochs, lambda: HistoryFile(path, COLUMNS, stored)):
        with pytest.raises(ArtifactError, match=message):
            read()


def test_stored_history_shorter_or_missing_file_raises(tmp_path: Path) -> None:
    path = tmp_path / HISTORY
    stored = _write(path, EPOCHS)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match=r"^training: history\.csv is damaged "):
        stored.epochs()
    path.unlink()
    with pytest.raises(ArtifactError, match=r"^training: history\.csv is missing\. Given: "):
        stored.epochs()


def test_store_writes_only_added_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of an epoch does not depend on the number of earlier epochs."""
    history = HistoryFile(tmp_path / HISTORY, COLUMNS)
    # Every function that could read or replace the whole file fails.
    monkeypatch.setattr(Path, "read_bytes", None)
    monkeypatch.setattr("qcnn.model.history_file.new_file", None)
    written = {}
    for number in range(1, 2001):
        before = history.store().size if number in (10, 2000) else 0
        history.add(EpochMetrics(number, 0.5, 0.5, 0.25, 1.0, 0.125))
        if before:
            written[number] = history.store().size - before
    assert written[2000] == written[10] + len("2000") - len("10")


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        (HISTORY, True),
        (trial_file(1), True),
        (trial_file(1000), True),
        ("initializations/0.csv", False),
        ("../history.csv", False),
        ("/etc/passwd", False),
        ("initializations/../../1.csv", False),
        ("history.csv\n", False),
    ],
)
def test_is_history_file_rejects_other_names(name: str, valid: bool) -> None:
    assert is_history_file(name) is valid
