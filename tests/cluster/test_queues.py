"""Priorities, queues, and what others apply: as the API server, the scheduler and the operator take them."""

import datetime
import json
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
from qcnn.jobs.tfjob.manifest import JOB_NAME_LABEL, TFJOBS
from tests.cluster.launchers import Launchers, job
from tests.cluster.programs import Qcnn

_PRIORITY = 1000
_PENDING_SECONDS = 30
# Nothing of these ever starts.
_NOWHERE = ("--image", "localhost/none:1", "--output", "gs://none/none", "--qubits", "4", "--rounds", "5")
_POD = """
queue: team
priority_class: {}
topology_spread: kubernetes.io/hostname
roles: {{worker: {{cpu: 100m, memory: 64Mi}}}}
environment: {{ON: "on", NUMBER: "1e3"}}
"""


@pytest.fixture
def priority_class() -> Iterator[str]:
    """A priority class, which is the whole cluster's."""
    name = f"qcnn-test-{secrets.token_hex(4)}"
    SchedulingV1Api().create_priority_class({"metadata": {"name": name}, "value": _PRIORITY})
    yield name
    SchedulingV1Api().delete_priority_class(name)


def test_pods_have_the_priority_of_their_class(launchers: Launchers, priority_class: str) -> None:
    launcher = launchers.start(job("", priority_class=priority_class, topology_spread="kubernetes.io/hostname"))
    assert launcher.ends() == 0, launcher.output
    pods = launchers.api.find(PODS, labelSelector=f"{JOB_NAME_LABEL}={_started(launchers)}")
    assert pods
    for pod in pods:
        assert (pod["spec"]["priorityClassName"], pod["spec"]["priority"]) == (priority_class, _PRIORITY)
        (constraint,) = pod["spec"]["topologySpreadConstraints"]
        assert constraint["whenUnsatisfiable"] == "ScheduleAnyway"


def test_a_priority_class_that_is_not_there_is_said(launchers: Launchers, qcnn: Qcnn) -> None:
    name = launchers.create(job("", replicas={"worker": 1}, priority_class="none"))["metadata"]["name"]
    while (trouble := json.loads(qcnn("status", "--format", "json", name))["parts"][0]["reason"]) == "":
        pass
    assert "no PriorityClass with name none was found" in trouble


def test_a_job_in_a_queue_has_no_pods_and_is_waited_for_until_it_may_go_on(launchers: Launchers, qcnn: Qcnn) -> None:
    queued = job("print('up')", replicas={"worker": 1}, queue="team")
    # As Kueue has it: it suspends a job as it is created, which here nobody else does.
    held = launchers.manifest(queued)
    held["spec"]["runPolicy"]["suspend"] = True
    created = launchers.api.create(TFJOBS, held)
    assert created
    launcher = launchers.start(queued, pending_seconds=_PENDING_SECONDS)
    launcher.says("is adopted$")
    launcher.says("is suspended, for example by a queue; waiting$")
    (found,) = launchers.until(TFJOBS, lambda jobs: any(condition(each, "Suspended") for each in jobs))
    name = found["metadata"]["name"]
    assert found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert json.loads(qcnn("status", "--format", "json", name))["state"] == "suspended"
    # For longer than processes may take to start.
    until = parse_time(created["metadata"]["creationTimestamp"]) + datetime.timedelta(seconds=_PENDING_SECONDS + 5)
    while launchers.api.now() < until:
        assert not launchers.api.find(PODS, labelSelector=f"{JOB_NAME_LABEL}={name}")
    assert launcher.process.poll() is None
    launchers.suspend(queued, False)
    launcher.says("is no longer suspended$")
    assert launcher.ends() == 0, launcher.output
    assert launcher.lines("worker 0") == ["up"]


def _started(launchers: Launchers) -> str:
    """Return the name of the one TFJob of the launchers' run."""
    (found,) = launchers.until(TFJOBS, bool)
    return str(found["metadata"]["name"])


def _apply(namespace: str, manifests: str, *words: str) -> None:
    """Apply what was printed, with all rights."""
    command = [
        "kubectl",
        "--kubeconfig",
        os.environ["KUBECONFIG"],
        "--namespace",
        namespace,
        "apply",
        *words,
        "-f",
        "-",
    ]
    done = subprocess.run(command, input=manifests, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_what_a_dry_run_prints_can_be_applied_and_is_taken_up(
    launchers: Launchers, qcnn: Qcnn, priority_class: str, tmp_path: Path, form: str
) -> None:
    run = launchers.identity.run
    (pod := tmp_path / "pod.yaml").write_text(_POD.format(priority_class))
    words = ("submit", "--target", "tfjob", "--name", run, "--pod", str(pod), *_NOWHERE)
    printed = qcnn(*words, "--dry-run", "-o", form)
    _apply(launchers.namespace, printed, "--dry-run=server", "--validate=strict")
    assert not [found for found in launchers.api.find(TFJOBS) if run_of(found["metadata"]) == run]
    _apply(launchers.namespace, printed, "--validate=strict")
    name = _started(launchers)
    assert f"TFJob {name} already runs in namespace {launchers.namespace}" in qcnn(*words)
    service: Any = launchers.api.get(SERVICES, f"{name}-profiler")
    (owner,) = service["metadata"]["ownerReferences"]
    assert owner["name"] == name
    # Applied once more, it is as it was.
    _apply(launchers.namespace, printed)
    assert f"TFJob {name} already runs" in qcnn(*words)
    qcnn("delete", "--run", run, "--yes")
    launchers.until_nothing_is_left()
