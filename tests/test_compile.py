"""Command compile.py. The compiled YAML is parsed strictly as KFP's PipelineSpec."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from google.protobuf import json_format
from kfp.kubernetes.kubernetes_executor_config_pb2 import KubernetesExecutorConfig
from kfp.pipeline_spec.pipeline_spec_pb2 import ParameterType, PipelineSpec, PipelineTaskSpec, PlatformSpec

import compile as compile_command
from qcnn.errors import ConfigError
from qcnn.experiment.config import EXPERIMENT_FIELDS, Options
from qcnn.experiment.fields import describe_allowed, field_type
from qcnn.experiment.parsing import as_parameters
from qcnn.jobs.pod_settings import pod_settings
from tests.buckets import ROWS

ROOT = Path(__file__).parents[1]
IMAGE = f"registry.example/team/qcnn@sha256:{64 * '0'}"
_RESOURCES = ("resourceCpuRequest", "resourceMemoryRequest", "resourceMemoryLimit")
NUMBER_INTEGER, NUMBER_DOUBLE, STRING = (
    ParameterType.ParameterTypeEnum.Value(name) for name in ("NUMBER_INTEGER", "NUMBER_DOUBLE", "STRING")
)


def _compile(output: Path, *arguments: str) -> Path:
    result = CliRunner().invoke(compile_command.main, ["--output", str(output), *arguments])
    assert result.exit_code == 0, result.output
    return output / "qcnn-kubeflow.yaml"


def _error(output: Path, *arguments: str) -> str:
    """Return the message of the ConfigError that compile.py raises."""
    result = CliRunner().invoke(compile_command.main, ["--output", str(output), *arguments])
    assert isinstance(result.exception, ConfigError), result.output
    assert result.output == ""
    return str(result.exception)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Vertex AI requires an image with a registry.
    (pod := tmp_path_factory.mktemp("settings") / "pod.yaml").write_text("image: registry.example/qcnn:1\n")
    return _compile(tmp_path_factory.mktemp("build"), "--pod", str(pod))


def test_compile_prints_critical_paths_and_writes_small_files(tmp_path: Path) -> None:
    # Compilation must work without TensorFlow and Cirq.
    program = """
import runpy, sys
for name in ("tensorflow", "tf_keras", "tensorflow_quantum", "cirq", "sympy", "h5py"):
    sys.modules[name] = None
