"""Launchers as processes, each of one training with small Python programs in place of workers."""

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.vertex.server.vertex import Vertex

_ROOT = Path(__file__).parents[4]
_PROGRAM = """
import json, os, sys
from qcnn.jobs.job import Job
from qcnn.jobs.job import Identity
from qcnn.jobs.pod_settings import Pod
from qcnn.jobs.vertex import attempts
from qcnn.jobs.vertex.custom_job import custom_job
from qcnn.jobs.vertex.launch import launch
from qcnn.jobs.vertex.location import Place, endpoint_of
from qcnn.jobs.vertex.tuning_job import tuning_job
from qcnn.jobs.vertex.tuning_job import Bounds, Study
from qcnn.jobs.vertex.tuning_job import TrialNews
from qcnn.startup import one_line_errors

given = json.loads(sys.argv[1])
with one_line_errors():
    place = Place(given["project"], given["location"], endpoint_of(os.environ))
    job = Job(
        argv=("python", "-c", given["program"]), replicas={"worker": given["workers"]}, restarts=given["restarts"],
        hang_seconds=60, pod=Pod.model_validate({"image": "image", **given["pod"]}),
        outputs={"training": f"gs://{given['bucket']}/run/$(QCNN_JOB)/training"},
    )
    attempts._SECONDS = given["patience"]
    made = custom_job(job, Identity(given["run"], "train"), place)
    how = {"restarts": job.restarts, "pending_seconds": given["pending_seconds"]}
    if given["trials"]:
        rates = Bounds("learning_rate", 0.001, 0.1, whole=False, by_logarithm=True)
        study = Study([rates], "val_loss", given["trials"], parallel=2, stopping="none", best_report=False)
        launch(tuning_job(made, study), place, news=TrialNews, **how)
    else:
        launch(made, place, **how)
"""


class Launcher:
    """A launcher that runs; `lines` are those that it has printed so far, on stdout or stderr."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.lines: list[str] = []
        self._news: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def until_line(self, text: str) -> str:
        """Wait for a line that holds a text; return it."""
        for line in self.lines:
            if text in line:
                return line
        while (came := self._next()) is not None:
            if text in came:
                return came
        raise AssertionError(f"{text!r} was not printed: {self.lines}")

    def end(self) -> int:
        """Wait for its end; return its exit code, -N where a signal ended it."""
        while self._next() is not None:
            pass
        return self._process.wait()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def terminate(self) -> None:
        """Tell it to end, as a pipeline does that is cancelled."""
        self._process.send_signal(signal.SIGTERM)

    def _next(self) -> str | None:
        line = self._news.get()
        if line is not None:
            self.lines.append(line)
        else:
            self._news.put(None)
        return line

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout:
            for line in self._process.stdout:
                self._news.put(line.rstrip("\n"))
        self._news.put(None)


@contextlib.contextmanager
def launched(
    server: Vertex, program: str, environment: Mapping[str, str] | None = None, **given: Any
) -> Iterator[Launcher]:
    """Yield a launcher of a training whose processes run a program; in the end it is killed, if it still runs.

    With `trials`, it is a search of so many, which run the program.
    """
    defaults = {"workers": 1, "restarts": 1, "pod": {}, "run": "run-1", "trials": 0}
    defaults |= {"pending_seconds": 60, "patience": 60}
    place = {"project": server.project, "location": server.location, "bucket": server.bucket}
    argument = json.dumps({**defaults, **place, "program": program, **given})
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, argument],
        cwd=_ROOT,
        env={**server.process_environment(), **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    launcher = Launcher(process)
    try:
        yield launcher
    finally:
        process.kill()
        process.wait()
