"""Launchers of jobs whose processes do not train."""

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from qcnn.errors import RetryableError
from qcnn.jobs.kubernetes.api import LEASES, PODS
from qcnn.jobs.kubernetes.launch import launch
from qcnn.jobs.kubernetes.manifest import TRAINING_ANNOTATION, condition
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.process.exit_codes import ABANDONED
from tests.cluster.launchers import Launchers, every_engine, job
from tests.cluster.programs import Program, Qcnn
from tests.cluster.proxy import Proxy

pytestmark = every_engine

# Runs until SIGTERM.
WAITER = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(143)); print('up', flush=True); signal.pause()"
COUNTER = "import time\nfor second in range({0}): print('second', second, flush=True); time.sleep(1)"
PERMANENT_ERROR, RETRYABLE = 2, 138


def _check_lines(launcher: Program, printed: list[str], leader: str = "worker 0") -> None:
    """Check that each line was forwarded once. Worker 1 may end early, because it ends with the leader."""
    assert launcher.lines(leader) == printed
    assert (lines := launcher.lines("worker 1")) == printed[: len(lines)]


def test_restarted_launcher_adopts_job(launchers: Launchers) -> None:
    # Long enough to start three launchers on a busy machine.
    counting = job(COUNTER.format(45))
    first = launchers.start(counting)
    first.wait_for_line("is created")
    first.process.kill()
    second = launchers.start(counting)
    second.wait_for_line("is adopted")
    second.wait_for_line(r"\[worker 1\] second 3")
    second.process.kill()
    third = launchers.start(counting)
    assert third.exit_code() == 0, third.output
    _check_lines(third, [f"second {second}" for second in range(45)])
    (found,) = launchers.wait_until(launchers.engine.resource, bool)
    assert condition(found, launchers.engine.succeeded)
    created = first.output + second.output + third.output
    assert created.count("is created") == 1


def test_launcher_killed_before_creation_can_be_restarted(launchers: Launchers) -> None:
    quick = job("")
    launchers.start(quick).process.kill()
    again = launchers.start(quick)
    assert again.exit_code() == 0, again.output
    assert len(launchers.wait_until(launchers.engine.resource, bool)) == 1


def test_launcher_of_succeeded_job_creates_no_pods(launchers: Launchers) -> None:
    quick = job("print('done')")
    assert launchers.start(quick).exit_code() == 0
    pods = {pod["metadata"]["uid"] for pod in launchers.wait_until(PODS, bool)}
    again = launchers.start(quick)
    assert again.exit_code() == 0
    assert "has already succeeded" in again.output
    # The operator deletes a worker that still runs when worker 0 has succeeded.
    assert {pod["metadata"]["uid"] for pod in launchers.wait_until(PODS, bool)} <= pods


def test_all_log_lines_are_forwarded_once(launchers: Launchers) -> None:
    launcher = launchers.start(job("for line in range(2000): print(line)", replicas={"chief": 1, "worker": 2}))
    assert launcher.exit_code() == 0, launcher.output
    _check_lines(launcher, [str(number) for number in range(2000)], "chief 0")


def test_launcher_reconnects_after_lost_connections(launchers: Launchers, proxy: Proxy) -> None:
    launcher = launchers.start(job(COUNTER.format(20)))
    launcher.wait_for_line(r"\[worker 1\] second 2$")
    proxy.cut()
    launcher.wait_for_line("the API server is unavailable .*; retrying")
    proxy.mend()
    assert launcher.exit_code() == 0, launcher.output
    _check_lines(launcher, [f"second {second}" for second in range(20)])


def test_unreachable_api_server_is_retryable_error(launchers: Launchers, proxy: Proxy) -> None:
    proxy.cut()
    launcher = launchers.start(job(""))
    assert launcher.exit_code() == RETRYABLE
    (error,) = launcher.errors
    assert error.startswith("error: the API server is unavailable (")