runpy.run_path(sys.argv[0], run_name="__main__")
"""
    start = f"import sys; sys.argv = {['compile.py', '--image', IMAGE, '--output', str(tmp_path)]!r}\n{program}"
    command = [sys.executable, "-W", "ignore", "-c", start]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        str(tmp_path / "qcnn-kubeflow.yaml"),
        "    critical path: generate-data > train > export-weights > evaluate",
        str(tmp_path / "study-kubeflow.yaml"),
        "    critical path: plan-study > trial-data > train > select-best",
        str(tmp_path / "qcnn-vertex.yaml"),
        "    critical path: generate-data > train > export-weights > evaluate",
        str(tmp_path / "study-vertex.yaml"),
        "    critical path: plan-study > trial-data > train > select-best",
        str(tmp_path / "tuning-vertex.yaml"),
        "    critical path: plan-tuning > trial-data > tune > export-weights > evaluate",
    ]
    # Another process compiles byte-identical files.
    _compile(tmp_path / "again", "--image", IMAGE)
    for path in tmp_path.glob("*.yaml"):
        assert path.stat().st_size <= 100_000
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


@pytest.fixture(scope="module")
def spec(compiled: Path) -> PipelineSpec:
    return _parse(compiled)[0]


def _parse(path: Path) -> tuple[PipelineSpec, dict[str, KubernetesExecutorConfig]]:
    """Return the pipeline and the Kubernetes settings of each step, and fail on unpublished fields."""
    pipeline, platforms = yaml.safe_load_all(path.read_text())
    platform = json_format.ParseDict(platforms, PlatformSpec()).platforms["kubernetes"].deployment_spec
    configs = {
        name: json_format.ParseDict(json_format.MessageToDict(config), KubernetesExecutorConfig())
        for name, config in platform.executors.items()
    }
    return json_format.ParseDict(pipeline, PipelineSpec()), configs


def _producers(spec: PipelineSpec) -> dict[str, set[tuple[str, str, str]]]:
    """Return for every task its inputs as (input, producer task, output of the producer)."""
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


def test_pipeline_steps_are_connected_as_documented(spec: PipelineSpec) -> None:
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


def test_report_is_html_output_of_pipeline(spec: PipelineSpec) -> None:
    (of_step,) = [
        component.output_definitions.artifacts["report"]
        for component in spec.components.values()
        if component.executor_label == "exec-evaluate"
    ]
    for artifact in (of_step, spec.root.output_definitions.artifacts["report"]):
        assert artifact.artifact_type.schema_title == "system.HTML"


def test_pipeline_parameters_match_experiment_fields(spec: PipelineSpec) -> None:
    parameters = spec.root.input_definitions.parameters
    assert set(parameters) == {*EXPERIMENT_FIELDS, "options", "data_sha256"}
    types: dict[type, int] = {int: NUMBER_INTEGER, float: NUMBER_DOUBLE, str: STRING}
    for name, field in EXPERIMENT_FIELDS.items():
        parameter = parameters[name]
        assert parameter.parameter_type == types[field_type(field)]
        assert json_format.MessageToDict(parameter.default_value) == field.default
        description = " ".join(parameter.description.split())
        assert str(field.description) in description
        assert describe_allowed(field)[1:] in description
    options = json_format.MessageToDict(parameters["options"].default_value)
    assert options == Options().model_dump()
    assert all(name in parameters["options"].description for name in Options.model_fields)
    assert parameters["data_sha256"].parameter_type == STRING
    assert json_format.MessageToDict(parameters["data_sha256"].default_value) == ""
    assert "sha256sum" in parameters["data_sha256"].description


def test_generate_data_receives_every_parameter(spec: PipelineSpec) -> None:
    inputs = spec.root.dag.tasks["generate-data"].inputs.parameters
    assert {name: source.component_input_parameter for name, source in inputs.items()} == {
        name: name for name in (*EXPERIMENT_FIELDS, "options", "data_sha256")
    }


@pytest.mark.parametrize("seeds", [(), ("--seed-per-run",)])
def test_compile_data_digest_default_depends_on_seed_per_run(tmp_path: Path, rows: str, seeds: tuple[str, ...]) -> None:
    (config := tmp_path / "experiment.yaml").write_text(f"data: {rows}\nencoding: ry\n")
    main = _compile(tmp_path / "build", "--config", str(config), "--image", IMAGE, *seeds)
    sha256 = hashlib.sha256(ROWS).hexdigest()
    defaults = _defaults(_parse(main)[0])
    assert (defaults["data"], defaults["data_sha256"]) == (rows, "" if seeds else sha256)
    for name in ("study-kubeflow", "study-vertex", "tuning-vertex"):
        document = next(yaml.safe_load_all(main.with_name(f"{name}.yaml").read_text()))
        defaults = _defaults(json_format.ParseDict(document, PipelineSpec()))
        assert (defaults["experiment"]["data"], defaults["data_sha256"]) == (rows, {rows: sha256})


def test_data_steps_are_cached_by_file_digest(compiled: Path) -> None:
    for name, step in (("qcnn", "generate-data"), ("study", "trial-data")):
        spec, _ = _parse(compiled.with_name(f"{name}-kubeflow.yaml"))
        task = _tasks(spec)[step]
        assert task.caching_options.enable_cache
        assert task.inputs.parameters["data_sha256"].component_input_parameter.endswith("data_sha256")


def test_compile_local_data_file_is_rejected(tmp_path: Path) -> None:
    (config := tmp_path / "experiment.yaml").write_text("data: rows.csv\n")
    line = _error(tmp_path / "build", "--config", str(config))
    assert line.startswith("data: a file must be in a bucket on a cluster, gs://BUCKET/FILE, ")
    assert line.endswith("Given: rows.csv")


def _containers(spec: PipelineSpec) -> list[dict[str, Any]]:
    return [executor["container"] for executor in json_format.MessageToDict(spec.deployment_spec)["executors"].values()]


def test_steps_use_image_without_pip_install(spec: PipelineSpec) -> None:
    containers = _containers(spec)
    assert len(containers) == 5
    for container in containers:
        assert container["image"] == "registry.example/qcnn:1"
        assert "pip install" not in " ".join(container["command"])


def test_compile_pinned_image_is_used_and_training_cached(tmp_path: Path) -> None:
    image = "registry.example/team/qcnn@sha256:" + 64 * "0"
    spec, _ = _parse(_compile(tmp_path, "--image", image))
    assert [container["image"] for container in _containers(spec)] == 5 * [image]
    assert _settings(spec)["image"] == image
    assert all(task.caching_options.enable_cache for task in spec.root.dag.tasks.values())
    study, _ = _parse(tmp_path / "study-kubeflow.yaml")
    # The step of a failed trial succeeds, so the cache would retain the failure.
    assert {name: task.caching_options.enable_cache for name, task in _tasks(study).items()} == {
        "plan-study": True,
        "trial-data": True,
        "train": False,
        "select-best": True,
    }


def _tasks(spec: PipelineSpec) -> dict[str, PipelineTaskSpec]:
    """Return all steps by name, including those in loops."""
    return {
        name: task
        for component in (spec.root, *spec.components.values())
        for name, task in component.dag.tasks.items()
        if spec.components[task.component_ref.name].executor_label
    }


def _settings(spec: PipelineSpec) -> dict[str, Any]:
    """Return the pod settings of the train step's TFJob."""
    return dict(json.loads(spec.root.dag.tasks["train"].inputs.parameters["pod"].runtime_value.constant.string_value))


