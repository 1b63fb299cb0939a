"""Shared parts of pipelines: parameter descriptions, train step, TensorBoard link, seed per run."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any, Protocol

from kfp import dsl
from kfp.dsl.base_component import BaseComponent
from kfp.dsl.pipeline_channel import PipelineChannel
from kfp.dsl.pipeline_task import PipelineTask

from qcnn.components.definitions.kubeflow import tensorboard as tensorboard_with_button
from qcnn.components.definitions.pipeline import tensorboard, train
from qcnn.errors import ConfigError
from qcnn.experiment.config import EXPERIMENT_FIELDS, OPTION_FIELDS, ExperimentConfig
from qcnn.experiment.fields import describe

# Automatic values stay unresolved, because they depend on the fields of each run.
DEFAULTS = ExperimentConfig.model_construct()
_DATA_SHA256 = (
    "SHA-256 of the file in `data`, as printed by sha256sum. The cache detects changes of the file by it. "
    "Empty for generated data."
)


def add_docstring(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the parameter descriptions to the docstring of a pipeline function, from which KFP reads them."""
    options = " ".join(f"`{name}`: {describe(field)}" for name, field in OPTION_FIELDS.items())
    lines = [f"    {name}: {describe(field)}" for name, field in EXPERIMENT_FIELDS.items()]
    lines.append(f"    options: {ExperimentConfig.model_fields['options'].description} {options}")
    lines.append(f"    data_sha256: {_DATA_SHA256}")
    function.__doc__ = f"{function.__doc__}\n\nArgs:\n" + "\n".join(lines)
    return function


_ADDRESS = re.compile(r"https?://[^/\s]+(/\S*)?")


@dataclasses.dataclass(frozen=True)
class TensorBoardLink:
    """Link to a TensorBoard in the TensorBoard step.

    Attributes:
        address: URL of a TensorBoard that serves all logs, or an empty string.
        button: Whether to add a button that starts a TensorBoard of the run. It requires multi-user KFP: in single-user
            mode, the KFP UI (2.17) displays an error instead.

    Raises:
        ConfigError: If the address is not an HTTP(S) URL.
    """

    address: str = ""
    button: bool = False

    def __post_init__(self) -> None:
        if self.address and not _ADDRESS.fullmatch(self.address):
            raise ConfigError(f"tensorboard: must be http://HOST or https://HOST. Given: {self.address}")

    @property
    def step(self) -> BaseComponent:
        """Component that writes the link."""
        return tensorboard_with_button if self.button else tensorboard


class TrainStep(Protocol):
    """Function that adds the train step to a pipeline."""

    def __call__(
        self, *, experiment: PipelineChannel | str, dataset: PipelineChannel, trial: bool = False
    ) -> PipelineTask:
        """Add the train step, with the outputs `training` and `logs`, to the current pipeline.

        Args:
            experiment: Experiment as JSON.
            dataset: Training, validation and test data.
            trial: Whether the step is a trial of a study. It then succeeds even if training fails, and its output has
                the reason.
        """
        ...


def train_in_step(*, experiment: PipelineChannel | str, dataset: PipelineChannel, trial: bool = False) -> PipelineTask:
    """Add a train step that trains in the step's container.

    Args:
        experiment: Experiment as JSON.
        dataset: Training, validation and test data.
        trial: Whether the step is a trial of a study.
    """
    return train(experiment=experiment, dataset=dataset, trial=trial)


# Argument of the first step in addition to the experiment fields.
RUN_ID = {"run": dsl.PIPELINE_JOB_ID_PLACEHOLDER}
_FIRST_STEP = "generate-data"


def per_run_seed(spec: dict[str, Any]) -> dict[str, Any]:
    """Convert a compiled main pipeline to one that has a different seed in each run of a schedule.

    Raises:
        LookupError: If the first step is not that of the main pipeline.
    """
    root = spec["root"]
    task = root["dag"]["tasks"][_FIRST_STEP]
    constants = {name: {"runtimeValue": {"constant": value}} for name, value in RUN_ID.items()}
    inputs = {**task["inputs"], "parameters": {**task["inputs"]["parameters"], **constants}}
    tasks = {**root["dag"]["tasks"], _FIRST_STEP: {**task, "inputs": inputs}}
    return {**spec, "root": {**root, "dag": {**root["dag"], "tasks": tasks}}}
