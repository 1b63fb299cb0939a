"""The main pipeline: generate data, train, export the weights, evaluate, link TensorBoard, optionally register."""

from typing import NamedTuple

from kfp import dsl
from kfp.dsl.base_component import BaseComponent

from qcnn.components.definitions.pipeline import evaluate, export_weights, generate_data, register
from qcnn.pipelines.parts import (
    DEFAULTS,
    RUN_ID,
    TensorBoardLink,
    TrainStep,
    add_docstring,
    train_in_step,
)
from qcnn.registry.registration_settings import RegistrationSettings


class Outputs(NamedTuple):
    """Artifacts of a run."""

    dataset: dsl.Dataset
    training: dsl.Artifact
    logs: dsl.Artifact
    model: dsl.Model
    predictions: dsl.Artifact
    metrics: dsl.Metrics
    confusion: dsl.ClassificationMetrics
    report: dsl.HTML
    summary: dsl.Markdown
    tensorboard: dsl.Markdown


def qcnn(
    train: TrainStep = train_in_step,
    viewer: TensorBoardLink | None = None,
    registration: RegistrationSettings | None = None,
    *,
    per_run_seed: bool = False,
) -> BaseComponent:
    """Create the main pipeline.

    Args:
        train: Adds the train step.
        viewer: Link to a TensorBoard. None: only the command that opens one.
        registration: Registry in which the last step registers and promotes the model. None: there is no such step.
        per_run_seed: Whether each run gets a different seed, for schedules.
    """
    viewer = viewer or TensorBoardLink()

    @dsl.pipeline(name="qcnn", display_name="Quantum convolutional network")
    @add_docstring
    def pipeline(
        qubits: int = DEFAULTS.qubits,
        rounds: int = DEFAULTS.rounds,
        data: str = DEFAULTS.data,
        encoding: str = DEFAULTS.encoding,
        seed: int = DEFAULTS.seed,
        model: str = DEFAULTS.model,
        simulator: str = DEFAULTS.simulator,
        optimizer: str = DEFAULTS.optimizer,
        hidden_units: int = DEFAULTS.hidden_units,
        hidden_activation: str = DEFAULTS.hidden_activation,
        strategy: str = DEFAULTS.strategy,
        workers: int = DEFAULTS.workers,
        epochs: int = DEFAULTS.epochs,
        batch_size: int = DEFAULTS.batch_size,
        learning_rate: float = DEFAULTS.learning_rate,
        options: dict = DEFAULTS.options.model_dump(),  # noqa: B008 - a constant for the KFP compiler
        data_sha256: str = "",
    ) -> Outputs:
        """Train a quantum convolutional network and measure its error on the test split."""
        generated = generate_data(
            qubits=qubits,
            rounds=rounds,
            data=data,
            encoding=encoding,
            seed=seed,
            model=model,
            simulator=simulator,
            optimizer=optimizer,
            hidden_units=hidden_units,
            hidden_activation=hidden_activation,
            strategy=strategy,
            workers=workers,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            options=options,
            data_sha256=data_sha256,
            **(RUN_ID if per_run_seed else {}),
        ).set_display_name("Generate data")

        trained = train(
            experiment=generated.outputs["experiment"],
            dataset=generated.outputs["dataset"],
        ).set_display_name("Train")

        link = viewer.step(
            logs=trained.outputs["logs"],
            address=viewer.address,
        ).set_display_name("TensorBoard")

        exported = export_weights(training=trained.outputs["training"]).set_display_name("Export weights")

        evaluated = evaluate(
            model=exported.outputs["model"],
            dataset=generated.outputs["dataset"],
            training=trained.outputs["training"],
        ).set_display_name("Evaluate")

        if registration:
            register(
                model=exported.outputs["model"],
                dataset=generated.outputs["dataset"],
                metrics=evaluated.outputs["metrics"],
                name=registration.name,
                registry=registration.registry,
            ).set_display_name("Register").set_caching_options(False)

        return Outputs(
            dataset=generated.outputs["dataset"],
            training=trained.outputs["training"],
            logs=trained.outputs["logs"],
            model=exported.outputs["model"],
            predictions=evaluated.outputs["predictions"],
            metrics=evaluated.outputs["metrics"],
            confusion=evaluated.outputs["confusion"],
            report=evaluated.outputs["report"],
            summary=evaluated.outputs["summary"],
            tensorboard=link.outputs["link"],
        )

    return pipeline
