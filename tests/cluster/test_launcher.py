"""Launchers and the jobs they start, with processes that only pretend to train."""

import json
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from qcnn.errors import RetryableError
from qcnn.jobs.kubernetes.api import LEASES, PODS
from qcnn.jobs.kubernetes.manifest import TRAINING_ANNOTATION, condition
from qcnn.jobs.tfjob.launch import launch
from qcnn.jobs.tfjob.manifest import TFJOBS, JobTimeouts
from qcnn.startup import ABANDONED
from tests.cluster.launchers import Launchers, job
from tests.cluster.programs import Program, Qcnn
from tests.cluster.proxy import Proxy

# Trains for ever.
WAITER = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(143)); print('up', flush=True); signal.pause()"
COUNTER = "import time\nfor second in range({0}): print('second', second, flush=True); time.sleep(1)"
OWN_FAULT, RETRYABLE = 2, 138


def _check_lines(launcher: Program, printed: list[str], leader: str = "worker 0") -> None:
    """Check that each line was passed on once; the process that leads takes worker 1 along when it ends."""
    assert launcher.lines(leader) == printed
    assert (lines := launcher.lines("worker 1")) == printed[: len(lines)]


def test_a_launcher_that_is_killed_and_run_again_follows_the_same_job(launchers: Launchers) -> None:
    # Long enough for three launchers to start on a machine that is busy.
    counting = job(COUNTER.format(45))
    first = launchers.start(counting)
    first.says("is created")
    first.process.kill()
    second = launchers.start(counting)
    second.says("is adopted")
    second.says(r"\[worker 1\] second 3")
    second.process.kill()
    third = launchers.start(counting)
    assert third.ends() == 0, third.output
    _check_lines(third, [f"second {second}" for second in range(45)])
    (found,) = launchers.until(TFJOBS, bool)
    assert condition(found, "Succeeded")
    created = first.output + second.output + third.output
    assert created.count("is created") == 1


def test_a_launcher_that_is_killed_before_it_creates_anything_leaves_nothing_in_the_way(launchers: Launchers) -> None:
    quick = job("")
    launchers.start(quick).process.kill()
    again = launchers.start(quick)
    assert again.ends() == 0, again.output
    assert len(launchers.until(TFJOBS, bool)) == 1


def test_after_success_a_launcher_returns_at_once(launchers: Launchers) -> None:
    quick = job("print('done')")
    assert launchers.start(quick).ends() == 0
    pods = {pod["metadata"]["uid"] for pod in launchers.until(PODS, bool)}
    again = launchers.start(quick)
    assert again.ends() == 0
    assert "has already succeeded" in again.output
    # The operator may still have deleted a worker that the chief's success found running.
    assert {pod["metadata"]["uid"] for pod in launchers.until(PODS, bool)} <= pods


def test_every_line_of_every_process_is_shown_once_with_its_name(launchers: Launchers) -> None:
    launcher = launchers.start(job("for line in range(2000): print(line)", replicas={"chief": 1, "worker": 2}))
    assert launcher.ends() == 0, launcher.output
    _check_lines(launcher, [str(number) for number in range(2000)], "chief 0")


def test_a_launcher_that_loses_every_connection_goes_on_when_it_can(launchers: Launchers, proxy: Proxy) -> None:
    launcher = launchers.start(job(COUNTER.format(20)))
    launcher.says(r"\[worker 1\] second 2$")
    proxy.cut()
    launcher.says("the API server is unavailable .*; retrying")
    proxy.mend()
    assert launcher.ends() == 0, launcher.output
    _check_lines(launcher, [f"second {second}" for second in range(20)])


def test_a_server_that_never_answers_is_not_waited_for_for_long(launchers: Launchers, proxy: Proxy) -> None:
    proxy.cut()
    launcher = launchers.start(job(""))
    assert launcher.ends() == RETRYABLE
    (error,) = launcher.errors
    assert error.startswith("error: the API server is unavailable (")


def test_a_process_that_fails_by_its_own_fault_fails_the_job(launchers: Launchers) -> None:
    program = f"""
import json, os
if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
    print("before the end")
    raise SystemExit("out of luck")
{WAITER}"""
    failing = job(program, restarts=3)
    launcher = launchers.start(failing)
    assert launcher.ends() == OWN_FAULT, launcher.output
    (error,) = launcher.errors
    assert error.startswith("error: worker 1 ended with exit code 1: out of luck. Given: ")
    shown = launcher.output.partition("last lines of worker 1:\n")[2].splitlines()
    assert [line.strip() for line in shown[:2]] == ["before the end", "out of luck"]
    (failed,) = launchers.until(TFJOBS, bool)
    assert condition(failed, "Failed")
    again = launchers.start(failing)
    again.says("it is replaced")
    assert again.ends() == OWN_FAULT, again.output
    (replaced,) = launchers.until(TFJOBS, bool)
    assert replaced["metadata"]["uid"] != failed["metadata"]["uid"]


