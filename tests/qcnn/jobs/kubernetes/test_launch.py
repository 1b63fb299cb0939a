"""Launchers with an in-memory API server and a scripted operator."""

import contextlib
import json
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from qcnn.errors import ConfigError, RetryableError, TrainingError
from qcnn.jobs.job import CreateOutcome, JobIdentity, JobSpec
from qcnn.jobs.kubernetes import retry
from qcnn.jobs.kubernetes.api import PODS, NamespaceClient, Resource
from qcnn.jobs.kubernetes.engine import TrainingJob
from qcnn.jobs.kubernetes.launch import is_terminating, launch, manifests_to_apply, submit
from qcnn.jobs.kubernetes.manifest import Manifest
from qcnn.jobs.kubernetes.status import read_all
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.pod_settings import WORKER_ACCOUNT, PodSettings
from qcnn.jobs.tfjob.engine import TFJOB
from qcnn.process.exit_codes import ABANDONED
from tests.monitored_process import port_in, scrape
from tests.qcnn.jobs.apiserver import ApiServer, Object
from tests.qcnn.jobs.training_operator import DONE, RUNNING, Operator, ended

PODS_FAILED = "TFJob a is failed because 1 Worker replica(s) failed."


@pytest.fixture
def server(api_server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    monkeypatch.setattr(retry, "REJECTION_SECONDS", 0.0)
    return api_server


def _training(restarts: int = 1, lease_seconds: int | None = 600, **settings: Any) -> TrainingJob:
    pod = PodSettings(image="qcnn").model_copy(update={"memory": "1Gi", **settings})
    job = JobSpec(("train",), {"worker": 2}, restarts, heartbeat_timeout_seconds=60, pod=pod)
    return TFJOB.training(job, JobIdentity("run", "train"), JobTimeouts(lease_seconds=lease_seconds))


NAME = _training().name


def test_launch_creates_job_lease_and_service(server: ApiServer, capfd: pytest.CaptureFixture[str]) -> None:
    Operator(server, DONE)
    server.logs = {f"{NAME}-worker-0": ["epoch 1", "epoch 2"]}
    launch(_training(), "a")
    assert capfd.readouterr().out.splitlines() == ["[worker 0] epoch 1", "[worker 0] epoch 2"]
    (job,), (lease,), (service,) = server.all("tfjobs"), server.all("leases"), server.all("services")
    assert (lease["metadata"]["name"], lease["spec"]["leaseDurationSeconds"]) == (NAME, 600)
    assert service["metadata"]["name"] == f"{NAME}-profiler"
    for owned in (lease, service):
        assert owned["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]


def test_lines_of_job_that_ends_before_its_pods_are_observed(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    watch = NamespaceClient.watch

    def watch_before_pods(api: NamespaceClient, resource: Resource, **selectors: Any) -> Iterator[dict[str, Any]]:
        return iter([{}]) if resource == PODS else watch(api, resource, **selectors)

    def run(job: Object) -> None:
        Operator(server).show(job, 0, ended(0))
        server.set_condition(job, "Succeeded")

    monkeypatch.setattr(NamespaceClient, "watch", watch_before_pods)
    server.operator = run
    server.logs = {f"{NAME}-worker-0": ["epoch 1"]}
    launch(_training(), "a")
    assert capfd.readouterr().out.splitlines() == ["[worker 0] epoch 1"]


def test_succeeded_job_is_not_retrained(server: ApiServer) -> None:
    Operator(server, DONE)
    launch(_training(), "a")
    server.requests.clear()
    launch(_training(), "a")
    assert server.requests == [("get", "tfjobs")]


def test_pods_of_earlier_job_with_same_name_are_ignored(server: ApiServer) -> None:
    earlier: Object = {"metadata": {"name": NAME, "uid": "earlier"}}
    Operator(server).show(earlier, 0, ended(137, "OOMKilled"))
    Operator(server, DONE)
    launch(_training(memory="2Gi"), "a")


def test_active_job_is_adopted(server: ApiServer) -> None:
    created = server.put("tfjobs", _training().manifest)
    threading.Thread(target=Operator(server, DONE).run, args=(created,), daemon=True).start()
    launch(_training(), "a")
    assert ("create", "tfjobs") not in server.requests
    assert [job["metadata"]["uid"] for job in server.all("tfjobs")] == [created["metadata"]["uid"]]


def _suspended() -> Manifest:
    """Return the TFJob as suspended by a queue."""
    manifest = _training().manifest
    manifest["spec"]["runPolicy"]["suspend"] = True
    return manifest


def test_suspended_job_is_adopted_and_watched(server: ApiServer, caplog: pytest.LogCaptureFixture) -> None:
    created, operator = server.put("tfjobs", _suspended()), Operator(server, DONE)

    def resume() -> None:
        server.until_watched("tfjobs")
        server.until_watched("pods")
        server.set_condition(created, "Suspended")
        operator.run(server.put("tfjobs", _training().manifest))

    threading.Thread(target=resume, daemon=True).start()
    with caplog.at_level("INFO", "qcnn"):
        launch(_training(), "a")
    prefix = f"TFJob {NAME} "
    messages = [line.removeprefix(prefix) for line in caplog.messages if line.startswith(prefix)]
    assert messages[:3] == ["is adopted", "is suspended, for example by a queue; waiting", "is no longer suspended"]
    assert [job["metadata"]["uid"] for job in server.all("tfjobs")] == [created["metadata"]["uid"]]


def test_suspended_time_does_not_count_as_pending_time(server: ApiServer) -> None:
    # With a timeout of 0 s, the first observation of a job that is not suspended would fail.
    created = server.put("tfjobs", _suspended())

    def set_conditions() -> None:
        server.until_watched("tfjobs")
        server.until_watched("pods")
        for condition in ("Created", "Suspended", "Suspended", "Succeeded"):
            server.set_condition(created, condition)

    threading.Thread(target=set_conditions, daemon=True).start()
    launch(_training(), "a", pending_seconds=0)
    assert ("delete", "tfjobs") not in server.requests


def test_active_job_with_other_settings_is_config_error(server: ApiServer) -> None:
    server.put("tfjobs", _training().manifest)
    with pytest.raises(ConfigError, match=r"^TFJob: already runs with other settings; "):
        launch(_training(memory="2Gi"), "a")
    assert server.get("tfjobs", NAME)


def test_permanent_error_contains_last_line_and_job_is_kept(server: ApiServer) -> None:
    Operator(server, [[RUNNING, RUNNING], [RUNNING, ended(1)], f"Failed: {PODS_FAILED}"])
    server.logs = {f"{NAME}-worker-1": ["before the end", "out of luck"]}
    with pytest.raises(TrainingError, match=rf"^worker 1 ended with exit code 1: out of luck\. Given: {NAME}$"):
        launch(_training(), "a")
    assert server.get("tfjobs", NAME)


def test_failed_job_is_replaced(server: ApiServer) -> None:
    failed = server.put("tfjobs", _training().manifest)
    server.set_condition(failed, "Failed")
    Operator(server, DONE)
    launch(_training(), "a")
    (job,) = server.all("tfjobs")
    assert job["metadata"]["uid"] != failed["metadata"]["uid"]


def test_job_over_restart_limit_is_deleted(server: ApiServer, caplog: pytest.LogCaptureFixture) -> None:
    lost = [ended(138), ended(137)]
    Operator(server, [[RUNNING, RUNNING], lost, [RUNNING, RUNNING], lost])
    with pytest.raises(RetryableError, match=rf"^worker \d ended with exit code 13\d, after 1 restarts: .* {NAME}$"):
        launch(_training(restarts=1), "a")
    assert server.get("tfjobs", NAME) is None
    assert [line for line in caplog.messages if line.endswith("was lost and is restarted (1 of 1)")]


def test_out_of_memory_deletes_job_without_restart(server: ApiServer) -> None:
    Operator(server, [[RUNNING, RUNNING], [ended(137, "OOMKilled"), RUNNING]])
    with pytest.raises(TrainingError, match=r"^worker 0 used more memory than its limit: it printed nothing\. Given: "):
        launch(_training(restarts=9), "a")
    assert server.get("tfjobs", NAME) is None


def test_job_failed_by_retryable_error_is_replaced(server: ApiServer) -> None:
    Operator(server, [[RUNNING, RUNNING], [ended(138), None], f"Failed: {PODS_FAILED}"], DONE)
    launch(_training(restarts=1), "a")
    assert server.requests.count(("create", "tfjobs")) == 2
    # The status includes the restarts of the earlier job.
    with contextlib.closing(NamespaceClient("a")) as api:
        (status,) = read_all(api, TFJOB)
    assert (status.state, status.restarts) == ("Succeeded", 1)


def test_deleted_job_is_retryable_error(server: ApiServer) -> None:
    def delete(job: Object) -> None:
        server.until_watched("tfjobs")
        server.remove("tfjobs", NAME)

    server.operator = delete
    with pytest.raises(RetryableError, match=r"^TFJob: it, or its namespace, was deleted from outside\. Given: "):
        launch(_training(), "a")


def test_job_that_does_not_start_in_time_is_deleted(server: ApiServer) -> None:
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "none"}}
    Operator(server, [[RUNNING, waiting]])
    with pytest.raises(ConfigError, match=r"^not started after 0.2 s: worker "):
        launch(_training(), "a", pending_seconds=0.2)
    assert server.get("tfjobs", NAME) is None


@pytest.mark.parametrize(
    ("code", "retried", "is_replaced"), [(1, True, False), (1, False, True), (ABANDONED, True, True), (138, True, True)]
)
def test_retried_step_does_not_repeat_permanent_error(
    server: ApiServer, code: int, retried: bool, is_replaced: bool
) -> None:
    failed = [[ended(code), RUNNING], f"Failed: {PODS_FAILED}"]
    Operator(server, failed)
    with pytest.raises((TrainingError, RetryableError)):
        launch(_training(restarts=0), "a")
    Operator(server, DONE)
    with (
        contextlib.nullcontext()
        if is_replaced
        else pytest.raises(TrainingError, match=r"^worker 0 ended with exit code 1")
    ):
        launch(_training(restarts=0), "a", retried=retried)
    assert server.requests.count(("create", "tfjobs")) == 1 + is_replaced


def test_job_is_not_created_if_pods_may_not_read_lease(server: ApiServer) -> None:
    server.allows_pods = False
    with pytest.raises(ConfigError, match=r"^permission: the pods' service account must be allowed to read the Lease "):
        launch(_training(), "a")
    assert server.all("tfjobs") == []
    Operator(server, DONE)
    launch(_training(lease_seconds=None), "a")
    assert server.all("leases") == []


@pytest.mark.parametrize(
    ("account", "created"),
    [("absent", "create serviceaccount absent"), (WORKER_ACCOUNT, "apply -f deploy/rbac.yaml")],
)
def test_job_is_not_created_without_service_account(server: ApiServer, account: str, created: str) -> None:
    server.allows_pods = False
    server.remove("serviceaccounts", account)
    with pytest.raises(ConfigError) as error:
        launch(_training(service_account=account), "a")
    assert str(error.value) == (
        f"pod.service_account: must exist in namespace a; create it with `kubectl -n a {created}`, or name another "
        f"account. Given: {account}"
    )
    assert server.all("tfjobs") == []


@pytest.mark.parametrize("plural", ["leases", "services"])
def test_job_is_deleted_if_lease_or_service_is_forbidden(server: ApiServer, plural: str) -> None:
    server.rejected.add(("patch", plural))
    with pytest.raises(ConfigError, match=rf"^permission: patch {plural} in namespace a is missing "):
        launch(_training(), "a")
    assert server.all("tfjobs") == []


def test_submit_creates_job_once(server: ApiServer) -> None:
    with contextlib.closing(NamespaceClient("a")) as api:
        created, outcome = submit(api, _training(lease_seconds=None))
        assert outcome is CreateOutcome.CREATED
        again, outcome = submit(api, _training(lease_seconds=None))
        assert (again["metadata"]["uid"], outcome) == (created["metadata"]["uid"], CreateOutcome.ADOPTED)
    (service,) = server.all("services")
    assert service["metadata"]["name"] == TFJOB.services(created)[0]["metadata"]["name"]


def test_submit_adopts_applied_manifests(server: ApiServer) -> None:
    training = _training(lease_seconds=None)
    for plural, each in zip(("tfjobs", "services"), manifests_to_apply(training, None), strict=True):
        server.put(plural, each)
    with contextlib.closing(NamespaceClient("a")) as api:
        job, outcome = submit(api, training)
    assert outcome is CreateOutcome.ADOPTED
    (service,) = server.all("services")
    # The TFJob owns the Service after submission.
    assert service["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]


def test_submit_deletes_only_created_job_if_service_is_forbidden(server: ApiServer) -> None:
    server.rejected.add(("patch", "services"))
    with contextlib.closing(NamespaceClient("a")) as api:
        with pytest.raises(ConfigError):
            submit(api, _training())
        assert server.all("tfjobs") == []
        server.put("tfjobs", _training().manifest)
        with pytest.raises(ConfigError):
            submit(api, _training())
    assert server.get("tfjobs", NAME)


def test_launcher_serves_metrics_until_job_ends(server: ApiServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    # 0 selects a free port.
    training = _training(metrics_port=0)
    operator, served, found = Operator(server), list[int](), list[dict[tuple[str, str], float]]()

    def run(job: Object) -> None:
        server.until_watched("pods", 1)
        for states in ([RUNNING, RUNNING], [ended(138), ended(137)], [RUNNING, RUNNING]):
            for index, state in enumerate(states):
                operator.show(job, index, state)
        server.set_condition(job, "Running")
        served.append(next(filter(None, map(port_in, caplog.messages))))
        expected = {("qcnn_restarts", ""): 1.0, ("qcnn_job_phase", "Running"): 1.0, ("qcnn_job_phase", "Failed"): 0.0}
        while not found:
            samples = [sample for metric in scrape(served[0]) for sample in metric.samples]
            assert {sample.labels["job_name"] for sample in samples} <= {training.name}
            values = {(sample.name, sample.labels.get("phase", "")): sample.value for sample in samples}
            if values.items() >= expected.items():
                found.append(values)
        server.set_condition(job, "Succeeded")

    server.operator = run
    launch(training, "a")
    assert sum(value for (name, _), value in found[0].items() if name == "qcnn_job_phase") == 1
    with pytest.raises(ConnectionRefusedError):
        scrape(served[0])


def test_json_log_lines_are_printed_as_text(
    server: ApiServer, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    Operator(server, [[RUNNING, RUNNING], [RUNNING, ended(2)], f"Failed: {PODS_FAILED}"])
    error = {"timestamp": "2026-11-24T00:00:00+00:00", "severity": "ERROR", "message": "error: disk full. Given: /"}
    after = {**error, "severity": "INFO", "message": "a line of the log"}
    server.logs = {f"{NAME}-worker-1": [json.dumps(error), json.dumps(after)]}
    with pytest.raises(TrainingError, match=r"^worker 1 ended with exit code 2: disk full \(given: /\)\. Given: "):
        launch(_training(), "a")
    assert "[worker 1] a line of the log\n" in capfd.readouterr().out
    assert "    error: disk full. Given: /" in caplog.messages


@pytest.mark.parametrize("step", ["qcnn.components.steps.train_on_kubernetes", "qcnn.components.steps.tensorboard"])
def test_launcher_steps_do_not_import_tensorflow(step: str) -> None:
    program = f"""
import sys
import {step}
print([name for name in ("tensorflow", "cirq", "matplotlib", "kfp") if name in sys.modules])
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "[]\n"


@pytest.mark.parametrize(
    ("metadata", "status", "expected"),
    [
        ({}, {"phase": "Running"}, False),
        ({}, {"conditions": [{"type": "Ready", "status": "True"}]}, False),
        # Termination of a run does not delete its pods.
        ({}, {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False"}]}, False),
        ({}, {"conditions": [{"type": "DisruptionTarget", "status": "False"}]}, False),
        ({}, {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}, True),
        ({"deletionTimestamp": "2026-11-22T08:00:00Z"}, {"phase": "Running"}, True),
    ],
)
def test_is_terminating_if_deleted_or_disrupted(
    metadata: dict[str, Any], status: dict[str, Any], expected: bool
) -> None:
    assert is_terminating({"metadata": metadata, "status": status}) is expected


_PROGRAM = """
import signal, sys
from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.termination import Termination
from qcnn.jobs.tfjob.engine import TFJOBS
api = NamespaceClient("a")
kept = "pod is terminating" if sys.argv[1] == "evicted" else ""
with Termination(lambda: api.delete(TFJOBS, "mine"), "TFJob", "mine", "deleted", 1, lambda: kept).installed():
    print("up", flush=True)
    signal.pause()
"""


def _end(number: signal.Signals, why: str = "terminated") -> tuple[int, str]:
    """Send a signal to a launcher, and return its exit code and output."""
    command = [sys.executable, "-c", _PROGRAM, why]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as launcher:
        assert launcher.stdout
        assert launcher.stdout.readline() == "up\n"
        launcher.send_signal(number)
        output, _ = launcher.communicate(timeout=60)
    return launcher.returncode, output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_deletes_job(api_server: ApiServer, number: signal.Signals) -> None:
    for name in ("mine", "another"):
        api_server.put("tfjobs", {"metadata": {"name": name}})
    code, output = _end(number)
    assert (code, output) == (128 + number, f"ended by {number.name}; its TFJob is deleted. Given: mine\n")
    assert [job["metadata"]["name"] for job in api_server.all("tfjobs")] == ["another"]


def test_sigterm_without_job_is_reported(api_server: ApiServer) -> None:
    code, output = _end(signal.SIGTERM)
    assert (code, output) == (143, "ended by SIGTERM; no TFJob was found. Given: mine\n")


def test_sigterm_in_evicted_pod_keeps_job(api_server: ApiServer) -> None:
    api_server.put("tfjobs", {"metadata": {"name": "mine"}})
    code, output = _end(signal.SIGTERM, "evicted")
    assert (code, output) == (143, "ended by SIGTERM: pod is terminating; TFJob is kept. Given: mine\n")
    assert api_server.get("tfjobs", "mine")
