"""Compiler of pipelines for a target: retries, images and resources of every step."""

import ast
import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kfp import compiler
from kfp.dsl.base_component import BaseComponent
from kfp.pipeline_spec.pipeline_spec_pb2 import DagSpec, PipelineSpec, PipelineTaskSpec, PlatformSpec

from qcnn.components.resources import IMAGE, KEY, StepResources, step_resources
from qcnn.errors import ConfigError
from qcnn.jobs.pod_settings import PodSettings, pod_settings
from qcnn.jobs.vertex.machines import DEFAULT
from qcnn.pipelines.parts import TensorBoardLink, TrainStep
from qcnn.pipelines.qcnn import qcnn
from qcnn.pipelines.study import study
from qcnn.registry.registration_settings import RegistrationSettings
from qcnn.studies.trials import PARALLELISM


def critical_path(spec: PipelineSpec) -> tuple[str, ...]:
    """Return the step names of the longest chain, with one iteration of each loop."""

    def longest(dag: DagSpec) -> tuple[str, ...]:
        chains: dict[str, tuple[str, ...]] = {}

        def chain(name: str) -> tuple[str, ...]:
            if name not in chains:
                task = dag.tasks[name]
                component = spec.components[task.component_ref.name]
                before = max(map(chain, task.dependent_tasks), key=len, default=())
                chains[name] = (*before, *(longest(component.dag) if component.HasField("dag") else (name,)))
            return chains[name]

        return max(map(chain, dag.tasks), key=len, default=())

    return longest(spec.root.dag)


# KFP decides after which failures a step is retried. KFP 2.17 configures Argo to retry a step whose pod was deleted,
# but not a step that exits with an error. Argo's default is the reverse.
_RETRIES = 2
# The first step validates the experiment. Every retry delays its error message.
_RETRIES_OF_FIRST = 1
# A step that trains for days loses its pod more often than others. A retry resumes the training and does not repeat one
# that failed with a permanent error.
_RETRIES_OF_TRAINING = 5
_TRAINING = "train"
_WAIT_SECONDS, _FACTOR = 10, 1.0
# Counted from the start of the first attempt. Argo terminates a later attempt that exceeds it (operator.go,
# processNodeRetries). The KFP SDK limits it to an hour, which would terminate longer training steps. Vertex AI
# documents it as the maximum wait between two attempts ("Configure retries for a pipeline task"), pipeline_spec.proto
# as the time in which a task is retried. A long time is right for both.
_WITHIN_SECONDS = 365 * 86400


def with_retries(spec: PipelineSpec) -> None:
    """Add retry policies to every step of a compiled pipeline, including the steps in loops."""
    for component in (spec.root, *spec.components.values()):
        for name, task in component.dag.tasks.items():
            if spec.components[task.component_ref.name].executor_label:
                is_first = component is spec.root and not task.dependent_tasks
                retries = _RETRIES_OF_FIRST if is_first else _RETRIES
                task.retry_policy.CopyFrom(_policy(_RETRIES_OF_TRAINING if name == _TRAINING else retries))


def _policy(retries: int) -> PipelineTaskSpec.RetryPolicy:
    policy = PipelineTaskSpec.RetryPolicy(max_retry_count=retries, backoff_factor=_FACTOR)
    policy.backoff_duration.seconds = _WAIT_SECONDS
    policy.backoff_max_duration.seconds = _WITHIN_SECONDS
    return policy


# The KFP compiler names the executor of a step with this prefix and the name of the step.
_EXECUTOR = "exec-"


def requests_and_limits(resources: StepResources) -> dict[str, Any]:
    """Return the resources of a step as a ResourceSpec of a compiled pipeline, without a CPU limit."""
    return {
        "resourceCpuRequest": resources.cpu,
        "resourceMemoryRequest": resources.memory,
        "resourceMemoryLimit": resources.memory_limit,
    }


@dataclasses.dataclass(frozen=True)
class PipelineTarget:
    """Differences between the pipelines of targets.

    Attributes:
        train: Creates the train step from the settings of the training pods.
        image: Default image of the steps. Empty: the user must name one.
        pod_defaults: Settings of the training pods that differ from the general defaults.
        platform: Creates the platform document of a compiled file from the names of its executors and the pod settings.
            None: the file has no such document.
        resources: Converts the resources of a step to a ResourceSpec of a compiled pipeline.
        command: Converts the command of a step's container that the KFP compiler wrote.
        tuner: Creates the study of the platform's tuner from the pod settings, the maximum number of parallel trials
            and the early-stopping rule. None: the platform has no tuner.
    """

    train: Callable[[PodSettings], TrainStep]
    image: str = IMAGE
    pod_defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    platform: Callable[[Sequence[str], PodSettings], PlatformSpec] | None = None
    resources: Callable[[StepResources], dict[str, Any]] = requests_and_limits
    command: Callable[[Sequence[str]], list[str]] = list
    tuner: Callable[[PodSettings, int, str], BaseComponent] | None = None


