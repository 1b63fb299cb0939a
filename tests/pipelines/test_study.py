"""The compiled study, parsed strictly as PipelineSpec of KFP."""

from pathlib import Path

import pytest
import yaml
from google.protobuf import json_format
from kfp.pipeline_spec.pipeline_spec_pb2 import ParameterType, PipelineSpec

from qcnn.pipelines.compiler import compile_study
from qcnn.pipelines.kubeflow import KUBEFLOW

STRING = ParameterType.ParameterTypeEnum.Value("STRING")


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> PipelineSpec:
    path = tmp_path_factory.mktemp("build") / "study.yaml"
    compile_study(KUBEFLOW, path, f"registry/qcnn@sha256:{64 * '1'}", parallelism=3)
    document, _ = yaml.safe_load_all(Path(path).read_text())
    parsed: PipelineSpec = json_format.ParseDict(document, PipelineSpec(), ignore_unknown_fields=False)
    return parsed


def test_trials_run_in_parallel_loop_before_selection(spec: PipelineSpec) -> None:
    tasks = spec.root.dag.tasks
    (loop,) = [name for name in tasks if name.startswith("for-loop")]
    assert set(tasks) == {"plan-study", loop, "select-best"}
    assert tasks[loop].iterator_policy.parallelism_limit == 3
    inside = spec.components[tasks[loop].component_ref.name]
    assert set(inside.dag.tasks) == {"trial-data", "train"}
    collected = tasks["select-best"].inputs.artifacts
    assert {name: source.task_output_artifact.producer_task for name, source in collected.items()} == {
        "datasets": loop,
        "trainings": loop,
    }


def test_trial_parameter_is_experiment_as_string(spec: PipelineSpec) -> None:
    # Items of a list other than strings would have another type than the inputs of the steps.
    (loop,) = [task for name, task in spec.root.dag.tasks.items() if name.startswith("for-loop")]
    inside = spec.components[loop.component_ref.name]
    assert inside.input_definitions.parameters[loop.parameter_iterator.item_input].parameter_type == STRING
    for task in inside.dag.tasks.values():
        given = task.inputs.parameters["experiment"].component_input_parameter
        assert given == loop.parameter_iterator.item_input


def test_all_steps_use_given_image(spec: PipelineSpec) -> None:
    executors = json_format.MessageToDict(spec.deployment_spec)["executors"].values()
    assert {executor["container"]["image"] for executor in executors} == {f"registry/qcnn@sha256:{64 * '1'}"}
