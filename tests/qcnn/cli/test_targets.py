"""Tests of the commands by target and of their imports."""

import subprocess
import sys
from pathlib import Path

import pytest

from qcnn.cli.target_choice import COMMANDS
from qcnn.targets import target_classes
from qcnn.targets.base import Submits
from tests.qcnn.cli.conftest import Typed

ROOT = Path(__file__).parents[3]
_SUBMIT, _RUNS = "'kubeflow', 'kubernetes', 'tfjob', 'trainjob', 'vertex', 'vertex-job'", "'kubeflow', 'vertex'"
_HEAVY = {
    "tensorflow",
    "tf_keras",
    "cirq",
    "kfp",
    "kfp_server_api",
    "kubernetes",
    "matplotlib",
    "google.cloud.aiplatform_v1",
}


@pytest.mark.parametrize(("target", "name"), [(t, name) for name, each in COMMANDS.items() for t in each.targets])
def test_each_command_of_target_has_help(typed: Typed, target: str, name: str) -> None:
    code, out, err = typed(name, "--target", target, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: qcnn {name}")


@pytest.mark.parametrize(
    ("arguments", "shown", "hidden"),
    [
        (("submit", "--help"), "--target [kubeflow|kubernetes|tfjob|trainjob|vertex|vertex-job]", "--run-name"),
        (("submit", "--target", "kubeflow", "--help"), "--run-name", "--output"),
        (("submit", "--help", "--target=tfjob"), "--output", "--run-name"),
        (("study", "--help"), "--runs", "--host"),
        (("study", "--grid", "a=b", "--target", "kubeflow", "--help"), "--parallelism", "--runs"),
        (("compare", "--help"), "--host", "--project"),
        (("compare", "--target", "vertex", "--help"), "--project", "--host"),
        (("schedule", "--help"), "Kubeflow Pipelines", "Vertex AI"),
        (("schedule", "create", "--help", "--target", "vertex"), "--queue", "--interval"),
        (("schedule", "--target", "vertex", "create", "--help"), "--queue", "--interval"),
        (("status", "--help"), "--namespace", "--project"),
        (("status", "--help", "--target", "local"), "--runs", "--namespace"),
    ],
)
def test_help_lists_options_of_target(typed: Typed, arguments: tuple[str, ...], shown: str, hidden: str) -> None:
    code, out, _ = typed(*arguments)
    assert code == 0
    assert shown in out
    assert hidden not in out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("submit",),
            f"submit: --target must be one of {', '.join(target_classes(Submits))}. Given: none",
        ),
        (
            ("submit", "--qubits", "4"),
            f"submit: --target must be one of {', '.join(target_classes(Submits))}. Given: none",
        ),
        (("submit", "--target"), "Option '--target' requires an argument."),
        (("submit", "--target", "local"), f"Invalid value for '--target': 'local' is not one of {_SUBMIT}."),
        (
            ("study", "--target", "tfjob"),
            "Invalid value for '--target': 'tfjob' is not one of 'local', 'kubeflow', 'vertex'.",
        ),
        (("study", "--namespace", "a"), "No such option '--namespace'."),
        (("terminate", "a", "--target", "tfjob"), f"Invalid value for '--target': 'tfjob' is not one of {_RUNS}."),
    ],
)
def test_invalid_target_is_an_error(typed: Typed, arguments: tuple[str, ...], line: str) -> None:
    assert typed(*arguments) == (2, "", f"error: {line}\n")


def test_help_imports_no_heavy_library() -> None:
    commands = (
        "--help",
        "run --help",
        "study --help",
        "submit --target kubeflow --help",
        "schedule --help",
        "compare --help",
        "submit --target vertex --help",
        "submit --target vertex-job --help",
    )
    program = f"""
import sys
from qcnn.cli.main import main
for arguments in {commands!r}:
    sys.argv = ["qcnn", *arguments.split()]
    main()
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.count("Usage: qcnn ") == len(commands)
    assert not _HEAVY & set(done.stdout.splitlines()[-1].split())


def test_help_and_completion_load_no_experiment() -> None:
    """A shell starts the program at every completion."""
    program = "import sys; sys.argv[1:] = ['--help']; from qcnn.cli.main import main; main(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"pydantic", "qcnn.experiment.config"} & set(done.stdout.splitlines()[-1].split())
