"""The Kubeflow backend at KFP_HOST, used as its users do, in an experiment of its own.

KFP_IMAGE is the image of the steps (qcnn:latest); KFP_POD a file of settings of the training's pods, such as what they
need to reach the backend's store; KFP_METADATA_HOST where the metadata store answers, if that is not KFP_HOST, which
serves it where it is the address of the web interface. The steps may start TFJobs (deploy/).
"""

import dataclasses
import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import tenacity

from qcnn.components.resources import IMAGE
from qcnn.targets.artifacts import Artifact
from qcnn.targets.kubeflow.client import KfpConnection, connect
from qcnn.targets.kubeflow.ml_metadata import MetadataStore
from qcnn.targets.kubeflow.runs import find_experiment, pages

_BIN = Path(sys.executable).parent
Answer = TypeVar("Answer")
# Seconds to train; little enough to be run many times.
SMALL = (
    *("--qubits", "4", "--rounds", "12", "--batch-size", "8", "--epochs", "3"),
    *("--workers", "1", "--strategy", "none"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.kfp)


@dataclasses.dataclass(frozen=True)
class Ended:
    """A run that was waited for."""

    run: str
    done: subprocess.CompletedProcess[str]


@dataclasses.dataclass(frozen=True)
class Kubeflow:
    """A backend, and an experiment in it."""

    host: str
    metadata_host: str
    image: str
    pod: str
    experiment: str
    # Nothing of another time is used again.
    seed: int

    @property
    def backend(self) -> KfpConnection:
        return KfpConnection(host=self.host, metadata_host=self.metadata_host)

    @property
    def where(self) -> tuple[str, ...]:
        """The flags that every submission here has."""
        pod = ("--pod", self.pod) if self.pod else ()
        return ("--image", self.image, "--experiment", self.experiment, *pod)

    def type(self, *command: str, program: str = "qcnn") -> subprocess.CompletedProcess[str]:
        """Type a command as a user does who has set where the backend is."""
        environment = {**os.environ, "KF_PIPELINES_ENDPOINT": self.host}
        return subprocess.run([_BIN / program, *command], env=environment, capture_output=True, text=True, check=False)

    def submit(self, *flags: str, command: str = "submit") -> tuple[str, subprocess.CompletedProcess[str]]:
        """Submit, and return the run's id and what was printed."""
        done = self.type(command, "--target", "kubeflow", *self.where, *flags)
        found = re.search(r"^run (\S+) is created in ", done.stdout, re.MULTILINE)
        assert found, done.stdout + done.stderr
        return found[1], done

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return what qcnn compare shows, by the runs' names."""
        where = ("--experiment", self.experiment, "--metadata-host", self.metadata_host)
        done = self.type("compare", *where, "--format", "json")
        assert (done.returncode, done.stderr) == (0, "")
        return {row["run"]: row for row in json.loads(done.stdout)}

    def artifacts(self, run: str) -> list[Artifact]:
        """Return the artifacts of a run."""
        return MetadataStore(connect(self.backend), self.backend).artifacts(run)


def until(ask: Callable[[], Answer], enough: Callable[[Answer], bool]) -> Answer:
    """Ask until the answer is enough, which takes a backend minutes, and return it."""
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_not_result(enough), wait=tenacity.wait_fixed(1), stop=tenacity.stop_after_delay(400)
    )
    return retrying(ask)


@pytest.fixture(scope="session")
def kubeflow() -> Iterator[Kubeflow]:
    host = os.environ.get("KFP_HOST", "")
    if not host:
        pytest.skip("KFP_HOST is not set: no backend")
    kubeflow = Kubeflow(
        host,
        metadata_host=os.environ.get("KFP_METADATA_HOST", host),
        image=os.environ.get("KFP_IMAGE", IMAGE),
        pod=os.environ.get("KFP_POD", ""),
        experiment=f"qcnn-test-{secrets.token_hex(4)}",
        seed=secrets.randbelow(2**31),
    )
    client = connect(kubeflow.backend)
    client.create_experiment(kubeflow.experiment)
    try:
        yield kubeflow
    finally:
        identity = find_experiment(client, kubeflow.backend, kubeflow.experiment).experiment_id
        for schedule in pages(client.list_recurring_runs, "recurring_runs", experiment_id=identity):
            client.delete_recurring_run(schedule.recurring_run_id)
        for run in pages(client.list_runs, "runs", experiment_id=identity):
            client.delete_run(run.run_id)
        client.delete_experiment(identity)
