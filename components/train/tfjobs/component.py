"""Step 2 on a cluster: train as a TFJob."""

from kfp import dsl

from components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def train(
    experiment: str,
    run: str,
    pod: str,
    dataset: dsl.Input[dsl.Dataset],
    training: dsl.Output[dsl.Artifact],
    logs: dsl.Output[dsl.Artifact],
) -> None:
    """Train the network on the `workers` pods of a TFJob; they keep checkpoints, losses and TensorBoard logs."""
    from components.train.tfjobs.step import train as launch

    # Nothing is copied: the artifacts are what the pods themselves have written.
    training.uri, logs.uri, training.metadata = launch(experiment, run, pod, dataset.uri, training.uri)
    logs.metadata = training.metadata
