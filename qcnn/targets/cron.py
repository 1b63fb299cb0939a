"""Validation of schedule times, because backends accept schedules that never run."""

import datetime
import re
import zoneinfo

from cronsim import CronSim, CronSimError

from qcnn.errors import ConfigError

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_INTERVAL = re.compile(r"([1-9]\d{0,8})([smhd]?)")
_NAMED = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_FIVE = "five fields (minute, hour, day of the month, month, day of the week)"
# Keys are cronsim's names of the fields.
_BOUNDS = {"second": "0..59", "minute": "0..59", "hour": "0..23"}
_BOUNDS |= {"day-of-month": "1..31", "month": "1..12", "day-of-week": "0..6"}
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S+)")
# cronsim accepts expressions that the backends do not (github.com/robfig/cron, v1, and Unix): the last day, the nth day
# of the week, Sunday as 7. Python cannot convert numbers with thousands of digits.
_FOREIGN = re.compile(r"(?<![A-Z])L|#|\d{5,}")
_SUNDAY = re.compile(r"(?:^|(?<=[,-]))0*7\b")
# robfig/cron accepts expressions that Unix cron does not: a question mark, and a step after a single value.
_NOT_UNIX = re.compile(r"\?|(?:^|,)\w+/", re.ASCII)


def interval_seconds(text: str) -> int:
    """Return the seconds of an interval such as 90, 90s, 10m, 2h or 1d.

    Raises:
        ConfigError: If the text is not an interval.
    """
    found = _INTERVAL.fullmatch(text)
    if not found:
        raise ConfigError(f"interval: must be a number of seconds, or a duration such as 10m, 2h or 1d. Given: {text}")
    return int(found[1]) * _UNITS[found[2]]


def cron_expression(text: str) -> str:
    """Return a KFP cron expression of six fields, seconds first. Five fields get second 0.

    Raises:
        ConfigError: If the text is not a cron expression.
    """
    if text in _NAMED:
        return text
    fields = text.split()
    if fields and _ZONE.fullmatch(fields[0]):
        raise ConfigError(f"cron: must have no time zone; the backend's clock is used. Given: {text}")
    if len(fields) not in (5, 6):
        raise ConfigError(
            f"cron: must have {_FIVE}, six with leading seconds, or be one of {', '.join(_NAMED)}. Given: {text}"
        )
    _check_fields(fields, text)
    return " ".join(["0", *fields][-6:])


def unix_cron(text: str) -> str:
    """Return the five fields that Vertex AI reads, after an optional TZ= or CRON_TZ= time zone.

    Source: google.cloud.aiplatform_v1.types.Schedule, cron, which points to en.wikipedia.org/wiki/Cron.

    Raises:
        ConfigError: If the text is not a cron expression.
    """
    first, _, rest = text.partition(" ")
    zone = _ZONE.fullmatch(first)
    fields = (rest if zone else text).split()
    if len(fields) != 5:
        raise ConfigError(f"cron: must have {_FIVE}. Given: {text}")
    if any(_NOT_UNIX.search(field) for field in fields):
        raise ConfigError(
            f"cron: must have no ?, and steps only after * or a range, such as */2 or 1-31/2. Given: {text}"
        )
    _check_fields(fields, text)
    # Without a local time zone database, only the service can check the zone.
    if zone and (known := zoneinfo.available_timezones()) and zone[1] not in known:
        raise ConfigError(f"cron: the time zone must be an IANA name, such as Europe/Paris. Given: {text}")
    return " ".join([first, *fields] if zone else fields)


def _check_fields(fields: list[str], text: str) -> None:
    """Raise ConfigError if a field is out of bounds, or no month has the day. Seconds are optional."""
    parts = [_FOREIGN.sub("!", field.upper() if field.isascii() else "!").replace("?", "*") for field in fields]
    parts[-1] = _SUNDAY.sub("!", parts[-1])
    bad = _bad_field(parts)
    # The day is valid in other months, so that the schedule would never run.
    if bad == "day-of-month" and not _bad_field([*parts[:-2], "*", parts[-1]]):
        # With days of the week, either match is enough, which cronsim ignores in this check.
        if parts[-1].startswith("*"):
            raise ConfigError(f"cron: day of the month must exist in its month. Given: {text}")
    elif bad:
        name = bad.replace("-of-", " of the ")
        raise ConfigError(f"cron: {name} must be in {_BOUNDS[bad]}, such as 1, 1-3, 1,2 or */2. Given: {text}")


def _bad_field(parts: list[str]) -> str | None:
    """Return cronsim's name of the first field that it rejects, or None if all are valid."""
    try:
        CronSim(" ".join(parts), datetime.datetime.min)
    except CronSimError as error:
        return str(error).removeprefix("Bad ")
    return None
