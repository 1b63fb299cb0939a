"""Pipelines compiled for Vertex AI."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf import json_format
from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec

from qcnn.components.resources import DEFAULTS
from qcnn.errors import ConfigError
from qcnn.pipelines.compiler import compile_qcnn, compile_study
from qcnn.pipelines.vertex import VERTEX

BOTH = pytest.mark.parametrize("compile_one", [compile_qcnn, compile_study])


@BOTH
def test_vertex_steps_have_resource_limits(compile_one: Callable[..., PipelineSpec], tmp_path: Path) -> None:
    settings = {"steps": {"train": {"cpu": 2, "memory": "6Gi"}}}
    spec = compile_one(VERTEX, tmp_path / "a.yaml", "registry/qcnn:1", settings)
    executors = json_format.MessageToDict(spec.deployment_spec)["executors"]
    found = {name.removeprefix("exec-"): executor["container"]["resources"] for name, executor in executors.items()}
    assert found["train"] == {
        "cpuLimit": 2,
        "memoryLimit": 6 * 1024**3 / 1e9,
        "resourceCpuLimit": "2",
        "resourceMemoryLimit": "6Gi",
    }
    for name, given in found.items():
        if name != "train":
            assert given["resourceMemoryLimit"] == DEFAULTS[name].memory_limit


@BOTH
def test_vertex_file_is_one_valid_document(compile_one: Callable[..., PipelineSpec], tmp_path: Path) -> None:
    compile_one(VERTEX, tmp_path / "a.yaml", "registry/qcnn:1")
    (document,) = yaml.safe_load_all((tmp_path / "a.yaml").read_text())
    assert json_format.ParseDict(document, PipelineSpec()).schema_version == "2.1.0"


@BOTH
def test_step_command_replaces_shell_with_exec(compile_one: Callable[..., PipelineSpec], tmp_path: Path) -> None:
    executors = json_format.MessageToDict(compile_one(VERTEX, tmp_path / "a.yaml", "registry/qcnn:1").deployment_spec)[
        "executors"
    ]
    for executor in executors.values():
        (script,) = [word for word in executor["container"]["command"] if "kfp.dsl.executor_main" in word]
        assert "_KFP_RUNTIME=true exec python3 -m kfp.dsl.executor_main " in script


def _of_train(spec: PipelineSpec, name: str) -> Any:
    tasks = [component.dag.tasks for component in (spec.root, *spec.components.values())]
    (task,) = [each["train"] for each in tasks if "train" in each]
    return task.inputs.parameters[name].runtime_value.constant.string_value


@BOTH
def test_train_step_gets_project_location_and_pod(compile_one: Callable[..., PipelineSpec], tmp_path: Path) -> None:
    settings = {"gpus": 1, "accelerator": "nvidia-l4", "vertex": {"timeout_seconds": 60}}
    spec = compile_one(VERTEX, tmp_path / "a.yaml", f"registry/qcnn@sha256:{64 * '1'}", settings)
    assert _of_train(spec, "project") == "{{$.pipeline_google_cloud_project_id}}"
    assert _of_train(spec, "location") == "{{$.pipeline_google_cloud_location}}"
    given = json.loads(_of_train(spec, "pod"))
    assert given == {**given, **settings, "image": f"registry/qcnn@sha256:{64 * '1'}"}


def test_train_step_is_cached_if_image_is_pinned(tmp_path: Path) -> None:
    pinned = compile_qcnn(VERTEX, tmp_path / "a.yaml", f"registry/qcnn@sha256:{64 * '1'}")
    assert pinned.root.dag.tasks["train"].caching_options.enable_cache
    # An input that differs between runs would disable the cache.
    assert "pipeline_job" not in str(pinned)
    behind_a_tag = compile_qcnn(VERTEX, tmp_path / "b.yaml", "registry/qcnn:1")
    assert not behind_a_tag.root.dag.tasks["train"].caching_options.enable_cache


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"secrets": {"A": "b/c"}}, r"^pod\.secrets: has no meaning on Vertex AI; "),
        ({"gpus": 1}, r"^pod\.accelerator: must be set on Vertex AI "),
        ({"vertex": {"color": "red"}}, r"^pod\.vertex\.color: unknown field; "),
        ({"vertex": {"machine_type": "x1"}}, r"^pod\.vertex\.machine_type: must be a Vertex AI training machine type "),
    ],
)
def test_compile_rejects_settings_unsupported_by_vertex(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        compile_qcnn(VERTEX, tmp_path / "a.yaml", "registry/qcnn:1", settings)
    assert not list(tmp_path.iterdir())
