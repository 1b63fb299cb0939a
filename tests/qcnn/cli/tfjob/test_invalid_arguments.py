"""Tests of errors of cluster commands before any request; tests/cluster tests the commands."""

from collections.abc import Callable
from pathlib import Path

import pytest

from qcnn.cli.main import main
from tests.qcnn.cli.conftest import without_estimate

Type = Callable[..., str]
PREDICT = ("predict", "--target", "tfjob")
SUBMIT = ("submit", "--target", "tfjob", "--image", "qcnn", "--output", "gs://bucket")


@pytest.fixture
def error_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Type:
    """Return a function that runs a command with an error and returns its one-line message."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))

    def typed(*arguments: str) -> str:
        monkeypatch.setattr("sys.argv", ["qcnn", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        assert end.value.code == 2, captured
        (line,) = without_estimate(captured.err).splitlines()
        return line

    return typed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("submit",), "error: submit: --target must be one of kubeflow, kubernetes, "),
        (("submit", "--target", "moon"), "error: Invalid value for '--target': 'moon' is not "),
        ((*SUBMIT, "--qubits", "3"), "error: qubits: must be at least 4 with hybrid. Given: 3"),
        ((*SUBMIT, "--quarks", "3"), "error: No such option '--quarks'"),
        ((*SUBMIT, "--output", "runs"), "error: output: must be gs://BUCKET/FOLDER, "),
        ((*SUBMIT, "--data", "rows.csv"), "error: data: a file must be in a bucket on a cluster, gs://BUCKET/FILE, "),
        ((*SUBMIT, "--env", "A"), "error: env: must be NAME=VALUE. Given: A"),
        ((*SUBMIT, "--gpus", "-1"), "error: pod.gpus: must be an integer, at least 0. Given: -1"),
        ((*SUBMIT, "--pod", "none.yaml"), "error: pod: no such file. Given: none.yaml"),
        (
            (*SUBMIT, "--active-deadline-seconds", "0"),
            "error: active_deadline_seconds: must be an integer, at least 1. Given: 0",
        ),
        (
            ("submit", "--target", "tfjob", "--image", "qcnn"),
            "error: output: must be given to target tfjob. Given: none",
        ),
        (("submit", "--target", "tfjob", "--output", "gs://bucket"), "error: pod.image: must be given. Given: none"),
        ((*SUBMIT, "--image", ""), "error: pod.image: must be an image reference, [HOST[:PORT]/]NAME[:TAG]"),
        ((*SUBMIT, "--image", "a b", "--dry-run"), "error: pod.image: must be an image reference, "),
        ((*SUBMIT, "--namespace", "My NS", "--dry-run"), "error: namespace: must be at most 63 lowercase letters, "),
        (("status", "--namespace", ""), "error: namespace: must be at most 63 lowercase letters, "),
        (("delete", "a", "-n", "Team"), "error: namespace: must be at most 63 lowercase letters, "),
        (
            ("compare", "--target", "kubeflow", "--experiment", "a", "--namespace", "A"),
            "error: namespace: must be at most 63 lowercase letters, ",
        ),
        (
            ("submit", "--target", "kubeflow", "--image", "QCNN:1", "--dry-run"),
            "error: pod.image: must be an image reference, ",
        ),
        (("plan", "--target", "tfjob", "--image", "a:"), "error: pod.image: must be an image reference, "),
        (("tensorboard", "--deploy", "gs://a/b", "--image", "a b"), "error: pod.image: must be an image reference, "),
        (("logs",), "error: Missing argument 'JOB'."),
        (("delete",), "error: delete: must have exactly one of JOB, --run, --orphans, --all. Given: none"),
        (
            ("delete", "a", "--all"),
            "error: delete: must have exactly one of JOB, --run, --orphans, --all. Given: JOB --all",
        ),
        (("delete", "--run", ""), "error: run: must be a name of 1 to 200 printable characters"),
        (
            ("delete", "--run", "", "--all"),
            "error: delete: must have exactly one of JOB, --run, --orphans, --all. Given: --run --all",
        ),
        ((*SUBMIT, "--name", ""), "error: run: must be a name of 1 to 200 printable characters"),
        ((*SUBMIT, "--name", "a\nb"), "error: run: must be a name of 1 to 200 printable characters"),
        (PREDICT, "error: predict: must have either JOB or --model. Given: none"),
        ((*PREDICT, "a", "--model", "gs://b"), "error: predict: must have either JOB or --model. Given: both"),
        (
            (*PREDICT, "a", "--cpu", "2"),
            "error: predict: must have no pod settings with JOB, whose settings are used. Given: a",
        ),
        ((*PREDICT, "--model", "gs://b"), "error: pod.image: must be given. Given: none"),
        (
            (*PREDICT, "a", "--data", "gs://b/a.csv"),
            "error: predict: takes --data and --output together, and --report with both. Given: --data",
        ),
        (
            (*PREDICT, "a", "--data", "gs://b/a.csv", "--output", "a.csv"),
            "error: output: must be gs://BUCKET/FOLDER, s3://BUCKET/FOLDER, minio://BUCKET/FOLDER, or an absolute path",
        ),
        (
            (*PREDICT, "a", "--data", "gs://b/a.txt", "--output", "/a.csv"),
            "error: data: must end in .csv, .parquet, .npz or .jsonl. Given: gs://b/a.txt",
        ),
        (
            (*PREDICT, "a", "--data", "gs://u:p@b/a.csv", "--output", "/a.csv"),
            "error: uri: must not contain a user name or password",
        ),
    ],
)
def test_invalid_arguments_are_an_error_without_request(
    error_line: Type, arguments: tuple[str, ...], message: str
) -> None:
    assert error_line(*arguments).startswith(message)


@pytest.mark.parametrize(
    "arguments", [("status",), ("logs", "a"), ("delete", "--all", "--yes"), (*PREDICT, "a"), SUBMIT], ids=" ".join
)
def test_commands_without_cluster_are_an_error(error_line: Type, arguments: tuple[str, ...]) -> None:
    assert error_line(*arguments).startswith("error: cluster: no valid configuration; set KUBECONFIG. Given: ")
    assert error_line(*arguments, "--namespace", "a").startswith(
        "error: cluster: no valid configuration; set KUBECONFIG. Given: "
    )


def test_invalid_kubeconfig_is_an_error(error_line: Type, tmp_path: Path) -> None:
    for content in ("", "[1]", "a: b: c", "apiVersion: v1\ncurrent-context: none\n"):
        (tmp_path / "none").write_text(content)
        assert error_line("status").startswith("error: cluster: no valid configuration; set KUBECONFIG. Given: ")


def test_pod_flags_override_pod_file(error_line: Type, tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text("image: from-file\ncpu: 2\nenvironment: {A: b}\n")
    assert "no valid configuration" in error_line(
        "submit", "--target", "tfjob", "--output", "gs://bucket", "--pod", str(path)
    )
    assert error_line(*SUBMIT, "--pod", str(path), "--memory", "2 GB").startswith(
        "error: pod.memory: must be a quantity"
    )
    path.write_text("environment: [A]\n")
    assert error_line(*SUBMIT, "--pod", str(path), "--env", "A=b").startswith(
        "error: pod.environment: must be a mapping"
    )
    path.write_text("cores: 2\n")
    assert error_line(*SUBMIT, "--pod", str(path)).startswith("error: pod.cores: unknown field; valid fields: image, ")


def test_secret_in_env_is_warned_about_without_value(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setattr("sys.argv", ["qcnn", *SUBMIT, "--env", "AWS_SECRET_ACCESS_KEY=hidden", "--env", "A=b"])
    with pytest.raises(SystemExit):
        main()
    (warning,) = caplog.messages
    assert warning.startswith("warning: pod.environment: AWS_SECRET_ACCESS_KEY looks like a secret ")
    assert warning.endswith("secrets: {AWS_SECRET_ACCESS_KEY: SECRET/KEY}")
    captured = capsys.readouterr()
    assert "hidden" not in warning + captured.out + captured.err


def test_submit_help_lists_options_of_target(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown_by: dict[tuple[str, ...], str] = {
        (): "--target [kubeflow|kubernetes|tfjob|trainjob|vertex|vertex-job]",
        ("--target", "kubeflow"): "--run-name",
        ("--target", "tfjob"): "--output",
    }
    for arguments, shown in shown_by.items():
        monkeypatch.setattr("sys.argv", ["qcnn", "submit", *arguments, "--help"])
        main()
        assert shown in capsys.readouterr().out
