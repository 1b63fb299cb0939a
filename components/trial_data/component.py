"""Step 2 of a study, once for each trial: make its dataset."""

from kfp import dsl

from qcnn.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def trial_data(experiment: str, dataset: dsl.Output[dsl.Dataset]) -> None:
    """Make the training, validation and test data of one trial."""
    from qcnn.components.trial_data.step import trial_data as run

    dataset.metadata = run(experiment, dataset.path)