def test_compile_image_tag_disables_training_cache_only(spec: PipelineSpec) -> None:
    cached = {name: task.caching_options.enable_cache for name, task in spec.root.dag.tasks.items()}
    assert cached == {name: name != "train" for name in cached}


def test_steps_receive_run_id_from_label_not_input(compiled: Path) -> None:
    spec, configs = _parse(compiled)
    assert len(configs) == 5
    for config in configs.values():
        (variable,) = config.field_path_as_env
        assert (variable.name, variable.field_path) == ("QCNN_RUN", "metadata.labels['pipeline/runid']")
    assert "{{$.pipeline_job_uuid}}" not in str(spec.root)


@pytest.mark.parametrize("name", ["qcnn", "study"])
def test_steps_are_retried_after_long_attempts(compiled: Path, name: str) -> None:
    spec, _ = _parse(compiled.with_name(f"{name}-kubeflow.yaml"))
    policies = {name: task.retry_policy for name, task in _tasks(spec).items()}
    special = {"generate-data": 1, "plan-study": 1, "train": 5}
    assert {name: policy.max_retry_count for name, policy in policies.items()} == {
        name: special.get(name, 2) for name in policies
    }
    # Argo stops retries after this duration, and training may take days.
    assert all(policy.backoff_max_duration.seconds > 30 * 86400 for policy in policies.values())


@pytest.mark.parametrize("name", ["qcnn", "study"])
def test_step_resources_have_defaults_and_overrides(tmp_path: Path, name: str) -> None:
    (tmp_path / "pod.yaml").write_text("memory: 8Gi\nsteps: {evaluate: {cpu: 2, memory: 6Gi}, plan-study: {cpu: 50m}}")
    spec, _ = _parse(_compile(tmp_path, "--pod", str(tmp_path / "pod.yaml")).with_name(f"{name}-kubeflow.yaml"))
    executors = json_format.MessageToDict(spec.deployment_spec)["executors"]
    found = {step.removeprefix("exec-"): executor["container"]["resources"] for step, executor in executors.items()}
    assert found.keys() == _tasks(spec).keys()
    assert all(set(given) == {*_RESOURCES} for given in found.values())
    light, heavy = ("100m", "256Mi", "2Gi"), ("250m", "1Gi", "4Gi")
    loading = {"export-weights": heavy, "select-best": heavy, "evaluate": ("2", "6Gi", "6Gi")}
    expected = {step: loading.get(step, light) for step in found}
    if name == "study":
        expected["plan-study"] = ("50m", "256Mi", "2Gi")
    assert {step: tuple(given[key] for key in _RESOURCES) for step, given in found.items()} == expected


