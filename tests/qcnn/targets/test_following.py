"""How a run is followed, whatever the service is that runs it."""

from collections.abc import Iterator

import pytest

from qcnn.targets import following
from qcnn.targets.errors import UnavailableError
from qcnn.targets.following import RunSnapshot, number_repeated, wait_for_run


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "INTERVAL", 0)


def _story(*seen: RunSnapshot[str] | UnavailableError | None) -> tuple[list[str], RunSnapshot[str]]:
    told: Iterator[RunSnapshot[str] | UnavailableError | None] = iter(seen)
    said: list[str] = []

    def look() -> RunSnapshot[str] | None:
        now = next(told)
        if isinstance(now, UnavailableError):
            raise now
        return now

    return said, wait_for_run(look, said.append)


def test_only_changes_are_said() -> None:
    said, ended = _story(
        RunSnapshot("1", "RUNNING", False, {"train": "RUNNING"}),
        RunSnapshot("2", "RUNNING", False, {"train": "RUNNING"}),
        None,
        UnavailableError("gone for a while"),
        RunSnapshot("3", "SUCCEEDED", True, {"train": "SUCCEEDED"}),
    )
    assert said == ["train: running", "run: running", "train: succeeded", "run: succeeded"]
    assert ended.run == "3"


def test_states_of_steps_that_come_after_that_of_the_run_are_waited_for() -> None:
    said, ended = _story(
        RunSnapshot("1", "FAILED", True, {"train": "RUNNING"}),
        RunSnapshot("2", "FAILED", True, {"train": "FAILED"}),
    )
    assert said == ["train: running", "run: failed", "train: failed"]
    assert ended.run == "2"


def test_a_service_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_PATIENCE", -1)
    with pytest.raises(UnavailableError, match="gone"):
        _story(UnavailableError("gone"))


def test_steps_of_a_loop_are_numbered() -> None:
    assert number_repeated([("data", 1), ("train", 2), ("train", 3)]) == {"data": 1, "train": 2, "train 2": 3}
