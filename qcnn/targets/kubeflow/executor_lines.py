"""Lines that the executors of KFP and Argo add to the log of a step, apart from the lines of the step itself.

Argo's emissary starts KFP's launcher, which starts KFP's Python executor, which calls the step. All of them print to
the container `main` (formats of KFP 2.17 and Argo Workflows 4.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from qcnn.errors import service_message
from qcnn.jobs.job import last_error_line

# KFP's Python executor. Its warnings and errors are those of libraries that the step uses.
_PYTHON_EXECUTOR = re.compile(r"\[KFP Executor \d{4}-\d\d-\d\d [\d:,]+ (?:DEBUG|INFO)\]: ")
# KFP's launcher and driver log with glog: level, month and day, time, thread, Go file and line. C++ libraries of a step
# use the same format.
_GLOG = re.compile(r"(?P<level>[IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w.-]+\.go:\d+\] (?P<message>.*)")
_GLOG_ERRORS = ("E", "F")
# Argo's emissary, in its text and its JSON format, and its last line.
_EMISSARY = re.compile(r"time=\S+ level=\w+ msg=.* argo=true( |$)|\{\"time\":.*\"argo\":true")
_EMISSARY_END = re.compile(r"Error: (?:exit status \d+|signal: .+)")
# Exit status of the step's process, in an error of the launcher, which itself exits with 1.
_EXIT_STATUS = re.compile(r": exit status (\d+)$")
# The driver's errors begin with all of its arguments.
_DRIVER_CALL = re.compile(r"^KFP driver: driver\.\w+\(.*\) failed: ")
# Ends of lines that are followed by indented JSON, and lines that begin and end it.
_JSON_FOLLOWS, _JSON_LIMITS, _JSON_END = ("{", ":", "="), ("{", "}", "{}"), ("}", "{}")


class StepLines:
    """Filter for the lines of one container that are the step's, or errors of the executors.

    Call `includes` with each line in order. The first line may be within JSON, as in the last lines of a log.
    """

    def __init__(self) -> None:
        self._in_json = True

    def includes(self, line: str) -> bool:
        """Return whether a line is the step's, or an error of an executor."""
        if self._in_json and (line in _JSON_LIMITS or line.startswith((" ", "\t"))):
            self._in_json = line not in _JSON_END
            return False
        self._in_json = False
        glog = _GLOG.fullmatch(line)
        if glog and glog["level"] in _GLOG_ERRORS:
            return not _EXIT_STATUS.search(line)
        if glog or _PYTHON_EXECUTOR.match(line):
            self._in_json = line.endswith(_JSON_FOLLOWS)
            return False
        return not (_EMISSARY.match(line) or _EMISSARY_END.fullmatch(line))


def failure_reason(lines: Iterable[str]) -> str:
    """Return the last error in the log of a failed step, or its last line, or empty without any line of the step."""
    step = StepLines()
    own = [_without_prefix(line) for line in lines if step.includes(line)]
    return service_message(last_error_line(own)) if own else ""


def exit_status(lines: Iterable[str]) -> int | None:
    """Return the exit code of a failed step's process according to the launcher, or None if it reports none."""
    found = [int(status[1]) for line in lines if _GLOG.match(line) and (status := _EXIT_STATUS.search(line))]
    return found[-1] if found else None


def _without_prefix(line: str) -> str:
    """Return the message of an executor's error, or any other line unchanged."""
    glog = _GLOG.fullmatch(line)
    return _DRIVER_CALL.sub("", glog["message"]) if glog else line
