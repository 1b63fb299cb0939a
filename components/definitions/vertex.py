"""The step of Vertex AI alone: training as a custom job."""

from kfp import dsl

from qcnn.components.resources import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def train(
    experiment: str,
    pod: str,
    project: str,
    location: str,
    dataset: dsl.Input[dsl.Dataset],
    training: dsl.Output[dsl.Artifact],
    logs: dsl.Output[dsl.Artifact],
    trial: bool = False,
) -> None:
    """Train the network on the `workers` processes of a custom job; they keep checkpoints, losses and TensorBoard logs.

    Where a trial's training fails, `training` holds the reason, and the step ends well.
    """
    from qcnn.components.steps.train_vertex import train as launch

    # Nothing is copied: the artifacts are where the workers have written them.
    failure = training.path if trial else None
    place = (project, location)
    training.uri, logs.uri, training.metadata = launch(experiment, pod, place, dataset.uri, training.uri, failure)
    logs.metadata = training.metadata
