"""Runs that are ended from outside."""

import os

import pytest

from cli.backend import connect
from cli.following import Asking, follow
from tests.kfp.conftest import SMALL, Kubeflow


class StartedError(Exception):
    """What was waited for."""


def test_a_run_terminated_in_mid_training_leaves_nothing_that_runs(kubeflow: Kubeflow) -> None:
    run, _ = kubeflow.submit(*SMALL, "--epochs", "1000000", "--run-name", "endless")
    client = connect(kubeflow.backend)

    def say(line: str) -> None:
        if line == "train: running":
            raise StartedError

    with pytest.raises(StartedError):
        follow(Asking(client, kubeflow.backend, run), ("train",), say)
    done = kubeflow.type("terminate", "endless")
    assert done.returncode == 0, done.stderr
    assert f"run {run} is terminated\n" in done.stdout
    if "KUBECONFIG" in os.environ:
        assert "nothing of its trainings is left" in done.stdout
    assert kubeflow.rows()["endless"]["state"] in ("failed", "canceled")
    again = kubeflow.type("terminate", run)
    assert again.returncode == 0
    assert "had ended before" in again.stdout
