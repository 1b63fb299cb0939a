"""Which files predictions are made of and go to."""

import contextlib
import dataclasses
import os
from pathlib import Path

from qcnn.errors import ConfigError
from qcnn.storage.store import parse_bucket_uri
from qcnn.tables import check_ending

_PAGE_ENDING = ".html"


@dataclasses.dataclass(frozen=True)
class PredictionFiles:
    """What is predicted, where predictions go, and a page about them where one is wanted: paths or addresses."""

    data: str
    output: str
    report: str = ""

    def __post_init__(self) -> None:
        """Refuse files of other kinds, and to write over what is read.

        Raises:
            ConfigError: a name ends otherwise, or is that of the data.
        """
        check_ending("data", self.data)
        check_ending("output", self.output)
        if self.report and not self.report.lower().endswith(_PAGE_ENDING):
            raise ConfigError(f"report: must end in {_PAGE_ENDING}. Given: {self.report}")
        if _plain(self.output) == _plain(self.data):
            raise self._same()

    def check_here(self) -> None:
        """Refuse to write over what is read on this machine by another of its names, such as that of a link.

        Raises:
            ConfigError: both name the same file.
        """
        # An address in a bucket is the name of no file here.
        with contextlib.suppress(OSError):
            if Path(self.output).samefile(self.data):
                raise self._same()

    def _same(self) -> ConfigError:
        return ConfigError(f"output: must be another file than the data. Given: {self.output}")


def _plain(name: str) -> object:
    """Return the address of a name, or the path in its shortest form."""
    return parse_bucket_uri(name) or os.path.normpath(name)


def files_of(data: str | None, output: str | None, report: str | None) -> PredictionFiles | None:
    """Return the files that a command is given, None where it is given none.

    Raises:
        ConfigError: some are missing, or of another kind.
    """
    if data is not None and output is not None:
        return PredictionFiles(data, output, report or "")
    given = {"--data": data, "--output": output, "--report": report}
    if names := [name for name, value in given.items() if value is not None]:
        raise ConfigError(
            f"predict: takes --data and --output together, and --report with both. Given: {' '.join(names)}"
        )
    return None
