"""Test of docs/predict.md: its Python block, its first command and its pipe, with the default run."""

import csv
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from qcnn.cli.main import main
from tests.docs.documents import ROOT, blocks, commands


@pytest.mark.long
def test_commands_predict_samples_of_python_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "-m", "qcnn.cli", "run"], capture_output=True, check=True)
    (run,) = Path("runs").iterdir()
    run.rename("runs/RUN")
    (block,) = blocks(ROOT / "docs" / "predict.md", "python")
    exec(compile(block.text, block.title, "exec"), {})
    command = next(command.line for command in commands() if command.document == "predict.md")
    monkeypatch.setattr("sys.argv", shlex.split(command))
    main()
    expected, *_ = blocks(ROOT / "docs" / "predict.md", "text")
    assert capsys.readouterr().out.endswith(expected.text)
    assert list(pd.read_parquet("predictions.parquet")) == ["qubit", "angle", "label", "prediction"]
    assert Path("predictions.html").is_file()

    (pipe,) = [command.line for command in commands() if command.document == "predict.md" and " | " in command.line]
    pipe = pipe.replace(".venv/bin/qcnn", f"{shlex.quote(sys.executable)} -m qcnn.cli")
    done = subprocess.run(["bash", "-o", "pipefail", "-c", pipe], capture_output=True, text=True, check=True)
    _, shown, *_ = blocks(ROOT / "docs" / "predict.md", "text")
    columns = ("qubit", "angle", "label")
    printed_rows, shown_rows = ([*csv.DictReader(text.splitlines())] for text in (done.stdout, shown.text))
    for printed, written in zip(printed_rows, shown_rows, strict=True):
        assert [printed[name] for name in columns] == [written[name] for name in columns]
        assert float(printed["prediction"]) == pytest.approx(float(written["prediction"]), abs=1e-9)
    assert [*printed_rows[0]] == [*shown_rows[0]] == [*columns, "prediction"]
