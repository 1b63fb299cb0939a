"""Tests of commands that follow a TFJob; tests/cluster tests real ones."""

import re

import pytest

from qcnn.jobs.job import JobIdentity, JobSpec
from qcnn.jobs.kubernetes.training_manifest import JobTimeouts
from qcnn.jobs.pod_settings import PodSettings
from qcnn.jobs.tfjob.engine import TFJOB
from tests.qcnn.cli.conftest import Typed
from tests.qcnn.jobs.apiserver import ApiServer, Object
from tests.qcnn.jobs.training_operator import RUNNING, Operator, ended

PODS_FAILED = "TFJob a is failed because 1 Worker replica(s) failed."
SUBMIT = (
    *("submit", "--target", "tfjob", "--follow", "--output", "gs://bucket/a", "-n", "a"),
    *("--qubits", "4", "--rounds", "12", "--batch-size", "8", "--image", "qcnn"),
)


def _submit(server: ApiServer, typed: Typed, *moments: object, flags: tuple[str, ...] = ()) -> str:
    """Submit a TFJob with the given states and return the stderr of the command."""
    Operator(server, [[RUNNING, RUNNING], *moments])
    code, _, err = typed(*SUBMIT, *flags)
    assert code == 1
    return err


@pytest.mark.parametrize(
    ("moments", "restarts", "message"),
    [
        ([[ended(138), None], f"Failed: {PODS_FAILED}"], 3, "TFJob: was given up for a process that was lost"),
        ([[ended(137), RUNNING]], 0, "worker 0 ended with exit code 137, after 0 restarts: it printed nothing"),
    ],
)
def test_follow_after_failed_process_advises_resubmission(
    api_server: ApiServer, typed: Typed, moments: list[object], restarts: int, message: str
) -> None:
    err = _submit(api_server, typed, *moments, flags=("--max-restarts", str(restarts)))
    advice = r"; submit it again to continue from its last checkpoint\. Given: qcnn-train-[\w-]+"
    assert re.fullmatch(rf"error: {re.escape(message)}{advice}", err.splitlines()[-1])


def test_follow_in_deleted_namespace_names_it(api_server: ApiServer, typed: Typed) -> None:
    Operator(api_server, [[RUNNING, RUNNING], [ended(138), None], f"Failed: {PODS_FAILED}"])
    operator = api_server.operator

    def end_namespace(job: Object) -> None:
        # The Service must be created before.
        api_server.until_watched("pods")
        api_server.ending.add("a")
        operator(job)

    api_server.operator = end_namespace
    code, _, err = typed(*SUBMIT)
    assert (code, err.splitlines()[-1]) == (1, "error: namespace: is being deleted, with the TFJob. Given: a")


def test_follow_without_create_permission_reports_reason(api_server: ApiServer, typed: Typed) -> None:
    api_server.rejected.add(("create", "services"))
    err = _submit(api_server, typed, [ended(138), None], f"Failed: {PODS_FAILED}")
    assert "was given up for a process that was lost; submit it again" in err.splitlines()[-1]


def test_interrupted_logs_command_contains_namespace(
    api_server: ApiServer, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = PodSettings(image="qcnn")
    job = api_server.put(
        "tfjobs",
        TFJOB.manifest(
            JobSpec(("train",), {"worker": 1}, 3, heartbeat_timeout_seconds=60, pod=pod),
            JobIdentity("run", "train"),
            JobTimeouts(),
        ),
    )

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("qcnn.jobs.kubernetes.job_watcher.JobWatcher.run", interrupt)
    name = job["metadata"]["name"]
    _, _, err = typed("logs", "-f", name, "-n", "a")
    assert f"Follow again: qcnn logs -f {name} --target kubernetes --namespace a\n" in err
