"""What launchers cost, on the cluster of KUBECONFIG: python -m benchmarks.launchers.

The namespace must have the accounts of deploy/rbac.yaml, and the cluster the image qcnn:latest.
"""

import collections
import contextlib
import dataclasses
import logging
import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import kubernetes.client
from tabulate import tabulate

from qcnn.components.resources import IMAGE
from qcnn.errors import QcnnError
from qcnn.jobs.job import Job, JobIdentity, run_label
from qcnn.jobs.kubernetes.api import PODS, NamespaceClient, own_namespace
from qcnn.jobs.kubernetes.manifest import RUN_LABEL
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.launch import launch
from qcnn.jobs.tfjob.manifest import TFJOBS, JobTimeouts, tfjob

ROUNDS = 5
# Seconds over which requests are counted, after those in which the jobs start.
COUNTED, STARTING = 120, 60
# One node holds 110 running pods, but any number can wait for a node.
TRAINING, WAITING = 20, 200
_MIB_OF_KIB = 1024
_WORKERS = 2
# Seconds within which others must see what the launcher has seen.
_LATE = 10
_PROGRAM = """
from benchmarks.launchers import follow
from qcnn.startup import one_line_errors
with one_line_errors():
    follow("{run}", 0, "import time; print(time.time())", cpu="10m")
"""


@dataclasses.dataclass(frozen=True)
class Cost:
    """Of one launcher: seconds to the TFJob, until its pods are known to have ended, from then to its end; MiB."""

    before: float
    noticed: float
    after: float
    memory: float


def main() -> None:
    """Print what one launcher takes, and what many ask of the API server."""
    logging.getLogger("qcnn").setLevel(logging.ERROR)
    costs = [_cost() for _ in range(ROUNDS)]
    rows = [
        (name, f"{statistics.median(values):.1f}", f"{max(values):.1f}")
        for name, values in (
            ("launcher started to TFJob created, s", [cost.before for cost in costs]),
            ("last worker's last line to its pod Succeeded, s", [cost.noticed for cost in costs]),
            ("last pod Succeeded to launcher ended, s", [cost.after for cost in costs]),
            ("peak memory of the launcher, MiB", [cost.memory for cost in costs]),
        )
    ]
    print(tabulate(rows, headers=("", f"median of {ROUNDS}", "most"), disable_numparse=True))
    print()
    requests = [
        (f"{TRAINING} whose job trains", *_requests(TRAINING, cpu="10m")),
        (f"{WAITING} whose job waits for a node", *_requests(WAITING, cpu="1000")),
    ]
    headers = ("requests a second of each", "get, list", "watch, log", "renew", "all")
    print(tabulate(requests, headers=headers, floatfmt=".3f"))


def follow(run: str, number: int, program: str, cpu: str) -> None:
    """Launch a job whose workers run a Python program."""
    pod = PodSettings(image=IMAGE, service_account="qcnn-worker", cpu=cpu, memory="64Mi")
    job = Job(
        argv=("python", "-c", program), replicas={"worker": _WORKERS}, restarts=0, heartbeat_timeout_seconds=60, pod=pod
    )
    launch(tfjob(job, JobIdentity(run, "train", number), JobTimeouts(ttl_seconds_after_finished=0)), own_namespace())


def _cost() -> Cost:
    run = f"cost-{time.time_ns()}"
    succeeded: list[float] = []
    noting = threading.Thread(target=_note_success, args=(run, succeeded), daemon=True)
    noting.start()
    started = time.time()
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.format(run=run)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as launcher:
        assert launcher.stdout
        output, created = "", 0.0
        for line in launcher.stdout:
            output += line
            if line.rstrip().endswith("is created"):
                created = time.time()
        _, status, usage = os.wait4(launcher.pid, 0)
        ended = time.time()
        launcher.returncode = os.waitstatus_to_exitcode(status)
    if launcher.returncode:
        raise RuntimeError(output)
    last = max(map(float, re.findall(r"\[worker \d\] (\d+\.\d+)$", output, re.MULTILINE)))
    noting.join(_LATE)
    (noticed,) = succeeded
    return Cost(created - started, noticed - last, ended - noticed, usage.ru_maxrss / _MIB_OF_KIB)


def _note_success(run: str, times: list[float]) -> None:
    """Take the time at which the pods of a run's workers have succeeded."""
    with (
        contextlib.closing(NamespaceClient(own_namespace())) as api,
        contextlib.closing(api.watch(PODS, labelSelector=f"{RUN_LABEL}={run_label(run)}")) as watch,
    ):
        phases = ([pod["status"].get("phase") for pod in pods.values()] for pods in watch)
        next(found for found in phases if found == ["Succeeded"] * _WORKERS)
        times.append(time.time())


def _requests(launchers: int, cpu: str) -> tuple[float, float, float, float]:
    """Let launchers follow jobs that do nothing; return how often each asks, by kind of request and in all."""
    run, sleep = f"watched-{time.time_ns()}", f"import time; time.sleep({STARTING + COUNTED})"
    threads = [threading.Thread(target=_quietly, args=(run, number, sleep, cpu)) for number in range(launchers)]
    with _counted() as asked:
        for thread in threads:
            thread.start()
        time.sleep(STARTING)
        asked.clear()
        time.sleep(COUNTED)
        counts = dict(asked)
    with contextlib.closing(NamespaceClient(own_namespace())) as api:
        for job in api.find(TFJOBS, labelSelector=f"{RUN_LABEL}={run_label(run)}"):
            api.delete(TFJOBS, job["metadata"]["name"])
    for thread in threads:
        thread.join()
    kinds = (("GET",), ("watch", "log"), ("PUT", "PATCH", "POST"))
    read, streamed, renewed = (sum(counts.get(name, 0) for name in kind) / COUNTED / launchers for kind in kinds)
    return read, streamed, renewed, sum(counts.values()) / COUNTED / launchers


def _quietly(*arguments: Any) -> None:
    # Their jobs are deleted in the end.
    with contextlib.suppress(QcnnError):
        follow(*arguments)


@contextlib.contextmanager
def _counted() -> Iterator[collections.Counter[str]]:
    """Count the requests of all clients in this process."""
    asked: collections.Counter[str] = collections.Counter()
    as_it_is = kubernetes.client.ApiClient.call_api

    def counted(self: Any, path: str, method: str, *arguments: Any, **options: Any) -> Any:
        watched = ("watch", "true") in options.get("query_params", ())
        asked["watch" if watched else "log" if path.endswith("/log") else method] += 1
        return as_it_is(self, path, method, *arguments, **options)

    kubernetes.client.ApiClient.call_api = counted
    try:
        yield asked
    finally:
        kubernetes.client.ApiClient.call_api = as_it_is


if __name__ == "__main__":
    main()