def test_a_process_that_is_lost_is_started_again_but_not_for_ever(launchers: Launchers) -> None:
    launcher = launchers.start(job("print('peer lost'); raise SystemExit(138)", restarts=2, replicas={"worker": 1}))
    assert launcher.ends() == RETRYABLE, launcher.output
    (error,) = launcher.errors
    assert error.startswith("error: worker 0 ended with exit code 138, after 2 restarts: peer lost. Given: ")
    assert launcher.output.count("[worker 0] peer lost") == 3
    assert launcher.output.count("worker 0 was lost and is restarted") == 2
    launchers.until_nothing_is_left()


def test_a_process_that_needs_too_much_memory_is_not_started_again(launchers: Launchers) -> None:
    program = "print('greedy', flush=True); hoard = bytearray(10**9)"
    launcher = launchers.start(job(program, restarts=3, replicas={"worker": 1}, memory="64Mi"))
    assert launcher.ends() == OWN_FAULT, launcher.output
    (error,) = launcher.errors
    assert error.startswith("error: worker 0 used more memory than its limit: greedy. Given: ")
    assert "is started again" not in launcher.output
    launchers.until_nothing_is_left()


def test_with_more_memory_the_same_training_goes_on_in_the_same_folder(launchers: Launchers) -> None:
    program = "hoard = bytearray(10**8)"
    greedy, fed = (job(program, restarts=3, replicas={"worker": 1}, memory=memory) for memory in ("64Mi", "256Mi"))
    assert launchers.start(greedy).ends() == OWN_FAULT
    # By its name, a job finds its folder.
    assert launchers.name(greedy) == launchers.name(fed)
    again = launchers.start(fed)
    assert again.ends() == 0, again.output


def test_a_job_that_is_held_back_is_waited_for_and_loses_nothing(launchers: Launchers) -> None:
    counting = job(COUNTER.format(15), restarts=0)
    launcher = launchers.start(counting)
    launcher.says(r"\[worker 1\] second 1$")
    launchers.suspend(counting, True)
    launcher.says("is suspended, for example by a queue; waiting$")
    launchers.until(PODS, lambda pods: not pods)
    launchers.suspend(counting, False)
    launcher.says("is no longer suspended$")
    assert launcher.ends() == 0, launcher.output
    assert "was lost" not in launcher.output


def test_a_pod_that_is_deleted_costs_one_restart_whatever_the_operator_makes_of_it(launchers: Launchers) -> None:
    counting = job(COUNTER.format(30), restarts=1)
    launcher = launchers.start(counting)
    launcher.says(r"\[worker 0\] second 3$")
    launchers.delete_pod(counting, "worker-1")
    launcher.says(r"lost.* is started again \(1 of 1\)$")
    assert launcher.ends() == 0, launcher.output


def test_a_job_that_somebody_deletes_is_not_asked_about_any_more(launchers: Launchers) -> None:
    waiting = job(WAITER)

    def delete() -> None:
        launchers.until(PODS, lambda pods: [pod["status"]["phase"] for pod in pods] == ["Running"] * 2)
        launchers.api.delete(TFJOBS, launchers.name(waiting))

    deleting = threading.Thread(target=delete)
    deleting.start()
    with pytest.raises(RetryableError, match=r"^TFJob: it, or its namespace, was deleted from outside\. Given: "):
        launch(launchers.manifest(waiting), launchers.namespace)
    deleting.join()
    logs = [thread for thread in threading.enumerate() if thread.name.startswith("log of ")]
    for thread in logs:
        thread.join(30)
    assert not any(thread.is_alive() for thread in logs)


def test_the_same_training_with_other_settings_is_refused_while_it_runs(launchers: Launchers) -> None:
    waiting = job(WAITER)
    launchers.start(waiting).says("up")
    again = launchers.start(job(WAITER, memory="200Mi"))
    assert again.ends() == OWN_FAULT
    name = launchers.name(waiting)
    assert again.errors == [
        f"error: TFJob: already runs with other settings; wait until it ends, or delete it and resume from its "
        f"last checkpoint: qcnn delete {name} --namespace {launchers.namespace}. Given: {name}"
    ]
    assert len(launchers.until(TFJOBS, bool)) == 1


