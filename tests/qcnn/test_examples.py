"""Examples in the docstrings of public names."""

from pathlib import Path

import pytest

from tests.forks import run
from tests.shared_training_runs import ROOT


def test_docstring_examples_of_public_names_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: None) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    # A separate process, because threads of other tests would print between the examples.
    done = run("-m", "tests.docstring_examples")
    assert done.returncode == 0, done.stdout + done.stderr
