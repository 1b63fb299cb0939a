"""Input and output files of predictions."""

import contextlib
import dataclasses
import os
from pathlib import Path

from qcnn.errors import ConfigError
from qcnn.storage.store import parse_bucket_uri
from qcnn.tables import check_extension

_PAGE_EXTENSION = ".html"


@dataclasses.dataclass(frozen=True)
class PredictionFiles:
    """Paths or URIs of the data, the predictions and an optional HTML report."""

    data: str
    output: str
    report: str = ""

    def __post_init__(self) -> None:
        """Raise ConfigError if a file extension is not supported, or the output would overwrite the data."""
        check_extension("data", self.data)
        check_extension("output", self.output)
        if self.report and not self.report.lower().endswith(_PAGE_EXTENSION):
            raise ConfigError(f"report: must end in {_PAGE_EXTENSION}. Given: {self.report}")
        if _plain(self.output) == _plain(self.data):
            raise self._same()

    def check_distinct(self) -> None:
        """Raise ConfigError if the local output and data are the same file, for example by a link."""
        # A bucket URI is no local file.
        with contextlib.suppress(OSError):
            if Path(self.output).samefile(self.data):
                raise self._same()

    def _same(self) -> ConfigError:
        return ConfigError(f"output: must be another file than the data. Given: {self.output}")


def _plain(name: str) -> object:
    """Return the normalized bucket URI or path of a name."""
    return parse_bucket_uri(name) or os.path.normpath(name)


def files_of(data: str | None, output: str | None, report: str | None) -> PredictionFiles | None:
    """Return the prediction files of a command, or None if the command has none.

    Args:
        data: Value of --data.
        output: Value of --output.
        report: Value of --report.

    Raises:
        ConfigError: If some are missing, or a file extension is not supported.
    """
    if data is not None and output is not None:
        return PredictionFiles(data, output, report or "")
    given = {"--data": data, "--output": output, "--report": report}
    if names := [name for name, value in given.items() if value is not None]:
        raise ConfigError(
            f"predict: takes --data and --output together, and --report with both. Given: {' '.join(names)}"
        )
    return None
