"""The steps of Kubeflow alone: training as a TFJob, and a TensorBoard that its interface starts."""

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
    """Train the network on the `workers` pods of a TFJob; they keep checkpoints, losses and TensorBoard logs.

    Where a trial's training fails, `training` holds the reason, and the step ends well.
    """
    from qcnn.components.steps.train_tfjob import train as launch

    # Nothing is copied: the artifacts are where the pods have written them.
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
    """Write how to look at the logs as Markdown, and what gives the interface its button."""
    import os

    from qcnn.components.steps.tensorboard import button
    from qcnn.components.steps.tensorboard import tensorboard as run
    from qcnn.provenance import IMAGE_VARIABLE

    link.metadata = run(logs.uri, logs.metadata, address, link.path)
    button(logs.uri, os.environ.get(IMAGE_VARIABLE, ""), mlpipeline_ui_metadata.path)
