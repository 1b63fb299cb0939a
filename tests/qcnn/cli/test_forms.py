"""Tests of --dry-run, --format and --print-config."""

import importlib.metadata
import json
from pathlib import Path

import click
import pytest
import yaml

from qcnn.cli.main import qcnn
from qcnn.cli.target_choice import COMMANDS
from qcnn.experiment.parsing import from_mapping
from qcnn.targets import TARGETS
from qcnn.yaml_files import read_file
from tests.kfp_backend import FakeBackend
from tests.qcnn.cli.conftest import Typed

SCHEDULE = ("schedule create", "schedule enable", "schedule disable", "schedule delete")
# Commands that send, change or delete something, by target.
DRY = {
    "local": ("delete",),
    "kubeflow": ("submit", "study", *SCHEDULE, "terminate", "delete", "tensorboard"),
    "kubernetes": ("submit", "predict", "delete", "tensorboard", "deploy", "undeploy"),
    "kserve": ("deploy", "undeploy"),
    **dict.fromkeys(("tfjob", "trainjob"), ("submit", "predict", "delete", "tensorboard")),
    "vertex": ("submit", "study", *SCHEDULE, "terminate", "delete", "deploy", "undeploy", "predict"),
    "vertex-job": ("submit", "delete"),
}
# Commands with --format, by target.
FORMS = {
    "local": ("study", "predict", "status", "delete"),
    "kubeflow": ("submit", "study", "compare", "schedule create", "schedule list", "status", "delete"),
    "kubernetes": ("submit", "status", "delete", "deploy", "undeploy"),
    "kserve": ("deploy", "undeploy"),
    **dict.fromkeys(("tfjob", "trainjob"), ("submit", "status", "delete")),
    "vertex": ("submit", "study", "compare", "schedule create", "schedule list", "status", "delete", "deploy"),
    "vertex-job": ("submit", "status", "delete"),
}


def having(option: str, target: str) -> set[str]:
    """Return the commands of a target that have an option."""
    found = set()
    for name, described in COMMANDS.items():
        if target not in described.targets:
            continue
        command = described.load(target)
        parts = {f"{name} {part}": each for part, each in getattr(command, "commands", {}).items()} or {name: command}
        found |= {part for part, each in parts.items() if any(option in param.opts for param in each.params)}
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_commands_that_change_something_have_dry_run(target: str) -> None:
    assert having("--dry-run", target) == set(DRY[target])


@pytest.mark.parametrize("target", TARGETS)
def test_commands_that_print_tables_have_format(target: str) -> None:
    assert set(FORMS[target]) <= having("--format", target)


@pytest.mark.parametrize("name", ["run", "plan"])
def test_commands_without_targets_have_format(name: str) -> None:
    command = qcnn.get_command(click.Context(qcnn), name)
    assert command
    assert "--format" in {option for param in command.params for option in param.opts}


@pytest.mark.parametrize("option", ["--version"])
def test_version_is_that_of_package(typed: Typed, option: str) -> None:
    assert typed(option) == (0, f"qcnn {importlib.metadata.version('qcnn-pipelines')}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--qubits", "12", "--model", "deep", "--learning-rate", "1e-3", "--warmup-fraction", "0.1"),
        ("--target-val-loss", "floor+0.01", "--visible-gpus", "0", "--profile-batches", "", "--rounds", "44"),
    ],
)
def test_printed_experiment_is_a_valid_config(typed: Typed, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, printed, _ = typed("run", *arguments, "--print-config")
    assert code == 0
    (tmp_path / "file.yaml").write_text(printed)
    found = from_mapping(read_file(tmp_path / "file.yaml"))
    assert found.epochs
    assert typed("run", "--config", str(tmp_path / "file.yaml"), "--print-config") == (0, printed, "")
    assert found.model_dump() == read_file(tmp_path / "file.yaml")


def test_printed_study_is_a_valid_config(typed: Typed, tmp_path: Path) -> None:
    search = ("--grid", "model=hybrid,deep", "--range", "learning_rate=0.001:0.1:log", "--random", "3")
    code, printed, _ = typed("study", "--qubits", "4", *search, "--print-config")
    assert code == 0
    (tmp_path / "file.yaml").write_text(printed)
    found = read_file(tmp_path / "file.yaml")
    assert (found["grid"], found["random"]) == ({"model": ["hybrid", "deep"]}, 3)
    # Automatic values stay 0, because they differ between trials.
    assert (found["qubits"], found["rounds"]) == (4, 0)
    assert typed("study", "--config", str(tmp_path / "file.yaml"), "--print-config") == (0, printed, "")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("submit", "--target", "kubeflow"), "papers"),
        (("study", "--target", "kubeflow", "--grid", "seed=1,2"), "papers"),
        (("schedule", "create", "--interval", "2h"), "papers"),
    ],
)
def test_dry_run_to_kfp_prints_request_without_sending(
    typed: Typed, backend: FakeBackend, command: tuple[str, ...], name: str
) -> None:
    where = ("--host", backend.host, "--image", "qcnn:1", "--experiment", name, "--qubits", "5", "--dry-run")
    code, printed, _ = typed(*command, *where)
    assert code == 0
    request = json.loads(printed)
    parameters = request["runtime_config"]["parameters"]
    assert (request["experiment"], parameters.get("experiment", parameters)["qubits"]) == (name, 5)
    assert "root" in request["pipeline_spec"]["pipeline_spec"]
    assert not backend.calls


def test_show_rows_and_show_table_print_json(capsys: pytest.CaptureFixture[str]) -> None:
    from qcnn.cli.output import show_rows, show_table

    show_rows("json", {"run": "1"})
    show_table("json", ("id", "state"), [(1, "enabled")], "none")
    show_table("json", ("id", "state"), [], "none")
    show_table("text", ("id", "state"), [], "none")
    assert capsys.readouterr().out.split() == json.dumps({"run": "1"}, indent=2).split() + json.dumps(
        [{"id": 1, "state": "enabled"}], indent=2
    ).split() + ["[]", "none"]


def test_dry_run_of_tensorboard_and_predict_prints_manifests(typed: Typed) -> None:
    for command, kinds in (
        (("tensorboard", "gs://bucket/logs", "--deploy"), ["Deployment", "Service"]),
        (("predict", "--target", "tfjob", "--model", "gs://bucket/model"), ["Job"]),
    ):
        code, printed, error = typed(*command, "--image", "qcnn:1", "--dry-run")
        assert code == 0, error
        assert [document["kind"] for document in yaml.safe_load_all(printed)] == kinds


def test_tensorboard_dry_run_without_deploy_is_an_error(typed: Typed) -> None:
    message = "error: dry_run: requires --deploy or --undeploy. Given: --dry-run\n"
    assert typed("tensorboard", "run", "--dry-run") == (2, "", message)
