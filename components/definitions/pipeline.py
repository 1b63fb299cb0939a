"""KFP components of the main pipeline."""

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
    """Validate the experiment and generate its training, validation and test data.

    The parameters up to `options` are fields of the experiment. `data_sha256` is the SHA-256 of the data file, or an
    empty string. `run` is the ID of a run of a schedule, which replaces the seed by one for this run; empty keeps the
    seed. The output `experiment` is the validated experiment as JSON.
    """
    from qcnn.components.steps.dataset import generate_data as generate
    from qcnn.process.error_lines import one_line_errors

    with one_line_errors():
        fields = {
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
        experiment, dataset.metadata = generate(fields, dataset.path, run, data_sha256)
        return (experiment,)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def trial_data(experiment: str, data_sha256: dict, dataset: dsl.Output[dsl.Dataset]) -> None:
    """Generate the training, validation and test data of a trial.

    Args:
        experiment: Experiment of the trial as JSON.
        data_sha256: SHA-256 of each data file of the study, by URI.
        dataset: Training, validation and test data.
    """
    from qcnn.components.steps.dataset import trial_data as run
    from qcnn.process.error_lines import one_line_errors

    with one_line_errors():
        dataset.metadata = run(experiment, data_sha256, dataset.path)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def train(
    experiment: str,
    dataset: dsl.Input[dsl.Dataset],
    training: dsl.Output[dsl.Artifact],
    logs: dsl.Output[dsl.Artifact],
    trial: bool = False,
) -> None:
    """Train the network in local processes.

    The processes write checkpoints, the losses of every epoch and TensorBoard logs.

    Args:
        experiment: Experiment as JSON.
        dataset: Training, validation and test data.
        training: Checkpoints and history, or the reason of the failure of a trial.
        logs: TensorBoard logs.
        trial: Whether the step is a trial of a study, which succeeds even if training fails.
    """
    from qcnn.components.steps.train_local import train as run
    from qcnn.process.error_lines import one_line_errors

    with one_line_errors():
        training.metadata = logs.metadata = run(experiment, dataset.path, training.path, logs.path, trial=trial)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def export_weights(training: dsl.Input[dsl.Artifact], model: dsl.Output[dsl.Model]) -> None:
    """Export weights, description and SavedModel of the trained network.

    The field `export_checkpoint` selects the checkpoint. TensorFlow Serving loads the SavedModel without qcnn.
    """
    from qcnn.components.steps.evaluate import export_weights as run
    from qcnn.process.error_lines import one_line_errors

    with one_line_errors():
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
    """Evaluate the exported model on the test split and write a report of the run.

    Args:
        model: Exported model.
        dataset: Training, validation and test data.
        training: Checkpoints and history.
        metrics: Metrics on the test split.
        predictions: Predictions for the test split (CSV), and results of classical models (JSON) if they are fitted.
        confusion: Confusion matrix, for classification.
        report: Report of the run.
        summary: Metrics and artifact URIs.
    """
    from qcnn.components.steps.evaluate import evaluate as run
    from qcnn.components.steps.evaluate import save_confusion, summarize, track
    from qcnn.process.error_lines import one_line_errors

    with one_line_errors():
        # Programs select the viewer by file extension.
        report.path, summary.path = f"{report.path}.html", f"{summary.path}.md"
        folders = (model.path, dataset.path, training.path, predictions.path)
        # The folder of predictions has the results of classical models, too.
        measured, matrix, predictions.metadata = run(*folders, metrics.path, report.path, predictions.path)
        report.metadata = predictions.metadata
        if matrix.classes:
            confusion.log_confusion_matrix(list(matrix.classes), list(matrix.matrix))
        save_confusion(matrix, confusion.path)
        artifacts = {
            "model": model,
            "dataset": dataset,
            "training": training,
            "predictions": predictions,
            "report": report,
        }
        uris = {name: artifact.uri for name, artifact in artifacts.items()}
        summarize(measured, uris, summary.path)
        track(model.path, training.path, measured, uris)
        summary.metadata = predictions.metadata
        for name, value in measured.items():
            metrics.log_metric(name, value)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def tensorboard(logs: dsl.Input[dsl.Artifact], address: str, link: dsl.Output[dsl.Markdown]) -> None:
    """Link the TensorBoard logs.

    Args:
        logs: TensorBoard logs.
        address: URL of a TensorBoard that serves the logs, or an empty string.
        link: Markdown page with links, the command that opens TensorBoard, and the URI of the logs.
    """
    from qcnn.components.steps.tensorboard import tensorboard as run
    from qcnn.process.error_lines import one_line_errors

    with one_line_errors():
        link.metadata = run(logs.uri, logs.metadata, address, link.path)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def register(
    model: dsl.Input[dsl.Model],
    dataset: dsl.Input[dsl.Dataset],
    metrics: dsl.Input[dsl.Metrics],
    name: str,
    registry: str,
    registration: dsl.Output[dsl.Metrics],
) -> None:
    """Register the exported model, and promote it if it is better than the present champion.

    Args:
        model: Exported model.
        dataset: Training, validation and test data.
        metrics: Metrics on the test split.
        name: Name of the model in the registry.
        registry: URI of the registry, or a path of a volume.
        registration: Version, and whether it was promoted.
    """
    from qcnn.components.steps.register import RegistrationTarget, load_metrics
    from qcnn.components.steps.register import register as run
    from qcnn.process.error_lines import one_line_errors

    with one_line_errors():
        measured = load_metrics(metrics.path)
        found = run(model.path, dataset.path, measured, model.uri, RegistrationTarget(name, registry))
        for metric, value in found.items():
            registration.log_metric(metric, value)