def test_a_job_of_this_name_that_trains_something_else_is_refused(launchers: Launchers) -> None:
    waiting = job(WAITER)
    launchers.start(waiting).says("up")
    annotations = {TRAINING_ANNOTATION: "another"}
    metadata = {"name": launchers.name(waiting), "annotations": annotations}
    launchers.api.apply(TFJOBS, {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": metadata})
    again = launchers.start(waiting)
    assert again.ends() == OWN_FAULT
    (error,) = again.errors
    assert error.startswith("error: TFJob: a job of this name belongs to another experiment. Given: ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_launcher_that_is_told_to_end_leaves_nothing(launchers: Launchers, number: signal.Signals) -> None:
    launcher = launchers.start(job(WAITER))
    launcher.says(r"\[worker 0\] up")
    launcher.process.send_signal(number)
    assert launcher.ends() == 128 + number
    launchers.until_nothing_is_left()


def test_a_launcher_that_is_told_to_end_while_it_creates_leaves_nothing(launchers: Launchers) -> None:
    launcher = launchers.start(job(WAITER))
    launcher.says("is created")
    launcher.process.terminate()
    assert launcher.ends() == 128 + signal.SIGTERM
    launchers.until_nothing_is_left()


def test_without_a_launcher_a_job_ends_for_good(launchers: Launchers, qcnn: Qcnn) -> None:
    policy = JobTimeouts(lease_seconds=10)
    launcher = launchers.start(job(WAITER, restarts=3), policy)
    launcher.says("up")
    launcher.process.kill()
    launchers.until(TFJOBS, lambda jobs: any(condition(found, "Failed") for found in jobs))
    logs = launchers.kept_logs()
    name = launchers.name(job(WAITER, restarts=3), policy)
    said = f"error: the launcher has not renewed its lease for 10 s; the last checkpoint counts. Given: lease {name}"
    assert any(lines[-1] == said for lines in logs), logs
    workers = json.loads(qcnn("status", name, "--format", "json"))["parts"]
    reasons = [each["reason"] for each in workers if each["exit_code"] == ABANDONED]
    assert reasons
    assert all(reason.startswith("its launcher did not renew the Lease") for reason in reasons)
    assert "waiting" not in {each["state"] for each in workers}


def test_a_job_goes_on_while_any_launcher_renews_its_lease(launchers: Launchers) -> None:
    policy = JobTimeouts(lease_seconds=10)
    counting = job(COUNTER.format(45), restarts=0)
    launcher = launchers.start(counting, policy)
    launcher.says("second 1$")
    adopting = launchers.start(counting, policy)
    adopting.says("is adopted")
    adopting.says("second 3$")
    launcher.process.kill()
    assert adopting.ends() == 0, adopting.output


def test_a_job_without_a_lease_needs_no_launcher(launchers: Launchers) -> None:
    launcher = launchers.start(job(COUNTER.format(3)), JobTimeouts(lease_seconds=None))
    launcher.says("is created")
    launcher.process.kill()
    launchers.until(TFJOBS, lambda jobs: any(condition(found, "Succeeded") for found in jobs))
    assert not launchers.until(LEASES, lambda leases: True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cpu": "100"}, r"worker 0 cannot be scheduled: .*Insufficient cpu"),
        ({"image": "localhost/none:1"}, r"worker 0 cannot start, (\w*ImagePull\w*|Failed): .*localhost/none:1"),
        ({"service_account": "none"}, r"worker 0 cannot start, FailedCreatePod: .*serviceaccount \"none\" not found"),
    ],
    ids=["unschedulable", "image", "service account"],
)
def test_why_a_job_cannot_start_is_said(launchers: Launchers, given: dict[str, Any], said: str) -> None:
    # With a Lease, the account's rights would be looked at first.
    launcher = launchers.start(job("", replicas={"worker": 1}, **given), JobTimeouts(lease_seconds=None))
    launcher.says(said)


def test_what_does_not_start_is_waited_for_no_longer_than_was_asked(launchers: Launchers) -> None:
    launcher = launchers.start(job("", replicas={"worker": 1}, cpu="100"), pending_seconds=20)
    assert launcher.ends() == OWN_FAULT
    (error,) = launcher.errors
    assert error.startswith("error: not started after 20 s: worker 0")
    launchers.until_nothing_is_left()


@pytest.fixture
def quota(namespace: str) -> Iterator[None]:
    """No pods in the namespace, as long as it stands."""
    core = CoreV1Api()
    core.create_namespaced_resource_quota(namespace, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    yield
    core.delete_namespaced_resource_quota("none", namespace)


@pytest.mark.usefixtures("quota")
def test_a_quota_that_is_used_up_is_said(launchers: Launchers) -> None:
    launcher = launchers.start(job("", replicas={"worker": 1}))
    launcher.says("worker 0 cannot start, FailedCreatePod: .*exceeded quota")


def test_a_namespace_that_does_not_exist_is_said_at_once(launchers: Launchers) -> None:
    launcher = launchers.start(job(""), namespace="no-such-namespace")
    assert launcher.ends() == OWN_FAULT
    (error,) = launcher.errors
    assert error.startswith("error: permission: get tfjobs in namespace no-such-namespace is missing")
    assert "or there is no such namespace" in error


def test_thirty_jobs_at_once_all_end_well_and_leave_each_other_alone(launchers: Launchers) -> None:
    programs = [f"print('job', {number})\n{COUNTER.format(5)}" for number in range(30)]
    started = [launchers.start(job(program, cpu="10m", memory="64Mi")) for program in programs]
    for number, launcher in enumerate(started):
        assert launcher.ends() == 0, launcher.output
        _check_lines(launcher, [f"job {number}", *(f"second {second}" for second in range(5))])
    assert len(launchers.until(TFJOBS, lambda jobs: len(jobs) == 30)) == 30
