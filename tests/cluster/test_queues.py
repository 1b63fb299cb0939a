"""Priorities, queues and applied manifests on a cluster."""

import datetime
import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import SchedulingV1Api

from qcnn.jobs.kubernetes.api import PODS, SERVICES
from qcnn.jobs.kubernetes.manifest import condition, run_of
from qcnn.jobs.references import parse_time
from qcnn.jobs.tfjob.engine import JOB_NAME_LABEL, TFJOBS
from tests.cluster.kueue import has_kueue
from tests.cluster.launchers import Launchers, job
from tests.cluster.programs import Qcnn

_PRIORITY = 1000
_PENDING_SECONDS = 30
# The image does not exist, so the pods never start. They request few CPUs, which other tests need.
_MISSING_IMAGE = (
    *("--image", "localhost/none:1", "--cpu", "10m", "--memory", "64Mi"),
    *("--output", "gs://none/none", "--qubits", "4", "--rounds", "5"),
)
_POD = """
queue: team
priority_class: {}
topology_spread: kubernetes.io/hostname
roles: {{worker: {{cpu: 100m, memory: 64Mi}}}}
environment: {{ON: "on", NUMBER: "1e3"}}
"""


@pytest.fixture
def priority_class() -> Iterator[str]:
    """Priority class, which is a cluster-scoped object."""
    name = f"qcnn-test-{secrets.token_hex(4)}"
    SchedulingV1Api().create_priority_class({"metadata": {"name": name}, "value": _PRIORITY})
    yield name
    SchedulingV1Api().delete_priority_class(name)


def test_pods_have_priority_of_class(launchers: Launchers, priority_class: str) -> None:
    launcher = launchers.start(job("", priority_class=priority_class, topology_spread="kubernetes.io/hostname"))
    assert launcher.exit_code() == 0, launcher.output
    pods = launchers.api.find(PODS, labelSelector=f"{JOB_NAME_LABEL}={_started(launchers)}")
    assert pods
    for pod in pods:
        assert (pod["spec"]["priorityClassName"], pod["spec"]["priority"]) == (priority_class, _PRIORITY)
        (constraint,) = pod["spec"]["topologySpreadConstraints"]
        assert constraint["whenUnsatisfiable"] == "ScheduleAnyway"


def test_status_shows_missing_priority_class(launchers: Launchers, qcnn: Qcnn) -> None:
    name = launchers.create(job("", replicas={"worker": 1}, priority_class="none"))["metadata"]["name"]
    while (reason := qcnn.read("status", name)["parts"][0]["reason"]) == "":
        pass
    assert "no PriorityClass with name none was found" in reason


def test_queued_job_is_watched_until_resumed(launchers: Launchers, qcnn: Qcnn) -> None:
    if has_kueue():
        pytest.skip("Kueue suspends the resumed job again")
    queued = job("print('up')", replicas={"worker": 1}, queue="team")
    # Kueue suspends a job at creation.
    manifest = launchers.manifest(queued)
    manifest["spec"]["runPolicy"]["suspend"] = True
    created = launchers.api.create(TFJOBS, manifest)
    assert created
    launcher = launchers.start(queued, pending_seconds=_PENDING_SECONDS)
    launcher.wait_for_line("is adopted$")
    launcher.wait_for_line("is suspended, for example by a queue; waiting$")
    (found,) = launchers.wait_until(TFJOBS, lambda jobs: any(condition(each, "Suspended") for each in jobs))
    name = found["metadata"]["name"]
    assert found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    shown = qcnn.read("status", name)
    assert (shown["state"], shown["message"]) == ("suspended", "queued in team")
    # Longer than the timeout for pods to start.
    end = parse_time(created["metadata"]["creationTimestamp"]) + datetime.timedelta(seconds=_PENDING_SECONDS + 5)
    while launchers.api.now() < end:
        assert not launchers.api.find(PODS, labelSelector=f"{JOB_NAME_LABEL}={name}")
    assert launcher.process.poll() is None
    launchers.suspend(queued, False)
    launcher.wait_for_line("is no longer suspended$")
    assert launcher.exit_code() == 0, launcher.output
    assert launcher.lines("worker 0") == ["up"]


def _started(launchers: Launchers) -> str:
    """Return the name of the only TFJob of the run."""
    (found,) = launchers.wait_until(TFJOBS, bool)
    return str(found["metadata"]["name"])


def _apply(namespace: str, manifests: str, *options: str) -> None:
    """Apply manifests with the permissions of KUBECONFIG."""
    command = [
        "kubectl",
        "--kubeconfig",
        os.environ["KUBECONFIG"],
        "--namespace",
        namespace,
        "apply",
        *options,
        "-f",
        "-",
    ]
    done = subprocess.run(command, input=manifests, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_applied_dry_run_output_is_adopted(
    launchers: Launchers, qcnn: Qcnn, priority_class: str, tmp_path: Path, form: str
) -> None:
    run = launchers.identity.run
    (pod := tmp_path / "pod.yaml").write_text(_POD.format(priority_class))
    arguments = ("submit", "--target", "tfjob", "--name", run, "--pod", str(pod), *_MISSING_IMAGE)
    manifests = qcnn(*arguments, "--dry-run", "-o", form)
    _apply(launchers.namespace, manifests, "--dry-run=server", "--validate=strict")
    assert not [found for found in launchers.api.find(TFJOBS) if run_of(found["metadata"]) == run]
    _apply(launchers.namespace, manifests, "--validate=strict")
    name = _started(launchers)
    assert f"TFJob {name} already runs in namespace {launchers.namespace}" in qcnn(*arguments)
    service: Any = launchers.api.get(SERVICES, f"{name}-profiler")
    (owner,) = service["metadata"]["ownerReferences"]
    assert owner["name"] == name
    # A second application changes nothing.
    _apply(launchers.namespace, manifests)
    assert f"TFJob {name} already runs" in qcnn(*arguments)
    qcnn("delete", "--run", run, "--yes")
    launchers.wait_until_deleted()
