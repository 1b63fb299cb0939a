"""Tests of the logs that qcnn tensorboard opens for KFP runs."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from qcnn.errors import ArtifactError
from qcnn.targets.artifacts import LogSource
from qcnn.targets.errors import BackendError
from qcnn.targets.kubeflow.experiments import LogsSettings
from qcnn.targets.kubeflow.target import KubeflowTarget
from tests.kfp_backend import IMAGE, FakeBackend
from tests.metadata import answering, artifact
from tests.qcnn.cli.conftest import Typed

_ROOT = "minio://mlpipeline/v2/artifacts/qcnn"


@pytest.fixture
def ids(backend: FakeBackend, typed: Typed) -> dict[str, str]:
    """Return the IDs of a training run, a finished run, a study of two trials and a run without artifacts."""
    states = {"trains": "RUNNING", "ended": "SUCCEEDED", "study": "SUCCEEDED", "new": "PENDING"}
    for name in states:
        where = ("--target", "kubeflow", "--host", backend.host, "--image", IMAGE)
        code, _, err = typed("submit", *where, "--run-name", name)
        assert code == 0, err
    runs = {run["display_name"]: run for run in backend.objects["runs"].values()}
    for name, state in states.items():
        runs[name]["state"] = state
    ids = {name: str(run["run_id"]) for name, run in runs.items()}
    dataset = artifact(
        "system.Dataset", {"display_name": "dataset"}, f"{_ROOT}/{ids['trains']}/generate-data/1/dataset"
    )
    logs = [
        artifact("system.Artifact", {"display_name": "logs"}, f"{_ROOT}/{run}/train/{job}/logs")
        # The training step was cached.
        for run, job in (("another", "a"), (ids["study"], "b"), (ids["study"], "c"))
    ]
    backend.metadata = answering(
        {ids["trains"]: [dataset], ids["ended"]: logs[:1], ids["study"]: logs[1:], "other": []}
    )
    return ids


def _logs(
    backend: FakeBackend, ids: Sequence[str], experiment: str | None, names: Sequence[str]
) -> Sequence[LogSource]:
    with KubeflowTarget(settings := LogsSettings(host=backend.host)) as target:
        return target.find_logs(ids, experiment, names, settings, in_a_pod=False)


def test_logs_of_active_run_are_in_its_folder(backend: FakeBackend, ids: dict[str, str]) -> None:
    trains = LogSource("trains", f"{_ROOT}/{ids['trains']}", of_run=True)
    ended = LogSource("ended", f"{_ROOT}/another/train/a/logs")
    study = [
        LogSource("study", f"{_ROOT}/{ids['study']}/train/b/logs"),
        LogSource("study-2", f"{_ROOT}/{ids['study']}/train/c/logs"),
    ]
    assert _logs(backend, [ids["trains"]], None, ()) == [trains]
    assert _logs(backend, (), "qcnn", ("study",)) == study
    assert _logs(backend, (), "qcnn", ()) == [trains, ended, *study]
    assert _logs(backend, (), None, ()) == []


def test_runs_without_logs_are_an_error(backend: FakeBackend, ids: dict[str, str]) -> None:
    with pytest.raises(ArtifactError, match=rf"^run: nothing is logged yet\. Given: {ids['new']}$"):
        _logs(backend, [ids["new"]], None, ())
    with pytest.raises(ArtifactError, match=r"^run: experiment qcnn has ended, new, study, trains\. Given: old$"):
        _logs(backend, (), "qcnn", ("old",))
    with pytest.raises(BackendError, match=r"Given: papers$"):
        _logs(backend, (), "papers", ())


def test_runs_with_equal_names_are_numbered(backend: FakeBackend, typed: Typed, ids: dict[str, str]) -> None:
    for run in backend.objects["runs"].values():
        run["display_name"] = "same"
    found = _logs(backend, (), "qcnn", ("same",))
    assert {logs.name for logs in found} >= {f"same-{ids['trains'][:8]}", f"same-{ids['ended'][:8]}"}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("--deploy", "--undeploy", "--image", "qcnn"),
            "tensorboard: must have only one of --deploy and --undeploy. Given: both",
        ),
        (("--name", "a"), "name: requires --deploy or --undeploy. Given: a"),
        (("-n", "mine", "--public"), "public: requires --deploy. Given: --public"),
        (("--cpu", "2"), "tensorboard: --deploy must be given with pod settings. Given: --pod or one of its settings"),
        (("--deploy",), "pod.image: must be given. Given: none"),
        (
            ("--deploy", "--image", "qcnn", "runs-here"),
            "run: must be a folder with logs, .* or the ID of a remote run. Given: runs-here",
        ),
        (("--undeploy", "--name", "No"), "name: must be at most 50 lowercase letters, .* Given: No"),
    ],
)
def test_invalid_deploy_options_are_an_error(typed: Typed, arguments: tuple[str, ...], line: str) -> None:
    code, out, err = typed("tensorboard", *arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(f"error: {line}\n", err), err


def test_deploy_with_equal_log_names_is_an_error(typed: Typed) -> None:
    addresses = ("gs://bucket/a/x/logs", "gs://bucket/b/x/logs")
    code, _, err = typed("tensorboard", "--deploy", "--image", "qcnn", *addresses)
    assert code == 2
    assert err == "error: run: names must be unique among different runs. Given: x\n"


def test_deploy_with_local_logs_is_an_error(typed: Typed, tmp_path: Path) -> None:
    logs = tmp_path / "run" / "train" / "logs"
    logs.mkdir(parents=True)
    code, _, err = typed("tensorboard", "--deploy", "--image", "qcnn", str(tmp_path / "run"))
    assert code == 2
    assert re.fullmatch(rf"error: tensorboard: the logs must be at gs://.* Given: {logs}\n", err), err
