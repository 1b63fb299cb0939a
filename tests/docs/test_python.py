"""The lines of Python that README and docs/python.md begin with."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, blocks

PAGE = ROOT / "docs" / "python.md"


def test_both_documents_begin_with_the_same_lines() -> None:
    (of_readme,) = blocks(ROOT / "README.md", "python")
    of_page, *_ = blocks(PAGE, "python")
    assert of_readme.text == of_page.text
    assert len(list(filter(None, of_page.text.splitlines()))) == 5


def test_the_page_tells_of_every_function_and_every_extra() -> None:
    page = PAGE.read_text()
    for name in ("Experiment", "generate", "train", "Training", "load", "Model", "evaluate", "plan", "study", "submit"):
        assert f"| `{name}" in page
    for extra in ("run", "kubeflow", "vertex", "serve"):
        assert f"| `{extra}` |" in page


@pytest.mark.long
def test_the_lines_train_and_predict_and_show_no_bar_in_a_pipe(tmp_path: Path) -> None:
    shown, *_ = blocks(PAGE, "python")
    (tmp_path / shown.title).write_text(shown.text)
    command = [sys.executable, shown.title]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    measured, predicted = done.stdout.splitlines()
    assert float(measured.split()[0]) < 0.25
    assert (predicted[0], predicted[-1]) == ("[", "]")
    assert not done.stderr
