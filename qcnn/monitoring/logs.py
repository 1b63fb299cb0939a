"""Log lines as text or JSON, and the environment variables with which launchers configure a process."""

import datetime
import json
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from qcnn.errors import ConfigError, format_value

# Name of the job, set in each process on a cluster. In commands and URIs, $(QCNN_JOB) is replaced by it.
JOB_VARIABLE = "QCNN_JOB"
# Log format, text (default) or json.
FORMAT_VARIABLE = "QCNN_LOG_FORMAT"
# Port of the metrics, 0 for any free port. Without it, no metrics are served.
PORT_VARIABLE = "QCNN_METRICS_PORT"
# Number of GPUs that the job requested for this process, not set without GPUs.
GPUS_VARIABLE = "QCNN_GPUS"


_TEXT, _JSON = "text", "json"
# The levels of logging have the names of Cloud Logging. Custom levels of libraries map to the next lower one.
_SEVERITIES = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO)
_NAME = "qcnn"

# Role and index of this process in its job, set by `identify`.
_process: dict[str, str | int] = {}


def identify(role: str, index: int) -> None:
    """Add the role and index of this process to all further JSON lines."""
    _process.update(role=role, index=index)


def is_json() -> bool:
    """Return whether this process prints its log as JSON."""
    return os.environ.get(FORMAT_VARIABLE) == _JSON


def set_up() -> None:
    """With JSON logs, also format the logs of libraries, warnings and unhandled exceptions as JSON.

    Raises:
        ConfigError: If the environment variable is not a valid format.
    """
    log_format = os.environ.get(FORMAT_VARIABLE, _TEXT)
    if log_format not in (_TEXT, _JSON):
        raise ConfigError(f"{FORMAT_VARIABLE}: must be {_TEXT} or {_JSON}. Given: {format_value(log_format)}")
    if log_format == _TEXT:
        return
    if not logging.root.handlers:
        logging.root.addHandler(logging.StreamHandler())
    for handler in logging.root.handlers:
        handler.setFormatter(Formatter())
    logging.captureWarnings(True)
    sys.excepthook = _print_unhandled
    threading.excepthook = _print_unhandled_of_thread


class Formatter(logging.Formatter):
    """Formatter of log records in the log format of this process."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        if not is_json():
            return super().format(record)
        trace = self.formatException(record.exc_info) if record.exc_info else None
        return _to_json(record.getMessage(), _severity(record.levelno), record.name, record.created, trace)


def format_message(message: str, level: int) -> str:
    """Return a message as a line in the log format of this process, without logging."""
    return _to_json(message, _severity(level), _NAME, time.time()) if is_json() else message


def reformat_line(line: str, process: str) -> list[str]:
    """Return a line of another process in the log format of this process.

    Args:
        line: Line, as text or JSON.
        process: Role and index of the other process, such as "worker 0", as a prefix of text. Empty for no prefix.
    """
    if not is_json():
        prefix = f"[{process}] " if process else ""
        return [f"{prefix}{text}" for text in lines_to_text([line])]
    if _parse_json_line(line):
        return [line.strip()]
    role, _, index = process.rpartition(" ")
    labels: dict[str, str | int] = {"role": role, "index": int(index)} if role and index.isdecimal() else {}
    return [_to_json(line, _severity(logging.INFO), _NAME, time.time(), process=labels)]


def to_text(line: str, *, named: bool = False) -> str:
    """Return a log line as text, which has several lines if it contains an exception.

    Args:
        line: Line, as text or JSON.
        named: Whether to prefix text from JSON with the role and index of its process.
    """
    values = _parse_json_line(line)
    if not values:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    prefix = f"[{values['role']} {values['index']}] " if named and {"role", "index"} <= values.keys() else ""
    return f"{indent}{prefix}{text_of(values)}"


def lines_to_text(lines: Iterable[str]) -> list[str]:
    """Return log lines, as text or JSON, as lines of text."""
    return [text for line in lines for text in to_text(line).split("\n")]


def text_of(values: Mapping[str, Any]) -> str | None:
    """Return the message of a JSON log line, followed by its exception, or None without a message."""
    message, trace = values.get("message"), values.get("exception")
    if not isinstance(message, str):
        return None
    return f"{message}\n{trace.rstrip()}" if isinstance(trace, str) else message


def _parse_json_line(line: str) -> dict[str, Any] | None:
    """Return the object of a line of a JSON log, or None for any other line."""
    text = line.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values if "severity" in values and text_of(values) is not None else None


def _to_json(
    message: str,
    severity: str,
    logger: str,
    created: float,
    trace: str | None = None,
    process: Mapping[str, str | int] | None = None,
) -> str:
    job = os.environ.get(JOB_VARIABLE)
    values = {
        "timestamp": datetime.datetime.fromtimestamp(created, datetime.UTC).isoformat(timespec="microseconds"),
        "severity": severity,
        "message": message,
        "logger": logger,
        **(_process if process is None else process),
        **({"job": job} if job else {}),
        **({"exception": trace} if trace else {}),
    }
    return json.dumps(values)


def _severity(level: int) -> str:
    return next((logging.getLevelName(known) for known in _SEVERITIES if level >= known), "DEBUG")


def _print_unhandled(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    message = traceback.format_exception_only(kind, error)[-1].strip()
    text = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(f"{_to_json(message, _severity(logging.CRITICAL), _NAME, time.time(), text)}\n")


def _print_unhandled_of_thread(failure: threading.ExceptHookArgs) -> None:
    if failure.exc_value and not isinstance(failure.exc_value, SystemExit):
        _print_unhandled(failure.exc_type, failure.exc_value, failure.exc_traceback)
