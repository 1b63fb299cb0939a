"""KFP components for Kubeflow only: training as a job of the cluster, and a TensorBoard that the KFP UI starts."""

from kfp import dsl

from qcnn.components.resources import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def train(
    experiment: str,
    pod: str,
    dataset: dsl.Input[dsl.Dataset],
    training: dsl.Output[dsl.Artifact],
    logs: dsl.Output[dsl.Artifact],
    trial: bool = False,
) -> None:
    """Train the network as a training job of the cluster.

    The job has one pod per process. The pods write checkpoints, the losses of every epoch and TensorBoard logs.

    Args:
        experiment: Experiment as JSON.
        pod: Settings of the job's pods as JSON.
        dataset: Training, validation and test data.
        training: Checkpoints and history, or the reason of the failure of a trial.
        logs: TensorBoard logs.
        trial: Whether the step is a trial of a study, which succeeds even if training fails.
    """
    from qcnn.components.steps.train_on_kubernetes import train as launch
    from qcnn.process.error_lines import one_line_errors

    with one_line_errors():
        # The artifacts are the folders of the pods' outputs, so nothing is copied.
        failure = training.path if trial else None
        training.uri, logs.uri, training.metadata = launch(experiment, pod, dataset.uri, training.uri, failure)
        logs.metadata = training.metadata


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def tensorboard(
    logs: dsl.Input[dsl.Artifact],
    address: str,
    link: dsl.Output[dsl.Markdown],
    mlpipeline_ui_metadata: dsl.Output[dsl.Artifact],
) -> None:
    """Link the TensorBoard logs and add the button to the KFP UI that starts a TensorBoard.

    Args:
        logs: TensorBoard logs.
        address: URL of a TensorBoard that serves the logs, or an empty string.
        link: Markdown page with links, the command that opens TensorBoard, and the URI of the logs.
        mlpipeline_ui_metadata: Settings of the button.
    """
    import os

    from qcnn.components.steps.tensorboard import button
    from qcnn.components.steps.tensorboard import tensorboard as run
    from qcnn.process.error_lines import one_line_errors
    from qcnn.provenance import IMAGE_VARIABLE

    with one_line_errors():
        link.metadata = run(logs.uri, logs.metadata, address, link.path)
        button(logs.uri, os.environ.get(IMAGE_VARIABLE, ""), mlpipeline_ui_metadata.path)
