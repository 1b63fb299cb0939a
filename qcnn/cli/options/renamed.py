"""Earlier names of flags, accepted with a warning until version 0.2."""

import functools
import logging
from collections.abc import Mapping, Sequence

logger = logging.getLogger("qcnn")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@functools.cache
def _renamed() -> Mapping[str, str]:
    # Deferred imports: help and completion need no experiment.
    from qcnn.experiment_io import RENAMED_FIELDS
    from qcnn.targets.settings import RENAMED_SETTINGS

    return {
        **{_flag(old): _flag(new) for old, new in {**RENAMED_FIELDS, **RENAMED_SETTINGS}.items()},
        "--seconds": "--timeout",
        "--listen": "--bind-address",
    }


def with_current_flags(arguments: Sequence[str]) -> list[str]:
    """Return command-line arguments with earlier names of flags replaced, and log a warning for each.

    >>> with_current_flags(["submit", "--restarts=1", "--", "--starts"])
    ['submit', '--max-restarts=1', '--', '--starts']
    """
    found: list[str] = []
    for position, argument in enumerate(arguments):
        if argument == "--":
            return [*found, *arguments[position:]]
        flag, equals, value = argument.partition("=")
        is_flag = flag.startswith("--") and flag != "--help"
        current = _renamed().get(flag.replace("_", "-")) if is_flag else None
        if current is not None:
            logger.warning("%s: renamed to %s; the earlier name is accepted until version 0.2", flag, current)
            argument = f"{current}{equals}{value}"
        found.append(argument)
    return found
