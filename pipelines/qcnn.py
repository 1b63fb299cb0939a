"""The main pipeline: generate data, train, export the weights, evaluate, link TensorBoard."""

from typing import NamedTuple

from kfp import dsl
from kfp.dsl.base_component import BaseComponent

from qcnn.components.definitions.pipeline import evaluate, export_weights, generate_data
from qcnn.pipelines.parts import DEFAULTS, RUN_ID, TensorBoardLink, TrainStep, described, train_here


class Outputs(NamedTuple):
    """What a run leaves."""

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
    train: TrainStep = train_here,
    viewer: TensorBoardLink | None = None,
    *,
    seeded_by_run: bool = False,
) -> BaseComponent:
    """Return the main pipeline, whose training is this step, and whose logs are looked at in this way.

    Where it is `seeded_by_run`, each run of it has a seed of its own, as a schedule's should.
    """
    viewer = viewer or TensorBoardLink()

    @dsl.pipeline(name="qcnn", display_name="Quantum convolutional network")
    @described
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
        options: dict = DEFAULTS.options.model_dump(),  # noqa: B008 - a constant that Kubeflow compiles
        data_sha256: str = "",
    ) -> Outputs:
        """Train a quantum convolutional network and measure its inference error."""
        made = generate_data(
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
            **(RUN_ID if seeded_by_run else {}),
        ).set_display_name("Generate data")

        trained = train(
            experiment=made.outputs["experiment"],
            dataset=made.outputs["dataset"],
        ).set_display_name("Train")

        link = viewer.step(
            logs=trained.outputs["logs"],
            address=viewer.address,
        ).set_display_name("TensorBoard")

        exported = export_weights(training=trained.outputs["training"]).set_display_name("Export weights")

        evaluated = evaluate(
            model=exported.outputs["model"],
            dataset=made.outputs["dataset"],
            training=trained.outputs["training"],
        ).set_display_name("Evaluate")

        return Outputs(
            dataset=made.outputs["dataset"],
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
