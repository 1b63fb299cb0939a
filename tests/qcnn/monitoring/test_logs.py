"""JSON logs: lines of a real process, and conversion of lines for users and other processes."""

import datetime
import json
import subprocess
import sys

import pytest

from qcnn.jobs.job import last_error_line
from qcnn.monitoring import logs
from tests.monitored_process import JOB, Watched, objects

LINE = '{"timestamp": "t", "severity": "INFO", "message": "a line", "role": "worker", "index": 1}'
FAILED = '{"severity": "ERROR", "message": "failed", "exception": "Traceback:\\nValueError: 3\\n"}'


def test_json_log_lines_have_standard_fields(watched_training: Watched) -> None:
    found = objects(watched_training.lines)
    assert any(line["message"].startswith("epoch 3/") for line in found)
    for line in found:
        assert line.keys() == {"timestamp", "severity", "message", "logger", "role", "index", "job"}
        assert datetime.datetime.fromisoformat(line["timestamp"]).utcoffset() == datetime.timedelta(0)
        assert (line["logger"], line["role"], line["index"], line["job"]) == ("qcnn", "worker", 0, JOB)
    *log, end = found
    assert {line["severity"] for line in log} <= {"INFO", "WARNING"}
    assert (watched_training.code, end["severity"]) == (143, "ERROR")
    assert last_error_line(watched_training.lines) == "ended by SIGTERM; the last checkpoint is kept"


PROGRAM = """
import logging, sys, threading, warnings
from qcnn.errors import ConfigError
from qcnn.process.error_lines import one_line_errors
with one_line_errors():
    {}
"""


def _run(program: str, log_format: str = "json") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(program)],
        capture_output=True,
        text=True,
        check=False,
        env={"QCNN_LOG_FORMAT": log_format, "PYTHONPATH": ":".join(sys.path)},
    )


@pytest.mark.parametrize(
    ("program", "logger", "severity", "message"),
    [
        ("logging.getLogger('qcnn').info('%d\\nlines', 2)", "qcnn", "INFO", "2\nlines"),
        ("logging.getLogger('tensorflow').error('lost')", "tensorflow", "ERROR", "lost"),
        ("logging.getLogger('absl').log(35, 'odd')", "absl", "WARNING", "odd"),
        (
            "raise ConfigError('qubits: must be even. Given: 3')",
            "qcnn",
            "ERROR",
            "error: qubits: must be even. Given: 3",
        ),
        ("1 / 0", "qcnn", "CRITICAL", "ZeroDivisionError: division by zero"),
        (
            "thread = threading.Thread(target=lambda: 1 / 0); thread.start(); thread.join()",
            *("qcnn", "CRITICAL", "ZeroDivisionError: division by zero"),
        ),
    ],
    ids=["qcnn", "library", "custom level", "error", "exception", "thread exception"],
)
def test_messages_and_exceptions_are_single_objects(program: str, logger: str, severity: str, message: str) -> None:
    done = _run(program)
    (line,) = objects((done.stdout + done.stderr).splitlines())
    assert (line["logger"], line["severity"], line["message"]) == (logger, severity, message)
    if severity == "CRITICAL":
        assert line["exception"].startswith("Traceback (most recent call last):\n")
        assert line["exception"].endswith(f"{message}\n")


def test_handled_exceptions_and_warnings_are_objects() -> None:
    program = """
    try:
        1 / 0
    except ZeroDivisionError:
        logging.getLogger('qcnn').exception('failed')
    warnings.warn('old')"""
    done = _run(program)
    failed, warned = objects((done.stdout + done.stderr).splitlines())
    assert (failed["message"], failed["severity"]) == ("failed", "ERROR")
    assert failed["exception"].endswith("ZeroDivisionError: division by zero")
    assert (warned["logger"], warned["severity"]) == ("py.warnings", "WARNING")
    assert "UserWarning: old" in warned["message"]


def test_unknown_log_format_is_rejected() -> None:
    done = _run("pass", "xml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: QCNN_LOG_FORMAT: must be text or json. Given: 'xml'\n"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (LINE, "a line"),
        (f"    {LINE}", "    a line"),
        (FAILED, "failed\nTraceback:\nValueError: 3"),
        ("a line for people", "a line for people"),
        ('{"loss": 0.5}', '{"loss": 0.5}'),
        ('{"severity": "INFO", "message": 3}', '{"severity": "INFO", "message": 3}'),
        ("{" * 9999 + "}", "{" * 9999 + "}"),
        ("", ""),
    ],
)
def test_to_text_formats_json_lines(line: str, text: str) -> None:
    assert logs.to_text(line) == text


def test_reformat_line_uses_format_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert logs.reformat_line(LINE, "worker 1") == ["[worker 1] a line"]
    assert logs.reformat_line(FAILED, "ps 0") == ["[ps 0] failed", "[ps 0] Traceback:", "[ps 0] ValueError: 3"]
    assert logs.reformat_line("a line", "") == ["a line"]
    monkeypatch.setenv("QCNN_LOG_FORMAT", "json")
    assert logs.reformat_line(LINE, "worker 1") == [LINE]
    (wrapped,) = logs.reformat_line("Killed", "worker 1")
    line = json.loads(wrapped)
    assert (line["message"], line["severity"], line["role"], line["index"]) == ("Killed", "INFO", "worker", 1)
