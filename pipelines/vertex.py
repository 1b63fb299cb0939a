"""Vertex AI Pipelines as a pipeline target: training as a custom job, tuning, resources of the steps."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from kfp import dsl
from kfp.dsl.base_component import BaseComponent
from kfp.dsl.pipeline_channel import PipelineChannel
from kfp.dsl.pipeline_task import PipelineTask

from qcnn.components.definitions.pipeline import evaluate, export_weights, tensorboard, trial_data
from qcnn.components.definitions.study import plan_tuning, tune
from qcnn.components.definitions.vertex import train
from qcnn.components.resources import StepResources, is_pinned
from qcnn.jobs.pod_settings import PodSettings, parse_quantity
from qcnn.jobs.vertex.machines import check_machines, vertex_settings
from qcnn.monitoring.validation_metrics import VAL_LOSS
from qcnn.pipelines.compiler import PipelineTarget
from qcnn.pipelines.parts import TrainStep

# Placeholders that Vertex AI replaces with the project and location of the run (google_cloud_pipeline_components
# 2.22.0, _placeholders.py).
PROJECT = "{{$.pipeline_google_cloud_project_id}}"
LOCATION = "{{$.pipeline_google_cloud_location}}"


def train_as_custom_job(pod: PodSettings) -> TrainStep:
    """Return a train step that trains as a custom job with these settings of its processes.

    As on Kubernetes, the step is cached only if the image is pinned and it is not a trial.

    Raises:
        ConfigError: If a setting is not valid on Vertex AI.
    """
    check_machines(pod, vertex_settings(pod).machine_type)
    settings = json.dumps(pod.model_dump())

    def step(*, experiment: PipelineChannel | str, dataset: PipelineChannel, trial: bool = False) -> PipelineTask:
        task = train(
            experiment=experiment, pod=settings, project=PROJECT, location=LOCATION, dataset=dataset, trial=trial
        )
        return task.set_caching_options(is_pinned(pod.image) and not trial)

    return step


class TuningOutputs(NamedTuple):
    """Artifacts of a tuned study, named as those of a study and of the main pipeline."""

    results: dsl.Artifact
    table: dsl.HTML
    training: dsl.Artifact
    logs: dsl.Artifact
    model: dsl.Model
    metrics: dsl.Metrics
    confusion: dsl.ClassificationMetrics
    predictions: dsl.Artifact
    report: dsl.HTML
    summary: dsl.Markdown
    tensorboard: dsl.Markdown


def tuned_study(pod: PodSettings, parallelism: int, stopping: str) -> BaseComponent:
    """Create the pipeline of a study whose trials Vertex AI's tuner selects.

    Args:
        pod: Settings of the training processes.
        parallelism: Maximum number of parallel trials.
        stopping: Early-stopping rule of the tuner.

    Raises:
        ConfigError: If a setting is not valid on Vertex AI.
    """
    check_machines(pod, vertex_settings(pod).machine_type)
    settings = json.dumps(pod.model_dump())

    @dsl.pipeline(name="qcnn-tuning", display_name="Quantum convolutional network: Vertex AI hyperparameter tuning")
    def pipeline(
        experiment: dict = {},  # noqa: B006 - a constant for the KFP compiler
        grid: dict = {},  # noqa: B006
        ranges: dict = {},  # noqa: B006
        random: int = 0,
        metric: str = VAL_LOSS,
        data_sha256: dict = {},  # noqa: B006
    ) -> TuningOutputs:
        """Run a search with Vertex AI's tuner and evaluate the best trial.

        Args:
            experiment: Fields that all trials share, as in an experiment file. Missing fields have their defaults.
            grid: Values by field, such as {"model": ["hybrid", "deep"]}.
            ranges: Numeric ranges by field, as [low, high] or [low, high, "log"].
            random: Number of trials.
            metric: Metric of the validation split that the tuner optimizes, and that selects the best trial: val_loss
                (lowest) or val_accuracy (highest).
            data_sha256: SHA-256 of the data file of the trials, as printed by sha256sum, by URI.
        """
        search = {"experiment": experiment, "grid": grid, "ranges": ranges, "random": random, "metric": metric}
        planned = plan_tuning(**search, data_sha256=data_sha256).set_display_name("Plan study")

        data = trial_data(experiment=planned.output, data_sha256=data_sha256).set_display_name("Trial data")

        trained = (
            tune(
                **search,
                parallelism=parallelism,
                stopping=stopping,
                pod=settings,
                project=PROJECT,
                location=LOCATION,
                dataset=data.outputs["dataset"],
            )
            .set_display_name("Tune")
            .set_caching_options(False)
        )

        link = tensorboard(logs=trained.outputs["logs"], address="").set_display_name("TensorBoard")

        exported = export_weights(training=trained.outputs["training"]).set_display_name("Export weights")

        evaluated = evaluate(
            model=exported.outputs["model"],
            dataset=data.outputs["dataset"],
            training=trained.outputs["training"],
        ).set_display_name("Evaluate")

        return TuningOutputs(
            results=trained.outputs["results"],
            table=trained.outputs["table"],
            training=trained.outputs["training"],
            logs=trained.outputs["logs"],
            model=exported.outputs["model"],
            metrics=evaluated.outputs["metrics"],
            confusion=evaluated.outputs["confusion"],
            predictions=evaluated.outputs["predictions"],
            report=evaluated.outputs["report"],
            summary=evaluated.outputs["summary"],
            tensorboard=link.outputs["link"],
        )

    return pipeline


_GIGABYTE = 1e9
# The command with which the KFP compiler (2.17, component_factory.py) starts a step from a shell.
_SHELL_COMMAND = "_KFP_RUNTIME=true python3 "
_EXEC_COMMAND = "_KFP_RUNTIME=true exec python3 "


def _limits(resources: StepResources) -> dict[str, Any]:
    """Return the resources of a step as a ResourceSpec of a compiled pipeline.

    Vertex AI selects a machine by limits only, including CPU (cloud.google.com/vertex-ai/docs/pipelines/machine-types).
    As with the KFP compiler (pipeline_spec_builder.py), each limit is given as a string and as a number.
    """
    return {
        "resourceCpuLimit": resources.cpu,
        "cpuLimit": parse_quantity(resources.cpu),
        "resourceMemoryLimit": resources.memory_limit,
        "memoryLimit": parse_quantity(resources.memory_limit) / _GIGABYTE,
    }


def _replace_shell(command: Sequence[str]) -> list[str]:
    """Return the command of a step with `exec`, so that the step's process receives SIGTERM.

    When a run is cancelled, only the first process of a container receives SIGTERM. A shell does not forward it, so
    training would continue.
    """
    return [argument.replace(_SHELL_COMMAND, _EXEC_COMMAND) for argument in command]


VERTEX = PipelineTarget(
    train=train_as_custom_job,
    # The tag of a local build is not in a registry.
    image="",
    resources=_limits,
    command=_replace_shell,
    tuner=tuned_study,
)
