"""Installed distribution of this package: its name, its version, and another distribution with the name `qcnn`."""

import functools
import importlib.metadata
import logging

# Name in pyproject.toml and in package indexes. There, the name of the package and the command is another project.
DISTRIBUTION = "qcnn-pipelines"
_PACKAGE = "qcnn"


def version() -> str:
    """Return the version of this package."""
    return _installed().version


def requirement(extra: str) -> str:
    """Return the requirement of this package with an extra, in this version."""
    return f"{DISTRIBUTION}[{extra}]=={version()}"


def install_command(extra: str) -> str:
    """Return the command that installs this package with an extra.

    >>> install_command("run")
    'pip install "qcnn-pipelines[run]"'
    """
    return f'pip install "{DISTRIBUTION}[{extra}]"'


@functools.cache
def warn_about_other_distribution() -> None:
    """Log a warning once per process if the distribution `qcnn` is installed in the folder of this distribution."""
    if warning := other_distribution():
        logging.getLogger(_PACKAGE).warning("%s", warning)


def other_distribution() -> str | None:
    """Return a warning if the distribution `qcnn` is installed in the folder of this distribution, or None.

    It is https://pypi.org/project/qcnn. Its release 1.0.3 has the module QCNN, but a release may have files of the same
    names as this package.
    """
    folder = str(_installed().locate_file(""))
    for other in importlib.metadata.distributions(name=_PACKAGE, path=[folder]):
        name = f"Distribution {other.name} {other.version}"
        if any(_PACKAGE in (file.parts[0], file.name) for file in other.files or ()):
            text = f"{name} is another project and replaced files of {DISTRIBUTION}, so commands may fail"
            remedy = f"pip uninstall {_PACKAGE} {DISTRIBUTION}, then pip install {DISTRIBUTION}"
        else:
            text = f"{name} is another project than {DISTRIBUTION}, which does not use it"
            remedy = f"pip uninstall {_PACKAGE}"
        return f"{text}: {remedy}"
    return None


def _installed() -> importlib.metadata.Distribution:
    return importlib.metadata.distribution(DISTRIBUTION)
