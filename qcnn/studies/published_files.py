"""Study files of published experiments, which are part of the package."""

from __future__ import annotations

from pathlib import Path

import qcnn.published
from qcnn.errors import ConfigError

# Precedes the name of a file in `--config`.
_PREFIX = "published/"
_SUFFIX = ".yaml"
_FOLDER = Path(qcnn.published.__file__).parent


def described_files() -> dict[str, str]:
    """Return the names of the files for `--config`, with the description in the first line of each."""
    return {
        f"{_PREFIX}{path.stem}": path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        for path in sorted(_FOLDER.glob(f"*{_SUFFIX}"))
    }


def resolve_file(config: str) -> str:
    """Return the path of a study file, which may be the name of a published one.

    Args:
        config: Path, or `published/NAME`.

    Raises:
        ConfigError: If there is no published file of the name.
    """
    if not config.startswith(_PREFIX) or Path(config).exists():
        return config
    path = _FOLDER / f"{config.removeprefix(_PREFIX)}{_SUFFIX}"
    if path.parent != _FOLDER or not path.is_file():
        raise ConfigError(f"config: must be a file, or one of {', '.join(described_files())}. Given: {config}")
    return str(path)