def test_only_processes_of_tfjob_use_gpu_image(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("image: team/qcnn:1\naccelerator: nvidia-l4\n")
    spec, _ = _parse(_compile(tmp_path, "--pod", str(tmp_path / "pod.yaml")))
    for container in _containers(spec):
        assert container["image"] == "team/qcnn:1"
        assert {"name": "QCNN_IMAGE", "value": "team/qcnn:1"} in container["env"]
    # The launcher in step `train` creates the TFJob from these settings.
    pod = pod_settings(_settings(spec))
    assert (pod.gpus, pod.accelerator) == (1, "nvidia-l4")
    assert pod.for_role("worker").process_image == "team/qcnn:1-gpu"


def test_pod_settings_apply_to_tfjob_and_steps(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "memory": "8Gi",
        "gpus": 1,
        "pull_policy": "Always",
        "pull_secrets": ["registry"],
        "environment": {"STORAGE_EMULATOR_HOST": "http://storage:4443"},
        "secrets": {"AWS_ACCESS_KEY_ID": "store/accesskey"},
        "node_selector": {"cloud.google.com/gke-spot": "true"},
        "tolerations": [{"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}],
        "labels": {"team": "qml"},
        "queue": "team",
        "priority_class": "high",
        "topology_spread": "topology.kubernetes.io/zone",
        "log_format": "json",
        "metrics_port": 9095,
    }
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(settings))
    spec, configs = _parse(_compile(tmp_path, "--pod", str(tmp_path / "pod.yaml")))
    given = _settings(spec)
    assert given == {**given, **settings}
    assert len(configs) == 5
    for config in configs.values():
        assert config.image_pull_policy == "Always"
        assert [secret.secret_name for secret in config.image_pull_secret] == ["registry"]
        assert config.node_selector.labels == settings["node_selector"]
        assert [json_format.MessageToDict(each) for each in config.tolerations] == settings["tolerations"]
        assert config.pod_metadata.labels.items() >= settings["labels"].items()
        (secret,) = config.secret_as_env
        assert secret.secret_name == "store"
        assert [(key.secret_key, key.env_var) for key in secret.key_to_env] == [("accesskey", "AWS_ACCESS_KEY_ID")]
    for container in _containers(spec):
        assert {"name": "STORAGE_EMULATOR_HOST", "value": "http://storage:4443"} in container["env"]
        assert {"name": "QCNN_LOG_FORMAT", "value": "json"} in container["env"]
    # Prometheus selects the launcher by this label.
    marked = {name for name, config in configs.items() if config.pod_metadata.labels.get("qcnn/launcher")}
    assert marked == {"exec-train"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("memory: much", "pod.memory: must be a quantity such as 2Gi. Given: 'much'"),
        ("tolerations: [{name: spot}]", "pod.tolerations: must be as in a pod's spec"),
        ("color: red", "pod.color: unknown field; valid fields: "),
        ("steps: {evaluat: {cpu: 1}}", "pod.steps.evaluat: unknown step; valid steps: generate-data, "),
    ],
)
def test_compile_invalid_pod_setting_writes_no_file(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "pod.yaml").write_text(content)
    assert _error(tmp_path / "build", "--pod", str(tmp_path / "pod.yaml")).startswith(message)
    assert not list((tmp_path / "build").glob("*"))


def test_compile_omits_target_with_unsupported_settings(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("volumes: {/data: {emptyDir: {}}}")
    # Files of an earlier call with other settings must be removed.
    _compile(tmp_path / "build", "--image", IMAGE)
    assert (tmp_path / "build" / "tuning-vertex.yaml").is_file()
    arguments = ["--output", str(tmp_path / "build"), "--pod", str(tmp_path / "pod.yaml"), "--image", IMAGE]
    result = CliRunner().invoke(compile_command.main, arguments)
    assert result.exit_code == 0
    assert result.stderr.startswith("not compiled for vertex: pod.volumes: has no meaning on Vertex AI; ")
    names = {path.name for path in (tmp_path / "build").iterdir()}
    assert names == {"qcnn-kubeflow.yaml", "study-kubeflow.yaml"}


def test_compile_tensorboard_link_and_button_are_optional(tmp_path: Path, spec: PipelineSpec) -> None:
    with_button, _ = _parse(_compile(tmp_path, "--tensorboard", "https://board.example", "--tensorboard-button"))
    for pipeline, address, outputs in (
        (spec, "", {"link"}),
        (with_button, "https://board.example", {"link", "mlpipeline_ui_metadata"}),
    ):
        task = pipeline.root.dag.tasks["tensorboard"]
        assert task.inputs.parameters["address"].runtime_value.constant.string_value == address
        assert set(pipeline.components[task.component_ref.name].output_definitions.artifacts) == outputs


def test_register_step_is_optional_and_never_cached(tmp_path: Path, spec: PipelineSpec) -> None:
    assert "register" not in spec.root.dag.tasks
    with_step, _ = _parse(_compile(tmp_path, "--register", "digits", "--registry", "gs://bucket/models"))
    assert _producers(with_step)["register"] == {
        ("model", "export-weights", "model"),
        ("dataset", "generate-data", "dataset"),
        ("metrics", "evaluate", "metrics"),
    }
    task = with_step.root.dag.tasks["register"]
    # The registry may have changed since an equal run.
    assert not task.caching_options.enable_cache
    values = {name: each.runtime_value.constant.string_value for name, each in task.inputs.parameters.items()}
    assert values == {"name": "digits", "registry": "gs://bucket/models"}
    (registration,) = with_step.components[task.component_ref.name].output_definitions.artifacts.values()
    assert registration.artifact_type.schema_title == "system.Metrics"
    assert task.retry_policy.max_retry_count


def test_compile_config_sets_typed_defaults(tmp_path: Path) -> None:
    config = tmp_path / "experiment.yaml"
    config.write_text("qubits: 10\nmodel: deep\nlearning_rate: 1\noptions:\n  shots: 100\n")
    spec, _ = _parse(_compile(tmp_path, "--config", str(config)))
    expected = as_parameters(
        {"qubits": 10, "model": "deep", "learning_rate": 1, "options": {"shots": 100}},
    )
    assert _defaults(spec) == {**expected, "data_sha256": ""}
    config.write_text("qubits: 3\n")
    message = _error(tmp_path, "--config", str(config))
    assert message == "qubits: must be at least 4 with hybrid. Given: 3"


def _defaults(spec: PipelineSpec) -> dict[str, Any]:
    """Return the default of each parameter."""
    parameters = spec.root.input_definitions.parameters
    return {name: json_format.MessageToDict(parameter.default_value) for name, parameter in parameters.items()}


def test_compile_image_flag_overrides_pod_setting(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("image: registry.example/mine:1\n")
    arguments = ("--pod", str(tmp_path / "pod.yaml"))
    for more, image in (((), "registry.example/mine:1"), (("--image", IMAGE), IMAGE)):
        spec, _ = _parse(_compile(tmp_path, *arguments, *more))
        assert {container["image"] for container in _containers(spec)} == {image}
        assert _settings(spec)["image"] == image


def test_compile_engine_flag_overrides_pod_setting(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("engine: tfjob\n")
    arguments = ("--pod", str(tmp_path / "pod.yaml"))
    for more, engine in (((), "tfjob"), (("--engine", "trainjob"), "trainjob")):
        spec, _ = _parse(_compile(tmp_path, *arguments, *more))
        assert _settings(spec)["engine"] == engine


def test_compile_omits_vertex_without_image(tmp_path: Path) -> None:
    result = CliRunner().invoke(compile_command.main, ["--output", str(tmp_path)])
    assert result.exit_code == 0
    assert result.stderr == "not compiled for vertex: pod.image: must be given. Given: none\n"
    assert {path.name.rpartition("-")[2] for path in tmp_path.iterdir()} == {"kubeflow.yaml"}
    spec, _ = _parse(tmp_path / "qcnn-kubeflow.yaml")
    assert {container["image"] for container in _containers(spec)} == {"qcnn:latest"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--image", ""), "pod.image: must be an image reference, "),
        (("--image", "QCNN:1"), "pod.image: must be an image reference, "),
        (("--tensorboard", "board"), "tensorboard: must be http://HOST or https://HOST. Given: board"),
        (("--register", "digits"), "register: must be given together with --registry. Given: only 'digits'"),
        (("--register", "a b", "--registry", "gs://b/m"), "register: must be at most 100 letters, digits, dots, "),
        (("--register", "digits", "--registry", "models"), "registry: must be gs://BUCKET/FOLDER, "),
    ],
)
def test_compile_invalid_flag_writes_no_file(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    assert _error(tmp_path / "build", *arguments).startswith(message)
    assert not list(tmp_path.glob("build/*"))


def test_compile_error_has_format_of_qcnn_command(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "compile.py", "--output", str(tmp_path), "--image", "a b"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: pod.image: must be an image reference, ")
    assert done.stderr.endswith("Given: 'a b'\n")
