"""What compile.py writes in the hands of Kubeflow's own command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from qcnn.targets.kubeflow.client import connect
from tests.kfp.conftest import Kubeflow

COMPILE = Path(__file__).parents[2] / "compile.py"


@pytest.fixture
def package(kubeflow: Kubeflow, tmp_path: Path) -> Path:
    (tmp_path / "experiment.yaml").write_text("qubits: 5\nlearning_rate: 0.5\noptions:\n  shots: 10\n")
    arguments = ("--image", kubeflow.image, "--config", str(tmp_path / "experiment.yaml"), "--output", str(tmp_path))
    subprocess.run([sys.executable, "-W", "ignore", COMPILE, *arguments], check=True)
    return tmp_path / "qcnn-kubeflow.yaml"


def test_a_run_has_the_compiled_defaults_and_takes_text(kubeflow: Kubeflow, package: Path) -> None:
    command = ("--endpoint", kubeflow.host, "--output", "json", "run", "create")
    where = ("--experiment-name", kubeflow.experiment, "--run-name", "theirs", "--package-file", str(package))
    done = kubeflow.type(*command, *where, "model=deep", program="kfp")
    assert done.returncode == 0, done.stderr
    kubeflow.type("terminate", "theirs")
    row = kubeflow.rows()["theirs"]
    assert row["state"] in ("failed", "canceled")
    words = connect(kubeflow.backend).get_run(_id(done.stdout)).runtime_config.parameters
    assert words == {"model": "deep"}
    refused = kubeflow.type(*command, *where, "qubits=6", program="kfp")
    assert refused.returncode != 0


def test_the_file_becomes_a_pipeline_with_versions(kubeflow: Kubeflow, package: Path) -> None:
    name = f"qcnn-{kubeflow.experiment}"
    made = kubeflow.type(
        "--endpoint", kubeflow.host, "--output", "json", "pipeline", "create", "-p", name, str(package), program="kfp"
    )
    assert made.returncode == 0, made.stderr
    client = connect(kubeflow.backend)
    identity = client.get_pipeline_id(name)
    try:
        second = kubeflow.type(
            *("--endpoint", kubeflow.host, "pipeline", "create-version", "-p", identity, "-v", "second", str(package)),
            program="kfp",
        )
        assert second.returncode == 0, second.stderr
        versions = client.list_pipeline_versions(identity).pipeline_versions
        assert len(versions) == 2
    finally:
        for version in client.list_pipeline_versions(identity).pipeline_versions:
            client.delete_pipeline_version(identity, version.pipeline_version_id)
        client.delete_pipeline(identity)


def _id(printed: str) -> str:
    """Return the id in what Kubeflow's command line prints, links before the JSON."""
    return str(json.loads(printed[printed.index("{") :])["run_id"])
