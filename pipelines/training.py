"""The training step of a pipeline: as processes of its own pod, or as a TFJob."""

import json
from typing import Protocol

from kfp.dsl.pipeline_channel import PipelineChannel
from kfp.dsl.pipeline_task import PipelineTask

from components.image import is_pinned
from components.train.local.component import train
from components.train.tfjob.component import train as train_as_tfjob
from launchers.pod import Pod


class TrainStep(Protocol):
    """Makes the training step of a pipeline."""

    def __call__(
        self, *, experiment: PipelineChannel | str, dataset: PipelineChannel, trial: bool = False
    ) -> PipelineTask:
        """Add the step to the pipeline that is being made; its outputs are `training` and `logs`.

        That of a `trial` ends well where training fails: the failure stands in its output.
        """
        ...


def train_here(*, experiment: PipelineChannel | str, dataset: PipelineChannel, trial: bool = False) -> PipelineTask:
    """Train as processes of the step's own machine."""
    return train(experiment=experiment, dataset=dataset, trial=trial)


def train_with_tfjobs(pod: Pod) -> TrainStep:
    """Return the step that trains as a TFJob whose pods have these settings.

    It is taken from the cache where the image is pinned: behind a tag there may be another one each time, by which the
    same experiment is trained otherwise. A trial never is, for the cache would keep its failure.
    """
    settings = json.dumps(pod.model_dump())

    def step(*, experiment: PipelineChannel | str, dataset: PipelineChannel, trial: bool = False) -> PipelineTask:
        task = train_as_tfjob(experiment=experiment, pod=settings, dataset=dataset, trial=trial)
        return task.set_caching_options(is_pinned(pod.image) and not trial)

    return step