def test_permanent_error_fails_job(launchers: Launchers) -> None:
    program = f"""
import json, os
if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
    print("before the end")
    raise SystemExit("out of luck")
{WAITER}"""
    failing = job(program, restarts=3)
    launcher = launchers.start(failing)
    assert launcher.exit_code() == PERMANENT_ERROR, launcher.output
    (error,) = launcher.errors
    assert error.startswith("error: worker 1 ended with exit code 1: out of luck. Given: ")
    shown = launcher.output.partition("last lines of worker 1:\n")[2].splitlines()
    assert [line.strip() for line in shown[:2]] == ["before the end", "out of luck"]
    (failed,) = launchers.wait_until(launchers.engine.resource, bool)
    assert condition(failed, "Failed")
    again = launchers.start(failing)
    again.wait_for_line("it is replaced")
    assert again.exit_code() == PERMANENT_ERROR, again.output
    (replaced,) = launchers.wait_until(launchers.engine.resource, bool)
    assert replaced["metadata"]["uid"] != failed["metadata"]["uid"]


def test_job_over_restart_limit_is_deleted(launchers: Launchers) -> None:
    launcher = launchers.start(job("print('peer lost'); raise SystemExit(138)", restarts=2, replicas={"worker": 1}))
    assert launcher.exit_code() == RETRYABLE, launcher.output
    (error,) = launcher.errors
    assert error.startswith("error: worker 0 ended with exit code 138, after 2 restarts: peer lost. Given: ")
    assert launcher.output.count("[worker 0] peer lost") == 3
    assert launcher.output.count("worker 0 was lost and is restarted") == 2
    launchers.wait_until_deleted()


def test_out_of_memory_deletes_job_without_restart(launchers: Launchers) -> None:
    program = "print('allocating', flush=True); memory = bytearray(10**9)"
    launcher = launchers.start(job(program, restarts=3, replicas={"worker": 1}, memory="64Mi"))
    assert launcher.exit_code() == PERMANENT_ERROR, launcher.output
    (error,) = launcher.errors
    assert error.startswith("error: worker 0 used more memory than its limit: allocating. Given: ")
    assert launcher.restarts == 0
    launchers.wait_until_deleted()


def test_job_with_more_memory_has_same_name(launchers: Launchers) -> None:
    program = "memory = bytearray(10**8)"
    small, large = (job(program, restarts=3, replicas={"worker": 1}, memory=memory) for memory in ("64Mi", "256Mi"))
    assert launchers.start(small).exit_code() == PERMANENT_ERROR
    # The name is also that of the output folder.
    assert launchers.name(small) == launchers.name(large)
    again = launchers.start(large)
    assert again.exit_code() == 0, again.output


def test_suspended_job_resumes_without_restart(launchers: Launchers) -> None:
    counting = job(COUNTER.format(15), restarts=0)
    launcher = launchers.start(counting)
    launcher.wait_for_line(r"\[worker 1\] second 1$")
    launchers.suspend(counting, True)
    launcher.wait_for_line("is suspended, for example by a queue; waiting$")
    launchers.wait_until(PODS, lambda pods: not pods)
    launchers.suspend(counting, False)
    launcher.wait_for_line("is no longer suspended$")
    assert launcher.exit_code() == 0, launcher.output
    assert "was lost" not in launcher.output


def test_pod_deletion_counts_as_one_restart(launchers: Launchers) -> None:
    counting = job(COUNTER.format(30), restarts=1)
    launcher = launchers.start(counting)
    launcher.wait_for_line(r"\[worker 0\] second 3$")
    launchers.delete_pod(counting, "worker-1")
    launcher.wait_for_line(r"lost.*(is restarted|restarting the job) \(1 of 1\)$")
    assert launcher.exit_code() == 0, launcher.output


