"""Step 4: measure the inference error."""

from kfp import dsl

from components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def evaluate(
    model: dsl.Input[dsl.Model],
    dataset: dsl.Input[dsl.Dataset],
    training: dsl.Input[dsl.Artifact],
    metrics: dsl.Output[dsl.Metrics],
    predictions: dsl.Output[dsl.Artifact],
    report: dsl.Output[dsl.HTML],
) -> None:
    """Predict the held-out test split with the exported weights; publish its error and a report of the run."""
    from components.evaluate.step import evaluate as run

    # What opens a file looks at its name.
    report.path = f"{report.path}.html"
    folders = (model.path, dataset.path, training.path, predictions.path)
    measured, predictions.metadata = run(*folders, metrics.path, report.path)
    report.metadata = predictions.metadata
    for name, value in measured.items():
        metrics.log_metric(name, value)
