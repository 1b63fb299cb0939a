"""When a schedule is due: cron's five fields, with a time zone before them (TZ=Europe/Berlin 0 3 * * MON-FRI)."""

import datetime
import itertools
import re
import zoneinfo

from tests.vertex.server.refusal import RefusedError

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
# Lowest and highest value of minute, hour, day, month and day of the week, and the names of values.
_FIELDS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, _MONTHS),
    (0, 6, _WEEKDAYS),
)
_ZONE = re.compile(r"(?:CRON_)?TZ=(?P<zone>\S+)\s+(?P<rest>.*)")
_PART = re.compile(r"(?P<first>\w+)|(?:\*|(?P<low>\w+)-(?P<high>\w+))(?:/(?P<step>[1-9]\d*))?", re.ASCII)
# The 29th of February comes after eight years at most.
_DAYS = 8 * 366


def next_time(cron: str, after: datetime.datetime) -> datetime.datetime:
    """Return when a schedule is due next, later than a time.

    Raises:
        RefusedError: this is no such schedule, or it is never due.
    """
    zoned = _ZONE.fullmatch(cron.strip())
    name = zoned["zone"] if zoned else "UTC"
    if name not in zoneinfo.available_timezones():
        raise RefusedError(400, f"Invalid cron schedule: unknown time zone. Given: {cron}")
    words = (zoned["rest"] if zoned else cron).split()
    if len(words) != len(_FIELDS):
        raise RefusedError(400, f"Invalid cron schedule: it must have five fields. Given: {cron}")
    minutes, hours, days, months, weekdays = (_values(cron, *each) for each in zip(words, _FIELDS, strict=True))
    # Where days of the month and of the week are both named, one of them is enough.
    either = not (words[2].startswith("*") or words[4].startswith("*"))
    zone = zoneinfo.ZoneInfo(name)
    today = after.astimezone(zone).date()
    for day in (today + datetime.timedelta(days=number) for number in range(_DAYS)):
        fits = (day.day in days, day.isoweekday() % 7 in weekdays)
        if day.month not in months or not (any(fits) if either else all(fits)):
            continue
        for hour, minute in itertools.product(sorted(hours), sorted(minutes)):
            moment = datetime.datetime.combine(day, datetime.time(hour, minute), zone).astimezone(datetime.timezone.utc)
            if moment > after:
                return moment
    raise RefusedError(400, f"Invalid cron schedule: it is never due. Given: {cron}")


def _values(cron: str, word: str, field: tuple[int, int, tuple[str, ...]]) -> set[int]:
    lowest, highest, _ = field
    found: set[int] = set()
    for text in word.split(","):
        part = _PART.fullmatch(text)
        if not part:
            raise RefusedError(400, f"Invalid cron schedule: cannot read {text!r}. Given: {cron}")
        low = _number(cron, part["first"] or part["low"] or str(lowest), field)
        high = _number(cron, part["first"] or part["high"] or str(highest), field)
        if not lowest <= low <= high <= highest:
            raise RefusedError(400, f"Invalid cron schedule: {text!r} is out of range. Given: {cron}")
        found |= set(range(low, high + 1, int(part["step"] or 1)))
    return found


def _number(cron: str, word: str, field: tuple[int, int, tuple[str, ...]]) -> int:
    lowest, _, names = field
    if word.upper() in names:
        return lowest + names.index(word.upper())
    if not word.isdecimal():
        raise RefusedError(400, f"Invalid cron schedule: cannot read {word!r}. Given: {cron}")
    return int(word)
