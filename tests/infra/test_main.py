"""Command line of infra, with fakes of gcloud and kubectl on PATH."""

import contextlib
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import infra.__main__
from infra.commands import PROGRAMS, Argv, CommandResult, InfraResource
from qcnn.errors import MAX_VALUE_LENGTH
from tests.infra.conftest import ROOT
from tests.infra.fake_cloud import FakeCloud

Type = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """State file of the fake cloud in which commands run."""
    file = tmp_path / "cloud.json"

    def run(argv: Argv) -> CommandResult:
        cloud = FakeCloud(file)
        code, output, errors = cloud.answer(argv)
        cloud.save()
        return CommandResult(code == 0, output, errors)

    monkeypatch.setattr(infra.__main__, "commands", lambda: contextlib.nullcontext(run))
    monkeypatch.setattr(infra.__main__, "check_programs", lambda: None)
    return file


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """State file of the fake cloud of the programs on PATH; their environment is recorded next to it."""
    file, folder = tmp_path / "cloud.json", tmp_path / "bin"
    folder.mkdir()
    fake = Path(__file__).with_name("fake_cloud.py")
    for name in PROGRAMS:
        program = folder / name
        # -S and -I reduce the startup time to a third.
        program.write_text(
            f'#!/bin/sh\necho "$PWD $KUBECONFIG $CLOUDSDK_CORE_DISABLE_PROMPTS" >>"{file}.given"\n'
            f'exec "{sys.executable}" -S -I "{fake}" "{file}" "$0" "$@"\n'
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return file


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    """Function that runs a command and returns its exit code, stdout and stderr."""

    def type_it(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["infra", *words])
        code = 0
        try:
            infra.__main__.main()
        except SystemExit as error:
            code = int(error.code or 0)
        return code, *capsys.readouterr()

    return type_it


def test_plan_apply_and_destroy_from_empty_project(cloud: Path, typed: Type, table: tuple[InfraResource, ...]) -> None:
    code, output, _ = typed("plan")
    assert code == 0
    assert output.endswith(f"{len(table) - 1} of {len(table)} resources to create\n")
    assert not json.loads(cloud.read_text())["created"]

    assert typed("apply")[0] == 0
    created = FakeCloud(cloud)
    code, output, _ = typed("apply")
    assert code == 0
    assert "creating" not in output
    assert "image repository: us-central1-docker.pkg.dev/my-project/qcnn, bucket: gs://my-project-qcnn" in output
    assert FakeCloud(cloud).state == created.state
    assert typed("plan")[1].endswith("nothing to create\n")

    code, output, _ = typed("destroy", "--yes")
    assert code == 0
    assert "bucket                      keep        it contains outputs of runs; --delete-data" in output
    assert "bucket lifecycle            keep        with the bucket" in output
    assert "namespace                   delete      data loss: the disks of Kubeflow's database" in output
    assert "pipelines                   delete      with the cluster" in output
    assert FakeCloud(cloud).things.keys() == {"services", "my-project", "gs://my-project-qcnn"}
    assert "nothing to delete" in typed("destroy", "--yes")[1]

    code, output, _ = typed("destroy", "--yes", "--delete-data")
    assert code == 0
    assert "data loss: all outputs of runs in gs://my-project-qcnn" in output
    assert "bucket lifecycle            delete      with the bucket" in output
    assert FakeCloud(cloud).things.keys() == {"services", "my-project"}


def test_apply_runs_programs_in_root_with_temporary_kubeconfig(
    programs: Path, typed: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "mine")
    code, _, errors = typed("apply")
    assert (code, errors) == (0, "")
    assert {"cluster qcnn", "objects"} < FakeCloud(programs).things.keys()
    given = {tuple(line.split()) for line in Path(f"{programs}.given").read_text().splitlines()}
    ((folder, kubeconfig, prompts),) = given
    assert (folder, prompts) == (str(ROOT), "1")
    assert kubeconfig != "mine"
    assert not Path(kubeconfig).parent.exists()


def test_plan_offline_prints_all_commands(
    typed: Type, table: tuple[InfraResource, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    code, output, _ = typed("plan", "--offline")
    assert code == 0
    printed = [line for line in output.splitlines() if line.startswith(("gcloud ", "kubectl "))]
    assert len(printed) == sum(len(resource.create) + bool(resource.connect) for resource in table)
    # Shell metacharacters are quoted.
    assert "'--member=serviceAccount:my-project.svc.id.goog[kubeflow/qcnn-worker]'" in output


def test_destroy_prompts_for_confirmation(cloud: Path, typed: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    created = FakeCloud(cloud)
    created.answer(["gcloud", "services", "enable", "iam.googleapis.com"])
    created.answer(["gcloud", "iam", "service-accounts", "create", "qcnn-nodes", "--project=my-project"])
    created.save()
    code, _, errors = typed("destroy")
    assert (code, errors.count("\n")) == (2, 1)
    assert errors.startswith("error: destroy: must have --yes if stdin is not a terminal. Given: 1 ")

    terminal = io.StringIO("n\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    code, output, _ = typed("destroy")
    assert code == 130
    assert "node account                delete      data loss: its roles on other resources" in output
    assert FakeCloud(cloud).state == created.state


def test_command_error_is_one_line_and_changes_nothing(cloud: Path, typed: Type) -> None:
    broken = FakeCloud(cloud)
    broken.state["errors"]["projects describe"] = (
        "ERROR: (gcloud.projects.describe) You do not currently have an active account selected.\nPlease run:\n"
    )
    broken.save()
    for command in (["plan"], ["apply"], ["destroy", "--yes"]):
        code, _, errors = typed(*command)
        assert (code, errors.count("\n")) == (2, 1)
        assert errors.startswith("error: project: gcloud failed (ERROR: (gcloud.projects.describe) You do not")
    assert FakeCloud(cloud).state == broken.state


def test_apply_reports_missing_programs(typed: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    code, _, errors = typed("apply")
    assert code == 2
    assert errors.startswith("error: PATH: must contain gcloud, kubectl, gke-gcloud-auth-plugin, git; missing: gcloud,")
    assert errors.endswith("Given: /nowhere\n")


def test_apply_reports_invalid_settings_before_any_command(typed: Type, tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(f"project: {'x' * 1000}")
    code, _, errors = typed("apply", "--settings", str(path))
    assert (code, errors.count("\n")) == (2, 1)
    assert errors.startswith("error: settings.project: must be ")
    assert len(errors.partition("Given: ")[2].strip()) <= MAX_VALUE_LENGTH
