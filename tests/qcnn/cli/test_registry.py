"""Commands of the model registry: register, promote and models."""

import json
from pathlib import Path

import pytest

from qcnn.cli.output import NOT_PROMOTED, REJECTED
from qcnn.cli.serve import sources_of
from qcnn.errors import ArtifactError
from qcnn.serving.versions import ModelSource, VersionPolicy
from tests.qcnn.cli.conftest import Typed
from tests.qcnn.registry.described import promoted_versions, version_states
from tests.qcnn.registry.models import BEST, write_rows, write_run


@pytest.fixture(autouse=True)
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the registry in the environment."""
    monkeypatch.setenv("QCNN_REGISTRY", str(tmp_path / "models"))
    return tmp_path / "models"


def test_commands_register_promote_and_list(typed: Typed, tmp_path: Path) -> None:
    rows = str(write_rows(tmp_path / "rows.csv", 100))
    runs = [str(write_run(tmp_path / name, factor).folder) for name, factor in {"a": 0.5, "b": BEST}.items()]
    assert typed("models")[:2] == (0, f"no model is registered in {tmp_path / 'models'}\n")
    assert typed("register", runs[0], "--name", "cluster")[:2] == (0, "cluster: version 1 is registered\n")
    assert typed("register", runs[0], "--name", "cluster")[:2] == (0, "cluster: version 1 is registered already\n")
    assert typed("promote", "cluster")[:2] == (0, "cluster: champion is version 1, the first one\n")
    typed("register", runs[1], "--name", "cluster")
    code, text, _ = typed("promote", "cluster", "--data", rows)
    assert code == 0
    assert text.startswith("cluster: champion moves from version 1 to 2: loss 0.")
    code, text, _ = typed("promote", "cluster", "--version", "1", "--data", rows)
    assert code == NOT_PROMOTED
    assert text.startswith("cluster: champion stays version 2, because version 1 is not better: loss 0.")
    assert text.endswith(": better with probability 0.0000; required is 0.95\n")
    code, text, _ = typed("promote", "cluster", "--version", "1", "--data", rows, "--format", "json")
    result = json.loads(text)
    assert (code, result["outcome"], result["comparison"]["probability"]) == (NOT_PROMOTED, "rejected", 0)
    code, text, _ = typed("promote", "cluster", "--version", "1", "--data", rows, "--force")
    assert code == 0
    assert text.startswith("cluster: champion moves from version 2 to 1 by force: loss 0.")
    described = json.loads(typed("models", "cluster", "--format", "json")[1])
    assert version_states(described) == [(1, ["champion"], "complete"), (2, [], "complete")]
    assert promoted_versions(described) == [
        (None, 1, False),
        (1, 2, False),
        (2, 1, True),
    ]
    text = typed("models", "cluster")[1]
    assert runs[0] in text
    assert "0.75" in text
    listed = json.loads(typed("models", "--format", "json")[1])
    assert listed == [{"name": "cluster", "versions": [1, 2], "labels": {"champion": 1}}]
    assert typed("models")[1].splitlines()[-1].split() == ["cluster", "1,", "2", "champion", "1"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("register", "nowhere", "--name", "a"), "model: must be the folder of a model or of a run, with model.json"),
        (("register", "nowhere", "--name", "../a"), "name: must be at most 100 letters, digits, dots, dashes and"),
        (("register", "nowhere"), "Missing option '--name'."),
        (("promote", "a"), "name: must be that of a model in "),
        (("promote", "a", "--to", "3"), "label: must not be a number. Given: '3'"),
        (("promote", "a", "--version", "0"), "Invalid value for '--version'"),
        (("promote", "a", "--confidence", "nan"), "confidence: must be at least 0.5 and less than 1. Given: nan"),
        (("models", "a"), "name: must be that of a model in "),
        (("models", "a b"), "name: must be at most 100 letters, digits, dots, dashes and"),
        (("models", "--registry", "ftp://host"), "uri: must be a local folder or gs://BUCKET/FOLDER"),
        (
            ("models", "--registry", "mlflow:"),
            "registry: must be mlflow:URI, such as mlflow:http://127.0.0.1:5000. Giv",
        ),
        (("models", "--registry", "mlflow:models"), "registry: must be mlflow:http://HOST or mlflow:https://HOST. Giv"),
        (("models", "--registry", "mlflow:ftp://user:password@host"), "registry: must be mlflow:http://HOST or mlflow"),
        (
            ("run", "--register", "a", "--registry", "mlflow:http://user:password@host"),
            "registry: must have no credentials for a step of a pipeline; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRAC",
        ),
        (
            ("models", "--registry", "kubeflow:"),
            "registry: must be kubeflow:http://HOST or kubeflow:https://HOST, and #F",
        ),
        (
            ("models", "--registry", "kubeflow:http://host:port"),
            "registry: must be kubeflow:http://HOST or kubeflow:htt",
        ),
        (
            ("models", "--registry", "kubeflow:http://a b"),
            "registry: must be kubeflow:http://HOST or kubeflow:https://",
        ),
        (
            ("models", "--registry", "kubeflow:http://host#ftp://host/a"),
            "uri: must be a local folder or gs://BUCKET/FO",
        ),
        (("models", "--registry", "kubeflow:http://user:password@host"), "registry: must have no credentials; set KF_"),
        (
            ("run", "--register", "a", "--registry", "kubeflow:http://user:password@host"),
            "registry: must have no crede",
        ),
        (("models", "--registry", "gs://user:password@bucket"), "uri: must not contain a user name or password"),
        (("serve", "cluster@champion"), "name: must be that of a model in "),
        (("predict", "cluster@2", "--data", "rows.csv"), "name: must be that of a model in "),
        (("predict", "cluster@", "--data", "rows.csv"), "label: must be at most 100 letters"),
    ],
)
def test_invalid_arguments_are_one_line(typed: Typed, arguments: tuple[str, ...], line: str) -> None:
    code, output, errors = typed(*arguments)
    assert (code, output) == (REJECTED, "")
    assert errors.startswith(f"error: {line}")
    assert errors.count("\n") == 1
    assert "password@" not in errors


def test_metric_that_is_not_finite_is_one_line(typed: Typed, tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", 0.5, metrics={"loss": float("nan")})
    _, _, errors = typed("register", str(run.folder), "--name", "cluster")
    assert errors == f"error: metrics: loss must be finite. Given: nan in {run.folder}\n"
    assert not (tmp_path / "models").exists()


def test_damaged_model_is_not_registered(typed: Typed, tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", 0.5)
    (run.model / "saved_model" / "saved_model.pb").write_bytes(b"other")
    code, _, errors = typed("register", str(run.folder), "--name", "cluster")
    assert code == REJECTED
    assert errors.startswith("error: model: saved_model/saved_model.pb is damaged or of another model")
    assert not (tmp_path / "models").exists()


def test_model_without_dataset_needs_rows(typed: Typed, tmp_path: Path) -> None:
    """The data file has changed, so the rows of its training run are unknown."""
    path = write_rows(tmp_path / "rows.csv", 400)
    run = write_run(tmp_path / "a", 0.5, fields={"rounds": 0, "data": str(path)})
    write_rows(path, 400, seed=1)
    _, _, errors = typed("register", str(run.model), "--name", "cluster")
    assert errors.startswith("the version has no test rows, so its comparison needs --data: dataset: must be the data")
    typed("promote", "cluster")
    other = write_run(tmp_path / "b", BEST, fields={"rounds": 0, "data": str(path)})
    typed("register", str(other.folder), "--name", "cluster")
    _, _, errors = typed("promote", "cluster")
    assert errors.startswith("error: rows: version 1 must have been registered with its dataset, or rows be given by")
    assert typed("promote", "cluster", "--data", str(path))[0] == 0


def test_registered_model_predicts(typed: Typed, tmp_path: Path) -> None:
    for name, factor in {"a": 0.5, "b": 1.0}.items():
        typed("register", str(write_run(tmp_path / name, factor).folder), "--name", "cluster")
    typed("promote", "cluster", "--version", "1")
    rows = tmp_path / "rows.csv"
    rows.write_text("qubit,angle\n0,0\n")
    for model, prediction in {"cluster@champion": "0.5", "cluster@1": "0.5", "cluster@2": "1"}.items():
        code, text, _ = typed("predict", model, "--data", str(rows))
        assert (code, text.splitlines()[-1]) == (0, f"0,0,{prediction}")


def test_registered_model_is_served_by_label_or_version(tmp_path: Path, registry: Path, typed: Typed) -> None:
    typed("register", str(write_run(tmp_path / "a", 0.5).folder), "--name", "cluster")
    typed("promote", "cluster")
    folder = f"{registry}/cluster"
    assert sources_of(("cluster@champion", "two=cluster@1"), "latest:1", None) == {
        "cluster": ModelSource(folder, VersionPolicy(label="champion")),
        "two": ModelSource(folder, VersionPolicy(only=frozenset({1}))),
    }
    with pytest.raises(ArtifactError, match=r"^label: must be one of cluster: champion\. Given: 'canary'$"):
        sources_of(("cluster@canary",), "latest:1", None)
