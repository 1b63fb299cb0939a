"""Test of docs/predict.md: its Python block and its first command, with a trained model."""

import shlex
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
def test_command_predicts_samples_of_python_block(
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
