"""Commands for TFJobs with role qcnn-user, on jobs whose processes do not train."""

import datetime
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from qcnn.jobs.engines import installed_engines
from qcnn.jobs.kubernetes.api import LEASES, PODS, SERVICES
from qcnn.jobs.kubernetes.manifest import condition
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts, lease
from qcnn.jobs.references import micro_time
from qcnn.jobs.tfjob.engine import TFJOB, TFJOBS
from tests.cluster.launchers import Launchers, job
from tests.cluster.programs import Qcnn

WAITER = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(143)); print('up', flush=True); signal.pause()"
INDEX = "import json, os, time; index = json.loads(os.environ['TF_CONFIG'])['task']['index']"
FAILED, INVALID, INTERRUPTED = 1, 2, 130
# The image does not exist, so the pods never start. They request few CPUs, which other tests need.
MISSING_IMAGE = (
    *("--image", "localhost/none:1", "--cpu", "10m", "--memory", "64Mi"),
    *("--output", "gs://none/none", "--qubits", "4", "--rounds", "5"),
)


def _name(created: dict[str, Any]) -> str:
    return str(created["metadata"]["name"])


def _wait_until_running(launchers: Launchers) -> None:
    """Wait until all pods run and the operator has set the condition Running."""

    def are_running(pods: list[dict[str, Any]]) -> bool:
        return bool(pods) and all(pod["status"]["phase"] == "Running" for pod in pods)

    launchers.wait_until(TFJOBS, lambda jobs: all(condition(found, "Running") for found in jobs))
    launchers.wait_until(PODS, are_running)


def _status(qcnn: Qcnn, *arguments: str) -> Any:
    return qcnn.read("status", *arguments)


def test_status_of_running_job(launchers: Launchers, qcnn: Qcnn) -> None:
    name = _name(launchers.create(job(WAITER, restarts=3)))
    _wait_until_running(launchers)
    described = next(found for found in _status(qcnn) if found["job"] == name)
    assert (described["state"], described["running"], described["processes"]) == ("running", 2, 2)
    assert (described["restarts"], described["age"] >= described["duration"] > 0) == (0, True)
    assert re.search(rf"^{name} +\S+ +running +2/2 +0 +\w+ +\w+$", qcnn("status"), re.MULTILINE)
    described = _status(qcnn, name)
    assert [(worker["name"], worker["state"]) for worker in described["parts"]] == [
        ("worker 0", "running"),
        ("worker 1", "running"),
    ]
    assert f"TFJob {launchers.namespace}/{name} is running." in qcnn("status", name)


def test_status_shows_restarts_and_exit_codes(launchers: Launchers, qcnn: Qcnn) -> None:
    lost = _name(launchers.create(job("raise SystemExit(138)", restarts=9, replicas={"worker": 1})))
    failed = _name(launchers.create(job(f"{INDEX}\ntime.sleep(60 * (1 - index))\nraise SystemExit(4)", restarts=3)))
    while _status(qcnn, lost)["restarts"] < 2:
        pass
    while _status(qcnn, failed)["state"] != "failed":
        pass
    described = _status(qcnn, failed)
    part = described["parts"][1]
    assert (part["name"], part["state"], part["exit_code"], part["reason"]) == ("worker 1", "failed", 4, "")
    assert re.search(r"fail\w+ because .*Worker.* replica\(s\) failed\.", described["message"])


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"image": "localhost/none:1"}, r"cannot start, (ErrImagePull|ImagePullBackOff|Failed): .*localhost/none:1"),
        ({"service_account": "none"}, r"cannot start, FailedCreatePod: .*serviceaccount \"none\" not found"),
    ],
    ids=["image", "service account"],
)
def test_status_shows_reason_of_pending_process(
    launchers: Launchers, qcnn: Qcnn, settings: dict[str, Any], reason: str
) -> None:
    name = _name(launchers.create(job("", replicas={"worker": 1}, **settings)))
    while (shown := _status(qcnn, name)["parts"][0]["reason"]) == "":
        pass
    assert re.search(reason, shown)


def test_status_shows_exceeded_quota_of_pending_process(launchers: Launchers, qcnn: Qcnn) -> None:
    core, quota = CoreV1Api(), {"metadata": {"name": "few"}, "spec": {"hard": {"requests.cpu": "1m"}}}
    core.create_namespaced_resource_quota(launchers.namespace, quota)
    try:
        name = _name(launchers.create(job("")))
        while not any(reasons := [each["reason"] for each in _status(qcnn, name)["parts"]]):
            pass
    finally:
        core.delete_namespaced_resource_quota("few", launchers.namespace)
    for index, reason in enumerate(reasons):
        assert not reason or re.search(rf'pods "{name}-worker-{index}" is forbidden: .*quota', reason), reasons


