"""Compiles pipelines for a target: retries, images and resources of every step."""

import dataclasses
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
from qcnn.studies.trials import PARALLELISM


def critical_path(spec: PipelineSpec) -> tuple[str, ...]:
    """Return the names of the longest chain of steps; of a loop, those of one iteration."""

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


# The backend decides after which kinds of failure a step is tried again. Backend 2.17 has Argo retry a step whose pod
# is gone, but no step that ends with an error; Argo's own default is the reverse.
_RETRIES = 2
# The first step refuses an experiment that cannot run, and every retry delays that message.
_RETRIES_OF_FIRST = 1
# A step that trains for days loses its pod more often than others. It goes on from where it was, and does not repeat a
# training that failed by its own fault.
_RETRIES_OF_TRAINING = 5
_TRAINING = "train"
_WAIT_SECONDS, _FACTOR = 10, 1.0
# Counted from the start of the first try; Argo ends a later try that exceeds it (operator.go, processNodeRetries).
# Kubeflow's SDK caps it at an hour, which would end longer trainings. Vertex AI documents it as the longest wait
# between two tries ("Configure retries for a pipeline task"), pipeline_spec.proto as the time in which a task is tried
# again: by both, a long time is right.
_WITHIN_SECONDS = 365 * 86400


def with_retries(spec: PipelineSpec) -> None:
    """Have every step of a compiled pipeline tried again, also those in its loops."""
    for component in (spec.root, *spec.components.values()):
        for name, task in component.dag.tasks.items():
            if spec.components[task.component_ref.name].executor_label:
                is_first = component is spec.root and not task.dependent_tasks
                usual = _RETRIES_OF_FIRST if is_first else _RETRIES
                task.retry_policy.CopyFrom(_policy(_RETRIES_OF_TRAINING if name == _TRAINING else usual))


def _policy(retries: int) -> PipelineTaskSpec.RetryPolicy:
    policy = PipelineTaskSpec.RetryPolicy(max_retry_count=retries, backoff_factor=_FACTOR)
    policy.backoff_duration.seconds = _WAIT_SECONDS
    policy.backoff_max_duration.seconds = _WITHIN_SECONDS
    return policy


# The compiler calls a step's executor so, followed by the name of the step.
_EXECUTOR = "exec-"


def requests_and_limits(given: StepResources) -> dict[str, Any]:
    """Return what a step is given in the words of a compiled pipeline (ResourceSpec); CPU has no limit."""
    return {
        "resourceCpuRequest": given.cpu,
        "resourceMemoryRequest": given.memory,
        "resourceMemoryLimit": given.memory_limit,
    }


@dataclasses.dataclass(frozen=True)
class PipelineTarget:
    """What tells the pipelines of one target from those of another.

    `image` is that of every step where none is named; empty where one must be. `train` makes the step that trains, from
    the settings of the training's pods; `pod_defaults` are those settings of
    which the target has a default of its own. `platform` makes the second document of a compiled file, from the names
    of its executors and those settings; None where the target takes no such document. `resources` says what a step is
    given in the words of a compiled pipeline, `command` how its container starts, from what the compiler wrote. `tuner`
    makes the study whose trials the platform's own tuner chooses, from those settings, how many trials are trained at
    the same time, and the rule by which one is ended early; None where it has none.
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
    seeded_by_run: bool = False,
) -> PipelineSpec:
    """Write the main pipeline, every step in `image`, and return it.

    Without an image that of the settings counts, then the target's.

    `settings` (see qcnn.jobs.pod_settings.PodSettings) are those of the training pods. Their pull policy, node
    selection and environment apply to all steps; the resources of the steps themselves are in `steps` (see
    qcnn.components.resources). `defaults` are those of the pipeline parameters. With `per_run_seed`, each run has its
    own seed.

    Raises:
        ConfigError: a setting is wrong.
    """
    pod, resources = _read(target, image, settings)
    pipeline = qcnn(target.train(pod), viewer, seeded_by_run=seeded_by_run)
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
    """Write and return the study, so many trials at the same time; all else as `compile_qcnn`.

    Raises:
        ConfigError: a setting is wrong.
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
    """Write and return the study of a target's own tuner; all else as `compile_study`.

    Raises:
        ConfigError: a setting is wrong, or the target has no tuner.
    """
    if target.tuner is None:
        raise ConfigError("tuner: the target has none. Given: a study by a tuner")
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
    """Write and return a compiled pipeline, every step in a pod's image, and with what of its settings holds for all.

    Each step is given its `resources`, and tried again. `defaults` stand for those of the pipeline's parameters.
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
    return spec


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
