"""The training step of a pipeline, and the one that trains on the machine it runs on."""

from typing import Protocol

from kfp.dsl.pipeline_channel import PipelineChannel
from kfp.dsl.pipeline_task import PipelineTask

from qcnn.components.train.local.component import train


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
    """Train as processes of the machine that the step runs on."""
    return train(experiment=experiment, dataset=dataset, trial=trial)
