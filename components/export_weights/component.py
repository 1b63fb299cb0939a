"""Step 3: export the trained weights as a model."""

from kfp import dsl

from qcnn.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def export_weights(training: dsl.Input[dsl.Artifact], model: dsl.Output[dsl.Model]) -> None:
    """Export the last checkpoint: weights, description, and a SavedModel that any TensorFlow Serving loads."""
    from qcnn.components.export_weights.step import export_weights as run

    model.metadata = run(training.path, model.path)
