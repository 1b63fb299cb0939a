"""How a pipeline trains on Vertex AI: as a custom job."""

import json

from kfp.dsl.pipeline_channel import PipelineChannel
from kfp.dsl.pipeline_task import PipelineTask

from qcnn.components.image import is_pinned
from qcnn.components.train.vertex.component import train
from qcnn.jobs.pod import Pod
from qcnn.jobs.vertex.machines import check_machines
from qcnn.jobs.vertex.settings import vertex_settings
from qcnn.pipelines.training import TrainStep

# Vertex AI puts the run's own in their places, as for Google's components (google_cloud_pipeline_components 2.22.0,
# _placeholders.py).
PROJECT = "{{$.pipeline_google_cloud_project_id}}"
LOCATION = "{{$.pipeline_google_cloud_location}}"


def train_as_custom_job(pod: Pod) -> TrainStep:
    """Return the step that trains as a custom job whose processes have these settings.

    What is cached is as where training is a TFJob: its result if the image is pinned, and never a trial.

    Raises:
        ConfigError: Vertex AI could not train with these settings.
    """
    check_machines(pod, vertex_settings(pod).machine_type)
    settings = json.dumps(pod.model_dump())

    def step(*, experiment: PipelineChannel | str, dataset: PipelineChannel, trial: bool = False) -> PipelineTask:
        task = train(
            experiment=experiment, pod=settings, project=PROJECT, location=LOCATION, dataset=dataset, trial=trial
        )
        return task.set_caching_options(is_pinned(pod.image) and not trial)

    return step