def compile_qcnn(
    target: PipelineTarget,
    path: Path,
    image: str | None = None,
    settings: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    *,
    viewer: TensorBoardLink | None = None,
    registration: RegistrationSettings | None = None,
    per_run_seed: bool = False,
) -> PipelineSpec:
    """Compile the main pipeline to a file and return it.

    Args:
        target: Target of the pipeline.
        path: Path of the compiled file (YAML).
        image: Image of all steps. None: that of the settings, or else of the target.
        settings: Settings of the training pods (see qcnn.jobs.pod_settings.PodSettings). Pull policy, node selection
            and environment apply to all steps. The key `steps` has the resources of the steps (see
            qcnn.components.resources).
        defaults: Default values of the pipeline parameters.
        viewer: Link to a TensorBoard. None: only the command that opens one.
        registration: Registry in which the last step registers and promotes the model. None: there is no such step.
        per_run_seed: Whether each run gets a different seed.

    Raises:
        ConfigError: If a setting is not valid.
    """
    pod, resources = _read(target, image, settings)
    pipeline = qcnn(target.train(pod), viewer, registration, per_run_seed=per_run_seed)
    return _write(target, pipeline, path, pod, resources, defaults)


def compile_study(
    target: PipelineTarget,
    path: Path,
    image: str | None = None,
    settings: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    *,
    parallelism: int = PARALLELISM,
) -> PipelineSpec:
    """Compile the study pipeline to a file and return it.

    Args:
        target: Target of the pipeline.
        path: Path of the compiled file (YAML).
        image: Image of all steps. None: that of the settings, or else of the target.
        settings: Settings of the training pods and of the steps. See `compile_qcnn`.
        defaults: Default values of the pipeline parameters.
        parallelism: Maximum number of parallel trials.

    Raises:
        ConfigError: If a setting is not valid.
    """
    pod, resources = _read(target, image, settings)
    return _write(target, study(parallelism, target.train(pod)), path, pod, resources, defaults)


def compile_tuning(
    target: PipelineTarget,
    path: Path,
    image: str | None = None,
    settings: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    *,
    parallelism: int = PARALLELISM,
    stopping: str = DEFAULT,
) -> PipelineSpec:
    """Compile the study pipeline of a platform's tuner to a file and return it.

    Args:
        target: Target of the pipeline.
        path: Path of the compiled file (YAML).
        image: Image of all steps. None: that of the settings, or else of the target.
        settings: Settings of the training processes and of the steps. See `compile_qcnn`.
        defaults: Default values of the pipeline parameters.
        parallelism: Maximum number of parallel trials.
        stopping: Early-stopping rule of the tuner.

    Raises:
        ConfigError: If a setting is not valid, or the target has no tuner.
    """
    if target.tuner is None:
        raise ConfigError("tuner: the target has no tuner. Given: a study by a tuner")
    pod, resources = _read(target, image, settings)
    return _write(target, target.tuner(pod, parallelism, stopping), path, pod, resources, defaults)


def _write(
    target: PipelineTarget,
    pipeline: BaseComponent,
    path: Path,
    pod: PodSettings,
    resources: Mapping[str, StepResources],
    defaults: Mapping[str, Any] | None,
) -> PipelineSpec:
    """Compile a pipeline to a file and return it.

    All steps get the image and environment of the pod settings, their resources, and retries.

    Args:
        target: Target of the pipeline.
        pipeline: Pipeline to compile.
        path: Path of the compiled file (YAML).
        pod: Settings of the training pods.
        resources: Resources of each step.
        defaults: Default values of the pipeline parameters.
    """
    spec = type(pipeline.pipeline_spec)()
    spec.CopyFrom(pipeline.pipeline_spec)
    for name, value in (defaults or {}).items():
        default = compiler.pipeline_spec_builder.to_protobuf_value(value)
        spec.root.input_definitions.parameters[name].default_value.CopyFrom(default)
    executors = spec.deployment_spec["executors"]
    for name, executor in executors.items():
        executor["container"]["image"] = pod.image
        executor["container"]["env"] = [{"name": name, "value": value} for name, value in pod.variables.items()]
        executor["container"]["command"] = target.command(executor["container"]["command"])
        executor["container"]["resources"] = target.resources(resources[name.removeprefix(_EXECUTOR)])
    with_retries(spec)
    compiler.pipeline_spec_builder.write_pipeline_spec_to_file(
        pipeline_spec=spec,
        pipeline_description=pipeline.description,
        platform_spec=target.platform(list(executors), pod) if target.platform else PlatformSpec(),
        package_path=str(path),
    )
    path.write_text(_DEFAULT.sub(_sorted_default, path.read_text()))
    return spec


# Default value of a struct in the comments of a compiled file. Protobuf does not define the order of its keys.
_DEFAULT = re.compile(r"^(#    \w+: dict \[Default: )(\{.*\})\]$", re.MULTILINE)


def _sorted_default(match: re.Match[str]) -> str:
    return f"{match[1]}{dict(sorted(ast.literal_eval(match[2]).items()))}]"


def _read(
    target: PipelineTarget, image: str | None, settings: Mapping[str, Any] | None
) -> tuple[PodSettings, dict[str, StepResources]]:
    values = dict(settings or {})
    resources = step_resources(values.pop(KEY, None))
    if image is not None:
        values["image"] = image
    elif target.image:
        values.setdefault("image", target.image)
    return pod_settings({**target.pod_defaults, **values}), resources
