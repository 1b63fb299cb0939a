"""How requests are shared between the deployed versions of an endpoint: pure functions of percentages."""

from collections.abc import Mapping

_ALL = 100


def shared(now: Mapping[str, int], wanted: str, share: int) -> dict[str, int]:
    """Return the shares with `share` percent for one version, and the rest for the others in proportion.

    A version that is alone gets all; so do the others' last traffic, where they had none.

    >>> shared({"1": 100}, "2", 10)
    {'1': 90, '2': 10}
    >>> shared({"1": 90, "2": 10}, "2", 50)
    {'1': 50, '2': 50}
    >>> shared({}, "1", 10)
    {'1': 100}
    """
    others = {name: part for name, part in now.items() if name != wanted and part}
    if not others:
        return {**dict.fromkeys(now, 0), wanted: _ALL}
    return {**dict.fromkeys(now, 0), **_scaled(others, _ALL - share), wanted: share}


def without(now: Mapping[str, int], name: str, before: str) -> dict[str, int]:
    """Return the shares of all others where one version is taken away; `before` gets all if they had none.

    >>> without({"1": 81, "2": 9, "3": 10}, "3", "2")
    {'1': 90, '2': 10}
    >>> without({"1": 0, "2": 100}, "2", "1")
    {'1': 100}
    """
    others = {other: part for other, part in now.items() if other != name}
    if not any(others.values()):
        return {**others, before: _ALL}
    return _scaled(others, _ALL)


def _scaled(parts: Mapping[str, int], total: int) -> dict[str, int]:
    """Return whole numbers in proportion to parts, with this sum; what rounding leaves goes where most was cut off."""
    whole = sum(parts.values())
    exact = {name: part * total / whole for name, part in parts.items()}
    found = {name: int(value) for name, value in exact.items()}
    cut_off = sorted(exact, key=lambda name: found[name] - exact[name])
    for name in cut_off[: total - sum(found.values())]:
        found[name] += 1
    return found
