"""Limits of the control groups of this process, such as those of a container. Only Linux has them.

Formats: cgroups(7), proc_pid_mountinfo(5), and "Control Group v1" and "v2" of the Linux kernel's administrator's guide.
"""

import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

_GROUPS, _MOUNTS = "/proc/self/cgroup", "/proc/self/mountinfo"
_CONTROLLERS = ("cpu", "memory")
# An unlimited group of version 1 has the largest number of pages: 2^63 bytes, rounded down to a page.
_UNLIMITED_BYTES = 2**62
# The kernel writes spaces, tabs, line breaks and backslashes in a path as octal numbers.
_ESCAPED = re.compile(r"\\([0-7]{3})")

# Returns the text of a file, or None if it cannot be read.
ReadFile = Callable[[str], str | None]


@dataclasses.dataclass(frozen=True)
class CgroupLimits:
    """Cores and bytes that the processes of a control group may use, infinite without a limit."""

    cores: float = math.inf
    memory: float = math.inf


def read_text(path: str) -> str | None:
    """Return the text of a file, or None if it cannot be read."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return Path(path).read_text(encoding="utf-8")
    return None


def limits(read: ReadFile = read_text) -> CgroupLimits:
    """Return the limits of this process: the smallest of its groups and of all groups that contain them.

    Args:
        read: Returns the text of a file by its absolute path.
    """
    groups = _parse_groups(read(_GROUPS) or "")
    cores, memory = [math.inf], [math.inf]
    for mount in _parse_mounts(read(_MOUNTS) or ""):
        for controller in mount.controllers:
            if (group := groups.get("" if mount.is_unified else controller)) is None:
                continue
            for folder in _folders(mount, group):
                if controller == "cpu":
                    cores.append(_cores(folder, read, is_unified=mount.is_unified))
                else:
                    name = "memory.max" if mount.is_unified else "memory.limit_in_bytes"
                    memory.append(_bytes(read(f"{folder}/{name}")))
    return CgroupLimits(min(cores), min(memory))


@dataclasses.dataclass(frozen=True)
class _Mount:
    """Mounted hierarchy: its folder, the group at its root, and its controllers among `_CONTROLLERS`."""

    folder: str
    root: str
    controllers: tuple[str, ...]
    is_unified: bool


def _parse_groups(text: str) -> dict[str, str]:
    """Return the group of each controller of version 1, and that of version 2 under an empty name."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        # hierarchy:controllers:path
        _, _, rest = line.partition(":")
        controllers, found, path = rest.partition(":")
        if found:
            groups |= dict.fromkeys(controllers.split(","), path)
    return groups


def _parse_mounts(text: str) -> Iterator[_Mount]:
    for line in text.splitlines():
        # id parent device root folder options [fields] - type source options
        before, _, after = line.partition(" - ")
        fields, of_type = before.split(), after.split()
        if len(fields) < 5 or not of_type or of_type[0] not in ("cgroup", "cgroup2"):
            continue
        is_unified, options = of_type[0] == "cgroup2", of_type[-1].split(",")
        controllers = tuple(name for name in _CONTROLLERS if is_unified or name in options)
        yield _Mount(_unescape(fields[4]), _unescape(fields[3]), controllers, is_unified)


def _unescape(path: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), path)


def _folders(mount: _Mount, group: str) -> Iterator[str]:
    """Yield the folder of a group and those of the groups that contain it, up to the root of the mount."""
    root = mount.root.rstrip("/")
    parts = group.removeprefix(root).split("/") if f"{group}/".startswith(f"{root}/") else []
    # A group outside of the namespace begins with "..". Only the root of the mount is known then.
    names = [] if ".." in parts else [part for part in parts if part]
    for length in range(len(names), -1, -1):
        yield "/".join((mount.folder, *names[:length]))


def _cores(folder: str, read: ReadFile, *, is_unified: bool) -> float:
    """Return the quota of a group: its microseconds of processor time in each period."""
    if is_unified:
        quota, _, period = (read(f"{folder}/cpu.max") or "").partition(" ")
    else:
        quota, period = (read(f"{folder}/cpu.cfs_{name}_us") or "" for name in ("quota", "period"))
    # "max", or -1 in version 1, is no limit.
    if not (quota.strip().isdecimal() and period.strip().isdecimal()) or not int(period):
        return math.inf
    return int(quota) / int(period)


def _bytes(text: str | None) -> float:
    """Return the bytes of a memory limit. "max" is no limit."""
    number = (text or "").strip()
    return int(number) if number.isdecimal() and int(number) < _UNLIMITED_BYTES else math.inf
