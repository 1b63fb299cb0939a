"""Step 5 for a backend with several users, whose interface can start a TensorBoard itself."""

from kfp import dsl

from qcnn.components.resources import IMAGE


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
