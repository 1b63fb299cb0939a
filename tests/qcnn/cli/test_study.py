"""Tests of qcnn study on the local target."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from qcnn.atomic_files import folder_lock
from qcnn.experiment.parsing import from_mapping
from qcnn.model import checkpoints
from qcnn.results.local_run import FILE as RUN_FILE
from qcnn.studies.record import SELECT_STEP, save_trials, trial_folders
from qcnn.targets.local.target import find_runs, read_run
from tests.forks import run
from tests.qcnn.cli.conftest import STUDY, Typed

QCNN = Path(sys.executable).with_name("qcnn")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run a study of three trials, of which the last fails, and return its folder and its output."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "study.yaml").write_text(STUDY)
    # These flags override the search space of the file.
    search = ("--grid", "model=hybrid", "--grid", "learning-rate=0.0001,0.02,1e38")
    arguments = ("--config", "study.yaml", *search, "--seed", "5", "--parallelism", "1")
    done = subprocess.run([QCNN, "study", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def _lines(text: str) -> dict[str, str]:
    return dict(re.findall(r"^(\S.*?)  +(\S.*)$", text, re.MULTILINE))


@pytest.mark.long
def test_study_trains_all_trials_and_writes_table(finished: tuple[Path, str]) -> None:
    folder, printed = finished
    assert [line for line in printed.splitlines() if line.startswith("== trial ")] == [
        "== trial 0, 1 of 3",
        "== trial 1, 2 of 3",
        "== trial 2, 3 of 3",
    ]
    with (folder / _lines(printed)["results"]).open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["trial"], row["seed"], row["learning_rate"]) for row in rows] == [
        ("0", "5", "0.0001"),
        ("1", "6", "0.02"),
        ("2", "7", "1e+38"),
    ]
    assert "model" not in rows[0]
    assert all(0 < float(row["fresh_mse"]) < 5 for row in rows[:2])
    chosen = min(rows[:2], key=lambda row: float(row["val_loss"]))
    assert [row["chosen"] for row in rows] == ["best" if row is chosen else "" for row in rows]
    assert [row["failure"] for row in rows[:2]] == ["", ""]
    assert rows[2]["val_loss"] == ""
    assert re.match(r"the (training|validation) loss is no longer finite at epoch \d+, step \d+; ", rows[2]["failure"])


@pytest.mark.long
def test_each_trial_has_a_record(finished: tuple[Path, str]) -> None:
    folder, _ = finished
    (study,) = (folder / "runs").iterdir()
    runs = [read_run(trial) for trial in trial_folders(study)]
    assert [(run.parameters["seed"], run.parameters["learning_rate"]) for run in runs] == [
        *((5, 0.0001), (6, 0.02), (7, 1e38)),
    ]
    # The step of a failed training run succeeds and records the reason, and the study continues.
    assert {run.state for run in runs} == {"succeeded"}


@pytest.mark.long
def test_best_trial_is_evaluated_on_its_test_split(finished: tuple[Path, str]) -> None:
    folder, printed = finished
    table = _lines(printed)
    with (folder / table["results"]).open() as file:
        (chosen,) = [row for row in csv.DictReader(file) if row["chosen"]]
    metrics = json.loads((folder / table["metrics"]).read_text())
    assert metrics["val_loss"] == float(chosen["val_loss"])
    assert metrics["fresh_mse"] == pytest.approx(float(chosen["fresh_mse"]), rel=1e-5)
    assert table["test MSE"] == f"{metrics['mse']:.4f}"
    experiment = json.loads((folder / table["model"] / "model.json").read_text())["experiment"]
    assert (experiment["seed"], experiment["learning_rate"]) == (int(chosen["seed"]), float(chosen["learning_rate"]))
    with (folder / table["predictions"] / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    squared = [(float(row["prediction"]) - float(row["label"])) ** 2 for row in rows]
    assert sum(squared) / len(squared) == pytest.approx(metrics["mse"], rel=1e-6)
    assert (folder / table["report"]).read_text().startswith("<!DOCTYPE html>")


@pytest.mark.long
@pytest.mark.usefixtures("forks")
def test_trial_has_exactly_the_weights_of_a_single_run(finished: tuple[Path, str]) -> None:
    """The second trial uses the functions that were compiled for the first."""
    folder, _ = finished
    (study,) = (folder / "runs").iterdir()
    trial = trial_folders(study)[1]
    options = ("--model", "hybrid", "--learning-rate", "0.02", "--seed", "6")
    (folder / "run.yaml").write_text(STUDY.partition("grid:")[0])
    subprocess.run([QCNN, "run", "--config", "run.yaml", "--runs", "alone", *options], cwd=folder, check=True)
    (alone,) = (folder / "alone").iterdir()
    of_trial, of_run = (
        checkpoints.load_latest(run / "train" / "training" / checkpoints.FOLDER) for run in (trial, alone)
    )
    assert of_trial
    assert of_run
    assert of_trial.config == of_run.config
    for ours, its in ((of_trial.line.weights, of_run.line.weights), (of_trial.line.optimizer, of_run.line.optimizer)):
        assert [array.tobytes() for array in ours] == [array.tobytes() for array in its]
    losses = [[(epoch.train_loss, epoch.val_loss) for epoch in each.history] for each in (of_trial, of_run)]
    assert losses[0] == losses[1]
    assert of_trial.fresh_mse == of_run.fresh_mse


@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("number", "parallelism"), [(signal.SIGINT, "2"), (signal.SIGTERM, "2"), (signal.SIGKILL, "1")]
)
def test_terminated_study_leaves_no_process_and_resumes(
    tmp_path: Path, number: signal.Signals, parallelism: str
) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    rates = ("--grid", "model=hybrid", "--grid", "learning-rate=1e200,0.01,0.02")
    # The last trial takes longer than its interruption.
    search = ("--config", "study.yaml", *rates, "--epochs", "300", "--parallelism", parallelism)
    with subprocess.Popen(
        [QCNN, "study", *search], cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        assert running.stdout
        while "== trial 2" not in (line := running.stdout.readline()):
            assert line, "the study ended"
        below = psutil.Process(running.pid).children(recursive=True)
        os.killpg(running.pid, number) if number == signal.SIGINT else running.send_signal(number)
        running.stdout.close()
    _, alive = psutil.wait_procs(below, timeout=60)
    assert not alive
    (study,) = (tmp_path / "runs").iterdir()
    trained = {run.name for run in find_runs((), study) if read_run(run).state == "succeeded"}
    # Trials that ran at the same time are trained again.
    assert len(trained) in ({2} if parallelism == "1" else {1, 2})
    # A killed study has not written the end of the last one. As written, because `read_record` knows that it has ended.
    states = [json.loads((trial / RUN_FILE).read_text())["state"] for trial in trial_folders(study)]
    assert set(states) <= {"succeeded", "running" if number == signal.SIGKILL else "interrupted"}
    resumed = subprocess.run(
        [QCNN, "study", "--resume", str(study)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert resumed.stdout.count("already trained") == len(trained)
    with (tmp_path / _lines(resumed.stdout)["results"]).open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["learning_rate"], bool(row["val_loss"]), bool(row["failure"])) for row in rows] == [
        ("1e+200", False, True),
        ("0.01", True, False),
        ("0.02", True, False),
    ]
    again = subprocess.run(
        [QCNN, "study", "--resume", str(study)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert again.returncode == 2
    assert re.fullmatch(r"error: study: must be unfinished. Given: [^\n]+, which has succeeded\n", again.stderr)


@pytest.mark.long
@pytest.mark.usefixtures("forks")
def test_parallel_trials_equal_sequential_ones(tmp_path: Path) -> None:
    """Two programs of two trials each. Ground states are computed in other processes."""
    (tmp_path / "study.yaml").write_text(f"{STUDY}data: annni\nclasses: 3\nloss: cross_entropy\n")
    results, weights = [], []
    for parallelism in ("1", "2"):
        runs = ("--runs", str(tmp_path / parallelism), "--parallelism", parallelism)
        done = run("-m", "qcnn.cli", "study", "--config", str(tmp_path / "study.yaml"), *runs)
        assert done.returncode == 0, done.stdout + done.stderr
        # A line reports that a single core, little memory or a GPU allows one trial at a time.
        is_parallel = parallelism == "2" and "parallelism: 1 instead of 2" not in done.stderr
        assert ("trial 1:     [worker 0] epoch 3/3" in done.stdout) == is_parallel
        (study,) = (tmp_path / parallelism).iterdir()
        results.append((study / SELECT_STEP / "results.csv").read_text())
        found = [
            checkpoints.load_latest(each / "train" / "training" / checkpoints.FOLDER) for each in trial_folders(study)
        ]
        weights.append({each.config: [array.tobytes() for array in each.line.weights] for each in found if each})
    assert len(weights[0]) == 4
    assert results[0] == results[1]
    assert weights[0] == weights[1]


def test_study_in_use_is_not_resumed(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcnn.atomic_files._LOCK_TIMEOUT_SECONDS", 0.0)
    save_trials([from_mapping({"qubits": 4})], tmp_path)
    (tmp_path / SELECT_STEP).mkdir()
    with folder_lock("study", tmp_path):
        code, _, error = typed("study", "--resume", str(tmp_path))
    assert (code, error) == (
        2,
        f"error: study: the folder must not be in use by another study. Given: {tmp_path}\n",
    )
    assert {path.name for path in tmp_path.iterdir()} == {"study.json", SELECT_STEP}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--resume", "nowhere"), "study: study.json is missing. Given: nowhere"),
        (
            ("--resume", "nowhere", "--grid", "seed=1", "--qubits", "4"),
            "study: must not have fields or a search space with --resume. Given: --resume --grid --qubits",
        ),
        ((), "study: must have values or ranges for at least one field, or rows. Given: none"),
        (("--grid", "qubits"), "grid: must be FIELD=VALUE,.... Given: qubits"),
        (("--grid", "qubits=8,x"), "qubits: must be an integer, at least 1 and at most 32768. Given: 'x'"),
        (
            ("--grid", "qubits=8,9", "--model", "tests.qcnn.circuits.test_circuits:exits"),
            "model: cannot be imported or fails (SystemExit: 3). Given: tests.qcnn.circuits.test_circuits:exits",
        ),
        (
            ("--grid", "seed=1,2", "--metric", "accuracy"),
            "metric: must be val_loss or val_accuracy, of the validation split. Given: 'accuracy'",
        ),
        (("--grid", "qbits=8"), "study: must search fields of the experiment. Given: qbits"),
        (
            ("--range", "qubits=4", "--random", "2"),
            "qubits: a range must be [low, high], or [low, high, log], of numbers up to 1e+300 in size. Given: [4.0]",
        ),
        (
            ("--range", "qubits=a:b", "--random", "2"),
            "range: must be FIELD=LOW:HIGH or FIELD=LOW:HIGH:log. Given: qubits=a:b",
        ),
    ],
)
def test_invalid_study_is_an_error_and_writes_nothing(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert typed("study", *arguments) == (2, "", f"error: {line}\n")
    assert not list(tmp_path.iterdir())


# Rows of digits with published values, of which the second cannot be reached.
REPEATED = """
qubits: 4
encoding: ry
workers: 1
strategy: none
epochs: 3
learning_rate: 0.1
repeat: 3
datasets:
  digits: {name: digits, classes: "0,1", pca: 4}
