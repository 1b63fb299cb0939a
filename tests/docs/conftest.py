"""A folder like the checkout's, in which commands of the documents are typed."""

import json
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, blocks, example
from trainer.config import ExperimentConfig
from trainer.training.history import Epoch, save_history


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be in a folder with the examples, the files that the documents show, and one run."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (shown,) = blocks(ROOT / "docs" / "experiment.md", "yaml")
    (tmp_path / "experiment.yaml").write_text(shown.text)
    (tmp_path / "my_circuits.py").write_text(example("my_circuits.py"))
    run = tmp_path / "runs" / "qcnn-2026-11-21-12-58-16-614654"
    for folder in ("generate-data", "evaluate", "train/training"):
        (run / folder).mkdir(parents=True)
    made = {"parameterValues": {"experiment": ExperimentConfig().to_json()}, "artifacts": {}}
    (run / "generate-data" / "executor_output.json").write_text(json.dumps(made))
    (run / "evaluate" / "metrics").write_text(json.dumps({"mse": 0.27, "epochs": 1.0}))
    save_history([Epoch(1, 0.9, 0.9, 0.6, 0.9, 1.0)], run / "train" / "training" / "history.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path
