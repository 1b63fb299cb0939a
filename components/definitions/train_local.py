"""Step 2: train on several worker processes of one machine."""

from kfp import dsl

from qcnn.components.resources import IMAGE


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
