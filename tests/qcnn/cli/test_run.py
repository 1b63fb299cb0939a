"""Tests of qcnn run."""

import contextlib
import csv
import itertools
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import click
import psutil
import pytest

from qcnn.artifact_io import load_description, save_description
from qcnn.cli.run import compare, read_unfinished_run
from qcnn.experiment.parsing import from_mapping
from qcnn.planning.checks import LOCAL, check_experiments
from qcnn.results.local_run import read_record
from qcnn.targets.errors import StepError
from tests.qcnn.cli.conftest import Typed
from tests.tensorboard_server import opened

QCNN = Path(sys.executable).with_name("qcnn")
CIRCUITS = """
import sys
import cirq, sympy
from qcnn.circuits.circuits import Ansatz
def turns(qubits):
    s = sympy.Symbol("s")
    return Ansatz(cirq.Circuit(cirq.X(qubits[0]) ** s), (s,), (qubits[0],))
def measures(qubits):
    turned = turns(qubits)
    return Ansatz(turned.circuit + cirq.Circuit(cirq.measure(qubits[0])), turned.symbols, turned.readouts)
def exits(qubits):
    sys.exit(3)
"""


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([QCNN, "run", *arguments], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("user")


@pytest.fixture(scope="module")
def finished(folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "experiment.yaml").write_text("qubits: 5\nrounds: 12\nepochs: 9\n")
    (temporary := folder.parent / "temporary").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temporary))
        registration = ("--register", "ring", "--registry", "models")
        return _run(folder, "--config", "experiment.yaml", "--epochs", "3", "--batch_size", "16", *registration)


@pytest.mark.long
def test_run_leaves_no_temporary_file(folder: Path, finished: subprocess.CompletedProcess[str]) -> None:
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert not list((folder.parent / "temporary").iterdir())


def _lines(text: str) -> dict[str, str]:
    """Return the rows of the final table by name."""
    return dict(re.findall(r"^(\S.*?)  +(\S.*)$", text, re.MULTILINE))


@pytest.mark.long
def test_run_trains_on_two_processes_and_prints_metrics(finished: subprocess.CompletedProcess[str]) -> None:
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert re.findall(r"^== (\S+)$", finished.stdout, re.MULTILINE)[:2] == ["generate-data", "train"]
    assert "[worker 0] epoch 3/3" in finished.stdout
    table = _lines(finished.stdout)
    for name in ("train loss", "validation loss", "test MSE", "fresh MSE", "sign accuracy", "seconds per epoch"):
        assert float(table[name]) >= 0


@pytest.mark.long
def test_record_contains_state_fields_and_steps(folder: Path, finished: subprocess.CompletedProcess[str]) -> None:
    (run,) = (folder / "runs").iterdir()
    record = read_record(run)
    assert (record.state, {step.state for step in record.steps}) == ("succeeded", {"succeeded"})
    assert [step.name for step in record.steps] == re.findall(r"^== (\S+)$", finished.stdout, re.MULTILINE)
    assert (record.words["qubits"], record.words["epochs"], record.words["options"]["max_restarts"]) == (5, 3, 3)
    assert record.seconds
    # The sum of the steps is less than the duration of the run.
    assert 0 < sum(step.seconds or 0 for step in record.steps) < record.seconds


