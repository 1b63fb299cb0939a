"""Lines of a process' log, as text or JSON, and the environment variables by which launchers configure a process."""

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

# Holds the job's name in every process on a cluster; in a command and in addresses $(QCNN_JOB) stands for it.
JOB_VARIABLE = "QCNN_JOB"
# text, where it is not set, or json.
FORMAT_VARIABLE = "QCNN_LOG_FORMAT"
# The port on which a process serves its metrics; none where it is not set, any free one where it is 0.
PORT_VARIABLE = "QCNN_METRICS_PORT"
# Number of GPUs that the job requested for this process; not set where it requested none.
GPUS_VARIABLE = "QCNN_GPUS"


_TEXT, _JSON = "text", "json"
# What logging calls the levels is what Cloud Logging calls them; levels of a library's own are the next lower one.
_SEVERITIES = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO)
_NAME = "qcnn"

# Which process of a job this is, once it knows.
_process: dict[str, str | int] = {}


def identify(role: str, index: int) -> None:
    """Have all further lines say which process of a job this is."""
    _process.update(role=role, index=index)


def is_json() -> bool:
    """Whether this process prints its log as JSON."""
    return os.environ.get(FORMAT_VARIABLE) == _JSON


def set_up() -> None:
    """Have libraries, warnings and exceptions that nobody handles print as JSON too, where the log is JSON.

    Raises:
        ConfigError: the environment names no format that there is.
    """
    asked = os.environ.get(FORMAT_VARIABLE, _TEXT)
    if asked not in (_TEXT, _JSON):
        raise ConfigError(f"{FORMAT_VARIABLE}: must be {_TEXT} or {_JSON}. Given: {format_value(asked)}")
    if asked == _TEXT:
        return
    if not logging.root.handlers:
        logging.root.addHandler(logging.StreamHandler())
    for handler in logging.root.handlers:
        handler.setFormatter(Formatter())
    logging.captureWarnings(True)
    sys.excepthook = _print_unhandled
    threading.excepthook = _print_unhandled_of_thread


class Formatter(logging.Formatter):
    """Formats records as this process prints its log."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        if not is_json():
            return super().format(record)
        trace = self.formatException(record.exc_info) if record.exc_info else None
        return _object(record.getMessage(), _severity(record.levelno), record.name, record.created, trace)


def format_message(message: str, level: int) -> str:
    """Return a message that does not pass through logging as this process prints its log."""
    return _object(message, _severity(level), _NAME, time.time()) if is_json() else message


def reformat_line(line: str, process: str) -> list[str]:
    """Return a line of another process, whose role and index are `process`, as this one prints it in its own log.

    A line for people has the name of that process before it; where `process` is empty, none.
    """
    if not is_json():
        prefix = f"[{process}] " if process else ""
        return [f"{prefix}{text}" for text in lines_to_text([line])]
    if _parsed(line):
        return [line.strip()]
    role, _, index = process.rpartition(" ")
    who: dict[str, str | int] = {"role": role, "index": int(index)} if role and index.isdecimal() else {}
    return [_object(line, _severity(logging.INFO), _NAME, time.time(), process=who)]


def to_text(line: str, *, named: bool = False) -> str:
    """Return a line for people, as it is or out of JSON; more than one where it holds an exception.

    `named`: with the process that it names before it.
    """
    values = _parsed(line)
    if not values:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    who = f"[{values['role']} {values['index']}] " if named and {"role", "index"} <= values.keys() else ""
    return f"{indent}{who}{text_of(values)}"


def lines_to_text(lines: Iterable[str]) -> list[str]:
    """Return lines for people, as they are or out of JSON."""
    return [text for line in lines for text in to_text(line).split("\n")]


def text_of(values: Mapping[str, Any]) -> str | None:
    """Return what an object of a log says, the exception behind the message; None where it has no message."""
    message, trace = values.get("message"), values.get("exception")
    if not isinstance(message, str):
        return None
    return f"{message}\n{trace.rstrip()}" if isinstance(trace, str) else message


def _parsed(line: str) -> dict[str, Any] | None:
    """Return the object that a line of a JSON log holds, None for any other line."""
    text = line.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values if "severity" in values and text_of(values) is not None else None


def _object(
    message: str,
    severity: str,
    logger: str,
    created: float,
    trace: str | None = None,
    process: Mapping[str, str | int] | None = None,
) -> str:
    job = os.environ.get(JOB_VARIABLE)
    values = {
        "timestamp": datetime.datetime.fromtimestamp(created, datetime.timezone.utc).isoformat(timespec="microseconds"),
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
    whole = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(f"{_object(message, _severity(logging.CRITICAL), _NAME, time.time(), whole)}\n")


def _print_unhandled_of_thread(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_value and not isinstance(ended.exc_value, SystemExit):
        _print_unhandled(ended.exc_type, ended.exc_value, ended.exc_traceback)
