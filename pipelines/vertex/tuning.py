"""The study whose trials the tuner of Vertex AI chooses, one after those before."""

import json
from typing import NamedTuple

from kfp import dsl
from kfp.dsl.base_component import BaseComponent

from qcnn.components.evaluate.component import evaluate
from qcnn.components.export_weights.component import export_weights
from qcnn.components.plan_tuning.component import plan_tuning
from qcnn.components.tensorboard.component import tensorboard
from qcnn.components.trial_data.component import trial_data
from qcnn.components.tune.component import tune
from qcnn.jobs.pod import Pod
from qcnn.jobs.vertex.machines import check_machines
from qcnn.jobs.vertex.settings import vertex_settings
from qcnn.pipelines.vertex.training import LOCATION, PROJECT


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


def tuned_study(pod: Pod, parallelism: int, stopping: str) -> BaseComponent:
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
    ) -> TuningOutputs:
        """Let the tuner of Vertex AI search an experiment's words; evaluate the trial with the lowest validation loss.

        Args:
            experiment: Words that all trials share, as in an experiment's file; what is left out has its default.
            grid: Values by word, such as {"model": ["hybrid", "deep"]}.
            ranges: Numbers by word, as [low, high] or [low, high, "log"].
            random: Trials that the tuner may choose.
        """
        search = {"experiment": experiment, "grid": grid, "ranges": ranges, "random": random}
        planned = plan_tuning(**search).set_display_name("Plan study")

        data = trial_data(experiment=planned.output).set_display_name("Trial data")

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
