"""Step 4: measure the inference error."""

from kfp import dsl

from qcnn.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def evaluate(
    model: dsl.Input[dsl.Model],
    dataset: dsl.Input[dsl.Dataset],
    training: dsl.Input[dsl.Artifact],
    metrics: dsl.Output[dsl.Metrics],
    predictions: dsl.Output[dsl.Artifact],
    confusion: dsl.Output[dsl.ClassificationMetrics],
    report: dsl.Output[dsl.HTML],
    summary: dsl.Output[dsl.Markdown],
) -> None:
    """Predict the held-out test split with the exported weights; publish its error and a report of the run."""
    from qcnn.components.evaluate.step import LABELS, save_confusion, summarize
    from qcnn.components.evaluate.step import evaluate as run

    # What opens a file looks at its name.
    report.path, summary.path = f"{report.path}.html", f"{summary.path}.md"
    folders = (model.path, dataset.path, training.path, predictions.path)
    measured, matrix, predictions.metadata = run(*folders, metrics.path, report.path)
    report.metadata = predictions.metadata
    if matrix:
        confusion.log_confusion_matrix(list(LABELS), matrix)
    save_confusion(matrix, confusion.path)
    artifacts = {"model": model, "dataset": dataset, "training": training, "predictions": predictions, "report": report}
    summarize(measured, {name: artifact.uri for name, artifact in artifacts.items()}, summary.path)
    summary.metadata = predictions.metadata
    for name, value in measured.items():
        metrics.log_metric(name, value)
