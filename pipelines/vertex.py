"""What is Vertex AI's own of a pipeline: how it trains and tunes, and which machines its steps get."""

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
from qcnn.jobs.pod_settings import PodSettings, amount
from qcnn.jobs.vertex.machines import check_machines, vertex_settings
from qcnn.pipelines.compiler import PipelineTarget
from qcnn.pipelines.parts import TrainStep

# Vertex AI puts the run's own in their places, as for Google's components (google_cloud_pipeline_components 2.22.0,
# _placeholders.py).
PROJECT = "{{$.pipeline_google_cloud_project_id}}"
LOCATION = "{{$.pipeline_google_cloud_location}}"


def train_as_custom_job(pod: PodSettings) -> TrainStep:
    """Return the step that trains as a custom job whose processes have these settings.

    What is cached is as where training is a TFJob: its result if the image is pinned, and never a trial.

    Raises:
        ConfigError: Vertex AI could not train with these settings.
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
    """What it leaves; the names are those of a study, and of the main pipeline."""

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
    """Return the pipeline, with so many trials at the same time, which a rule of Vertex AI may end early.

    Raises:
        ConfigError: Vertex AI could not train with these settings of processes.
    """
    check_machines(pod, vertex_settings(pod).machine_type)
    settings = json.dumps(pod.model_dump())

    @dsl.pipeline(name="qcnn-tuning", display_name="Study whose trials a tuner chooses")
    def pipeline(
        experiment: dict = {},  # noqa: B006 - a constant that Kubeflow compiles
        grid: dict = {},  # noqa: B006
        ranges: dict = {},  # noqa: B006
        random: int = 0,
        data_sha256: dict = {},  # noqa: B006
    ) -> TuningOutputs:
        """Let the tuner of Vertex AI search an experiment's words; evaluate the trial with the lowest validation loss.

        Args:
            experiment: Words that all trials share, as in an experiment's file; what is left out has its default.
            grid: Values by word, such as {"model": ["hybrid", "deep"]}.
            ranges: Numbers by word, as [low, high] or [low, high, "log"].
            random: Trials that the tuner may choose.
            data_sha256: SHA-256 of the file that trials read, as sha256sum prints it, by the file's address.
        """
        search = {"experiment": experiment, "grid": grid, "ranges": ranges, "random": random}
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
# How Kubeflow's compiler (2.13, component_factory.py) has a shell start a step.
_STARTED_BY_SHELL = "_KFP_RUNTIME=true python3 "
_IN_PLACE_OF_SHELL = "_KFP_RUNTIME=true exec python3 "


def _machine(given: StepResources) -> dict[str, Any]:
    """Return what a step is given in the words of a compiled pipeline (ResourceSpec).

    Vertex AI chooses a machine by limits alone, of CPU too (cloud.google.com/vertex-ai/docs/pipelines/machine-types).
    Numbers stand beside the texts as Kubeflow's compiler writes them (pipeline_spec_builder.py), for readers of either.
    """
    return {
        "resourceCpuLimit": given.cpu,
        "cpuLimit": amount(given.cpu),
        "resourceMemoryLimit": given.memory_limit,
        "memoryLimit": amount(given.memory_limit) / _GIGABYTE,
    }


def _told_to_end(command: Sequence[str]) -> list[str]:
    """Return the command of a step whose process takes the place of the shell that starts it.

    When a run is cancelled, SIGTERM goes to the first process of a container alone, and a shell does not pass it on:
    training would go on.
    """
    return [word.replace(_STARTED_BY_SHELL, _IN_PLACE_OF_SHELL) for word in command]


VERTEX = PipelineTarget(
    train=train_as_custom_job,
    # The name that a local build gives an image is that of no registry.
    image="",
    resources=_machine,
    command=_told_to_end,
    tuner=tuned_study,
)
