"""Compiled pipelines, used with the command line of KFP."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kfp.conftest import Kubeflow

COMPILE = Path(__file__).parents[2] / "compile.py"


@pytest.fixture
def package(kubeflow: Kubeflow, tmp_path: Path) -> Path:
    (tmp_path / "experiment.yaml").write_text("qubits: 5\nlearning_rate: 0.5\noptions:\n  shots: 10\n")
    arguments = ("--image", kubeflow.image, "--config", str(tmp_path / "experiment.yaml"), "--output", str(tmp_path))
    subprocess.run([sys.executable, "-W", "ignore", COMPILE, *arguments], check=True)
    return tmp_path / "qcnn-kubeflow.yaml"


def test_run_has_compiled_defaults_and_accepts_values(kubeflow: Kubeflow, package: Path) -> None:
    command = ("--endpoint", kubeflow.host, "--output", "json", "run", "create")
    name = kubeflow.unique("kfp-cli")
    flags = ("--experiment-name", kubeflow.experiment, "--run-name", name, "--package-file", str(package))
    done = kubeflow.run_command(*command, *flags, "model=deep", "qubits=6", program="kfp")
    assert done.returncode == 0, done.stderr
    kubeflow.run_command("terminate", name)
    row = kubeflow.rows()["kfp-cli"]
    assert row["state"] in ("failed", "canceled")
    parameters = kubeflow.backend.client.get_run(_id(done.stdout)).runtime_config.parameters
    assert parameters == {"model": "deep", "qubits": 6}


def test_compiled_file_is_a_pipeline_with_versions(kubeflow: Kubeflow, package: Path) -> None:
    name = f"qcnn-{kubeflow.experiment}"
    created = kubeflow.run_command(
        "--endpoint", kubeflow.host, "--output", "json", "pipeline", "create", "-p", name, str(package), program="kfp"
    )
    assert created.returncode == 0, created.stderr
    client = kubeflow.backend.client
    identity = client.get_pipeline_id(name)
    try:
        second = kubeflow.run_command(
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
    """Return the run ID in the output of KFP's command line, which prints links before the JSON."""
    return str(json.loads(printed[printed.index("{") :])["run_id"])
