"""The training step of a pipeline: as processes of its own pod, or as a TFJob."""

import dataclasses
import json
from typing import Protocol

from kfp import dsl
from kfp.dsl.pipeline_channel import PipelineChannel
from kfp.dsl.pipeline_task import PipelineTask

from components.train.component import train
from components.train.job import Pod
from components.train.tfjobs.component import train as train_as_tfjob


class TrainStep(Protocol):
    """Makes the training step of a pipeline."""

    def __call__(self, *, experiment: PipelineChannel | str, dataset: PipelineChannel) -> PipelineTask:
        """Add the step to the pipeline that is being made; its outputs are `training` and `logs`."""
        ...


def train_here(*, experiment: PipelineChannel | str, dataset: PipelineChannel) -> PipelineTask:
    """Train as processes of the step's own machine."""
    return train(experiment=experiment, dataset=dataset)


def train_with_tfjobs(pod: Pod) -> TrainStep:
    """Return the step that trains as a TFJob whose pods have these settings.

    It is never taken from the cache, which would hide that nothing was trained; run again, it finds its TFJob.
    """
    settings = json.dumps(dataclasses.asdict(pod))

    def step(*, experiment: PipelineChannel | str, dataset: PipelineChannel) -> PipelineTask:
        run = dsl.PIPELINE_JOB_ID_PLACEHOLDER
        task = train_as_tfjob(experiment=experiment, run=run, pod=settings, dataset=dataset)
        return task.set_caching_options(False)

    return step
