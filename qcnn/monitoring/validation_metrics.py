"""Metrics of the validation split that select the best trial of a study."""

import dataclasses
from collections.abc import Mapping

from qcnn.errors import ConfigError, format_value


@dataclasses.dataclass(frozen=True)
class SelectionMetric:
    """Title of a metric, and whether its highest value is the best."""

    title: str
    is_maximized: bool

    @property
    def best(self) -> str:
        """Title of the best value."""
        return f"{'highest' if self.is_maximized else 'lowest'} {self.title}"


VAL_LOSS, VAL_ACCURACY = "val_loss", "val_accuracy"
SELECTION_METRICS: Mapping[str, SelectionMetric] = {
    VAL_LOSS: SelectionMetric("validation loss", is_maximized=False),
    VAL_ACCURACY: SelectionMetric("validation accuracy", is_maximized=True),
}


def parse_metric(value: object) -> str:
    """Return the name of a metric. None and empty text are the validation loss.

    Raises:
        ConfigError: If no trial can be selected by it.
    """
    if value is None or value == "":
        return VAL_LOSS
    if not isinstance(value, str) or value not in SELECTION_METRICS:
        allowed = " or ".join(SELECTION_METRICS)
        raise ConfigError(f"metric: must be {allowed}, of the validation split. Given: {format_value(value)}")
    return value
