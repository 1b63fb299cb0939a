"""KFP components of a study."""

from typing import List  # noqa: UP035 - KFP supports typing.List only

from kfp import dsl

from qcnn.components.resources import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def plan_study(
    experiment: dict,
    grid: dict,
    ranges: dict,
    random: int,
    metric: str,
    rows: list,
    repeat: int,
    data_sha256: dict,
) -> List[str]:  # noqa: UP006
    """Validate a study and output the experiment of each trial.

    Args:
        experiment: Fields that all trials share.
        grid: Values by field.
        ranges: Numeric ranges by field.
        random: Number of random trials. 0: all combinations of the grid.
        metric: Metric that selects the best trial.
        rows: Rows instead of grid and ranges, each with fields of the experiment.
        repeat: Number of seeds of each row or combination. 0: a different seed for each combination.
        data_sha256: SHA-256 of each data file of the study, by URI.
    """
    from qcnn.components.steps.study import plan_study as run
    from qcnn.process.error_lines import one_line_errors

    with one_line_errors():
        return run(experiment, grid, ranges, random, data_sha256, metric, rows, repeat)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def plan_tuning(experiment: dict, grid: dict, ranges: dict, random: int, metric: str, data_sha256: dict) -> str:
    """Validate a search whose trials share their data, and output the experiment of one trial.

    Args:
        experiment: Fields that all trials share.
        grid: Values by field.
        ranges: Numeric ranges by field.
        random: Number of trials.
        metric: Metric that selects the best trial.
        data_sha256: SHA-256 of the data file, by URI.
    """
    from qcnn.components.steps.study import plan_tuning as run
    from qcnn.process.error_lines import one_line_errors

    with one_line_errors():
        return run(experiment, grid, ranges, random, data_sha256, metric)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def select_best(
    datasets: dsl.Input[List[dsl.Dataset]],  # noqa: UP006
    trainings: dsl.Input[List[dsl.Artifact]],  # noqa: UP006
    metric: str,
    rows: list,
    repeat: int,
    results: dsl.Output[dsl.Artifact],
    table: dsl.Output[dsl.HTML],
    model: dsl.Output[dsl.Model],
    metrics: dsl.Output[dsl.Metrics],
    predictions: dsl.Output[dsl.Artifact],
    report: dsl.Output[dsl.HTML],
) -> None:
    """Tabulate all trials, then export and evaluate the best.

    Args:
        datasets: Training, validation and test data of each trial.
        trainings: Checkpoints and history of each trial.
        metric: Metric of the validation split that selects the best trial.
        rows: Rows that the trials repeat, or empty.
        repeat: Number of seeds of each row, or 0.
        results: Table of all trials (CSV).
        table: Table of all trials (HTML).
        model: Exported model of the best trial.
        metrics: Metrics of the best trial on its test split.
        predictions: Predictions for the test split (CSV), and results of classical models (JSON) if they are fitted.
        report: Report of the best trial.
    """
    from qcnn.components.steps.evaluate import evaluate, export_weights
    from qcnn.components.steps.study import select_best as run
    from qcnn.components.steps.study import track_trials
    from qcnn.process.error_lines import one_line_errors
    from qcnn.studies.rows import parse_rows, repeated_rows

    with one_line_errors():
        # Programs select the viewer by file extension.
        results.path, table.path, report.path = f"{results.path}.csv", f"{table.path}.html", f"{report.path}.html"
        folders = [training.path for training in trainings], [dataset.path for dataset in datasets]
        repeated = repeated_rows(parse_rows(rows), repeat, len(trainings))
        best, trials = run(folders[0], results.path, table.path, report.uri, metric, repeated, folders[1])
        training, dataset = trainings[best].path, datasets[best].path
        model.metadata = export_weights(training, model.path)
        evaluated = (model.path, dataset, training, predictions.path)
        # The folder of predictions has the results of classical models, too.
        measured, _, predictions.metadata = evaluate(*evaluated, metrics.path, report.path, predictions.path)
        results.metadata = table.metadata = {"trials": len(trainings), "best": best}
        report.metadata = predictions.metadata
        uris = {"model": model.uri, "predictions": predictions.uri, "report": report.uri, "results": results.uri}
        track_trials(folders[0], trials, model.path, measured, uris)
        for name, value in measured.items():
            metrics.log_metric(name, value)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def tune(
    experiment: dict,
    grid: dict,
    ranges: dict,
    random: int,
    metric: str,
    parallelism: int,
    stopping: str,
    pod: str,
    project: str,
    location: str,
    dataset: dsl.Input[dsl.Dataset],
    training: dsl.Output[dsl.Artifact],
    logs: dsl.Output[dsl.Artifact],
    results: dsl.Output[dsl.Artifact],
    table: dsl.Output[dsl.HTML],
) -> None:
    """Run a search as a Vertex AI hyperparameter tuning job and tabulate its trials.

    Args:
        experiment: Fields that all trials share.
        grid: Values by field.
        ranges: Numeric ranges by field.
        random: Number of trials.
        metric: Metric that the tuner optimizes, and that selects the best trial.
        parallelism: Maximum number of parallel trials.
        stopping: Early-stopping rule of the tuner.
        pod: Settings of the job's processes as JSON.
        project: Google Cloud project of the run.
        location: Vertex AI location of the run.
        dataset: Training, validation and test data.
        training: Checkpoints and history of the best trial.
        logs: TensorBoard logs of the best trial.
        results: Table of all trials (CSV).
        table: Table of all trials (HTML).
    """
    from qcnn.components.steps.tune import tune as run
    from qcnn.process.error_lines import one_line_errors

    with one_line_errors():
        # Programs select the viewer by file extension.
        results.path, table.path = f"{results.path}.csv", f"{table.path}.html"
        search = {"grid": grid, "range": ranges, "random": random}
        place = (project, location)
        outputs = run(
            experiment,
            search,
            (parallelism, stopping),
            pod,
            place,
            dataset.uri,
            training.uri,
            (results.path, table.path),
            metric,
        )
        # The artifacts are the folders of the trial's outputs, so nothing is copied.
        training.uri, logs.uri, training.metadata, results.metadata = outputs
        logs.metadata, table.metadata = training.metadata, results.metadata