@pytest.mark.long
def test_artifacts_are_at_printed_paths(folder: Path, finished: subprocess.CompletedProcess[str]) -> None:
    table = _lines(finished.stdout)
    assert {path.name for path in (folder / table["model"]).iterdir()} == {
        "model.json",
        "predictor.json",
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
    assert json.loads((folder / table["confusion"]).read_text())["labels"] == ["-1", "+1"]
    assert "| mse " in (folder / table["summary"]).read_text()
    assert f"Test MSE<b>{table['test MSE']}</b>" in (folder / table["report"]).read_text()


@pytest.mark.long
@pytest.mark.usefixtures("forks")
def test_last_step_registers_model(folder: Path, finished: subprocess.CompletedProcess[str]) -> None:
    (run,) = (folder / "runs").iterdir()
    assert "    ring: champion is version 1, the first one\n" in finished.stdout
    stored = folder / "models" / "ring" / "1" / "model.json"
    assert stored.read_bytes() == (folder / _lines(finished.stdout)["model"] / "model.json").read_bytes()
    assert json.loads((run / "register" / "registration").read_text()) == {"version": 1, "promoted": 1}
    # The same run again.
    done = _run(folder, "--resume", str(run), "--register", "ring", "--registry", "models", "--format", "json")
    metrics = json.loads(done.stdout)["metrics"]
    assert (metrics["version"], metrics["promoted"]) == (1, 0)
    assert "ring: champion is version 1 already" in done.stderr


@pytest.mark.long
def test_printed_tensorboard_command_finds_losses(folder: Path, finished: subprocess.CompletedProcess[str]) -> None:
    program, command, *arguments = _lines(finished.stdout)["view with"].split()
    assert ((folder / program).resolve(), command) == (QCNN.resolve(), "tensorboard")
    with opened(*arguments, folder=folder) as board:
        tags = board.wait("plugin/scalars/tags", lambda found: len(found) == 2)
        validation, _ = sorted(tags, key=lambda name: name.endswith("train"))
        assert "loss" in tags[validation]
        points = board.wait("plugin/scalars/scalars", lambda found: len(found) >= 3, run=validation, tag="loss")
        # 42 samples in batches of 16 give 3 updates per epoch.
        assert [step for _, step, _ in points] == [3, 6, 9]


@pytest.mark.long
def test_both_workers_train_and_only_chief_writes(folder: Path, finished: subprocess.CompletedProcess[str]) -> None:
    (run,) = (folder / "runs").iterdir()
    log = (run / "log.txt").read_text()
    assert all(f"[worker {index}] simulator: " in log for index in (0, 1))
    assert not re.search(r"\[worker 1\] epoch", log)
    training = folder / _lines(finished.stdout)["training"]
    assert {path.name for path in training.iterdir()} == {"checkpoints", "history.csv"}


@pytest.mark.long
@pytest.mark.usefixtures("forks")
def test_failing_run_has_separate_folder_and_one_line_error(
    folder: Path, finished: subprocess.CompletedProcess[str]
) -> None:
    diverging = ("--optimizer", "sgd", "--learning-rate", "1e300", "--strategy", "none", "--workers", "1")
    failed = _run(folder, "--qubits", "4", *diverging)
    assert failed.returncode == 1
    assert re.search(r"error: .*loss is no longer finite at epoch 1, step 2.*Given: ", failed.stdout)
    assert failed.stderr.startswith("error: step train failed, see the lines above. Given: ")
    assert failed.stderr.count("\n") == 1
    assert "Traceback" not in failed.stdout
    run = Path(failed.stderr.partition("Given: ")[2].strip())
    assert len(list((folder / "runs").iterdir())) == 2
    record = read_record(run)
    assert (record.state, record.steps[-1].name, record.steps[-1].state) == ("failed", "train", "failed")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--data", "nowhere.csv"], "error: data: cannot be read (file not found). Given: "),
        (["--data", "unlabelled.csv"], "error: data: column label is missing. Given: qubit, angle in "),
        (["--data", "turned.csv", "--qubits", "4"], "error: data: line 3, column angle: must be a finite number. "),
        (["--qubits", "3"], "error: qubits: must be at least 4 with hybrid. Given: 3"),
        (["--qubits", "0"], "error: qubits: must be an integer, at least 1 and at most 32768. Given: 0"),
        (["--qubits", "-1"], "error: qubits: must be an integer, at least 1 and at most 32768. Given: -1"),
        (["--qubits", "eight"], "error: qubits: must be an integer, at least 1 and at most 32768. Given: 'eight'"),
        (["--rounds", "-1"], "error: rounds: must be an integer, at least 0 and at most 1000000. Given: -1"),
        (["--workers", "0"], "error: workers: must be an integer, at least 1 and at most 512. Given: 0"),
        (["--batch-size", "-1"], "error: batch_size: must be an integer, at least 0 and at most 10000000. Given: -1"),
        (["--batch-size", "1"], "error: batch_size: must be at least workers (2)"),
        (["--epochs", "-1"], "error: epochs: must be an integer, at least 0 and at most 1000000. Given: -1"),
        (["--learning-rate", "nan"], "error: learning_rate: must be a finite number, greater than 0. Given: nan"),
        (["--learning-rate", "-1"], "error: learning_rate: must be a finite number, greater than 0. Given: -1.0"),
        (["--model", "shallow"], "error: model: must be one of hybrid, deep, or a custom circuit"),
        (
            ["--simulator", "abacus"],
            "error: simulator: must be one of auto, lightcone, statevector, statevector_cpu, tfq, density, or a "
            "plug-in (entry points qcnn.simulators: none). Given: 'abacus'",
        ),
        (
            ["--strategy", "alone"],
            "error: strategy: must be one of multi_worker, mirrored, central_storage, parameter_server, tpu, none. "
            "Given: 'alone'",
        ),
        (["--model", "nowhere:f"], "error: model: cannot be imported or fails (ModuleNotFoundError: No module named"),
        (["--model", "circuits_here:exits"], "error: model: cannot be imported or fails (SystemExit: 3). Given: circ"),
        (["--model", "circuits_here:measures"], "error: model: a measurement must condition a gate"),
        (["--train-fraction", "0.9", "--validation-fraction", "0.2"], "error: validation_fraction: train_fraction + v"),
        (
            ["--qubits", "1000000000"],
            "error: qubits: must be an integer, at least 1 and at most 32768. Given: 1000000000",
        ),
        (["--config", "bomb.yaml"], "error: config: the file must hold at most 10000 values. Given: bomb.yaml"),
        (["--qbits", "8"], "error: No such option '--qbits'"),
        (["--register", "a b"], "error: register: must be at most 100 letters, digits, dots, dashes and underscores"),
        (["--registry", "models"], "error: register: must be given together with --registry. Given: only 'models'"),
        (["--config", "missing.yaml"], "error: config: no such file. Given: missing.yaml"),
        (["--config", "empty.yaml"], "error: config: the file must not be empty"),
        (["--config", "broken.yaml"], "error: config: the file is not valid YAML"),
        (["--config", "unknown.yaml"], "error: qbits: unknown field"),
    ],
)
def test_invalid_input_is_an_error_and_writes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    typed: Typed,
    arguments: list[str],
    line: str,
) -> None:
    files = {
        "empty.yaml": "",
        "broken.yaml": "qubits: [",
        "unknown.yaml": "qbits: 8",
        "file": "",
        "circuits_here.py": CIRCUITS,
        "unlabelled.csv": "qubit,angle\n0,0.5\n",
        "turned.csv": "qubit,angle,label\n0,0.5,1\n1,nan,-1\n",
    }
    files["bomb.yaml"] = "a: &a [1, 2, 3]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in itertools.pairwise("abcdefghijkl")
    )
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    code, out, err = typed("run", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(line)
    assert err.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == set(files)


def test_folder_that_cannot_be_written_has_exit_code_of_failure(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    line = "error: runs: the folder cannot be written (Not a directory). Given: file/runs\n"
    assert typed("run", "--runs", "file/runs") == (1, "", line)


def test_custom_circuit_is_imported_from_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "circuits_found.py").write_text(CIRCUITS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    check_experiments([from_mapping({"model": "circuits_found:turns"})], LOCAL, print)


@pytest.mark.long
def test_resume_without_checkpoint_starts_from_scratch(
    folder: Path, finished: subprocess.CompletedProcess[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = folder / Path(_lines(finished.stdout)["model"]).parents[1]
    whole = read_unfinished_run(run, None, None)
    assert (whole.folder, whole.experiment.options.continue_from) == (run, "")
    copied = read_unfinished_run(run, None, tmp_path)
    assert copied.folder.parent == tmp_path
    assert copied.experiment.options.continue_from == str(run / "train" / "training")
    assert capsys.readouterr().err == ""
    ended = tmp_path / "ended"
    shutil.copytree(run / "generate-data", ended / "generate-data")
    for training in ("nothing", "train/training/checkpoints"):
        (ended / training).mkdir(parents=True)
        again = read_unfinished_run(ended, 5, tmp_path)
        assert again.experiment == whole.experiment.model_copy(update={"epochs": 5})
        assert again.earlier_epochs == ()
        assert "ended before its first checkpoint; training starts from scratch" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.usefixtures("forks")
def test_resume_with_more_epochs_continues_in_folder_and_is_not_repeated(
    folder: Path, finished: subprocess.CompletedProcess[str], tmp_path: Path
) -> None:
    """The model of 3 epochs is replaced by that of 5 epochs, whose schedule has their updates."""
    run = tmp_path / "runs" / "first"
    shutil.copytree(folder / Path(_lines(finished.stdout)["model"]).parents[1], run)
    before = (run / "train" / "training" / "history.csv").read_text().splitlines()
    resumed = _run(tmp_path, "--resume", "runs/first", "--epochs", "5")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "continuing after epoch 3" in resumed.stdout
    assert "5 epochs make 15 updates" in resumed.stdout
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["first"]
    after = (run / "train" / "training" / "history.csv").read_text().splitlines()
    assert (after[:4], len(after)) == (before, 6)
    record = read_record(run)
    assert (record.state, record.words["epochs"], record.earlier_epochs) == ("succeeded", 5, (3,))
    description = json.loads((run / "export-weights" / "model" / "model.json").read_text())
    assert (description["experiment"]["epochs"], description["training"]["epochs"]) == (5, 5)
    assert json.loads((run / "evaluate" / "metrics").read_text())["epochs"] == 5
    repeated = _run(tmp_path, "--repeat", "runs/first")
    assert (repeated.returncode, repeated.stdout) == (2, "")
    line = "error: run: cannot be repeated, because it began with 3 epochs and was continued with 5. Given: runs/first"
    assert repeated.stderr == f"{line}\n"
    fewer = _run(tmp_path, "--resume", "runs/first", "--epochs", "4")
    assert fewer.stderr == "error: epochs: must be at least 5, as in runs/first. Given: 4\n"


def test_repeat_without_metadata_is_an_error(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "damaged" / "evaluate").mkdir(parents=True)
    (tmp_path / "damaged" / "evaluate" / "executor_output.json").write_text("{")
    monkeypatch.chdir(tmp_path)
    line = "error: run: must have a finished step evaluate with artifact metrics. Given: damaged\n"
    assert typed("run", "--repeat", "damaged") == (2, "", line)
    assert not (tmp_path / "runs").exists()


def test_help_lists_all_fields_with_ranges(typed: Typed) -> None:
    text = " ".join(typed("run", "--help")[1].split())
    assert "--learning-rate VALUE" in text
    assert "An integer, at least 1 and at most 32768. [default: 8]" in text


@pytest.mark.long
@pytest.mark.usefixtures("forks")
def test_repeat_uses_only_metadata_of_run(folder: Path, finished: subprocess.CompletedProcess[str]) -> None:
    run = Path(_lines(finished.stdout)["model"]).parents[1]
    repeated = _run(folder, "--repeat", str(run))
    assert repeated.returncode == 0, repeated.stdout + repeated.stderr
    assert (
        "the metrics of the repeated run are equal: train_loss, val_loss, mse, fresh_mse, loss, accuracy"
        in repeated.stdout
    )


def test_compare_of_different_metrics_is_an_error() -> None:
    before = {"train_loss": 0.1, "val_loss": 0.2, "mse": 0.3, "accuracy": 1.0, "epoch_seconds": 1.0}
    # A run of an earlier release has no fresh_mse.
    assert "are equal: " in compare(before, {**before, "epoch_seconds": 2.0, "fresh_mse": 0.4})
    with pytest.raises(StepError, match=r"^the metrics of the repeated run differ. Given: mse 0.3, now 0.30001$"):
        compare(before, {**before, "mse": 0.30001})


@pytest.mark.parametrize(
    "arguments",
    [
        ["--resume", "nowhere"],
        ["--repeat", "nowhere"],
        ["--resume", "a", "--repeat", "b"],
        ["--resume", "a", "--qubits", "4"],
        ["--repeat", "a", "--epochs", "4"],
        ["--resume", "trial"],
    ],
)
def test_resume_or_repeat_of_other_folder_is_an_error(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    (tmp_path / "trial" / "trial-data").mkdir(parents=True)
    (tmp_path / "trial" / "run.json").touch()
    monkeypatch.chdir(tmp_path)
    code, out, err = typed("run", *arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: run: [^\n]+\n", err)


LONG = ("--qubits", "4", "--rounds", "10", "--batch-size", "8", "--epochs", "100000")


@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_terminated_run_leaves_no_process_and_resumes(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [QCNN, "run", *LONG], cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        assert running.stdout
        while "epoch 3/" not in running.stdout.readline():
            assert running.poll() is None
        below = psutil.Process(running.pid).children(recursive=True)
        assert len(below) >= 3
        if number == signal.SIGINT:
            # A terminal sends the signal to all processes of the session.
            os.killpg(running.pid, number)
        else:
            running.send_signal(number)
        running.stdout.close()
        assert running.wait(60) == (-number if number == signal.SIGKILL else 130)
    _, alive = psutil.wait_procs(below, timeout=60)
    assert not alive
    (run,) = (tmp_path / "runs").iterdir()
    assert read_record(run).state == "interrupted"
    assert read_record(run).words["epochs"] == 100_000
    if number == signal.SIGTERM:
        # The remaining epochs would take too long, so the number of epochs is reduced.
        saved = max(int(path.stem[6:]) for path in (run / "train" / "training" / "checkpoints").glob("epoch-*.npz"))
        _set_epochs(run, saved + 2)
        lines = (run / "log.txt").read_text()
        resumed = _run(tmp_path, "--resume", str(run))
        assert resumed.returncode == 0, resumed.stdout + resumed.stderr
        assert f"continuing after epoch {saved}" in resumed.stdout
        assert [path.name for path in (tmp_path / "runs").iterdir()] == [run.name]
        assert read_record(run).state == "succeeded"
        assert (run / "log.txt").read_text().startswith(lines)


def _set_epochs(run: Path, epochs: int) -> None:
    """Change the number of epochs of an interrupted run."""
    path = run / "run.json"
    content = load_description("run", path)
    content["words"]["epochs"] = epochs
    save_description(content, path)


@pytest.mark.long
@pytest.mark.usefixtures("forks")
def test_run_in_terminal_displays_progress_of_workers(tmp_path: Path) -> None:
    """The display in a pseudo terminal contains epoch, losses, samples per second and the state of each worker."""
    terminal, other_end = pty.openpty()
    command = [str(QCNN), "run", "--qubits", "4", "--rounds", "10", "--batch-size", "8", "--epochs", "5"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160"}
    with subprocess.Popen(command, cwd=tmp_path, stdout=other_end, stderr=other_end, env=environment) as running:
        os.close(other_end)
        shown = b""
        # Reading fails when the other end is closed.
        with contextlib.suppress(OSError):
            while chunk := os.read(terminal, 65536):
                shown += chunk
    os.close(terminal)
    text = click.unstyle(shown.decode())
    assert running.returncode == 0, text
    assert re.search(r"epoch 5/5.*loss 0\.\d{4}  val_loss 0\.\d{4}  \d+ samples/s", text)
    assert re.search(r"worker 0: training +worker 1: training", text)
    assert "[worker 0] epoch" not in text
    assert re.search(r"test MSE +0\.\d{4}", text)
