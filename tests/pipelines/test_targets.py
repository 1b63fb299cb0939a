"""Compiled files and pipeline interfaces by target."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from google.protobuf import json_format
from kfp.pipeline_spec.pipeline_spec_pb2 import ComponentSpec, PipelineSpec

import compile as compile_command
from qcnn.pipelines.compiler import compile_qcnn, compile_study
from qcnn.targets import target_classes
from qcnn.targets.base import Compiles


def test_compile_writes_files_for_each_target(tmp_path: Path) -> None:
    result = CliRunner().invoke(compile_command.main, ["--output", str(tmp_path), "--image", "registry/qcnn:1"])
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.iterdir()} == {
        *("qcnn-kubeflow.yaml", "study-kubeflow.yaml"),
        *("qcnn-vertex.yaml", "study-vertex.yaml", "tuning-vertex.yaml"),
    }
    for name, documents in (("kubeflow", 2), ("vertex", 1)):
        for pipeline in ("qcnn", "study"):
            assert len(list(yaml.safe_load_all((tmp_path / f"{pipeline}-{name}.yaml").read_text()))) == documents


@pytest.mark.parametrize("compile_one", [compile_qcnn, compile_study])
def test_pipeline_interface_is_equal_on_all_targets(compile_one: Callable[..., PipelineSpec], tmp_path: Path) -> None:
    specs = [
        compile_one(target.pipeline_target(), tmp_path / f"{name}.yaml", "registry/qcnn:1")
        for name, target in target_classes(Compiles).items()
    ]
    roots = {json_format.MessageToJson(_interface(spec.root), sort_keys=True) for spec in specs}
    assert len(roots) == 1
    outputs = [{label: _interface(each).output_definitions for label, each in _steps(spec).items()} for spec in specs]
    assert all(each == outputs[0] for each in outputs)


def _interface(component: ComponentSpec) -> ComponentSpec:
    return ComponentSpec(input_definitions=component.input_definitions, output_definitions=component.output_definitions)


def _steps(spec: PipelineSpec) -> dict[str, ComponentSpec]:
    return {each.executor_label: each for each in spec.components.values() if each.executor_label}