def test_logs_are_sorted_by_time(launchers: Launchers, qcnn: Qcnn) -> None:
    # One worker prints at even seconds, the other one at odd seconds.
    program = f"""{INDEX}
for _ in range(3):
    time.sleep(2 - (time.time() + index) % 2)
    print(time.time(), flush=True)
{WAITER}"""
    name = _name(launchers.create(job(program, restarts=3)))
    while len(lines := [line for line in qcnn("logs", name).splitlines() if "up" not in line]) < 6:
        pass
    assert {line.split("]")[0] for line in lines} == {"[worker 0", "[worker 1"}
    times = [float(line.split("] ")[1]) for line in lines]
    assert times == sorted(times)


def test_logs_of_ended_job_are_complete(launchers: Launchers, qcnn: Qcnn) -> None:
    name = _name(launchers.create(job("for line in range(3): print(line)", replicas={"worker": 1})))
    launchers.wait_until(TFJOBS, lambda jobs: bool(jobs and condition(jobs[0], "Succeeded")))
    lines = [f"[worker 0] {line}" for line in range(3)]
    assert qcnn("logs", name).splitlines() == lines
    assert [line for line in qcnn("logs", "-f", name).splitlines() if line.startswith("[")] == lines


def test_logs_follow_exits_with_error_of_job(launchers: Launchers, qcnn: Qcnn) -> None:
    name = _name(launchers.create(job(f"{INDEX}\nprint('up', flush=True)\ntime.sleep(3)\nraise SystemExit('no luck')")))
    following = qcnn.start("logs", "-f", name)
    # The first worker that fails ends the job, on a busy machine before the other one has printed a line.
    following.wait_for_line(r"\[worker \d\] up")
    assert following.exit_code() == FAILED
    (error,) = following.errors
    assert re.fullmatch(rf"error: worker \d ended with exit code 1: no luck. Given: {name}", error)


@pytest.mark.usefixtures("interruptible")
def test_interrupted_logs_follow_keeps_job(launchers: Launchers, qcnn: Qcnn) -> None:
    name = _name(launchers.create(job(WAITER, restarts=3)))
    following = qcnn.start("logs", "-f", name)
    following.wait_for_line(r"\[worker 0\] up")
    following.send(signal.SIGINT)
    following.wait_for_line("stopped following; the job continues")
    assert following.exit_code() == INTERRUPTED
    while _status(qcnn, name)["state"] != "running":
        pass


def test_delete_removes_job_with_dependents_only(launchers: Launchers, qcnn: Qcnn) -> None:
    created, other = launchers.create(job(WAITER, restarts=3)), launchers.create(job(f"{WAITER} ", restarts=3))
    name = _name(created)
    launchers.api.apply(SERVICES, TFJOB.services(created)[0])
    launchers.api.apply(LEASES, lease(created, "test", 600, "2026-01-31T12:00:00.000000Z"))
    _wait_until_running(launchers)
    assert qcnn("delete", name, code=INVALID).splitlines()[-1] == (
        "error: delete: must be confirmed; without a terminal, pass --yes. Given: 7 objects to delete"
    )
    shown = qcnn("delete", name, "--yes")
    for kind, ending in {"TFJob": "", "Pod": "-worker-1", "Service": "-profiler", "Lease": ""}.items():
        assert re.search(rf"^{kind} +{name}{ending}( |$)", shown, re.MULTILINE), shown
    for resource in (PODS, SERVICES, LEASES, TFJOBS):
        assert not [found for found in launchers.api.find(resource) if _name(found).startswith(name)]
    described = _status(qcnn, _name(other))
    assert (described["state"], described["running"]) == ("running", 2)


def test_delete_by_run_name(launchers: Launchers, qcnn: Qcnn) -> None:
    names = [_name(launchers.create(job(program, restarts=3))) for program in (WAITER, f"{WAITER} ")]
    error = qcnn("delete", launchers.identity.run, "--yes", code=INVALID)
    assert f"; to select the jobs of this run, use --run {launchers.identity.run}. Given: " in error
    shown = qcnn("delete", "--run", launchers.identity.run, "--yes")
    assert all(name in shown for name in names)
    launchers.wait_until_deleted()
    assert "nothing to delete" in qcnn("delete", "--run", launchers.identity.run, "--yes")


@pytest.mark.parametrize(
    ("run", "other"),
    [("量子", "卷积"), ("exp 1", "exp_1"), ("r" * 70 + "a", "r" * 70 + "b")],
    ids=["words", "signs", "long"],
)
def test_delete_matches_exact_run_name(launchers: Launchers, qcnn: Qcnn, run: str, other: str) -> None:
    names = []
    for each in (run, other):
        shown = qcnn("submit", "--target", "tfjob", "--name", each, *MISSING_IMAGE)
        names += re.findall(r"^TFJob (\S+) is created", shown, re.MULTILINE)
    first, second = names
    assert {each["job"]: each["name"] for each in _status(qcnn)}.items() >= {
        first: run,
        second: other,
    }.items()
    shown = qcnn("delete", "--run", run, "--yes")
    assert re.search(rf"^TFJob +{first} +{first} +{run} ", shown, re.MULTILINE), shown
    assert second not in shown
    assert [each["job"] for each in _status(qcnn) if each["job"] in names] == [second]
    qcnn("delete", "--run", other, "--yes")


