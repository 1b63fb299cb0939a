"""qcnn run as a user types it."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.main import main

QCNN = Path(sys.executable).with_name("qcnn")


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([QCNN, "run", *arguments], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("user")


@pytest.fixture(scope="module")
def finished(folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "experiment.yaml").write_text("qubits: 5\nrounds: 12\nepochs: 9\n")
    return _run(folder, "--config", "experiment.yaml", "--epochs", "3", "--batch_size", "16")


def _lines(text: str) -> dict[str, str]:
    """The table at the end, as name -> value."""
    return dict(re.findall(r"^(\S.*?)  +(\S.*)$", text, re.MULTILINE))


def test_trains_on_two_processes_and_reports(finished: subprocess.CompletedProcess[str]) -> None:
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert re.findall(r"^== (\S+)$", finished.stdout, re.MULTILINE)[:2] == ["generate-data", "train"]
    assert "[worker 0] epoch 3/3" in finished.stdout
    table = _lines(finished.stdout)
    for name in ("train loss", "validation loss", "test MSE", "sign accuracy", "seconds an epoch"):
        assert float(table[name]) >= 0


def test_artifacts_lie_where_the_table_says(folder: Path, finished: subprocess.CompletedProcess[str]) -> None:
    table = _lines(finished.stdout)
    assert {path.name for path in (folder / table["model"]).iterdir()} == {
        "model.json",
        "qcnn.weights.h5",
        "saved_model",
    }
    experiment = json.loads((folder / table["model"] / "model.json").read_text())["experiment"]
    assert (experiment["qubits"], experiment["epochs"], experiment["workers"]) == (5, 3, 2)
    with (folder / table["predictions"] / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    metrics = json.loads((folder / table["metrics"]).read_text())
    squared = [(float(row["prediction"]) - float(row["label"])) ** 2 for row in rows]
    assert sum(squared) / len(squared) == pytest.approx(metrics["mse"], rel=1e-6)
    assert table["test MSE"] == f"{metrics['mse']:.4f}"
    assert table["logs"] in (folder / table["tensorboard"]).read_text()
    assert table["report"].endswith(".html")
    assert f"Test MSE<b>{table['test MSE']}</b>" in (folder / table["report"]).read_text()


def test_tensorboard_finds_the_losses_with_the_command_shown(
    folder: Path, finished: subprocess.CompletedProcess[str]
) -> None:
    command = [*_lines(finished.stdout)["look at it with"].split(), "--inspect"]
    printed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    for name in ("train", "validation"):
        assert f"/logs/{name}" in printed
    assert "loss" in printed
    # 42 samples in batches of 16 are 3 updates an epoch.
    assert re.search(r"last_step +9\b", printed)


def test_both_workers_trained_and_only_the_chief_wrote(
    folder: Path, finished: subprocess.CompletedProcess[str]
) -> None:
    (run,) = (folder / "runs").iterdir()
    log = (run / "log.txt").read_text()
    assert all(re.search(rf"\[worker {index}\].*Started server", log) for index in (0, 1))
    assert not re.search(r"\[worker 1\] epoch", log)
    training = folder / _lines(finished.stdout)["training"]
    assert {path.name for path in training.iterdir()} == {"checkpoints", "history.csv"}


def test_a_second_run_has_a_folder_of_its_own_and_a_failing_step_is_one_line(
    folder: Path, finished: subprocess.CompletedProcess[str]
) -> None:
    diverging = ("--optimizer", "sgd", "--learning-rate", "1e300", "--strategy", "none", "--workers", "1")
    failed = _run(folder, "--qubits", "4", *diverging)
    assert failed.returncode == 1
    assert re.search(r"error: .*loss is no longer finite at epoch 1, step 2.*Given: ", failed.stdout)
    assert failed.stderr.startswith("error: step train failed, see the lines above. Given: ")
    assert failed.stderr.count("\n") == 1
    assert "Traceback" not in failed.stdout
    assert len(list((folder / "runs").iterdir())) == 2


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--qubits", "3"], "error: qubits: must be an integer, at least 4. Given: 3"),
        (["--qubits", "0"], "error: qubits: must be an integer, at least 4. Given: 0"),
        (["--qubits", "-1"], "error: qubits: must be an integer, at least 4. Given: -1"),
        (["--qubits", "eight"], "error: qubits: must be an integer, at least 4. Given: 'eight'"),
        (["--rounds", "0"], "error: rounds: must be an integer, at least 1 and at most 1000000. Given: 0"),
        (["--workers", "0"], "error: workers: must be an integer, at least 1. Given: 0"),
        (["--batch-size", "0"], "error: batch_size: must be an integer, at least 1. Given: 0"),
        (["--batch-size", "1"], "error: batch_size: must be at least workers (2)"),
        (["--epochs", "0"], "error: epochs: must be an integer, at least 1. Given: 0"),
        (["--learning-rate", "nan"], "error: learning_rate: must be a finite number, greater than 0. Given: nan"),
        (["--learning-rate", "-1"], "error: learning_rate: must be a finite number, greater than 0. Given: -1.0"),
        (["--model", "shallow"], "error: model: must be one of hybrid, deep, or your own"),
        (["--simulator", "abacus"], "error: simulator: must be one of tfq. Given: 'abacus'"),
        (["--strategy", "alone"], "error: strategy: must be one of multi_worker, mirrored, none. Given: 'alone'"),
        (["--qbits", "8"], "error: No such option '--qbits'"),
        (["--config", "missing.yaml"], "error: config: no such file. Given: missing.yaml"),
        (["--config", "empty.yaml"], "error: config: the file is empty"),
        (["--config", "broken.yaml"], "error: config: the file is not valid YAML"),
        (["--config", "unknown.yaml"], "error: qbits: unknown key"),
        (["--runs", "file/runs"], "error: runs: the folder cannot be written (Not a directory). Given: file/runs"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    line: str,
) -> None:
    files = {"empty.yaml": "", "broken.yaml": "qubits: [", "unknown.yaml": "qbits: 8", "file": ""}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["qcnn", "run", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(line)
    assert captured.err.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == set(files)


def test_help_names_every_word_with_its_range(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["qcnn", "run", "--help"])
    main()
    text = " ".join(capsys.readouterr().out.split())
    assert "--learning-rate VALUE" in text
    assert "An integer, at least 4. [default: 8]" in text
