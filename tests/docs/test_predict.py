"""Test of docs/predict.md: its Python block, its first command and its pipe, with a trained model."""

import csv
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from qcnn import data
from qcnn.cli.main import main
from qcnn.experiment_io import from_mapping
from qcnn.results import export
from qcnn.trainer.loop import train
from tests.docs.documents import ROOT, blocks, commands


@pytest.mark.long
def test_commands_predict_samples_of_python_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    config = from_mapping({"rounds": 10, "epochs": 1, "strategy": "none", "workers": 1})
    train(config, data.generate(config), Path("training"))
    export.export(Path("training"), Path("runs/RUN/export-weights/model"))
    (block,) = blocks(ROOT / "docs" / "predict.md", "python")
    exec(compile(block.text, block.title, "exec"), {})
    command = next(command.line for command in commands() if command.document == "predict.md")
    monkeypatch.setattr("sys.argv", shlex.split(command))
    main()
    printed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    expected, *_ = blocks(ROOT / "docs" / "predict.md", "text")
    assert printed[-3:] == [line.split()[0] for line in expected.text.splitlines()]
    assert list(pd.read_parquet("predictions.parquet")) == ["qubit", "angle", "label", "prediction"]
    assert Path("predictions.html").is_file()

    (pipe,) = [command.line for command in commands() if command.document == "predict.md" and " | " in command.line]
    pipe = pipe.replace(".venv/bin/qcnn", f"{shlex.quote(sys.executable)} -m qcnn.cli")
    done = subprocess.run(["bash", "-o", "pipefail", "-c", pipe], capture_output=True, text=True, check=True)
    _, shown, *_ = blocks(ROOT / "docs" / "predict.md", "text")
    columns = ("qubit", "angle", "label")
    printed_rows, shown_rows = ([*csv.DictReader(text.splitlines())] for text in (done.stdout, shown.text))
    assert [[row[name] for name in columns] for row in printed_rows] == [
        [row[name] for name in columns] for row in shown_rows
    ]
    assert [*printed_rows[0]] == [*shown_rows[0]] == [*columns, "prediction"]
