"""Which commands there are for which target, and what loading them takes."""

import subprocess
import sys
from pathlib import Path

import pytest

from qcnn.cli.target_choice import COMMANDS
from tests.qcnn.cli.conftest import Typed

ROOT = Path(__file__).parents[3]
_SUBMIT, _RUNS = "'kubeflow', 'tfjob', 'vertex', 'vertex-job'", "'kubeflow', 'vertex'"
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
def test_every_command_of_a_target_is_there(typed: Typed, target: str, name: str) -> None:
    code, out, err = typed(name, "--target", target, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: qcnn {name}")


@pytest.mark.parametrize(
    ("words", "shown", "hidden"),
    [
        (("submit", "--help"), "--target [kubeflow|tfjob|vertex|vertex-job]", "--run-name"),
        (("submit", "--target", "kubeflow", "--help"), "--run-name", "--output"),
        (("submit", "--help", "--target=tfjob"), "--output", "--run-name"),
        (("study", "--help"), "--runs", "--parallelism"),
        (("study", "--grid", "a=b", "--target", "kubeflow", "--help"), "--parallelism", "--runs"),
        (("compare", "--help"), "--host", "--project"),
        (("compare", "--target", "vertex", "--help"), "--project", "--host"),
        (("schedule", "--help"), "a Kubeflow backend", "Vertex AI"),
        (("schedule", "create", "--help", "--target", "vertex"), "--queue", "--interval"),
        (("schedule", "--target", "vertex", "create", "--help"), "--queue", "--interval"),
        (("status", "--help"), "--namespace", "--project"),
        (("status", "--help", "--target", "local"), "--runs", "--namespace"),
    ],
)
def test_every_target_has_options_of_its_own(typed: Typed, words: tuple[str, ...], shown: str, hidden: str) -> None:
    code, out, _ = typed(*words)
    assert code == 0
    assert shown in out
    assert hidden not in out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("submit",), "submit: --target must be one of kubeflow, tfjob, vertex, vertex-job. Given: none"),
        (
            ("submit", "--qubits", "4"),
            "submit: --target must be one of kubeflow, tfjob, vertex, vertex-job. Given: none",
        ),
        (("submit", "--target"), "Option '--target' requires an argument."),
        (("submit", "--target", "local"), f"Invalid value for '--target': 'local' is not one of {_SUBMIT}."),
        (
            ("study", "--target", "tfjob"),
            "Invalid value for '--target': 'tfjob' is not one of 'local', 'kubeflow', 'vertex'.",
        ),
        (("study", "--parallelism", "2"), "No such option '--parallelism'."),
        (("terminate", "a", "--target", "tfjob"), f"Invalid value for '--target': 'tfjob' is not one of {_RUNS}."),
    ],
)
def test_what_no_target_has_is_one_line(typed: Typed, words: tuple[str, ...], line: str) -> None:
    assert typed(*words) == (2, "", f"error: {line}\n")


def test_help_loads_no_heavy_library() -> None:
    words = (
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
for words in {words!r}:
    sys.argv = ["qcnn", *words.split()]
    main()
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.count("Usage: qcnn ") == len(words)
    assert not _HEAVY & set(done.stdout.splitlines()[-1].split())
