"""Due times of cron schedules: five fields after an optional time zone (TZ=Europe/Berlin 0 3 * * MON-FRI)."""

import datetime
import itertools
import re
import zoneinfo

from tests.vertex.fake_service.errors import StatusError

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
# Minimum, maximum and value names of the minute, hour, day of the month, month and day of the week.
_FIELDS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, _MONTHS),
    (0, 6, _WEEKDAYS),
)
_ZONE = re.compile(r"(?:CRON_)?TZ=(?P<zone>\S+)\s+(?P<rest>.*)")
_PART = re.compile(r"(?P<first>\w+)|(?:\*|(?P<low>\w+)-(?P<high>\w+))(?:/(?P<step>[1-9]\d*))?", re.ASCII)
# Leap days are at most eight years apart.
_DAYS = 8 * 366


def next_time(cron: str, after: datetime.datetime) -> datetime.datetime:
    """Return the first time after `after` at which a schedule is due.

    Raises:
        StatusError: If the schedule is malformed or never due.
    """
    zoned = _ZONE.fullmatch(cron.strip())
    name = zoned["zone"] if zoned else "UTC"
    if name not in zoneinfo.available_timezones():
        raise StatusError(400, f"Invalid cron schedule: unknown time zone. Given: {cron}")
    parts = (zoned["rest"] if zoned else cron).split()
    if len(parts) != len(_FIELDS):
        raise StatusError(400, f"Invalid cron schedule: it must have five fields. Given: {cron}")
    minutes, hours, days, months, weekdays = (_values(cron, *each) for each in zip(parts, _FIELDS, strict=True))
    # If both the day of the month and the day of the week are restricted, either match suffices.
    either = not (parts[2].startswith("*") or parts[4].startswith("*"))
    zone = zoneinfo.ZoneInfo(name)
    today = after.astimezone(zone).date()
    for day in (today + datetime.timedelta(days=number) for number in range(_DAYS)):
        fits = (day.day in days, day.isoweekday() % 7 in weekdays)
        if day.month not in months or not (any(fits) if either else all(fits)):
            continue
        for hour, minute in itertools.product(sorted(hours), sorted(minutes)):
            moment = datetime.datetime.combine(day, datetime.time(hour, minute), zone).astimezone(datetime.UTC)
            if moment > after:
                return moment
    raise StatusError(400, f"Invalid cron schedule: it is never due. Given: {cron}")


def _values(cron: str, expression: str, field: tuple[int, int, tuple[str, ...]]) -> set[int]:
    lowest, highest, _ = field
    found: set[int] = set()
    for text in expression.split(","):
        part = _PART.fullmatch(text)
        if not part:
            raise StatusError(400, f"Invalid cron schedule: cannot read {text!r}. Given: {cron}")
        low = _number(cron, part["first"] or part["low"] or str(lowest), field)
        high = _number(cron, part["first"] or part["high"] or str(highest), field)
        if not lowest <= low <= high <= highest:
            raise StatusError(400, f"Invalid cron schedule: {text!r} is out of range. Given: {cron}")
        found |= set(range(low, high + 1, int(part["step"] or 1)))
    return found


def _number(cron: str, text: str, field: tuple[int, int, tuple[str, ...]]) -> int:
    lowest, _, names = field
    if text.upper() in names:
        return lowest + names.index(text.upper())
    if not text.isdecimal():
        raise StatusError(400, f"Invalid cron schedule: cannot read {text!r}. Given: {cron}")
    return int(text)