def test_delete_orphans_removes_jobs_with_stale_lease(launchers: Launchers, qcnn: Qcnn) -> None:
    def renewed(seconds_ago: float) -> str:
        return micro_time(launchers.api.now() - datetime.timedelta(seconds=seconds_ago))

    orphan, kept, without_lease = (
        launchers.create(job(f"{WAITER}  # {number}", restarts=3), JobTimeouts(lease_seconds=seconds))
        for number, seconds in enumerate((600, 600, None))
    )
    # A pod that is created while its job is deleted would be an orphan, too.
    _wait_until_running(launchers)
    launchers.api.apply(LEASES, lease(orphan, "test", 600, renewed(700)))
    launchers.api.apply(LEASES, lease(kept, "test", 600, renewed(500)))
    shown = qcnn("delete", "--orphans", "--yes")
    assert _name(orphan) in shown
    names = {_name(found) for found in launchers.api.find(TFJOBS)}
    assert names >= {_name(kept), _name(without_lease)}
    assert _name(orphan) not in names
    assert "nothing to delete" in qcnn("delete", "--orphans", "--yes")


def test_unmanaged_job_is_not_found(launchers: Launchers, qcnn: Qcnn) -> None:
    kinds = " or ".join(engine.name for engine in installed_engines(launchers.api))
    error = f"error: {kinds}: qcnn created none of this name in namespace {launchers.namespace}. Given: none"

    def errors(*arguments: str) -> list[str]:
        # A busy API server causes warnings of retried requests.
        return [line for line in qcnn(*arguments, code=INVALID).splitlines() if not line.endswith("; retrying")]

    assert errors("logs", "none") == [error]
    assert errors("status", "none") == [error]
    assert errors("delete", "none", "--yes") == [error.replace(kinds, "job")]


def test_repeated_submit_adopts_job(launchers: Launchers, qcnn: Qcnn) -> None:
    arguments = ("submit", "--target", "tfjob", "--name", launchers.identity.run, *MISSING_IMAGE)
    first = qcnn(*arguments)
    (name,) = re.findall(r"^TFJob (\S+) is created in namespace", first, re.MULTILINE)
    assert re.search(rf"^model +gs://none/none/{name}/model$", first, re.MULTILINE)
    assert f"TFJob {name} already runs in namespace {launchers.namespace}" in qcnn(*arguments)
    assert len(launchers.wait_until(TFJOBS, bool)) == 1
    following = qcnn.start(*arguments, "--follow")
    following.wait_for_line("cannot start, (ErrImagePull|ImagePullBackOff|Failed)")
    following.send(signal.SIGTERM)
    following.wait_for_line("stopped following; the job continues. Follow again: qcnn logs -f")
    assert following.exit_code() == INTERRUPTED
    error = qcnn("predict", "--target", "tfjob", name, code=INVALID)
    assert re.fullmatch(rf"error: TFJob: must have succeeded, but is (New|Created)\. Given: {name}\n", error)
    qcnn("delete", "--run", launchers.identity.run, "--yes")
    launchers.wait_until_deleted()


@pytest.fixture
def settings(namespace: str, tmp_path: Path) -> Path:
    """Pod settings file, and the secret that it references."""
    secret = {"metadata": {"name": "keys"}, "stringData": {"id": "me"}}
    CoreV1Api().create_namespaced_secret(namespace, secret)
    path = tmp_path / "pod.yaml"
    path.write_text("cpu: 0.5\nmemory: 64Mi\nsecrets: {AWS_ACCESS_KEY_ID: keys/id}\nlabels: {team: physics}\n")
    return path


def test_pods_have_settings_of_file_and_flags(launchers: Launchers, qcnn: Qcnn, settings: Path) -> None:
    run = launchers.identity.run
    qcnn(
        "submit",
        "--target",
        "tfjob",
        "--name",
        run,
        *MISSING_IMAGE,
        "--pod",
        str(settings),
        "--cpu",
        "100m",
        "--env",
        "A=b=c",
    )
    pod = launchers.wait_until(PODS, bool)[0]
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}}
    assert {"name": "A", "value": "b=c"} in container["env"]
    source = {"secretKeyRef": {"name": "keys", "key": "id"}}
    assert {"name": "AWS_ACCESS_KEY_ID", "valueFrom": source} in container["env"]
    assert pod["metadata"]["labels"]["team"] == "physics"
    qcnn("delete", "--run", run, "--yes")
