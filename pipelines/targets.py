"""What compiled pipelines are compiled for."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from kfp import compiler
from kfp.dsl.base_component import BaseComponent
from kfp.kubernetes import kubernetes_executor_config_pb2 as kubernetes
from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec, PlatformSpec

from components.image import IMAGE
from components.pipeline_run import RUN_FIELD, RUN_VARIABLE
from components.resources import KEY, Resources, step_resources
from launchers.pod import Pod, pod_settings
from pipelines.qcnn import qcnn
from pipelines.retries import retried
from pipelines.study import PARALLELISM, study
from pipelines.training import TrainStep, train_with_tfjobs
from pipelines.viewing import Viewer
from trainer.config import from_mapping, read_file
from trainer.errors import ConfigError
from trainer.provenance import IMAGE_VARIABLE

__all__ = [
    "IMAGE",
    "TARGETS",
    "ConfigError",
    "Viewer",
    "compile_study",
    "compile_target",
    "read_defaults",
    "read_settings",
]

# How each trains.
TARGETS: dict[str, Callable[[Pod], TrainStep]] = {"kubeflow": train_with_tfjobs}
# What deploy/rbac.yaml makes for the training's pods, which have to see that their launcher is there.
_SERVICE_ACCOUNT = "qcnn-worker"
# The compiler calls a step's executor so, followed by the name of the step.
_EXECUTOR = "exec-"


def compile_target(
    target: str,
    path: Path,
    image: str = IMAGE,
    settings: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    *,
    viewer: Viewer | None = None,
) -> PipelineSpec:
    """Write the compiled pipeline of a target, every step in `image`, and return it.

    `settings` (see launchers.pod.Pod) are those of the training's pods. How images are pulled, on which nodes
    pods run, and their environment hold for all steps; what these need themselves is in `steps` beside them (see
    components.resources). `defaults` are those of the experiment's words.

    Raises:
        ConfigError: a setting is wrong.
    """
    pod, resources = _read(image, settings)
    return write(qcnn(TARGETS[target](pod), viewer), path, pod, resources, defaults)


def compile_study(
    target: str,
    path: Path,
    image: str = IMAGE,
    settings: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    *,
    parallelism: int = PARALLELISM,
) -> PipelineSpec:
    """Write and return the compiled study of a target, so many trials at the same time; all else as `compile_target`.

    Raises:
        ConfigError: a setting is wrong.
    """
    pod, resources = _read(image, settings)
    pipeline = study(parallelism, TARGETS[target](pod))
    return write(pipeline, path, pod, resources, {"experiment": defaults} if defaults else None)


def read_settings(path: Path) -> dict[str, Any]:
    """Read settings of pods from a YAML file, not yet validated.

    Raises:
        ConfigError: it cannot be read.
    """
    return read_file(path, "pod")


def read_defaults(path: Path) -> dict[str, Any]:
    """Return the words of an experiment's file, and the defaults of all others.

    Raises:
        ConfigError: one line with what is wrong.
    """
    return from_mapping(read_file(path)).model_dump()


def write(
    pipeline: BaseComponent,
    path: Path,
    pod: Pod,
    resources: Mapping[str, Resources],
    defaults: Mapping[str, Any] | None = None,
) -> PipelineSpec:
    """Write and return a compiled pipeline, every step in a pod's image, and with what of its settings holds for all.

    Each step is given its `resources`, and tried again. `defaults` stand for those of the pipeline's parameters.
    """
    spec = type(pipeline.pipeline_spec)()
    spec.CopyFrom(pipeline.pipeline_spec)
    for name, value in (defaults or {}).items():
        default = compiler.pipeline_spec_builder.to_protobuf_value(value)
        spec.root.input_definitions.parameters[name].default_value.CopyFrom(default)
    # Provenance in every artifact names the image.
    environment = {**pod.environment, IMAGE_VARIABLE: pod.image}
    for name, executor in spec.deployment_spec["executors"].items():
        executor["container"]["image"] = pod.image
        executor["container"]["env"] = [{"name": name, "value": value} for name, value in environment.items()]
        executor["container"]["resources"] = _resources(resources[name.removeprefix(_EXECUTOR)])
    retried(spec)
    compiler.pipeline_spec_builder.write_pipeline_spec_to_file(
        pipeline_spec=spec,
        pipeline_description=pipeline.description,
        platform_spec=_platform(list(spec.deployment_spec["executors"]), pod),
        package_path=str(path),
    )
    return spec


def _read(image: str, settings: Mapping[str, Any] | None) -> tuple[Pod, dict[str, Resources]]:
    values = dict(settings or {})
    resources = step_resources(values.pop(KEY, None))
    return pod_settings({"service_account": _SERVICE_ACCOUNT, **values, "image": image}), resources


def _resources(given: Resources) -> dict[str, str]:
    """Return what a step is given in the words of a compiled pipeline (ResourceSpec)."""
    return {
        "resourceCpuRequest": given.cpu,
        "resourceMemoryRequest": given.memory,
        "resourceMemoryLimit": given.memory_limit,
    }


def _platform(executors: list[str], pod: Pod) -> PlatformSpec:
    """Return what of a pod's settings holds for every step (kubernetes_platform, KubernetesExecutorConfig)."""
    config = kubernetes.KubernetesExecutorConfig(
        image_pull_policy=pod.pull_policy,
        image_pull_secret=[kubernetes.ImagePullSecret(secret_name=name) for name in pod.pull_secrets],
        tolerations=[_toleration(each) for each in pod.tolerations],
        secret_as_env=[_secret(variable, *place.split("/")) for variable, place in pod.secrets.items()],
        field_path_as_env=[kubernetes.FieldPathAsEnv(name=RUN_VARIABLE, field_path=RUN_FIELD)],
    )
    if pod.node_selector:
        config.node_selector.labels.update(pod.node_selector)
    if pod.labels:
        config.pod_metadata.labels.update(pod.labels)
    platform = PlatformSpec()
    of_each = platform.platforms["kubernetes"].deployment_spec.executors
    for name in executors:
        of_each[name].update(json_format.MessageToDict(config))
    return platform


def _toleration(values: Mapping[str, Any]) -> kubernetes.Toleration:
    try:
        return json_format.ParseDict(dict(values), kubernetes.Toleration())
    except json_format.ParseError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"pod.tolerations: must be as in a pod's spec ({reason}). Given: {dict(values)}") from None


def _secret(variable: str, name: str, key: str) -> kubernetes.SecretAsEnv:
    keys = [kubernetes.SecretAsEnv.SecretKeyToEnvMap(secret_key=key, env_var=variable)]
    return kubernetes.SecretAsEnv(secret_name=name, key_to_env=keys)
