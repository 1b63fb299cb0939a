"""Input and output files of predictions."""

import contextlib
import dataclasses
import os
from pathlib import Path

from qcnn.errors import ConfigError
from qcnn.storage.store import parse_bucket_uri
from qcnn.tables import STANDARD_STREAM, check_extension

_PAGE_EXTENSION = ".html"


@dataclasses.dataclass(frozen=True)
class PredictionFiles:
    """Paths or URIs of the data, the predictions and an optional HTML report.

    The data and the predictions can be standard input and standard output, "-".
    """

    data: str
    output: str
    report: str = ""

    def __post_init__(self) -> None:
        """Raise ConfigError if a file extension is not supported, or the output would overwrite the data."""
        for field, name in (("data", self.data), ("output", self.output)):
            if name != STANDARD_STREAM:
                check_extension(field, name)
        if self.report and not self.report.lower().endswith(_PAGE_EXTENSION):
            raise ConfigError(f"report: must end in {_PAGE_EXTENSION}. Given: {self.report}")
        if not self.is_printed and _plain(self.output) == _plain(self.data):
            raise self._same()

    @property
    def is_printed(self) -> bool:
        """True if the predictions are printed on standard output."""
        return self.output == STANDARD_STREAM

    def check_distinct(self) -> None:
        """Raise ConfigError if the local output and data are the same file, for example by a link."""
        # A bucket URI is no local file.
        with contextlib.suppress(OSError):
            if STANDARD_STREAM not in (self.data, self.output) and Path(self.output).samefile(self.data):
                raise self._same()

    def _same(self) -> ConfigError:
        return ConfigError(f"output: must be another file than the data. Given: {self.output}")


def _plain(name: str) -> object:
    """Return the normalized bucket URI or path of a name."""
    return parse_bucket_uri(name) or os.path.normpath(name)


def files_of(data: str | None, output: str | None, report: str | None) -> PredictionFiles | None:
    """Return the prediction files of a command without standard streams, or None if the command has none.

    Args:
        data: Value of --data.
        output: Value of --output.
        report: Value of --report.

    Raises:
        ConfigError: If some are missing, or a file extension is not supported.
    """
    if data is not None and output is not None:
        check_extension("data", data)
        check_extension("output", output)
        return PredictionFiles(data, output, report or "")
    _check_none("--data and --output together, and --report with both", data, output, report)
    return None


def files_or_streams_of(data: str | None, output: str | None, report: str | None) -> PredictionFiles | None:
    """Return the prediction files of a command that can use standard streams, or None if the command has none.

    Args:
        data: Value of --data.
        output: Value of --output. The default is standard output.
        report: Value of --report.

    Raises:
        ConfigError: If data is missing, or a file extension is not supported.
    """
    if data is not None:
        return PredictionFiles(data, output or STANDARD_STREAM, report or "")
    _check_none("--output and --report with --data", data, output, report)
    return None


def _check_none(allowed: str, *given: str | None) -> None:
    names = [name for name, value in zip(("--data", "--output", "--report"), given, strict=True) if value is not None]
    if names:
        raise ConfigError(f"predict: takes {allowed}. Given: {' '.join(names)}")
