"""Names of new runs, studies, trials and output folders."""

import datetime


def timestamp() -> str:
    """Return the current time in UTC, down to microseconds, for the end of a name.

    Names sort by time, also if runs start in other time zones or if the local clock changes.
    """
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d-%H-%M-%S-%f}"
