"""The compiled YAML, parsed strictly into Kubeflow's own PipelineSpec."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf import json_format
from kfp.pipeline_spec.pipeline_spec_pb2 import ParameterType, PipelineSpec

from trainer.config import EXPERIMENT_FIELDS, Options, allowed, field_type

ROOT = Path(__file__).parents[2]
NUMBER_INTEGER, NUMBER_DOUBLE, STRING = (
    ParameterType.ParameterTypeEnum.Value(name) for name in ("NUMBER_INTEGER", "NUMBER_DOUBLE", "STRING")
)


def _compile(output: Path, *arguments: str) -> Path:
    # A machine that only compiles and submits has neither TensorFlow nor cirq.
    program = """
import runpy, sys
for name in ("tensorflow", "tf_keras", "tensorflow_quantum", "cirq", "sympy", "h5py"):
    sys.modules[name] = None
runpy.run_path(sys.argv[0], run_name="__main__")
"""
    start = f"import sys; sys.argv = {['compile.py', '--output', str(output), *arguments]!r}\n{program}"
    subprocess.run([sys.executable, "-W", "ignore", "-c", start], cwd=ROOT, check=True, capture_output=True)
    return output / "qcnn-kubeflow.yaml"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _compile(tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="module")
def spec(compiled: Path) -> PipelineSpec:
    (document,) = yaml.safe_load_all(compiled.read_text())
    # Fails on any field that the published type does not have.
    parsed: PipelineSpec = json_format.ParseDict(document, PipelineSpec(), ignore_unknown_fields=False)
    return parsed


def _producers(spec: PipelineSpec) -> dict[str, set[tuple[str, str, str]]]:
    """For every task: what it takes, from which task and output."""
    wiring: dict[str, set[tuple[str, str, str]]] = {}
    for name, task in spec.root.dag.tasks.items():
        wiring[name] = {
            (key, source.task_output_artifact.producer_task, source.task_output_artifact.output_artifact_key)
            for key, source in task.inputs.artifacts.items()
        } | {
            (key, source.task_output_parameter.producer_task, source.task_output_parameter.output_parameter_key)
            for key, source in task.inputs.parameters.items()
            if source.HasField("task_output_parameter")
        }
    return wiring


def test_steps_are_wired_like_the_diagram(spec: PipelineSpec) -> None:
    assert _producers(spec) == {
        "generate-data": set(),
        "train": {
            ("experiment", "generate-data", "experiment"),
            ("dataset", "generate-data", "dataset"),
        },
        "tensorboard": {("logs", "train", "logs")},
        "export-weights": {("training", "train", "training")},
        "evaluate": {
            ("model", "export-weights", "model"),
            ("dataset", "generate-data", "dataset"),
            ("training", "train", "training"),
        },
    }


def test_the_report_is_an_html_artifact_of_the_run(spec: PipelineSpec) -> None:
    (of_step,) = [
        component.output_definitions.artifacts["report"]
        for component in spec.components.values()
        if component.executor_label == "exec-evaluate"
    ]
    for artifact in (of_step, spec.root.output_definitions.artifacts["report"]):
        assert artifact.artifact_type.schema_title == "system.HTML"


def test_the_experiments_words_are_the_typed_parameters(spec: PipelineSpec) -> None:
    parameters = spec.root.input_definitions.parameters
    assert set(parameters) == {*EXPERIMENT_FIELDS, "options"}
    types: dict[type, int] = {int: NUMBER_INTEGER, float: NUMBER_DOUBLE, str: STRING}
    for name, field in EXPERIMENT_FIELDS.items():
        parameter = parameters[name]
        assert parameter.parameter_type == types[field_type(field)]
        assert json_format.MessageToDict(parameter.default_value) == field.default
        description = " ".join(parameter.description.split())
        assert str(field.description) in description
        assert allowed(field)[1:] in description
    options = json_format.MessageToDict(parameters["options"].default_value)
    assert options == Options().model_dump()
    assert all(name in parameters["options"].description for name in Options.model_fields)


def test_every_parameter_reaches_the_step_that_checks_it(spec: PipelineSpec) -> None:
    inputs = spec.root.dag.tasks["generate-data"].inputs.parameters
    assert {name: source.component_input_parameter for name, source in inputs.items()} == {
        name: name for name in (*EXPERIMENT_FIELDS, "options")
    }


def _containers(spec: PipelineSpec) -> list[dict[str, Any]]:
    return [executor["container"] for executor in json_format.MessageToDict(spec.deployment_spec)["executors"].values()]


def test_steps_start_offline_from_the_baked_image(spec: PipelineSpec) -> None:
    containers = _containers(spec)
    assert len(containers) == 5
    for container in containers:
        assert container["image"] == "qcnn:latest"
        assert "pip install" not in " ".join(container["command"])


def test_another_image_is_used_by_every_step(tmp_path: Path) -> None:
    image = "registry.example/team/qcnn@sha256:" + 64 * "0"
    document = yaml.safe_load(_compile(tmp_path, "--image", image).read_text())
    containers = _containers(json_format.ParseDict(document, PipelineSpec()))
    assert [container["image"] for container in containers] == 5 * [image]


def test_compiling_twice_gives_identical_bytes(compiled: Path, tmp_path: Path) -> None:
    assert _compile(tmp_path).read_bytes() == compiled.read_bytes()
