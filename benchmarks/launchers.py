"""Overhead of launchers on the cluster of KUBECONFIG: python -m benchmarks.launchers.

Requires the service accounts of deploy/rbac.yaml in the namespace and the image qcnn:latest on the nodes.
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
from qcnn.jobs.job import JobIdentity, JobSpec, run_label
from qcnn.jobs.kubernetes.api import PODS, NamespaceClient
from qcnn.jobs.kubernetes.cluster_config import own_namespace
from qcnn.jobs.kubernetes.launch import launch
from qcnn.jobs.kubernetes.manifest import RUN_LABEL
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.engine import TFJOB, TFJOBS

ROUNDS = 5
# Seconds in which requests are counted, and seconds before, in which the jobs start.
COUNTED, STARTING = 120, 60
# A node runs at most 110 pods. The number of pending pods is not limited.
TRAINING, PENDING = 20, 200
_MIB_OF_KIB = 1024
_WORKERS = 2
# Seconds within which this process must observe the success of the pods after the launcher.
_DELAY = 10
_PROGRAM = """
from benchmarks.launchers import launch_job
from qcnn.process.error_lines import one_line_errors
with one_line_errors():
    launch_job("{run}", 0, "import time; print(time.time())", cpu="10m")
"""


@dataclasses.dataclass(frozen=True)
class Overhead:
    """Overhead of a launcher.

    Attributes:
        create_seconds: Seconds from the start of the launcher to the creation of the TFJob.
        success_seconds: Seconds from the last log line of the workers to phase Succeeded of their pods.
        exit_seconds: Seconds from this phase to the exit of the launcher.
        memory: Peak memory in MiB.
    """

    create_seconds: float
    success_seconds: float
    exit_seconds: float
    memory: float


def main() -> None:
    """Print the overhead of a launcher, and the API request rates of many launchers."""
    logging.getLogger("qcnn").setLevel(logging.ERROR)
    overheads = [_measure_overhead() for _ in range(ROUNDS)]
    rows = [
        (name, f"{statistics.median(values):.1f}", f"{max(values):.1f}")
        for name, values in (
            ("launcher start to TFJob created, s", [overhead.create_seconds for overhead in overheads]),
            ("last log line to pod Succeeded, s", [overhead.success_seconds for overhead in overheads]),
            ("pod Succeeded to launcher exit, s", [overhead.exit_seconds for overhead in overheads]),
            ("peak memory of the launcher, MiB", [overhead.memory for overhead in overheads]),
        )
    ]
    print(tabulate(rows, headers=("", f"median of {ROUNDS}", "maximum"), disable_numparse=True))
    print()
    requests = [
        (f"{TRAINING} with a running job", *_measure_requests(TRAINING, cpu="10m")),
        (f"{PENDING} with a pending job", *_measure_requests(PENDING, cpu="1000")),
    ]
    headers = ("requests per second and launcher", "get, list", "watch, log", "renew", "all")
    print(tabulate(requests, headers=headers, floatfmt=".3f"))


def launch_job(run: str, number: int, program: str, cpu: str) -> None:
    """Launch a job whose workers run a Python program, and wait for it.

    Args:
        run: Name of the run.
        number: Number of the job in the run.
        program: Source code of the program.
        cpu: CPU request of a worker.
    """
    pod = PodSettings(image=IMAGE, service_account="qcnn-worker", cpu=cpu, memory="64Mi")
    job = JobSpec(
        argv=("python", "-c", program), replicas={"worker": _WORKERS}, restarts=0, heartbeat_timeout_seconds=60, pod=pod
    )
    launch(
        TFJOB.training(job, JobIdentity(run, "train", number), JobTimeouts(ttl_seconds_after_finished=0)),
        own_namespace(),
    )


def _measure_overhead() -> Overhead:
    run = f"overhead-{time.time_ns()}"
    succeeded: list[float] = []
    watcher = threading.Thread(target=_record_success, args=(run, succeeded), daemon=True)
    watcher.start()
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
        exited = time.time()
        launcher.returncode = os.waitstatus_to_exitcode(status)
    if launcher.returncode:
        raise RuntimeError(output)
    last = max(map(float, re.findall(r"\[worker \d\] (\d+\.\d+)$", output, re.MULTILINE)))
    watcher.join(_DELAY)
    (succeeded_at,) = succeeded
    return Overhead(created - started, succeeded_at - last, exited - succeeded_at, usage.ru_maxrss / _MIB_OF_KIB)


def _record_success(run: str, times: list[float]) -> None:
    """Append the time at which all worker pods of a run are in phase Succeeded."""
    with (
        contextlib.closing(NamespaceClient(own_namespace())) as api,
        contextlib.closing(api.watch(PODS, labelSelector=f"{RUN_LABEL}={run_label(run)}")) as watch,
    ):
        phases = ([pod["status"].get("phase") for pod in pods.values()] for pods in watch)
        next(current for current in phases if current == ["Succeeded"] * _WORKERS)
        times.append(time.time())


def _measure_requests(launchers: int, cpu: str) -> tuple[float, float, float, float]:
    """Return the requests per second of each launcher of an idle job, by type and in total."""
    run, sleep = f"requests-{time.time_ns()}", f"import time; time.sleep({STARTING + COUNTED})"
    threads = [
        threading.Thread(target=_launch_until_deleted, args=(run, number, sleep, cpu)) for number in range(launchers)
    ]
    with _count_requests() as requests:
        for thread in threads:
            thread.start()
        time.sleep(STARTING)
        requests.clear()
        time.sleep(COUNTED)
        counts = dict(requests)
    with contextlib.closing(NamespaceClient(own_namespace())) as api:
        for job in api.find(TFJOBS, labelSelector=f"{RUN_LABEL}={run_label(run)}"):
            api.delete(TFJOBS, job["metadata"]["name"])
    for thread in threads:
        thread.join()
    types = (("GET",), ("watch", "log"), ("PUT", "PATCH", "POST"))
    read, streamed, renewed = (sum(counts.get(name, 0) for name in names) / COUNTED / launchers for names in types)
    return read, streamed, renewed, sum(counts.values()) / COUNTED / launchers


def _launch_until_deleted(*arguments: Any) -> None:
    # The deletion of the job is an error for its launcher.
    with contextlib.suppress(QcnnError):
        launch_job(*arguments)


@contextlib.contextmanager
def _count_requests() -> Iterator[collections.Counter[str]]:
    """Context manager that counts the requests of all clients in this process."""
    requests: collections.Counter[str] = collections.Counter()
    call_api = kubernetes.client.ApiClient.call_api

    def counted(self: Any, path: str, method: str, *arguments: Any, **options: Any) -> Any:
        watched = ("watch", "true") in options.get("query_params", ())
        requests["watch" if watched else "log" if path.endswith("/log") else method] += 1
        return call_api(self, path, method, *arguments, **options)

    kubernetes.client.ApiClient.call_api = counted
    try:
        yield requests
    finally:
        kubernetes.client.ApiClient.call_api = call_api


if __name__ == "__main__":
    main()
