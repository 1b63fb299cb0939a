"""How a pipeline trains in a Kubeflow backend: as a TFJob."""

import json

from kfp.dsl.pipeline_channel import PipelineChannel
from kfp.dsl.pipeline_task import PipelineTask

from qcnn.components.image import is_pinned
from qcnn.components.train.tfjob.component import train
from qcnn.jobs.pod import Pod
from qcnn.pipelines.training import TrainStep


def train_as_tfjob(pod: Pod) -> TrainStep:
    """Return the step that trains as a TFJob whose pods have these settings.

    Its result is cached only if the image is pinned: a tag may name another image each time, which may train otherwise.
    A trial is never cached, because the cache would keep its failure.
    """
    settings = json.dumps(pod.model_dump())

    def step(*, experiment: PipelineChannel | str, dataset: PipelineChannel, trial: bool = False) -> PipelineTask:
        task = train(experiment=experiment, pod=settings, dataset=dataset, trial=trial)
        return task.set_caching_options(is_pinned(pod.image) and not trial)

    return step
