"""What a training costs on the platforms that take money, as commands say it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from qcnn.experiment_io import read_file
from qcnn.jobs.pricing import own_prices, prices_from

if TYPE_CHECKING:
    from qcnn.components.cost_estimate import Platform
    from qcnn.jobs.pod_settings import Pod
    from qcnn.jobs.pricing import Prices

# From the settings of pods, prices, and the name of a machine type, which may be empty.
Platforms = Mapping[str, Callable[["Pod", "Prices", str], "Platform"]]


def _on_kubernetes(pod: Pod, prices: Prices, machine_type: str) -> Platform:
    from qcnn.components.cost_estimate import on_kubernetes

    return on_kubernetes(pod, prices, machine_type)


def _on_vertex(pod: Pod, prices: Prices, machine_type: str) -> Platform:
    from qcnn.components.cost_estimate import on_vertex

    return on_vertex(pod, prices, machine_type)


PLATFORMS: Platforms = {
    "kubeflow": _on_kubernetes,
    "tfjob": _on_kubernetes,
    "vertex": _on_vertex,
    "vertex-job": _on_vertex,
}


def read_prices(file: Path | None) -> Prices:
    """Return the prices of a file, or those that come with this package.

    Raises:
        ConfigError: the file cannot be read, or one line with the first that is wrong in it.
    """
    return prices_from(read_file(file, "prices")) if file else own_prices()


def in_dollars(value: float | None) -> str:
    """Return dollars as text, to the cent; an empty one for None.

    >>> in_dollars(1234.5), in_dollars(0.004)
    ('1,234.50', 'below 0.01')
    """
    if value is None:
        return ""
    return "below 0.01" if value < 0.01 else f"{value:,.2f}"


def about_dollars(value: float) -> str:
    """Return an estimate in dollars as text.

    >>> about_dollars(1234.5), about_dollars(0.004)
    ('about 1,234.50 dollars', 'below 0.01 dollars')
    """
    text = in_dollars(value)
    return f"{text} dollars" if text.startswith("below") else f"about {text} dollars"
