"""When a schedule is due: cron's five fields, with a time zone before them (TZ=Europe/Berlin 0 3 * * 1-5)."""

import datetime
import re
import zoneinfo

from tests.vertex.server.refusal import RefusedError

# Lowest and highest value of minute, hour, day, month and day of the week.
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_ZONE = re.compile(r"(?:CRON_)?TZ=(?P<zone>\S+)\s+(?P<rest>.*)")
_PART = re.compile(r"(?:\*|(?P<first>\d+)(?:-(?P<last>\d+))?)(?:/(?P<step>\d+))?")


def next_time(cron: str, after: datetime.datetime) -> datetime.datetime:
    """Return when a schedule is due next, later than a time.

    Raises:
        RefusedError: this is no such schedule, or it is never due.
    """
    zoned = _ZONE.fullmatch(cron.strip())
    try:
        zone = zoneinfo.ZoneInfo(zoned["zone"] if zoned else "UTC")
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise RefusedError(400, f"Invalid cron schedule: unknown time zone. Given: {cron}") from None
    words = (zoned["rest"] if zoned else cron).split()
    if len(words) != len(_RANGES):
        raise RefusedError(400, f"Invalid cron schedule: it must have five fields. Given: {cron}")
    minutes, hours, days, months, weekdays = (_values(cron, *each) for each in zip(words, _RANGES, strict=True))
    moment = after.astimezone(zone).replace(second=0, microsecond=0) + datetime.timedelta(minutes=1)
    for _ in range(366 * 24 * 60):
        # Sunday is 0, and 7.
        weekday = moment.isoweekday()
        if (
            (moment.minute in minutes and moment.hour in hours and moment.month in months)
            and moment.day in days
            and (weekday in weekdays or weekday % 7 in weekdays)
        ):
            return moment.astimezone(datetime.timezone.utc)
        moment += datetime.timedelta(minutes=1)
    raise RefusedError(400, f"Invalid cron schedule: it is never due. Given: {cron}")


def _values(cron: str, word: str, bounds: tuple[int, int]) -> set[int]:
    found: set[int] = set()
    for text in word.split(","):
        part = _PART.fullmatch(text)
        if not part:
            raise RefusedError(400, f"Invalid cron schedule: cannot read {text!r}. Given: {cron}")
        first = int(part["first"]) if part["first"] else bounds[0]
        last = int(part["last"] or first) if part["first"] else bounds[1]
        if not bounds[0] <= first <= last <= bounds[1]:
            raise RefusedError(400, f"Invalid cron schedule: {text!r} is out of range. Given: {cron}")
        found |= set(range(first, last + 1, int(part["step"] or 1)))
    return found