rows:
  - name: reached
    data: digits
    published: {value: 0.95, spread: 0.2, spread_is: std, runs: 5, rows: 90, source: a table}
    differences: [other digits]
  - name: not reached
    data: digits
    model: deep
    published: {metric: loss, value: 0.0001, spread: 0.0001, spread_is: std, runs: 5, source: another table}
"""


@pytest.mark.long
@pytest.mark.usefixtures("forks")
def test_repeated_rows_are_compared_with_published_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.yaml").write_text(REPEATED)
    done = run("-m", "qcnn.cli", "study", "--config", "rows.yaml", "--format", "json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [(row["name"], row["runs"], row["verdict"]) for row in result["rows"]] == [
        ("reached", 3, "agrees (other setting)"),
        ("not reached", 3, "differs"),
    ]
    seeds = [(trial["seed"], trial["model"]) for trial in result["trials"]]
    assert seeds == [(seed, model) for model in ("hybrid", "deep") for seed in (0, 1, 2)]
    first = [trial["test_accuracy"] for trial in result["trials"][:3]]
    assert result["rows"][0]["mean"] == pytest.approx(sum(first) / 3)
    # The exported model is that of the first seed of a row, not the best of all.
    (chosen,) = [trial for trial in result["trials"] if trial["chosen"]]
    assert chosen["seed"] == 0
    (study,) = (tmp_path / "runs").iterdir()
    assert [path.name for path in study.glob("datasets/*.parquet")] == ["digits.parquet"]
    page = (study / SELECT_STEP / "table.html").read_text().replace("<wbr>", "")
    assert "the same split for all seeds" in page
    assert "a table. other setting: other digits" in page


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--config", "published/none"), "config: must be a file, or one of published/"),
        (("--config", "published/../trials"), "config: must be a file, or one of published/"),
        (("--grid", "qubits=4", "--repeat", "-2"), "repeat: must be 1 to 1000, or 0 for none. Given: -2"),
        (("--config", "rows.yaml", "--target", "kubeflow"), "datasets: must be files that the target reads; write "),
        (("--config", "rows.yaml", "--grid", "qubits=4"), "rows: must not be given with grid, range or random. "),
    ],
)
def test_invalid_repeated_study_is_one_line(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.yaml").write_text(REPEATED)
    code, out, err = typed("study", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {line}")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.yaml"]


def test_published_studies_are_listed_with_descriptions(typed: Typed) -> None:
    code, out, _ = typed("study", "--list", "--format", "json")
    assert code == 0
    for name, description in json.loads(out).items():
        assert name.startswith("published/")
        assert len(description) > 20
