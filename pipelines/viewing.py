"""How TensorBoard is opened from a run."""

import dataclasses
import re

from kfp.dsl.base_component import BaseComponent

from qcnn.components.tensorboard.button import tensorboard as tensorboard_with_button
from qcnn.components.tensorboard.component import tensorboard
from qcnn.trainer.errors import ConfigError

_ADDRESS = re.compile(r"https?://[^/\s]+(/\S*)?")


@dataclasses.dataclass(frozen=True)
class Viewer:
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
