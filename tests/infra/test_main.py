"""The command line, with programs named gcloud and kubectl on PATH that remember what they are told to make."""

import contextlib
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import infra.__main__
from infra.commands import PROGRAMS, Argv, CommandResult, InfraResource
from qcnn.errors import MOST_QUOTED
from tests.infra.conftest import ROOT
from tests.infra.fake_cloud import FakeCloud

Type = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a cloud in which commands are run."""
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
    """The file of a cloud that programs on PATH make things in; beside it, what they were given."""
    file, folder = tmp_path / "cloud.json", tmp_path / "bin"
    folder.mkdir()
    fake = Path(__file__).with_name("fake_cloud.py")
    for name in PROGRAMS:
        program = folder / name
        # -S and -I: a third of the time to start.
        program.write_text(
            f'#!/bin/sh\necho "$PWD $KUBECONFIG $CLOUDSDK_CORE_DISABLE_PROMPTS" >>"{file}.given"\n'
            f'exec "{sys.executable}" -S -I "{fake}" "{file}" "$0" "$@"\n'
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return file


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    """Type a command; return its exit code, and what it prints."""

    def type_it(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["infra", *words])
        code = 0
        try:
            infra.__main__.main()
        except SystemExit as error:
            code = int(error.code or 0)
        return code, *capsys.readouterr()

    return type_it


def test_from_an_empty_project_to_one_that_trains_and_back(
    cloud: Path, typed: Type, table: tuple[InfraResource, ...]
) -> None:
    code, output, _ = typed("plan")
    assert code == 0
    assert output.endswith(f"{len(table) - 1} of {len(table)} are to be made\n")
    assert not json.loads(cloud.read_text())["made"]

    assert typed("apply")[0] == 0
    made = FakeCloud(cloud)
    code, output, _ = typed("apply")
    assert code == 0
    assert "creating" not in output
    assert "images go to us-central1-docker.pkg.dev/my-project/qcnn, outputs to gs://my-project-qcnn" in output
    assert FakeCloud(cloud).state == made.state
    assert typed("plan")[1].endswith("nothing is to be made\n")

    code, output, _ = typed("destroy", "--yes")
    assert code == 0
    assert "bucket                      keeps       it holds what runs have written; --delete-data" in output
    assert "bucket lifecycle            keeps       with the bucket" in output
    assert "namespace                   deletes     loses the disks of Kubeflow's database" in output
    assert "pipelines                   goes along  with the cluster" in output
    assert FakeCloud(cloud).things.keys() == {"services", "my-project", "gs://my-project-qcnn"}
    assert "nothing is to be deleted" in typed("destroy", "--yes")[1]

    code, output, _ = typed("destroy", "--yes", "--delete-data")
    assert code == 0
    assert "loses everything that runs have written to gs://my-project-qcnn" in output
    assert "bucket lifecycle            goes along  with the bucket" in output
    assert FakeCloud(cloud).things.keys() == {"services", "my-project"}


def test_programs_on_path_are_run_at_the_root_with_a_kubeconfig_of_their_own(
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


def test_without_a_cloud_all_commands_are_printed(
    typed: Type, table: tuple[InfraResource, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    code, output, _ = typed("plan", "--offline")
    assert code == 0
    printed = [line for line in output.splitlines() if line.startswith(("gcloud ", "kubectl "))]
    assert len(printed) == sum(len(resource.create) + bool(resource.connect) for resource in table)
    # What a shell would act on is quoted.
    assert "'--member=serviceAccount:my-project.svc.id.goog[kubeflow/qcnn-worker]'" in output


def test_destroying_asks_first(cloud: Path, typed: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    made = FakeCloud(cloud)
    made.answer(["gcloud", "services", "enable", "iam.googleapis.com"])
    made.answer(["gcloud", "iam", "service-accounts", "create", "qcnn-nodes", "--project=my-project"])
    made.save()
    code, _, errors = typed("destroy")
    assert (code, errors.count("\n")) == (2, 1)
    assert errors.startswith("error: destroy: asks whether to; without a terminal give --yes. Given: 1 ")

    terminal = io.StringIO("n\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    code, output, _ = typed("destroy")
    assert code == 130
    assert "node account                deletes     loses roles that it was given elsewhere" in output
    assert FakeCloud(cloud).state == made.state


def test_an_error_is_one_line_and_nothing_is_made(cloud: Path, typed: Type) -> None:
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


def test_a_program_that_is_not_installed_is_named(typed: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    code, _, errors = typed("apply")
    assert code == 2
    assert errors.startswith("error: PATH: must hold gcloud, kubectl, gke-gcloud-auth-plugin, git; not found: gcloud,")
    assert errors.endswith("Given: /nowhere\n")


def test_wrong_settings_are_one_line_before_anything_is_asked(typed: Type, tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(f"project: {'x' * 1000}")
    code, _, errors = typed("apply", "--settings", str(path))
    assert (code, errors.count("\n")) == (2, 1)
    assert errors.startswith("error: settings.project: must be ")
    assert len(errors.partition("Given: ")[2].strip()) <= MOST_QUOTED
