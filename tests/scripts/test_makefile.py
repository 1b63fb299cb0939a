"""Tests of the commands that the Makefile's targets run."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRACT = "tests/qcnn/jobs/test_apiserver.py"
ONE = f"{CONTRACT}::test_only_the_object_that_is_meant_is_deleted"
PARALLEL = "--numprocesses logical --maxprocesses 2 --dist loadfile --no-loadscope-reorder"
FAULTS = " ".join(f"tests/components/steps/test_faults{of}.py" for of in ("", "_of_roles"))


@pytest.mark.parametrize(
    ("target", "arguments", "run"),
    [
        ("test-cluster", "", f'-m "cluster and alone" tests/cluster {CONTRACT}'),
        ("test-cluster", ONE, f"-m cluster {ONE}"),
        ("test-cluster", f"{ONE} -x", f"-m cluster {ONE} -x"),
        ("test-cluster", "-k deleted", f"-m cluster tests/cluster {CONTRACT} -k deleted"),
        ("test-kfp", "", "-m kfp tests/kfp tests/test_kfp_backend.py"),
        ("test-kfp", "tests/kfp/test_runs.py", "-m kfp tests/kfp/test_runs.py"),
        ("test-faults", "-k torn", f'-m "faults or not faults" {FAULTS} -k torn'),
        ("test-long", "tests/trainer", '-m "long and not faults and not tfq" tests/trainer'),
        ("test", "", f"--fast {PARALLEL}"),
        ("test", "tests/trainer -k order", "tests/trainer -k order"),
        ("test-all", "", PARALLEL),
    ],
)
def test_test_targets_with_path_in_args_run_only_it(target: str, arguments: str, run: str) -> None:
    # Removes the variables of the make process that runs these tests.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "ARGS"}
    command = ["make", "--dry-run", "--no-print-directory", target, f"ARGS={arguments}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert " ".join(done.stdout.splitlines()[-1].split()) == f".venv/bin/pytest {run}"


def test_cluster_tests_that_need_all_services_run_first() -> None:
    command = ["make", "--dry-run", "--no-print-directory", "test-cluster"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "ARGS"}
    lines = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    parallel = "--numprocesses 3 --dist worksteal --maxfail 3"
    assert f'.venv/bin/pytest -m "cluster and not alone" {parallel} tests/cluster {CONTRACT}' in lines


def test_release_check_builds_documentation_first() -> None:
    command = ["make", "--dry-run", "--no-print-directory", "release-check", "ARGS=--tag v1.2.0"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    lines = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    assert lines.splitlines()[-1] == ".venv/bin/python scripts/release_check.py --tag v1.2.0"
    assert "mkdocs build --strict" in lines


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., list[str]]:
    """Return a function that runs make with stubs of docker and qcnn, and returns the printed lines."""
    for name in ("docker", ".venv/bin/qcnn"):
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "{Path(name).name} $*"\n')
        program.chmod(0o755)
    shutil.copy(ROOT / "Makefile", tmp_path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "ARGS"}
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"

    def run(*arguments: str, code: int = 0) -> list[str]:
        # --old-file prevents the creation of the environment.
        command = ["make", "--no-print-directory", "--old-file", ".venv/.complete", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return (done.stderr + done.stdout).splitlines()

    return run


def test_training_pushes_image_and_prints_command(make: Callable[..., list[str]]) -> None:
    lines = make("training", "REGISTRY=host/path", "TAG=1", "OUTPUT=gs://bucket/a", "ARGS=--qubits 5", "BUILD=--pull")
    # make prints the command, then the stub prints its arguments.
    *_, built = [line for line in lines if line.startswith("docker build --tag")]
    assert built.endswith(" --pull .")
    assert "--qubits" not in built
    assert "docker push host/path/qcnn:1" in lines
    qcnn_arguments = "submit --target tfjob --name qcnn --output gs://bucket/a --image host/path/qcnn:1 --qubits 5"
    assert [" ".join(line.split()).replace('"', "") for line in lines[-2:]] == [
        f".venv/bin/qcnn {qcnn_arguments}",
        f"qcnn {qcnn_arguments}",
    ]


@pytest.mark.parametrize(
    ("target", "qcnn_arguments"),
    [
        ("inference", "predict --target tfjob mine --namespace team"),
        ("tensorboard", "tensorboard --deploy --job mine --image qcnn:1 --pod pod.yaml --namespace team"),
        ("delete-training", "delete --run mine --kind TFJob --namespace team"),
        ("delete-inference", "delete --run mine --kind Job --namespace team"),
        ("delete-tensorboard", "tensorboard --undeploy --namespace team"),
    ],
)
def test_kubernetes_targets_run_qcnn_commands(make: Callable[..., list[str]], target: str, qcnn_arguments: str) -> None:
    lines = make(target, "IMAGE=qcnn:1", "POD=pod.yaml", "NAME=mine", "NAMESPACE=team")
    assert not [line for line in lines if "docker" in line and not line.startswith("push")]
    assert " ".join(lines[-1].split()) == f"qcnn {qcnn_arguments}"


def test_training_without_image_is_an_error(make: Callable[..., list[str]]) -> None:
    lines = make("training", "OUTPUT=gs://bucket/a", code=2)
    assert "push: requires REGISTRY=HOST/PATH, or IMAGE of an existing image. Given: none" in lines
    assert not [line for line in lines if line.startswith("qcnn")]
