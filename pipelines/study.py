"""The study pipeline: a hyperparameter search whose best trial is evaluated."""

from typing import NamedTuple

from kfp import dsl
from kfp.dsl.base_component import BaseComponent

from qcnn.components.definitions.pipeline import trial_data
from qcnn.components.definitions.study import plan_study, select_best
from qcnn.monitoring.validation_metrics import VAL_LOSS
from qcnn.pipelines.parts import TrainStep, train_in_step
from qcnn.studies.trials import PARALLELISM


class TrialOutputs(NamedTuple):
    """Artifacts of a trial."""

    dataset: dsl.Dataset
    training: dsl.Artifact
    logs: dsl.Artifact


class StudyOutputs(NamedTuple):
    """Artifacts of a study."""

    results: dsl.Artifact
    table: dsl.HTML
    model: dsl.Model
    metrics: dsl.Metrics
    predictions: dsl.Artifact
    report: dsl.HTML


def _steps(experiment: str, data_sha256: dict, train: TrainStep) -> TrialOutputs:
    """Add the steps of one trial to the current pipeline."""
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


def study(parallelism: int = PARALLELISM, train: TrainStep = train_in_step) -> BaseComponent:
    """Create the study pipeline.

    Args:
        parallelism: Maximum number of parallel trials.
        train: Adds the train step of a trial.
    """

    @dsl.pipeline(name="qcnn-study", display_name="Quantum convolutional network: hyperparameter search")
    def pipeline(
        experiment: dict = {},  # noqa: B006 - a constant for the KFP compiler
        grid: dict = {},  # noqa: B006
        ranges: dict = {},  # noqa: B006
        random: int = 0,
        metric: str = VAL_LOSS,
        rows: list = [],  # noqa: B006
        repeat: int = 0,
        data_sha256: dict = {},  # noqa: B006
    ) -> StudyOutputs:
        """Run a grid or random search and evaluate the best trial.

        Args:
            experiment: Fields that all trials share, as in an experiment file. Missing fields have their defaults.
            grid: Values by field, such as {"model": ["hybrid", "deep"]}.
            ranges: Numeric ranges by field, as [low, high] or [low, high, "log"]. They require `random`.
            random: Number of trials to sample from grid and ranges. 0: all combinations of the grid.
            metric: Metric of the validation split that selects the best trial: val_loss (lowest) or val_accuracy
                (highest).
            rows: Rows instead of grid and ranges, each with fields of the experiment, and optionally `name`,
                `published` and `differences`.
            repeat: Number of seeds of each row or combination, whose trials are then evaluated. 0: a different seed for
                each combination.
            data_sha256: SHA-256 of each data file of the trials, as printed by sha256sum, by URI.
        """
        planned = plan_study(
            experiment=experiment,
            grid=grid,
            ranges=ranges,
            random=random,
            metric=metric,
            rows=rows,
            repeat=repeat,
            data_sha256=data_sha256,
        ).set_display_name("Plan study")

        with dsl.ParallelFor(planned.output, name="Trials", parallelism=parallelism) as each:
            outputs = _steps(each, data_sha256, train)

        chosen = select_best(
            datasets=dsl.Collected(outputs.dataset),
            trainings=dsl.Collected(outputs.training),
            metric=metric,
            rows=rows,
            repeat=repeat,
        ).set_display_name("Select best")

        return StudyOutputs(*(chosen.outputs[name] for name in StudyOutputs._fields))

    return pipeline
