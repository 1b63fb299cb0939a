"""Runs that are ended from outside."""

import os

import pytest

from qcnn.targets.kubeflow.client import connect
from qcnn.targets.kubeflow.experiments import logs_of_runs
from qcnn.targets.kubeflow.runs import RunPoller, follow
from tests.kfp.cluster import evict, launchers, log, tfjobs
from tests.kfp.conftest import SMALL, Kubeflow, until


class StartedError(Exception):
    """What was waited for."""


def _begun(kubeflow: Kubeflow, name: str) -> str:
    """Submit a training without an end, and return the run's id when it has begun."""
    run, _ = kubeflow.submit(*SMALL, "--epochs", "1000000", "--run-name", name)

    def say(line: str) -> None:
        if line == "train: running":
            raise StartedError

    with pytest.raises(StartedError):
        follow(RunPoller(connect(kubeflow.backend), kubeflow.backend, run), ("train",), say)
    return run


def test_a_launcher_that_is_evicted_leaves_its_training_to_the_next_one(kubeflow: Kubeflow) -> None:
    if "KUBECONFIG" not in os.environ:
        pytest.skip("KUBECONFIG is not set: nothing to evict a pod by")
    run = _begun(kubeflow, "evicted")
    ((uid, pod),) = until(lambda: launchers(run), lambda found: len(found) == 1).items()
    until(lambda: log(pod), lambda text: "epoch 3/" in text)
    trained = tfjobs(run)
    # What trains can be looked at.
    (logs,) = logs_of_runs([run], None, (), kubeflow.backend)
    assert (logs.name, logs.of_run, logs.address.endswith(run)) == ("evicted", True, True)
    evict(pod)
    client = connect(kubeflow.backend)

    def others() -> dict[str, str]:
        return {other: name for other, name in launchers(run).items() if other != uid}

    # Argo starts the step again if it sees that the pod is gone, and fails the run if it sees first how the pod ended.
    if (
        until(lambda: "retried" if others() else client.get_run(run).state, {"retried", "FAILED"}.__contains__)
        == "FAILED"
    ):
        client._run_api.run_service_retry_run(run)
    ((_, after),) = until(others, bool).items()
    until(lambda: log(after), lambda text: f"TFJob {next(iter(trained.values()))} is adopted" in text)
    assert tfjobs(run) == trained
    # As the web interface does: nobody else cleans up.
    client.terminate_run(run)
    until(lambda: tfjobs(run), lambda found: not found)


def test_a_run_terminated_in_mid_training_leaves_nothing_that_runs(kubeflow: Kubeflow) -> None:
    run = _begun(kubeflow, "endless")
    done = kubeflow.type("terminate", "endless")
    assert done.returncode == 0, done.stderr
    assert f"run {run} is terminated\n" in done.stdout
    if "KUBECONFIG" in os.environ:
        assert "no TFJobs of the run are left" in done.stdout
    assert kubeflow.rows()["endless"]["state"] in ("failed", "canceled")
    again = kubeflow.type("terminate", run)
    assert again.returncode == 0
    assert "has already ended" in again.stdout
