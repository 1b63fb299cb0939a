"""The study pipeline: trials of one experiment with other words side by side, the best one evaluated."""

from typing import NamedTuple

from kfp import dsl
from kfp.dsl.base_component import BaseComponent

from qcnn.components.definitions.pipeline import trial_data
from qcnn.components.definitions.study import plan_study, select_best
from qcnn.pipelines.parts import TrainStep, train_here
from qcnn.studies.trials import PARALLELISM


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


def _steps(experiment: str, data_sha256: dict, train: TrainStep) -> TrialOutputs:
    """Add the steps of one trial to the pipeline that is being made."""
    data = trial_data(
        experiment=experiment,
        data_sha256=data_sha256,
    ).set_display_name("Trial data")

    trained = train(
        experiment=experiment,
        dataset=data.outputs["dataset"],
        trial=True,
    ).set_display_name("Train")

    return TrialOutputs(data.outputs["dataset"], trained.outputs["training"], trained.outputs["logs"])


def study(parallelism: int = PARALLELISM, train: TrainStep = train_here) -> BaseComponent:
    """Return the pipeline of a study with so many trials at the same time, each trained by this step."""

    @dsl.pipeline(name="qcnn-study", display_name="Study of quantum convolutional networks")
    def pipeline(
        experiment: dict = {},  # noqa: B006 - a constant that Kubeflow compiles
        grid: dict = {},  # noqa: B006
        ranges: dict = {},  # noqa: B006
        random: int = 0,
        data_sha256: dict = {},  # noqa: B006
    ) -> StudyOutputs:
        """Search an experiment's words on a grid or at random; evaluate the trial with the lowest validation loss.

        Args:
            experiment: Words that all trials share, as in an experiment's file; what is left out has its default.
            grid: Values by word, such as {"model": ["hybrid", "deep"]}.
            ranges: Numbers by word, as [low, high] or [low, high, "log"]; they need `random`.
            random: Trials to draw from values and ranges; 0 takes every combination of the values.
            data_sha256: SHA-256 of each file that trials read, as sha256sum prints it, by the file's address.
        """
        planned = plan_study(
            experiment=experiment,
            grid=grid,
            ranges=ranges,
            random=random,
            data_sha256=data_sha256,
        ).set_display_name("Plan study")

        with dsl.ParallelFor(planned.output, name="Trials", parallelism=parallelism) as each:
            outputs = _steps(each, data_sha256, train)

        chosen = select_best(
            datasets=dsl.Collected(outputs.dataset),
            trainings=dsl.Collected(outputs.training),
        ).set_display_name("Select best")

        return StudyOutputs(*(chosen.outputs[name] for name in StudyOutputs._fields))

    return pipeline
