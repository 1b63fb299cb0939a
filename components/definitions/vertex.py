"""KFP component for Vertex AI only: training as a custom job."""

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
    """Train the network as a Vertex AI custom job.

    The job's processes write checkpoints, the losses of every epoch and TensorBoard logs.

    Args:
        experiment: Experiment as JSON.
        pod: Settings of the job's processes as JSON.
        project: Google Cloud project of the run.
        location: Vertex AI location of the run.
        dataset: Training, validation and test data.
        training: Checkpoints and history, or the reason of the failure of a trial.
        logs: TensorBoard logs.
        trial: Whether the step is a trial of a study, which succeeds even if training fails.
    """
    from qcnn.components.steps.train_vertex import train as launch
    from qcnn.process.error_lines import one_line_errors

    with one_line_errors():
        # The artifacts are the folders of the job's outputs, so nothing is copied.
        failure = training.path if trial else None
        place = (project, location)
        training.uri, logs.uri, training.metadata = launch(experiment, pod, place, dataset.uri, training.uri, failure)
        logs.metadata = training.metadata
