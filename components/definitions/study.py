"""The steps of a study, as Kubeflow sees them."""

from typing import List  # noqa: UP035 - Kubeflow reads this one

from kfp import dsl

from qcnn.components.resources import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def plan_study(experiment: dict, grid: dict, ranges: dict, random: int, data_sha256: dict) -> List[str]:  # noqa: UP006
    """Refuse a study with a trial that cannot run; pass on the experiment of each trial."""
    from qcnn.components.steps.study import plan_study as run

    return run(experiment, grid, ranges, random, data_sha256)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def plan_tuning(experiment: dict, grid: dict, ranges: dict, random: int, data_sha256: dict) -> str:
    """Refuse a search with a trial that cannot run, or with trials of other data; pass on the experiment of one."""
    from qcnn.components.steps.study import plan_tuning as run

    return run(experiment, grid, ranges, random, data_sha256)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def select_best(
    datasets: dsl.Input[List[dsl.Dataset]],  # noqa: UP006
    trainings: dsl.Input[List[dsl.Artifact]],  # noqa: UP006
    results: dsl.Output[dsl.Artifact],
    table: dsl.Output[dsl.HTML],
    model: dsl.Output[dsl.Model],
    metrics: dsl.Output[dsl.Metrics],
    predictions: dsl.Output[dsl.Artifact],
    report: dsl.Output[dsl.HTML],
) -> None:
    """Tabulate all trials; export the one with the lowest validation loss and evaluate it on its test split."""
    from qcnn.components.steps.evaluate import evaluate, export_weights
    from qcnn.components.steps.study import select_best as run

    # What opens a file looks at its name.
    results.path, table.path, report.path = f"{results.path}.csv", f"{table.path}.html", f"{report.path}.html"
    best = run([training.path for training in trainings], results.path, table.path)
    training, dataset = trainings[best].path, datasets[best].path
    model.metadata = export_weights(training, model.path)
    folders = (model.path, dataset, training, predictions.path)
    measured, _, predictions.metadata = evaluate(*folders, metrics.path, report.path)
    results.metadata = table.metadata = {"trials": len(trainings), "best": best}
    report.metadata = predictions.metadata
    for name, value in measured.items():
        metrics.log_metric(name, value)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def tune(
    experiment: dict,
    grid: dict,
    ranges: dict,
    random: int,
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
    """Train so many trials as processes of a tuning job; tabulate them, and pass on the best one's training."""
    from qcnn.components.steps.tune import tune as run

    # What opens a file looks at its name.
    results.path, table.path = f"{results.path}.csv", f"{table.path}.html"
    search = {"grid": grid, "range": ranges, "random": random}
    place = (project, location)
    found = run(
        experiment, search, (parallelism, stopping), pod, place, dataset.uri, training.uri, (results.path, table.path)
    )
    # Nothing is copied: the artifacts are where the trial has written them.
    training.uri, logs.uri, training.metadata, results.metadata = found
    logs.metadata, table.metadata = training.metadata, results.metadata
