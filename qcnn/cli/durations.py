"""How long something took, or how old it is, for a table."""

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def in_two_units(seconds: float | None) -> str:
    """Return a time in its two largest units, empty where it is not known."""
    if seconds is None:
        return ""
    days, hours, minutes = int(seconds // _DAY), int(seconds % _DAY // _HOUR), int(seconds % _HOUR // _MINUTE)
    if days:
        return f"{days}d{hours}h"
    if hours:
        return f"{hours}h{minutes}m"
    rest = int(seconds % _MINUTE)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
