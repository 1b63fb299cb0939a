"""Names of runs."""

import datetime
import time
from collections.abc import Iterator

import pytest

from qcnn.run_names import timestamp


@pytest.fixture(params=["UTC", "AHEAD-14", "BEHIND+12"])
def _time_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_time_zone")
def test_timestamp_in_any_time_zone_sorts_by_time() -> None:
    before = datetime.datetime.now(datetime.UTC)
    text = timestamp()
    after = datetime.datetime.now(datetime.UTC)
    parsed = datetime.datetime.strptime(f"{text} +0000", "%Y-%m-%d-%H-%M-%S-%f %z")
    assert before <= parsed <= after
    assert text <= timestamp()
