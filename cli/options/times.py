"""The times of a schedule, checked here: a backend accepts a time that never comes, and never runs the schedule."""

import re

from trainer.errors import ConfigError

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
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S+)")
_RANGE = re.compile(r"(?:[*?]|(\w+)(?:-(\w+))?)(?:/([1-9]\d*))?")


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
    if len(fields) not in (5, 6):
        raise ConfigError(
            "cron: must have five fields (minute, hour, day of the month, month, day of the week), six with a second "
            f"before them, or be one of {', '.join(_NAMED)}. Given: {text}"
        )
    fields = ["0", *fields][-6:]
    for field, (name, first, last, names) in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            found = _RANGE.fullmatch(part)
            values = [_value(word, first, names) for word in (found[1], found[2]) if word] if found else [None]
            numbers = [value for value in values if value is not None]
            if len(numbers) < len(values) or numbers != sorted(numbers) or any(not first <= n <= last for n in numbers):
                raise ConfigError(f"cron: {name} must be in {first}..{last}, as 1, 1-3, 1,2 or */2. Given: {text}")
    return " ".join(fields)


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
    cron_expression(" ".join(fields))
    return " ".join([first, *fields] if zone else fields)


def _value(word: str, first: int, names: list[str]) -> int | None:
    if word.upper() in names:
        return names.index(word.upper()) + first
    return int(word) if word.isdecimal() else None
