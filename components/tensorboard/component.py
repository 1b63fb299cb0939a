"""Step 5: say how to look at the training in TensorBoard."""

from kfp import dsl

from qcnn.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def tensorboard(logs: dsl.Input[dsl.Artifact], address: str, link: dsl.Output[dsl.Markdown]) -> None:
    """Write the address of the logs, of a TensorBoard that shows them, and the exact command as Markdown."""
    from qcnn.components.tensorboard.step import tensorboard as run

    link.metadata = run(logs.uri, logs.metadata, address, link.path)
