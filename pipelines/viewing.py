"""How TensorBoard is opened from a run."""

import dataclasses

from kfp.dsl.base_component import BaseComponent

from components.tensorboard.button import tensorboard as tensorboard_with_button
from components.tensorboard.component import tensorboard


@dataclasses.dataclass(frozen=True)
class Viewer:
    """The address of a TensorBoard that shows all logs, empty for none; a `button` that starts one for the run.

    The button is for backends with several users: in others Kubeflow's interface (2.17) shows an error in its place.
    """

    address: str = ""
    button: bool = False

    @property
    def step(self) -> BaseComponent:
        """The step that writes the link."""
        return tensorboard_with_button if self.button else tensorboard
