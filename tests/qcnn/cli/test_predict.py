"""Tests of qcnn predict on the local target."""

import io
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from rich.progress import Task

from qcnn import data
from qcnn.cli.predict import rows_progress
from qcnn.experiment.parsing import from_mapping
from qcnn.results import evaluate, export
from qcnn.results.model_folder import describe
from qcnn.tables.table import new_table
from tests.qcnn.cli.conftest import Typed
from tests.shared_training_runs import train

QCNN = Path(sys.executable).with_name("qcnn")
WORDS = {"qubits": 4, "rounds": 10, "epochs": 1, "batch_size": 8, "strategy": "none", "workers": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run, which tests must not change."""
    folder, config = tmp_path_factory.mktemp("run"), from_mapping(WORDS)
    dataset = data.generate(config)
    data.save(dataset, folder / "generate-data" / "dataset")
    train(config, dataset, folder / "train" / "training")
    export.export(folder / "train" / "training", folder / "export-weights" / "model")
    return folder


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_predict_file_with_model_of_run(run: Path, working_folder: Path, typed: Typed) -> None:
    shown = ["qubit", "angle", "label"]
    frame = pd.DataFrame({"angle": [0.5, -3, 1], "qubit": [0, 3, 1], "label": [1, -1, 1], "note": ["a", "b", "c"]})
    frame.to_csv("data.csv", index=False)
    code, out, err = typed(
        *("predict", str(run), "--data", "data.csv", "--output", "new/out.parquet", "--report", "page.html")
    )
    assert (code, err) == (0, "")
    found = pd.read_parquet("new/out.parquet")
    pd.testing.assert_frame_equal(found[shown], frame[shown], check_dtype=False)
    (mse,) = re.findall(r"^mse (\d\.\d{6})$", out, re.MULTILINE)
    assert float(mse) == pytest.approx(np.mean((found["prediction"] - frame["label"]) ** 2), abs=1e-6)
    assert re.search(r"^rows 3$", out, re.MULTILINE)
    assert "Prediction against angle" in Path("page.html").read_text()


def test_predict_as_json(run: Path, working_folder: Path, typed: Typed) -> None:
    pd.DataFrame({"qubit": [0, 3], "angle": [0.5, -3], "label": [1, -1]}).to_csv("data.csv", index=False)
    code, out, _ = typed("predict", str(run), "--data", "data.csv", "--output", "out.csv", "--format", "json")
    found = pd.read_csv("out.csv")
    mse = pytest.approx(np.mean((found["prediction"] - found["label"]) ** 2), abs=1e-12)
    expected = {
        "rows": 2,
        "mse": mse,
        "loss": mse,
        "accuracy": np.mean((found["prediction"] >= 0) == (found["label"] > 0)),
    }
    assert (code, json.loads(out)) == (0, expected)
    code, out, _ = typed("predict", str(run), "--format", "json")
    _, config = describe(run / "export-weights" / "model")
    evaluation = evaluate.evaluate(run / "export-weights" / "model", data.generate(config))
    assert (code, json.loads(out)) == (0, {"rows": len(evaluation.samples), **evaluation.metrics})


def test_predict_without_output_prints_only_csv_on_stdout(run: Path, working_folder: Path, typed: Typed) -> None:
    frame = pd.DataFrame({"qubit": [0, 3, 1], "angle": [0.5, -3, 1], "label": [1, -1, 1], "note": ["a", "b", "c"]})
    frame.to_csv("data.csv", index=False)
    assert typed("predict", str(run), "--data", "data.csv", "--output", "out.csv")[0] == 0
    for output in ((), ("--output", "-", "--report", "page.html")):
        code, out, err = typed("predict", str(run), "--data", "data.csv", *output)
        assert (code, out) == (0, Path("out.csv").read_text())
        assert [line.split()[0] for line in err.splitlines()[-4:]] == ["rows", "mse", "loss", "accuracy"]
    assert "of data.csv" in Path("page.html").read_text()


def test_predict_dash_reads_csv_from_stdin(
    run: Path, working_folder: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rows, expected_code, expected in (
        ("qubit,angle\n0,0.5\n3,-3\n", 0, r"rows 2"),
        ("qubit,angle\n0,0.5\n4,-3\n", 2, r"error: data: line 3, column qubit: must be .* Given: 4"),
        ("qubit\n0\n", 2, r"error: data: must have the columns .*, qubit, angle\. Given: qubit in standard input"),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(rows.encode())))
        code, out, err = typed("predict", str(run), "--data", "-")
        assert (code, out.count("\n")) == (expected_code, 0 if code else 3)
        assert re.fullmatch(expected, err.splitlines()[-1])
    assert not list(working_folder.iterdir())


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (BrokenPipeError(), 141, ""),
        (OSError(28, "No space left on device"), 1, "error: output: cannot be written (No space left on device). "),
    ],
)
def test_predict_stdout_that_fails_ends_with_exit_code(
    run: Path,
    working_folder: Path,
    typed: Typed,
    monkeypatch: pytest.MonkeyPatch,
    error: OSError,
    code: int,
    message: str,
) -> None:
    def write(text: str) -> int:
        raise error

    (working_folder / "data.csv").write_text("qubit,angle,label\n0,1,1\n")
    monkeypatch.setattr(sys.stdout, "write", write)
    # The report is a file whose context translates errors of writing.
    found, _, err = typed("predict", str(run), "--data", "data.csv", "--report", "page.html")
    assert found == code
    assert "".join(line for line in err.splitlines() if "error" in line).startswith(message)
    assert [path.name for path in working_folder.iterdir()] == ["data.csv"]


@pytest.mark.long
def test_predict_in_pipe_ends_quietly_after_head(run: Path, working_folder: Path) -> None:
    with new_table("data.csv") as write:
        write({"qubit": np.zeros(500_000, np.int32), "angle": np.linspace(-3, 3, 500_000)})
    pipe = f"cat data.csv | {QCNN} predict {run} --data - | head -n 1; echo ${{PIPESTATUS[1]}}"
    done = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, check=True)
    assert done.stdout == "qubit,angle,prediction\n141\n"
    assert not re.search("error|Exception|Broken", done.stderr)


def test_predict_without_file_uses_test_split(run: Path, working_folder: Path, typed: Typed) -> None:
    model = run / "export-weights" / "model"
    _, config = describe(model)
    expected = evaluate.evaluate(model, data.generate(config)).metrics
    for folder in (run, model):
        code, out, err = typed("predict", str(folder))
        assert (code, err) == (0, "")
        assert f"mse {expected['mse']:.6f}, sign accuracy" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--output", "out.csv"), "predict: takes --output and --report with --data. Given: --output"),
        (("--data", "-", "--format", "json"), "output: must be a file with format json, which prints rows and errors."),
        (("--data", "data.csv"), "data: line 3, column qubit: must be a whole number, 0 to 3."),
        (("--data", "data.csv", "--output", "out.pdf"), "output: must end in .csv, .parquet, .npz or .jsonl. Given: "),
        (("--data", "none.csv", "--output", "out.csv"), "data: cannot be read (file not found). Given: none.csv"),
        (("--data", "data.csv", "--output", "out.csv"), "data: line 3, column qubit: must be a whole number, 0 to 3."),
    ],
)
def test_predict_with_invalid_arguments_writes_nothing(
    run: Path, working_folder: Path, typed: Typed, arguments: tuple[str, ...], message: str
) -> None:
    (working_folder / "data.csv").write_text("qubit,angle\n0,1\n4,1\n")
    code, _, err = typed("predict", str(run), *arguments)
    assert code == 2
    *_, line = err.splitlines()
    assert line.startswith(f"error: {message}")
    assert [path.name for path in working_folder.iterdir()] == ["data.csv"]


def test_predict_without_model_is_an_error(working_folder: Path, typed: Typed) -> None:
    code, _, err = typed("predict", "nowhere", "--data", "a.csv", "--output", "b.csv")
    message = "model: must be the folder of a model or of a run, with model.json in it. Given: nowhere"
    assert (code, err) == (2, f"error: {message}\n")


def test_predict_with_closed_pipe_exits_with_141(
    run: Path, working_folder: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(text: str) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(sys.stdout, "write", write)
    code, _, err = typed("predict", str(run))
    assert (code, err) == (141, "error: output pipe closed\n")


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_predict_writes_nothing(run: Path, working_folder: Path, number: int, interruptible: None) -> None:
    rows = 2_000_000
    with new_table("data.csv") as write:
        write({"qubit": np.zeros(rows, np.int32), "angle": np.linspace(-3, 3, rows)})
    command = [str(QCNN), "predict", str(run), "--data", "data.csv", "--output", "out.csv"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        while not list(working_folder.glob(".unfinished-*")):
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(number)
        _, err = process.communicate()
    assert (process.returncode, err.strip()) == (130, "interrupted")
    assert [path.name for path in working_folder.iterdir()] == ["data.csv"]


def test_rows_progress_in_narrow_terminal_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Task, "speed", 1_234_567.0)
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=40)
    with rows_progress(200_000_000, console) as seen:
        seen(10_500_000)
    line = console.file.getvalue().split("\r")[-1]  # type: ignore[attr-defined]
    assert re.search(r"10,500,000 rows .* 1,234,567/s 0:02:\d\d\n", line)


def test_rows_progress_is_displayed_only_in_terminal() -> None:
    for is_terminal in (False, True):
        console = Console(file=io.StringIO(), force_terminal=is_terminal, width=100)
        with rows_progress(2000, console) as seen:
            seen(1500)
        text = console.file.getvalue()  # type: ignore[attr-defined]
        assert ("1,500 rows" in text) is is_terminal
        assert is_terminal or not text
