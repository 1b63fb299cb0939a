"""The times of a schedule, checked here: a backend accepts a time that never comes, and never runs the schedule."""

import datetime
import re
import zoneinfo

from cronsim import CronSim, CronSimError

from qcnn.errors import ConfigError

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_INTERVAL = re.compile(r"([1-9]\d{0,8})([smhd]?)")
_NAMED = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_FIVE = "five fields (minute, hour, day of the month, month, day of the week)"
# By the library's names of the fields.
_BOUNDS = {"second": "0..59", "minute": "0..59", "hour": "0..23"}
_BOUNDS |= {"day-of-month": "1..31", "month": "1..12", "day-of-week": "0..6"}
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S+)")
# What the library reads and the backends do not (github.com/robfig/cron, v1, and Unix): the last day, the nth day of
# the week, Sunday as 7. Python reads no number of thousands of digits.
_FOREIGN = re.compile(r"(?<![A-Z])L|#|\d{5,}")
_SUNDAY = re.compile(r"(?:^|(?<=[,-]))0*7\b")
# What robfig/cron reads and Unix's cron does not: a question mark, and a step from a single value on.
_NOT_UNIX = re.compile(r"\?|(?:^|,)\w+/", re.ASCII)


def interval_seconds(text: str) -> int:
    """Return the seconds of an interval such as 90, 90s, 10m, 2h or 1d.

    Raises:
        ConfigError: the text is no interval.
    """
    found = _INTERVAL.fullmatch(text)
    if not found:
        raise ConfigError(f"interval: must be a number of seconds, or as 10m, 2h or 1d. Given: {text}")
    return int(found[1]) * _UNITS[found[2]]


def cron_expression(text: str) -> str:
    """Return the six fields that the backend reads, the seconds first; of five fields, the second is 0.

    Raises:
        ConfigError: the text is no cron expression.
    """
    if text in _NAMED:
        return text
    fields = text.split()
    if fields and _ZONE.fullmatch(fields[0]):
        raise ConfigError(f"cron: must have no time zone; the clock of the backend counts. Given: {text}")
    if len(fields) not in (5, 6):
        raise ConfigError(
            f"cron: must have {_FIVE}, six with a second before them, or be one of {', '.join(_NAMED)}. Given: {text}"
        )
    _check_fields(fields, text)
    return " ".join(["0", *fields][-6:])


def unix_cron(text: str) -> str:
    """Return the five fields that Vertex AI reads, and what stands before them: TZ= or CRON_TZ= and a time zone.

    Source: google.cloud.aiplatform_v1.types.Schedule, cron, which points to en.wikipedia.org/wiki/Cron.

    Raises:
        ConfigError: the text is no cron expression.
    """
    first, _, rest = text.partition(" ")
    zone = _ZONE.fullmatch(first)
    fields = (rest if zone else text).split()
    if len(fields) != 5:
        raise ConfigError(f"cron: must have {_FIVE}. Given: {text}")
    if any(_NOT_UNIX.search(field) for field in fields):
        raise ConfigError(f"cron: must hold no ?, and a step after * or a range alone, as */2 or 1-31/2. Given: {text}")
    _check_fields(fields, text)
    # Where no time zones are installed, the service alone can tell.
    if zone and (known := zoneinfo.available_timezones()) and zone[1] not in known:
        raise ConfigError(f"cron: the time zone must be one of IANA's, such as Europe/Paris. Given: {text}")
    return " ".join([first, *fields] if zone else fields)


def _check_fields(fields: list[str], text: str) -> None:
    """Raise ConfigError if a field is out of its bounds, or no month has one of the days; seconds may be left out."""
    words = [_FOREIGN.sub("!", field.upper() if field.isascii() else "!").replace("?", "*") for field in fields]
    words[-1] = _SUNDAY.sub("!", words[-1])
    bad = _bad_field(words)
    # A day that is good in another month is one that never comes.
    if bad == "day-of-month" and not _bad_field([*words[:-2], "*", words[-1]]):
        # Where days of the week are named too, one of the two is enough, which the library forgets here.
        if words[-1].startswith("*"):
            raise ConfigError(f"cron: day of the month must be one that its month has. Given: {text}")
    elif bad:
        name = bad.replace("-of-", " of the ")
        raise ConfigError(f"cron: {name} must be in {_BOUNDS[bad]}, as 1, 1-3, 1,2 or */2. Given: {text}")


def _bad_field(words: list[str]) -> str | None:
    """Return the library's name of the first field that it refuses, None where it takes them all."""
    try:
        CronSim(" ".join(words), datetime.datetime.min)
    except CronSimError as error:
        return str(error).removeprefix("Bad ")
    return None
