"""Launchers, with an API server that keeps objects in memory, and an operator that does what a test says."""

import contextlib
import json
import logging
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from qcnn.errors import ConfigError, RetryableError, TrainingError
from qcnn.jobs.job import Job, JobIdentity
from qcnn.jobs.kubernetes import retry
from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.kubernetes.create_or_adopt import CreateOutcome
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.launch import applied, is_terminating, launch, submit
from qcnn.jobs.tfjob.manifest import JobTimeouts, Manifest, profiler_service, tfjob
from qcnn.jobs.tfjob.status import read_all
from qcnn.startup import ABANDONED
from tests.qcnn.jobs.apiserver import ApiServer, Object
from tests.qcnn.jobs.training_operator import DONE, RUNNING, Operator, ended
from tests.watched import port_in, scrape

PODS_FAILED = "TFJob a is failed because 1 Worker replica(s) failed."


@pytest.fixture
def server(api_server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    monkeypatch.setattr(retry, "REJECTION_SECONDS", 0.0)
    return api_server


def _manifest(
    restarts: int = 1, memory: str = "1Gi", lease_seconds: int | None = 600, metrics_port: int | None = None
) -> Manifest:
    pod = PodSettings(image="qcnn", memory=memory, metrics_port=metrics_port)
    job = Job(("train",), {"worker": 2}, restarts, heartbeat_timeout_seconds=60, pod=pod)
    return tfjob(job, JobIdentity("run", "train"), JobTimeouts(lease_seconds=lease_seconds))


NAME = _manifest()["metadata"]["name"]


def test_a_training_is_created_followed_and_looked_after(server: ApiServer, capfd: pytest.CaptureFixture[str]) -> None:
    Operator(server, DONE)
    server.logs = {f"{NAME}-worker-0": ["epoch 1", "epoch 2"]}
    launch(_manifest(), "a")
    assert capfd.readouterr().out.splitlines() == ["[worker 0] epoch 1", "[worker 0] epoch 2"]
    (job,), (lease,), (service,) = server.all("tfjobs"), server.all("leases"), server.all("services")
    assert (lease["metadata"]["name"], lease["spec"]["leaseDurationSeconds"]) == (NAME, 600)
    assert service["metadata"]["name"] == f"{NAME}-profiler"
    for owned in (lease, service):
        assert owned["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]


def test_what_has_succeeded_is_not_trained_again(server: ApiServer) -> None:
    Operator(server, DONE)
    launch(_manifest(), "a")
    server.requests.clear()
    launch(_manifest(), "a")
    assert server.requests == [("get", "tfjobs")]


def test_the_pods_of_an_earlier_job_of_the_same_name_are_not_its_own(server: ApiServer) -> None:
    gone: Object = {"metadata": {"name": NAME, "uid": "gone"}}
    Operator(server).show(gone, 0, ended(137, "OOMKilled"))
    Operator(server, DONE)
    launch(_manifest(memory="2Gi"), "a")


def test_what_runs_is_adopted(server: ApiServer) -> None:
    created = server.put("tfjobs", _manifest())
    threading.Thread(target=Operator(server, DONE).run, args=(created,), daemon=True).start()
    launch(_manifest(), "a")
    assert ("create", "tfjobs") not in server.requests
    assert [job["metadata"]["uid"] for job in server.all("tfjobs")] == [created["metadata"]["uid"]]


def _held() -> Manifest:
    """Return the TFJob as it is while a queue holds it back."""
    held = _manifest()
    held["spec"]["runPolicy"]["suspend"] = True
    return held


def test_a_job_that_a_queue_holds_back_is_followed_once_it_goes_on(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    created, operator = server.put("tfjobs", _held()), Operator(server, DONE)

    def let_it_go_on() -> None:
        server.until_watched("tfjobs")
        server.until_watched("pods")
        server.set_condition(created, "Suspended")
        operator.run(server.put("tfjobs", _manifest()))

    threading.Thread(target=let_it_go_on, daemon=True).start()
    with caplog.at_level("INFO", "qcnn"):
        launch(_manifest(), "a")
    said = [line.removeprefix(f"TFJob {NAME} ") for line in caplog.messages if line.startswith(f"TFJob {NAME} ")]
    assert said[:3] == ["is adopted", "is suspended, for example by a queue; waiting", "is no longer suspended"]
    assert [job["metadata"]["uid"] for job in server.all("tfjobs")] == [created["metadata"]["uid"]]


def test_the_time_in_a_queue_is_no_time_in_which_processes_do_not_start(server: ApiServer) -> None:
    """With no time to start in, the first look at a job that is not held back would be its end."""
    created = server.put("tfjobs", _held())

    def look_often() -> None:
        server.until_watched("tfjobs")
        server.until_watched("pods")
        for condition in ("Created", "Suspended", "Suspended", "Succeeded"):
            server.set_condition(created, condition)

    threading.Thread(target=look_often, daemon=True).start()
    launch(_manifest(), "a", pending_seconds=0)
    assert ("delete", "tfjobs") not in server.requests


def test_the_same_with_other_settings_is_refused_and_left_alone(server: ApiServer) -> None:
    server.put("tfjobs", _manifest())
    with pytest.raises(ConfigError, match=r"^TFJob: already runs with other settings; "):
        launch(_manifest(memory="2Gi"), "a")
    assert server.get("tfjobs", NAME)


def test_an_own_fault_ends_the_launcher_with_its_last_line_and_is_left_to_be_looked_at(server: ApiServer) -> None:
    Operator(server, [[RUNNING, RUNNING], [RUNNING, ended(1)], f"Failed: {PODS_FAILED}"])
    server.logs = {f"{NAME}-worker-1": ["before the end", "out of luck"]}
    with pytest.raises(TrainingError, match=rf"^worker 1 ended with exit code 1: out of luck\. Given: {NAME}$"):
        launch(_manifest(), "a")
    assert server.get("tfjobs", NAME)


def test_what_has_failed_is_replaced(server: ApiServer) -> None:
    failed = server.put("tfjobs", _manifest())
    server.set_condition(failed, "Failed")
    Operator(server, DONE)
    launch(_manifest(), "a")
    (job,) = server.all("tfjobs")
    assert job["metadata"]["uid"] != failed["metadata"]["uid"]


def test_losses_are_counted_and_one_too_many_deletes_the_job(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    lost = [ended(138), ended(137)]
    Operator(server, [[RUNNING, RUNNING], lost, [RUNNING, RUNNING], lost])
    with pytest.raises(RetryableError, match=rf"^worker \d ended with exit code 13\d, after 1 restarts: .* {NAME}$"):
        launch(_manifest(restarts=1), "a")
    assert server.get("tfjobs", NAME) is None
    assert [line for line in caplog.messages if line.endswith("was lost and is restarted (1 of 1)")]


def test_more_memory_than_the_limit_deletes_the_job_at_once(server: ApiServer) -> None:
    Operator(server, [[RUNNING, RUNNING], [ended(137, "OOMKilled"), RUNNING]])
    with pytest.raises(TrainingError, match=r"^worker 0 used more memory than its limit: it printed nothing\. Given: "):
        launch(_manifest(restarts=9), "a")
    assert server.get("tfjobs", NAME) is None


def test_what_the_operator_gives_up_for_a_lost_process_is_started_again(server: ApiServer) -> None:
    Operator(server, [[RUNNING, RUNNING], [ended(138), None], f"Failed: {PODS_FAILED}"], DONE)
    launch(_manifest(restarts=1), "a")
    assert server.requests.count(("create", "tfjobs")) == 2
    # What is shown of it counts on.
    with contextlib.closing(NamespaceClient("a")) as api:
        (status,) = read_all(api)
    assert (status.state, status.restarts) == ("Succeeded", 1)


def test_a_job_that_somebody_deletes_is_not_waited_for(server: ApiServer) -> None:
    def delete(job: Object) -> None:
        server.until_watched("tfjobs")
        server.remove("tfjobs", NAME)

    server.operator = delete
    with pytest.raises(RetryableError, match=r"^TFJob: it, or its namespace, was deleted from outside\. Given: "):
        launch(_manifest(), "a")


def test_what_does_not_start_in_time_is_deleted(server: ApiServer) -> None:
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "none"}}
    Operator(server, [[RUNNING, waiting]])
    with pytest.raises(ConfigError, match=r"^not started after 0.2 s: worker "):
        launch(_manifest(), "a", pending_seconds=0.2)
    assert server.get("tfjobs", NAME) is None


@pytest.mark.parametrize(
    ("code", "retried", "is_replaced"), [(1, True, False), (1, False, True), (ABANDONED, True, True), (138, True, True)]
)
def test_a_backend_that_retries_by_itself_does_not_train_an_own_fault_again(
    server: ApiServer, code: int, retried: bool, is_replaced: bool
) -> None:
    failed = [[ended(code), RUNNING], f"Failed: {PODS_FAILED}"]
    Operator(server, failed)
    with pytest.raises((TrainingError, RetryableError)):
        launch(_manifest(restarts=0), "a")
    Operator(server, DONE)
    with (
        contextlib.nullcontext()
        if is_replaced
        else pytest.raises(TrainingError, match=r"^worker 0 ended with exit code 1")
    ):
        launch(_manifest(restarts=0), "a", retried=retried)
    assert server.requests.count(("create", "tfjobs")) == 1 + is_replaced


def test_pods_that_may_not_read_their_lease_are_not_created(server: ApiServer) -> None:
    server.allows_pods = False
    with pytest.raises(ConfigError, match=r"^permission: the pods' service account may not read the Lease "):
        launch(_manifest(), "a")
    assert server.all("tfjobs") == []
    Operator(server, DONE)
    launch(_manifest(lease_seconds=None), "a")
    assert server.all("leases") == []


@pytest.mark.parametrize("plural", ["leases", "services"])
def test_a_job_that_its_launcher_may_not_look_after_is_deleted(server: ApiServer, plural: str) -> None:
    server.rejected.add(("patch", plural))
    with pytest.raises(ConfigError, match=rf"^permission: patch {plural} in namespace a is missing "):
        launch(_manifest(), "a")
    assert server.all("tfjobs") == []


def test_a_training_without_a_launcher_is_created_once(server: ApiServer) -> None:
    with contextlib.closing(NamespaceClient("a")) as api:
        created, how = submit(api, _manifest(lease_seconds=None))
        assert how is CreateOutcome.CREATED
        again, how = submit(api, _manifest(lease_seconds=None))
        assert (again["metadata"]["uid"], how) == (created["metadata"]["uid"], CreateOutcome.ADOPTED)
    (service,) = server.all("services")
    assert service["metadata"]["name"] == profiler_service(created)["metadata"]["name"]


def test_what_others_have_applied_is_taken_up_as_what_was_submitted(server: ApiServer) -> None:
    manifest = _manifest(lease_seconds=None)
    for plural, each in zip(("tfjobs", "services"), applied(manifest, None), strict=True):
        server.put(plural, each)
    with contextlib.closing(NamespaceClient("a")) as api:
        found, how = submit(api, manifest)
    assert how is CreateOutcome.ADOPTED
    (service,) = server.all("services")
    # From now on it goes with its TFJob.
    assert service["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]


def test_a_training_whose_service_is_refused_is_deleted_only_by_who_created_it(server: ApiServer) -> None:
    server.rejected.add(("patch", "services"))
    with contextlib.closing(NamespaceClient("a")) as api:
        with pytest.raises(ConfigError):
            submit(api, _manifest())
        assert server.all("tfjobs") == []
        server.put("tfjobs", _manifest())
        with pytest.raises(ConfigError):
            submit(api, _manifest())
    assert server.get("tfjobs", NAME)


def test_a_launcher_serves_the_phase_and_restarts_of_its_job_until_it_ends(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    manifest = _manifest(metrics_port=9095)
    (container,) = manifest["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    # Any free port: a pod has all of them.
    (port,) = (port for port in container["ports"] if port["name"] == "metrics")
    port["containerPort"] = 0
    operator, served, found = Operator(server), list[int](), list[dict[tuple[str, str], float]]()

    def live(job: Object) -> None:
        server.until_watched("pods", 1)
        for states in ([RUNNING, RUNNING], [ended(138), ended(137)], [RUNNING, RUNNING]):
            for index, state in enumerate(states):
                operator.show(job, index, state)
        server.set_condition(job, "Running")
        served.append(next(filter(None, map(port_in, caplog.messages))))
        wanted = {("qcnn_restarts", ""): 1.0, ("qcnn_job_phase", "Running"): 1.0, ("qcnn_job_phase", "Failed"): 0.0}
        while not found:
            samples = [sample for metric in scrape(served[0]) for sample in metric.samples]
            assert {sample.labels["job_name"] for sample in samples} <= {manifest["metadata"]["name"]}
            values = {(sample.name, sample.labels.get("phase", "")): sample.value for sample in samples}
            if values.items() >= wanted.items():
                found.append(values)
        server.set_condition(job, "Succeeded")

    server.operator = live
    launch(manifest, "a")
    assert sum(value for (name, _), value in found[0].items() if name == "qcnn_job_phase") == 1
    with pytest.raises(ConnectionRefusedError):
        scrape(served[0])


def test_the_lines_of_workers_that_log_json_are_read_as_text(
    server: ApiServer, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    Operator(server, [[RUNNING, RUNNING], [RUNNING, ended(2)], f"Failed: {PODS_FAILED}"])
    error = {"timestamp": "2026-11-24T00:00:00+00:00", "severity": "ERROR", "message": "error: no room. Given: /"}
    after = {**error, "severity": "INFO", "message": "a line of the log"}
    server.logs = {f"{NAME}-worker-1": [json.dumps(error), json.dumps(after)]}
    with pytest.raises(TrainingError, match=r"^worker 1 ended with exit code 2: no room \(given: /\)\. Given: "):
        launch(_manifest(), "a")
    assert "[worker 1] a line of the log\n" in capfd.readouterr().out
    assert "    error: no room. Given: /" in caplog.messages


@pytest.mark.parametrize("step", ["qcnn.components.steps.train_tfjob", "qcnn.components.steps.tensorboard"])
def test_steps_that_do_not_train_load_nothing_that_does(step: str) -> None:
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
        # Terminating a run leaves its pods.
        ({}, {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False"}]}, False),
        ({}, {"conditions": [{"type": "DisruptionTarget", "status": "False"}]}, False),
        ({}, {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}, True),
        ({"deletionTimestamp": "2026-11-22T08:00:00Z"}, {"phase": "Running"}, True),
    ],
)
def test_a_pod_is_going_where_it_is_deleted_or_its_node_ends_it(
    metadata: dict[str, Any], status: dict[str, Any], expected: bool
) -> None:
    assert is_terminating({"metadata": metadata, "status": status}) is expected


_PROGRAM = """
import signal, sys
from qcnn.jobs.kubernetes.api import NamespaceClient
from qcnn.jobs.tfjob.launch import Termination
api = NamespaceClient("a")
with Termination(api, "mine", lambda: sys.argv[1] == "evicted").installed():
    print("up", flush=True)
    signal.pause()
"""


def _end(number: signal.Signals, why: str = "terminated") -> tuple[int, str]:
    """Tell a launcher to end; return its exit code and the line with which it ended."""
    command = [sys.executable, "-c", _PROGRAM, why]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as launcher:
        assert launcher.stdout
        assert launcher.stdout.readline() == "up\n"
        launcher.send_signal(number)
        output, _ = launcher.communicate(timeout=60)
    return launcher.returncode, output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_launcher_that_is_told_to_end_deletes_its_job(api_server: ApiServer, number: signal.Signals) -> None:
    for name in ("mine", "another"):
        api_server.put("tfjobs", {"metadata": {"name": name}})
    code, said = _end(number)
    assert (code, said) == (128 + number, f"ended by {number.name}; its TFJob is deleted. Given: mine\n")
    assert [job["metadata"]["name"] for job in api_server.all("tfjobs")] == ["another"]


def test_a_launcher_that_has_created_nothing_says_so(api_server: ApiServer) -> None:
    code, said = _end(signal.SIGTERM)
    assert (code, said) == (143, "ended by SIGTERM; no TFJob of it was found. Given: mine\n")


def test_a_launcher_whose_pod_is_evicted_leaves_its_job_to_the_next(api_server: ApiServer) -> None:
    api_server.put("tfjobs", {"metadata": {"name": "mine"}})
    code, said = _end(signal.SIGTERM, "evicted")
    assert (code, said) == (143, "ended by SIGTERM, as its pod is; its TFJob stays. Given: mine\n")
    assert api_server.get("tfjobs", "mine")
