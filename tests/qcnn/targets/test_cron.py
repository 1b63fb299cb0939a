"""Validation of cron expressions and intervals."""

import datetime
import re

import pytest

from qcnn.errors import ConfigError
from qcnn.targets.cron import cron_expression, interval_seconds, unix_cron
from tests.vertex.fake_service.errors import StatusError
from tests.vertex.fake_service.pipelines.cron import next_time


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("* * * *", "must have five fields"),
        ("@sometimes", "must have five fields"),
        ("60 * * * *", "minute must be in 0..59"),
        ("0 0 0 * *", "day of the month must be in 1..31"),
        ("0 0 1 * FRI-MON", "day of the week must be in 0..6"),
        ("0 0 1 JANUARY *", "month must be in 1..12"),
        ("*/0 * * * *", "minute must be in 0..59"),
        ("1, * * * *", "minute must be in 0..59"),
        ("\u0663 * * * *", "minute must be in 0..59"),
        ("99 * * * * *", "second must be in 0..59"),
        ("0 0 L * *", "day of the month must be in 1..31"),
        ("0 0 1,LW * *", "day of the month must be in 1..31"),
        ("0 0 * * 5L", "day of the week must be in 0..6"),
        ("0 0 * * MON#2", "day of the week must be in 0..6"),
        ("0 0 * * 1-7", "day of the week must be in 0..6"),
        ("0 0 * * fr\u0131", "day of the week must be in 0..6"),
        ("0 0 30 2 9", "day of the week must be in 0..6"),
        ("0 0 30 2 *", "day of the month must exist in its month"),
        ("0 0 31 4,6 ?", "day of the month must exist in its month"),
        ("TZ=Europe/Paris 0 9 * * *", "must have no time zone"),
    ],
)
def test_cron_expression_invalid_raises(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cron_expression(text)
    assert message in str(caught.value)
    assert str(caught.value).endswith(f"Given: {text}")


def test_cron_expression_huge_number_raises() -> None:
    with pytest.raises(ConfigError, match=r"^cron: minute must be in 0\.\.59"):
        cron_expression(f"1/{'9' * 5000} * * * *")


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("0 9 * * MON-FRI", "0 0 9 * * MON-FRI"),
        ("@daily", "@daily"),
        ("*/15 8-17 1,15 jan-mar ?", "0 */15 8-17 1,15 jan-mar ?"),
        ("30 0 9 ? * 1-5", "30 0 9 ? * 1-5"),
        ("0 0 1/2 * 0,6", "0 0 0 1/2 * 0,6"),
        ("0 0 29 2 *", "0 0 0 29 2 *"),
        ("0 0 31 2 MON", "0 0 0 31 2 MON"),
        ("0 0 ?/2 jul */7", "0 0 0 ?/2 jul */7"),
        ("0 0 30 1-2 *", "0 0 0 30 1-2 *"),
    ],
)
def test_cron_expression_accepts_all_field_forms(given: str, sent: str) -> None:
    assert cron_expression(given) == sent


@pytest.mark.parametrize(("given", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86400)])
def test_interval_seconds_accepts_units(given: str, seconds: int) -> None:
    assert interval_seconds(given) == seconds


@pytest.mark.parametrize("text", ["0", "1.5h", "", "h", "-1m", "1w", "1" * 11])
def test_interval_seconds_invalid_raises(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^interval: must be a number of seconds, or a duration such as 10m, 2h or 1d\. Given: "
    ):
        interval_seconds(text)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("0 9 * * MON-FRI", "0 9 * * MON-FRI"),
        ("TZ=Europe/Paris  */5 * * * *", "TZ=Europe/Paris */5 * * * *"),
        ("CRON_TZ=America/New_York 1 * * * *", "CRON_TZ=America/New_York 1 * * * *"),
    ],
)
def test_unix_cron_accepts_time_zone(text: str, read: str) -> None:
    assert unix_cron(text) == read


_NOW = datetime.datetime(2026, 11, 22, 10, 30, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    "text",
    [
        "0 9 * * MON-FRI",
        "TZ=America/New_York 15 6 1-31/2 jan,Jul sun",
        "*/5 0-12/3 * * *",
        "0 0 29 2 *",
        "0 0 31 2 0",
    ],
)
def test_unix_cron_valid_is_accepted_by_fake_service(text: str) -> None:
    assert next_time(unix_cron(text), _NOW) > _NOW


@pytest.mark.parametrize(
    "text",
    [
        "",
        "* * * *",
        "0 * * * * *",
        "@daily",
        "TZ=Europe/Paris",
        "60 * * * *",
        "TZ=Mars/Olympus 0 9 * * *",
        "TZ=Europe 0 9 * * *",
        "TZ=../etc/passwd 0 9 * * *",
        "0 9 ? * *",
        "0 9 1/2 * *",
        "0 9 * * 7",
        "0 9 * * FRI-MON",
        "0 0 31 4 *",
    ],
)
def test_unix_cron_invalid_is_rejected_by_fake_service(text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^cron: .*Given: {re.escape(text)}$"):
        unix_cron(text)
    with pytest.raises(StatusError, match="Invalid cron schedule"):
        next_time(text, _NOW)