def test_launch_of_deleted_job_ends_log_threads(launchers: Launchers) -> None:
    waiting = job(WAITER)

    def delete() -> None:
        launchers.wait_until(PODS, lambda pods: [pod["status"]["phase"] for pod in pods] == ["Running"] * 2)
        launchers.api.delete(launchers.engine.resource, launchers.name(waiting))

    deleting = threading.Thread(target=delete)
    deleting.start()
    with pytest.raises(
        RetryableError, match=rf"^{launchers.engine.name}: it, or its namespace, was deleted from outside\. Given: "
    ):
        launch(launchers.training(waiting), launchers.namespace)
    deleting.join()
    logs = [thread for thread in threading.enumerate() if thread.name.startswith("log of ")]
    for thread in logs:
        thread.join(30)
    assert not any(thread.is_alive() for thread in logs)


def test_active_job_with_other_settings_is_config_error(launchers: Launchers) -> None:
    waiting = job(WAITER)
    launchers.start(waiting).wait_for_line("up")
    again = launchers.start(job(WAITER, memory="200Mi"))
    assert again.exit_code() == PERMANENT_ERROR
    name = launchers.name(waiting)
    assert again.errors == [
        f"error: {launchers.engine.name}: already runs with other settings; wait until it ends, or delete it and "
        f"resume from its last checkpoint: qcnn delete {name} --namespace {launchers.namespace}. Given: {name}"
    ]
    assert len(launchers.wait_until(launchers.engine.resource, bool)) == 1


def test_job_with_same_name_and_other_task_is_config_error(launchers: Launchers) -> None:
    waiting = job(WAITER)
    launchers.start(waiting).wait_for_line("up")
    annotations = {TRAINING_ANNOTATION: "another"}
    metadata = {"name": launchers.name(waiting), "annotations": annotations}
    kind = {key: launchers.manifest(waiting)[key] for key in ("apiVersion", "kind")}
    launchers.api.apply(launchers.engine.resource, {**kind, "metadata": metadata})
    again = launchers.start(waiting)
    assert again.exit_code() == PERMANENT_ERROR
    (error,) = again.errors
    assert error.startswith(
        f"error: {launchers.engine.name}: a job of this name belongs to another experiment. Given: "
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_deletes_job_with_dependents(launchers: Launchers, number: signal.Signals) -> None:
    launcher = launchers.start(job(WAITER))
    launcher.wait_for_line(r"\[worker 0\] up")
    launcher.send(number)
    assert launcher.exit_code() == 128 + number
    launchers.wait_until_deleted()


def test_sigterm_during_creation_deletes_job(launchers: Launchers) -> None:
    launcher = launchers.start(job(WAITER))
    launcher.wait_for_line("is created")
    launcher.send(signal.SIGTERM)
    assert launcher.exit_code() == 128 + signal.SIGTERM
    launchers.wait_until_deleted()


def test_job_fails_after_launcher_is_killed(launchers: Launchers, qcnn: Qcnn) -> None:
    policy = JobTimeouts(lease_seconds=10)
    launcher = launchers.start(job(WAITER, restarts=3), policy)
    launcher.wait_for_line("up")
    launcher.process.kill()
    launchers.wait_until(launchers.engine.resource, lambda jobs: any(condition(found, "Failed") for found in jobs))
    logs = launchers.kept_logs()
    name = launchers.name(job(WAITER, restarts=3), policy)
    message = "error: the launcher has not renewed its Lease for 10 s; resubmit to resume from the last checkpoint"
    # The first worker that fails ends the job, on a busy machine before another one has printed a line.
    assert any(lines[-1:] == [f"{message}. Given: lease {name}"] for lines in logs), logs
    workers = qcnn.read("status", name)["parts"]
    reasons = [each["reason"] for each in workers if each["exit_code"] == ABANDONED]
    assert reasons
    assert all(reason.startswith("its launcher did not renew the Lease") for reason in reasons)
    assert "waiting" not in {each["state"] for each in workers}


def test_job_continues_while_second_launcher_renews_lease(launchers: Launchers) -> None:
    policy = JobTimeouts(lease_seconds=10)
    counting = job(COUNTER.format(45), restarts=0)
    launcher = launchers.start(counting, policy)
    launcher.wait_for_line("second 1$")
    adopting = launchers.start(counting, policy)
    adopting.wait_for_line("is adopted")
    adopting.wait_for_line("second 3$")
    launcher.process.kill()
    assert adopting.exit_code() == 0, adopting.output


def test_job_without_lease_needs_no_launcher(launchers: Launchers) -> None:
    launcher = launchers.start(job(COUNTER.format(3)), JobTimeouts(lease_seconds=None))
    launcher.wait_for_line("is created")
    launcher.process.kill()
    launchers.wait_until(
        launchers.engine.resource, lambda jobs: any(condition(found, launchers.engine.succeeded) for found in jobs)
    )
    assert not launchers.wait_until(LEASES, lambda leases: True)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"cpu": "100"}, r"worker 0 cannot be scheduled: .*Insufficient cpu"),
        ({"image": "localhost/none:1"}, r"worker 0 cannot start, (\w*ImagePull\w*|Failed): .*localhost/none:1"),
        (
            {"service_account": "none"},
            r"worker 0 cannot start, FailedCreate(Pod)?: .*serviceaccount \"none\" not found",
        ),
    ],
    ids=["unschedulable", "image", "service account"],
)
def test_launcher_logs_reason_of_pending_process(launchers: Launchers, settings: dict[str, Any], reason: str) -> None:
    # With a Lease, the permissions of the account would be checked first.
    launcher = launchers.start(job("", replicas={"worker": 1}, **settings), JobTimeouts(lease_seconds=None))
    launcher.wait_for_line(reason)


