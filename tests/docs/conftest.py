"""Fixtures for tests that run the commands of the documents."""

from pathlib import Path

import pytest

from examples.reuploading_digits import classifier
from qcnn.circuits.ansatz import ring
from qcnn.circuits.formats import cirq_json
from tests.docs.documents import ROOT, blocks, example
from tests.qcnn.cli import conftest as command_line
from tests.qcnn.cli.run_folders import run_folder

typed = command_line.typed


@pytest.fixture(scope="session")
def classifier_file() -> str:
    """File that the first command of docs/papers.md writes."""
    return cirq_json.to_json(classifier(ring(4)))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, classifier_file: str) -> Path:
    """Working folder with the examples, the files shown in the documents, and one run."""
    (tmp_path / "classifier.json").write_text(classifier_file)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (experiment,) = blocks(ROOT / "docs" / "configuration.md", "yaml")
    (tmp_path / "experiment.yaml").write_text(experiment.text)
    (tmp_path / "my_circuits.py").write_text(example("my_circuits.py"))
    (chains,) = blocks(ROOT / "docs" / "phases.md", "python")
    (tmp_path / chains.title).write_text(chains.text)
    run_folder(tmp_path / "runs", "qcnn-2026-11-21-12-58-16-614654", {}, mse=0.27)
    monkeypatch.chdir(tmp_path)
    return tmp_path
