"""Step 2 on a cluster: train as a TFJob."""

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