def test_job_that_does_not_start_in_time_is_deleted(launchers: Launchers) -> None:
    launcher = launchers.start(job("", replicas={"worker": 1}, cpu="100"), pending_seconds=20)
    assert launcher.exit_code() == PERMANENT_ERROR
    (error,) = launcher.errors
    assert error.startswith("error: not started after 20 s: worker 0")
    launchers.wait_until_deleted()


@pytest.fixture
def quota(namespace: str) -> Iterator[None]:
    """Resource quota that permits no pods in the namespace."""
    core = CoreV1Api()
    core.create_namespaced_resource_quota(namespace, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    yield
    core.delete_namespaced_resource_quota("none", namespace)


@pytest.mark.usefixtures("quota")
def test_launcher_logs_exceeded_quota(launchers: Launchers) -> None:
    launcher = launchers.start(job("", replicas={"worker": 1}))
    launcher.wait_for_line("worker 0 cannot start, FailedCreate(Pod)?: .*exceeded quota")


def test_missing_namespace_is_config_error(launchers: Launchers) -> None:
    launcher = launchers.start(job(""), namespace="no-such-namespace")
    assert launcher.exit_code() == PERMANENT_ERROR
    (error,) = launcher.errors
    assert error.startswith(
        f"error: permission: get {launchers.engine.resource.plural} in namespace no-such-namespace is missing"
    )
    assert "or the namespace does not exist" in error


def test_thirty_concurrent_jobs_succeed(launchers: Launchers) -> None:
    programs = [f"print('job', {number})\n{COUNTER.format(5)}" for number in range(30)]
    small: dict[str, Any] = {"replicas": {"worker": 1}, "cpu": "10m", "memory": "64Mi"}
    started = [launchers.start(job(program, **small)) for program in programs]
    for number, launcher in enumerate(started):
        assert launcher.exit_code() == 0, launcher.output
        assert launcher.lines("worker 0") == [f"job {number}", *(f"second {second}" for second in range(5))]
    assert len(launchers.wait_until(launchers.engine.resource, lambda jobs: len(jobs) == 30)) == 30
