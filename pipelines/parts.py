"""Parts that pipelines share: parameters from the experiment's own description, training, TensorBoard."""

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
from qcnn.experiment import EXPERIMENT_FIELDS, OPTION_FIELDS, ExperimentConfig
from qcnn.fields import describe

# What rules choose is left open: other words of a run may differ.
DEFAULTS = ExperimentConfig.model_construct()
_DATA_SHA256 = (
    "SHA-256 of the file that `data` names, as sha256sum prints it, by which the cache knows what is in the file; "
    "empty where data are generated."
)


def described(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a pipeline function the docstring from which Kubeflow takes its parameters' descriptions."""
    options = " ".join(f"`{name}`: {describe(field)}" for name, field in OPTION_FIELDS.items())
    lines = [f"    {name}: {describe(field)}" for name, field in EXPERIMENT_FIELDS.items()]
    lines.append(f"    options: {ExperimentConfig.model_fields['options'].description} {options}")
    lines.append(f"    data_sha256: {_DATA_SHA256}")
    function.__doc__ = f"{function.__doc__}\n\nArgs:\n" + "\n".join(lines)
    return function


_ADDRESS = re.compile(r"https?://[^/\s]+(/\S*)?")


@dataclasses.dataclass(frozen=True)
class TensorBoardLink:
    """The address of a TensorBoard that shows all logs, empty for none; a `button` that starts one for the run.

    The button is for backends with several users: in others Kubeflow's interface (2.17) shows an error in its place.

    Raises:
        ConfigError: the address is none that a browser opens.
    """

    address: str = ""
    button: bool = False

    def __post_init__(self) -> None:
        if self.address and not _ADDRESS.fullmatch(self.address):
            raise ConfigError(f"tensorboard: must be http://HOST or https://HOST. Given: {self.address}")

    @property
    def step(self) -> BaseComponent:
        """The step that writes the link."""
        return tensorboard_with_button if self.button else tensorboard


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


# What the first step is given beside the experiment's words.
RUN_ID = {"run": dsl.PIPELINE_JOB_ID_PLACEHOLDER}
_FIRST_STEP = "generate-data"


def per_run_seed(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pipeline as it would have been compiled for a schedule; for a file that was compiled before.

    Raises:
        LookupError: its first step is not that of the main pipeline.
    """
    root = spec["root"]
    task = root["dag"]["tasks"][_FIRST_STEP]
    constants = {name: {"runtimeValue": {"constant": value}} for name, value in RUN_ID.items()}
    inputs = {**task["inputs"], "parameters": {**task["inputs"]["parameters"], **constants}}
    tasks = {**root["dag"]["tasks"], _FIRST_STEP: {**task, "inputs": inputs}}
    return {**spec, "root": {**root, "dag": {**root["dag"], "tasks": tasks}}}
