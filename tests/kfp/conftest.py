"""Fixtures for tests with the KFP backend at KFP_HOST, in a separate KFP experiment.

Environment variables:

- KFP_IMAGE: image of the steps. Default: qcnn:latest.
- KFP_POD: pod settings file, for example with access to the object store of KFP.
- STORAGE_EMULATOR_HOST: bucket server that is accessible locally and from the pods. Tests without it are skipped.
- KFP_METADATA_HOST: URL of the ML Metadata service. Default: KFP_HOST, which is correct for the URL of the KFP UI.

The steps need permission to create TFJobs (deploy/).
"""

import dataclasses
import json
import os
import re
import secrets
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import tenacity
import yaml

from qcnn.components.resources import IMAGE
from qcnn.targets.artifacts import Artifact
from qcnn.targets.kubeflow.client import KfpBackend, KfpConnection
from qcnn.targets.kubeflow.ml_metadata import MetadataStore
from qcnn.targets.kubeflow.runs import RunPoller, check_succeeded, find_experiment, follow, pages
from tests.buckets import new_bucket

_BIN = Path(sys.executable).parent
_SERVER = "STORAGE_EMULATOR_HOST"
Value = TypeVar("Value")
# Trains in seconds.
SMALL = (
    *("--qubits", "4", "--rounds", "12", "--batch-size", "8", "--epochs", "3"),
    *("--workers", "1", "--strategy", "none"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.kfp)


@dataclasses.dataclass(frozen=True)
class FinishedRun:
    """Run that was submitted with --wait."""

    run: str
    done: subprocess.CompletedProcess[str]


@dataclasses.dataclass(frozen=True)
class Kubeflow:
    """KFP backend and an experiment in it."""

    host: str
    metadata_host: str
    image: str
    pod: str
    experiment: str
    # A new seed avoids cached steps of earlier test runs.
    seed: int

    @property
    def backend(self) -> KfpBackend:
        return KfpBackend(KfpConnection(host=self.host, metadata_host=self.metadata_host))

    @property
    def submit_flags(self) -> tuple[str, ...]:
        """Flags of every submission."""
        pod = ("--pod", self.pod) if self.pod else ()
        return ("--image", self.image, "--experiment", self.experiment, *pod)

    def run_command(self, *command: str, program: str = "qcnn") -> subprocess.CompletedProcess[str]:
        """Run a command with the host of KFP in the environment."""
        environment = {**os.environ, "KF_PIPELINES_ENDPOINT": self.host}
        return subprocess.run([_BIN / program, *command], env=environment, capture_output=True, text=True, check=False)

    def unique(self, name: str) -> str:
        """Return a run name that no other suite on the same backend has."""
        return f"{name}-{self.experiment}"

    def submit(self, name: str, *flags: str, command: str = "submit") -> tuple[str, subprocess.CompletedProcess[str]]:
        """Submit a run with a unique name and return its ID and the result of the command."""
        run_name = ("--run-name", self.unique(name))
        done = self.run_command(command, "--target", "kubeflow", *self.submit_flags, *run_name, *flags)
        found = re.search(r"^run (\S+) is created in ", done.stdout, re.MULTILINE)
        assert found, done.stdout + done.stderr
        return found[1], done

    def finish(self, run: str) -> None:
        """Wait for a run to succeed."""
        check_succeeded(follow(RunPoller(self.backend, run), lambda run: (), print), ())

    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the rows of qcnn compare by run name, without the part that makes the name unique."""
        flags = ("--experiment", self.experiment, "--metadata-host", self.metadata_host)
        done = self.run_command("compare", *flags, "--format", "json")
        assert (done.returncode, done.stderr) == (0, "")
        return {row["run"].removesuffix(self.unique("")): row for row in json.loads(done.stdout)}

    def artifacts(self, run: str) -> list[Artifact]:
        """Return the artifacts of a run."""
        return MetadataStore(self.backend).artifacts(run)


def until(read: Callable[[], Value], is_done: Callable[[Value], bool]) -> Value:
    """Read a value until a condition is true, and return it. KFP can take minutes."""
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_not_result(is_done), wait=tenacity.wait_fixed(1), stop=tenacity.stop_after_delay(400)
    )
    return retrying(read)


@pytest.fixture(scope="session")
def kubeflow() -> Iterator[Kubeflow]:
    host = os.environ.get("KFP_HOST", "")
    if not host:
        pytest.skip("requires KFP_HOST")
    kubeflow = Kubeflow(
        host,
        metadata_host=os.environ.get("KFP_METADATA_HOST", host),
        image=os.environ.get("KFP_IMAGE", IMAGE),
        pod=os.environ.get("KFP_POD", ""),
        experiment=f"qcnn-test-{secrets.token_hex(4)}",
        seed=secrets.randbelow(2**31),
    )
    client = kubeflow.backend.client
    client.create_experiment(kubeflow.experiment)
    try:
        yield kubeflow
    finally:
        identity = find_experiment(kubeflow.backend, kubeflow.experiment).experiment_id
        for schedule in pages(client.list_recurring_runs, "recurring_runs", experiment_id=identity):
            client.delete_recurring_run(schedule.recurring_run_id)
        for run in pages(client.list_runs, "runs", experiment_id=identity):
            client.delete_run(run.run_id)
        client.delete_experiment(identity)


@pytest.fixture(scope="session")
def bucket() -> Iterator[str]:
    if not (server := os.environ.get(_SERVER)):
        pytest.skip(f"requires {_SERVER}, a bucket server that is accessible locally and from the pods")
    with new_bucket(server) as name:
        yield f"gs://{name}"


@pytest.fixture(scope="session")
def pod(kubeflow: Kubeflow, bucket: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Pod settings file with access to the bucket server for all steps."""
    settings = yaml.safe_load(Path(kubeflow.pod).read_text()) if kubeflow.pod else {}
    # KFP's launcher requires the address without http://.
    server = urllib.parse.urlsplit(os.environ[_SERVER]).netloc
    settings["environment"] = {**settings.get("environment", {}), _SERVER: server}
    path = tmp_path_factory.mktemp("pod") / "pod.yaml"
    path.write_text(yaml.safe_dump(settings))
    return str(path)
