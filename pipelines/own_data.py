"""How a file with samples comes into a run: as an artifact, so that what is made of it can be traced to it."""

from kfp import dsl
from kfp.dsl.pipeline_channel import PipelineChannel


def imported(data: PipelineChannel | str) -> PipelineChannel:
    """Add the step that imports the file at an address, and return the artifact; all runs refer to the same."""
    # No display name: Kubeflow 2.17 records an importer under that name and resolves its output by the task's key
    # ("cannot find producer task").
    return dsl.importer(artifact_uri=data, artifact_class=dsl.Dataset, reimport=False).output
