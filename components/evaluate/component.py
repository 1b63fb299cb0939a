"""Step 4: measure the inference error."""

from kfp import dsl

from components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def evaluate(
    model: dsl.Input[dsl.Model],
    dataset: dsl.Input[dsl.Dataset],
    metrics: dsl.Output[dsl.Metrics],
    predictions: dsl.Output[dsl.Artifact],
) -> None:
    """Predict the held-out test split with the exported weights; publish mean squared error and accuracy."""
    from components.evaluate.step import evaluate as run

    for name, value in run(model.path, dataset.path, predictions.path, metrics.path).items():
        metrics.log_metric(name, value)
