"""The times of a schedule, checked here: a backend accepts a time that never comes, and never runs the schedule."""

import re
import zoneinfo

from qcnn.errors import ConfigError

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_INTERVAL = re.compile(r"([1-9]\d{0,8})([smhd]?)")
_NAMED = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
# What a field may hold (github.com/robfig/cron, v1, which the backend reads them with): name, bounds, names.
_FIELDS: list[tuple[str, int, int, list[str]]] = [
    ("second", 0, 59, []),
    ("minute", 0, 59, []),
    ("hour", 0, 23, []),
    ("day of the month", 1, 31, []),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 6, _DAYS),
]
# By month; the 29th of February comes in leap years.
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S+)")
_RANGE = re.compile(r"(?:[*?]|(\w+)(?:-(\w+))?)(?:/([1-9]\d{0,3}))?", re.ASCII)
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
            "cron: must have five fields (minute, hour, day of the month, month, day of the week), six with a second "
            f"before them, or be one of {', '.join(_NAMED)}. Given: {text}"
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
    if len(fields) != len(_FIELDS) - 1:
        raise ConfigError(
            f"cron: must have five fields (minute, hour, day of the month, month, day of the week). Given: {text}"
        )
    if any(_NOT_UNIX.search(field) for field in fields):
        raise ConfigError(f"cron: must hold no ?, and a step after * or a range alone, as */2 or 1-31/2. Given: {text}")
    _check_fields(fields, text)
    # Where no time zones are installed, the service alone can tell.
    if zone and (known := zoneinfo.available_timezones()) and zone[1] not in known:
        raise ConfigError(f"cron: the time zone must be one of IANA's, such as Europe/Paris. Given: {text}")
    return " ".join([first, *fields] if zone else fields)


def _check_fields(fields: list[str], text: str) -> None:
    """Raise ConfigError if a field is out of its bounds, or no month has one of the days; seconds may be left out."""
    allowed = [_numbers(field, *known, text) for field, known in zip(["0", *fields][-6:], _FIELDS, strict=True)]
    days, months = allowed[3], allowed[4]
    # Where days of the week are named too, one of the two is enough.
    if fields[-1][0] in "*?" and min(days) > max(_LONGEST[month - 1] for month in months):
        raise ConfigError(f"cron: day of the month must be one that its month has. Given: {text}")


def _numbers(field: str, name: str, first: int, last: int, names: list[str], text: str) -> set[int]:
    """Return the values that a field lets through."""
    allowed: set[int] = set()
    for part in field.split(","):
        found = _RANGE.fullmatch(part)
        begin, end = _bounds(found, first, last, names) if found else (None, None)
        if not found or begin is None or end is None or not first <= begin <= end <= last:
            raise ConfigError(f"cron: {name} must be in {first}..{last}, as 1, 1-3, 1,2 or */2. Given: {text}")
        allowed |= set(range(begin, end + 1, int(found[3] or 1)))
    return allowed


def _bounds(found: re.Match[str], first: int, last: int, names: list[str]) -> tuple[int | None, int | None]:
    """Return the first and the last value of a range; a single value with a step goes on to the last that there is."""
    low, high, step = found.groups()
    begin = _value(low, first, names) if low else first
    if high:
        return begin, _value(high, first, names)
    return begin, begin if low and not step else last


def _value(word: str, first: int, names: list[str]) -> int | None:
    if word.upper() in names:
        return names.index(word.upper()) + first
    return int(word) if word.isdecimal() else None
