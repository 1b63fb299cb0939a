"""Tests of the Python example in README.md and docs/python.md, and of the tables of the page."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, blocks

PAGE = ROOT / "docs" / "python.md"


def test_readme_and_page_have_same_example() -> None:
    (readme_block,) = blocks(ROOT / "README.md", "python")
    page_block, *_ = blocks(PAGE, "python")
    assert readme_block.text == page_block.text
    assert len(list(filter(None, page_block.text.splitlines()))) == 5


def test_page_lists_functions_and_extras() -> None:
    page = PAGE.read_text()
    for name in ("Experiment", "generate", "train", "Training", "load", "Model", "evaluate", "plan", "study", "submit"):
        assert f"| `{name}" in page
    for extra in ("run", "kubeflow", "vertex", "serve"):
        assert f"| `{extra}` |" in page


def _run_block(title: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the program of a title on the page, in a folder, with a minimal environment."""
    block = next(block for block in blocks(PAGE, "python") if block.title == title)
    (folder / title).write_text(block.text)
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.run(
        [sys.executable, title], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )


@pytest.mark.long
def test_example_trains_and_shows_no_bar_in_a_pipe(tmp_path: Path) -> None:
    block, *_ = blocks(PAGE, "python")
    done = _run_block(block.title, tmp_path)
    measured, predicted = done.stdout.splitlines()
    assert float(measured.split()[0]) < 0.25
    assert (predicted[0], predicted[-1]) == ("[", "]")
    assert not done.stderr


@pytest.mark.long
def test_circuit_and_rows_from_memory_train(tmp_path: Path) -> None:
    done = _run_block("memory.py", tmp_path)
    accuracy, classes = done.stdout.strip().split(" ", 1)
    assert 0.4 < float(accuracy) <= 1
    assert classes == "('left', 'right')"
    assert len(list(tmp_path.glob("runs/*/rows.parquet"))) == 1


@pytest.mark.long
def test_callbacks_report_and_stop(tmp_path: Path) -> None:
    done = _run_block("callbacks.py", tmp_path)
    *reported, count = done.stdout.splitlines()
    losses = [json.loads(line)["val_loss"] for line in reported]
    assert len(losses) == int(count) < 200
    assert losses.index(min(losses)) == len(losses) - 4
