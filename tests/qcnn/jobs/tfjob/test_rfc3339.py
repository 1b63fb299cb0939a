"""Times of the API server."""

import datetime

import pytest

from qcnn.jobs.tfjob.rfc3339 import micro_time, parse_time

NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=datetime.timezone.utc)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-31T12:00:00Z", NOON.replace(microsecond=0)),
        ("2026-01-31T12:00:00.250000Z", NOON),
        ("2026-01-31T13:00:00.250000+01:00", NOON),
    ],
)
def test_a_time_is_read_with_and_without_a_fraction(text: str, time: datetime.datetime) -> None:
    assert parse_time(text) == time


def test_a_lease_is_renewed_at_a_time_with_six_digits() -> None:
    assert micro_time(NOON) == "2026-01-31T12:00:00.250000Z"
    assert micro_time(NOON.replace(microsecond=0)) == "2026-01-31T12:00:00.000000Z"


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="soon"):
        parse_time("soon")
