"""The steps of the main pipeline, as Kubeflow sees them."""

from typing import NamedTuple

from kfp import dsl

from qcnn.components.resources import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def generate_data(
    qubits: int,
    rounds: int,
    data: str,
    encoding: str,
    seed: int,
    model: str,
    simulator: str,
    optimizer: str,
    hidden_units: int,
    hidden_activation: str,
    strategy: str,
    workers: int,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    options: dict,
    data_sha256: str,
    dataset: dsl.Output[dsl.Dataset],
    run: str = "",
) -> NamedTuple("Outputs", [("experiment", str)]):  # type: ignore[valid-type]
    """Refuse an experiment that cannot run; pass the checked one on, with its training, validation and test data."""
    from qcnn.components.steps.dataset import generate_data as make

    words = {
        "qubits": qubits,
        "rounds": rounds,
        "data": data,
        "encoding": encoding,
        "seed": seed,
        "model": model,
        "simulator": simulator,
        "optimizer": optimizer,
        "hidden_units": hidden_units,
        "hidden_activation": hidden_activation,
        "strategy": strategy,
        "workers": workers,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "options": options,
    }
    experiment, dataset.metadata = make(words, dataset.path, run, data_sha256)
    return (experiment,)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def trial_data(experiment: str, data_sha256: dict, dataset: dsl.Output[dsl.Dataset]) -> None:
    """Make the training, validation and test data of one trial."""
    from qcnn.components.steps.dataset import trial_data as run

    dataset.metadata = run(experiment, data_sha256, dataset.path)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def train(
    experiment: str,
    dataset: dsl.Input[dsl.Dataset],
    training: dsl.Output[dsl.Artifact],
    logs: dsl.Output[dsl.Artifact],
    trial: bool = False,
) -> None:
    """Train the network on `workers` processes; keep checkpoints, the losses of every epoch and TensorBoard logs.

    Where a trial's training fails, `training` holds the reason, and the step ends well.
    """
    from qcnn.components.steps.train_local import train as run

    training.metadata = logs.metadata = run(experiment, dataset.path, training.path, logs.path, trial=trial)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def export_weights(training: dsl.Input[dsl.Artifact], model: dsl.Output[dsl.Model]) -> None:
    """Export the last checkpoint: weights, description, and a SavedModel that any TensorFlow Serving loads."""
    from qcnn.components.steps.evaluate import export_weights as run

    model.metadata = run(training.path, model.path)


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
    from qcnn.components.steps.evaluate import LABELS, save_confusion, summarize
    from qcnn.components.steps.evaluate import evaluate as run

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


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def tensorboard(logs: dsl.Input[dsl.Artifact], address: str, link: dsl.Output[dsl.Markdown]) -> None:
    """Write the address of the logs, of a TensorBoard that shows them, and the exact command as Markdown."""
    from qcnn.components.steps.tensorboard import tensorboard as run

    link.metadata = run(logs.uri, logs.metadata, address, link.path)
