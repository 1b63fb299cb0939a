"""Following a run, independent of its service."""

from collections.abc import Iterator

import pytest

from qcnn.targets import following
from qcnn.targets.base import PartStatus
from qcnn.targets.errors import UnavailableError
from qcnn.targets.following import RunSnapshot, number_parts, wait_for_run


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "INTERVAL", 0)


def _parts(**states: str) -> list[PartStatus]:
    return [PartStatus(name, state) for name, state in states.items()]


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
        RunSnapshot("1", "RUNNING", False, _parts(train="running")),
        RunSnapshot("2", "RUNNING", False, _parts(train="running")),
        None,
        UnavailableError("gone for a while"),
        RunSnapshot("3", "SUCCEEDED", True, _parts(train="succeeded")),
    )
    assert lines == ["train: running", "run: running", "train: succeeded", "run: succeeded"]
    assert ended.run == "3"


def test_wait_for_run_waits_for_final_step_states() -> None:
    lines, ended = _follow(
        RunSnapshot("1", "RUNNING", False, _parts(train="running")),
        RunSnapshot("2", "FAILED", True, _parts(train="running"), is_late=True),
        RunSnapshot("3", "FAILED", True, _parts(train="failed")),
    )
    assert lines == ["train: running", "run: running", "train: failed", "run: failed"]
    assert ended.run == "3"


def test_wait_for_run_reports_first_reason_of_state() -> None:
    lines, _ = _follow(
        *(
            RunSnapshot(reason, "RUNNING", False, [PartStatus("train", "pending", reason)])
            for reason in ("", "ErrImagePull", "ImagePullBackOff", "ErrImagePull")
        ),
        RunSnapshot("", "FAILED", True, [PartStatus("train", "failed", "no image")]),
    )
    assert lines == [
        *("train: pending", "run: running", "train: pending (ErrImagePull)"),
        *("train: failed (no image)", "run: failed"),
    ]


def test_wait_for_run_unavailable_service_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_PATIENCE", -1)
    with pytest.raises(UnavailableError, match="gone"):
        _follow(UnavailableError("gone"))


def test_number_parts_numbers_loop_steps() -> None:
    parts = [PartStatus("data", "succeeded"), PartStatus("train", "failed"), PartStatus("train", "running")]
    assert [(part.name, part.state) for part in number_parts(parts)] == [
        *(("data", "succeeded"), ("train", "failed"), ("train 2", "running")),
    ]
