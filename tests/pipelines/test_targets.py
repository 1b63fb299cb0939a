"""What a target takes to be compiled for."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import compile as compile_command
from pipelines.compilation import Target
from pipelines.targets import TARGETS
from pipelines.training import train_here


def test_a_new_target_is_a_line_and_takes_no_platform_document_that_it_has_none_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TARGETS, "moon", Target(train=lambda pod: train_here))
    result = CliRunner().invoke(compile_command.main, ["--output", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.iterdir()} == {
        *("qcnn-kubeflow.yaml", "study-kubeflow.yaml"),
        *("qcnn-moon.yaml", "study-moon.yaml"),
    }
    for name, documents in (("kubeflow", 2), ("moon", 1)):
        for pipeline in ("qcnn", "study"):
            assert len(list(yaml.safe_load_all((tmp_path / f"{pipeline}-{name}.yaml").read_text()))) == documents
