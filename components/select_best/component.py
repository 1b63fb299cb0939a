"""The last step of a study: pick the best trial and evaluate it."""

from typing import List  # noqa: UP035 - Kubeflow reads this one

from kfp import dsl

from qcnn.components.image import IMAGE


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
    from qcnn.components.evaluate.step import evaluate
    from qcnn.components.export_weights.step import export_weights
    from qcnn.components.select_best.step import select_best as run

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
