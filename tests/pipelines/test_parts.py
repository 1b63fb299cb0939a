"""Pipelines for recurring runs, parsed strictly as PipelineSpec of KFP."""

import copy
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner
from google.protobuf import json_format
from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec

import compile as compile_command
from qcnn.pipelines.compiler import compile_qcnn
from qcnn.pipelines.kubeflow import KUBEFLOW
from qcnn.pipelines.parts import per_run_seed


def _compiled(path: Path, *, seeded: bool) -> dict[str, Any]:
    compile_qcnn(KUBEFLOW, path, per_run_seed=seeded)
    return dict(next(yaml.safe_load_all(path.read_text())))


def test_seed_per_run_changes_first_step_only(tmp_path: Path) -> None:
    scheduled = json_format.ParseDict(_compiled(tmp_path / "a.yaml", seeded=True), PipelineSpec())
    step = scheduled.components[scheduled.root.dag.tasks["generate-data"].component_ref.name]
    assert "run" in step.input_definitions.parameters
    given = scheduled.root.dag.tasks["generate-data"].inputs.parameters["run"]
    assert given.runtime_value.constant.string_value == "{{$.pipeline_job_uuid}}"
    del scheduled.root.dag.tasks["generate-data"].inputs.parameters["run"]
    assert scheduled == json_format.ParseDict(_compiled(tmp_path / "b.yaml", seeded=False), PipelineSpec())


def test_per_run_seed_of_compiled_file_equals_compilation(tmp_path: Path) -> None:
    document = _compiled(tmp_path / "before.yaml", seeded=False)
    before = copy.deepcopy(document)
    assert per_run_seed(document) == _compiled(tmp_path / "now.yaml", seeded=True)
    assert document == before


def test_compile_command_seed_per_run_sets_run_input(tmp_path: Path) -> None:
    for folder, flags in (("once", ()), ("each", ("--seed-per-run",))):
        arguments = ["--output", str(tmp_path / folder), "--image", "registry/qcnn:1", *flags]
        result = CliRunner().invoke(compile_command.main, arguments)
        assert result.exit_code == 0, result.output
    for target in ("kubeflow", "vertex"):
        paths = [tmp_path / folder / f"qcnn-{target}.yaml" for folder in ("once", "each")]
        once, each = (next(yaml.safe_load_all(path.read_text())) for path in paths)
        assert each == per_run_seed(once) != once
