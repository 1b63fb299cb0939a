"""Times as the API server writes them (RFC 3339); imports nothing heavy."""

import datetime

_MICRO_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


def parse_time(text: str) -> datetime.datetime:
    """Return a time that was written with or without a fraction of a second.

    Raises:
        ValueError: it is none.
    """
    # Python 3.10 does not know the letter for UTC.
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def micro_time(time: datetime.datetime) -> str:
    """Return a time of UTC as the API server takes it for a Lease, with six digits of its fraction."""
    return time.strftime(_MICRO_TIME)
