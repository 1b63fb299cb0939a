"""The study pipeline: trials of one experiment with other words side by side, the best one evaluated."""

from typing import NamedTuple

from kfp import dsl
from kfp.dsl.base_component import BaseComponent
from kfp.dsl.pipeline_channel import PipelineChannel

from qcnn.components.definitions.own_data import trial_data as trial_of_file
from qcnn.components.definitions.pipeline import trial_data
from qcnn.components.definitions.study import plan_study, select_best
from qcnn.pipelines.parts import TrainStep, imported, train_here
from qcnn.studies.search import PARALLELISM


class TrialOutputs(NamedTuple):
    """What a trial leaves."""

    dataset: dsl.Dataset
    training: dsl.Artifact
    logs: dsl.Artifact


class StudyOutputs(NamedTuple):
    """What a study leaves."""

    results: dsl.Artifact
    table: dsl.HTML
    model: dsl.Model
    metrics: dsl.Metrics
    predictions: dsl.Artifact
    report: dsl.HTML


def _steps(experiment: str, train: TrainStep, file: PipelineChannel | None = None) -> TrialOutputs:
    """Add the steps of one trial to the pipeline that is being made, with the file that was imported, if any."""
    data = (
        trial_of_file(experiment=experiment, file=file).set_caching_options(False)
        if file
        else trial_data(experiment=experiment)
    ).set_display_name("Trial data")

    trained = train(
        experiment=experiment,
        dataset=data.outputs["dataset"],
        trial=True,
    ).set_display_name("Train")

    return TrialOutputs(data.outputs["dataset"], trained.outputs["training"], trained.outputs["logs"])


def study(parallelism: int = PARALLELISM, train: TrainStep = train_here, *, data: str = "") -> BaseComponent:
    """Return the pipeline of a study with so many trials at the same time, each trained by this step.

    The file at the address `data`, which the experiment names too, is imported.
    """

    @dsl.pipeline(name="qcnn-study", display_name="Study of quantum convolutional networks")
    def pipeline(
        experiment: dict = {},  # noqa: B006 - a constant that Kubeflow compiles
        grid: dict = {},  # noqa: B006
        ranges: dict = {},  # noqa: B006
        random: int = 0,
    ) -> StudyOutputs:
        """Search an experiment's words on a grid or at random; evaluate the trial with the lowest validation loss.

        Args:
            experiment: Words that all trials share, as in an experiment's file; what is left out has its default.
            grid: Values by word, such as {"model": ["hybrid", "deep"]}.
            ranges: Numbers by word, as [low, high] or [low, high, "log"]; they need `random`.
            random: Trials to draw from values and ranges; 0 takes every combination of the values.
        """
        planned = plan_study(
            experiment=experiment,
            grid=grid,
            ranges=ranges,
            random=random,
        ).set_display_name("Plan study")

        file = imported(data) if data else None
        with dsl.ParallelFor(planned.output, name="Trials", parallelism=parallelism) as each:
            outputs = _steps(each, train, file)

        chosen = select_best(
            datasets=dsl.Collected(outputs.dataset),
            trainings=dsl.Collected(outputs.training),
        ).set_display_name("Select best")

        return StudyOutputs(*(chosen.outputs[name] for name in StudyOutputs._fields))

    return pipeline
