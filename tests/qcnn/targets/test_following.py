"""Following a run, independent of its service."""

from collections.abc import Iterator

import pytest

from qcnn.targets import following
from qcnn.targets.errors import UnavailableError
from qcnn.targets.following import RunSnapshot, number_repeated, wait_for_run


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "INTERVAL", 0)


def _follow(*snapshots: RunSnapshot[str] | UnavailableError | None) -> tuple[list[str], RunSnapshot[str]]:
    remaining: Iterator[RunSnapshot[str] | UnavailableError | None] = iter(snapshots)
    lines: list[str] = []

    def look() -> RunSnapshot[str] | None:
        now = next(remaining)
        if isinstance(now, UnavailableError):
            raise now
        return now

    return lines, wait_for_run(look, lines.append)


def test_wait_for_run_reports_changes_only() -> None:
    lines, ended = _follow(
        RunSnapshot("1", "RUNNING", False, {"train": "RUNNING"}),
        RunSnapshot("2", "RUNNING", False, {"train": "RUNNING"}),
        None,
        UnavailableError("gone for a while"),
        RunSnapshot("3", "SUCCEEDED", True, {"train": "SUCCEEDED"}),
    )
    assert lines == ["train: running", "run: running", "train: succeeded", "run: succeeded"]
    assert ended.run == "3"


def test_wait_for_run_waits_for_final_step_states() -> None:
    lines, ended = _follow(
        RunSnapshot("1", "FAILED", True, {"train": "RUNNING"}),
        RunSnapshot("2", "FAILED", True, {"train": "FAILED"}),
    )
    assert lines == ["train: running", "run: failed", "train: failed"]
    assert ended.run == "2"


def test_wait_for_run_unavailable_service_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_PATIENCE", -1)
    with pytest.raises(UnavailableError, match="gone"):
        _follow(UnavailableError("gone"))


def test_number_repeated_numbers_loop_steps() -> None:
    assert number_repeated([("data", 1), ("train", 2), ("train", 3)]) == {"data": 1, "train": 2, "train 2": 3}
