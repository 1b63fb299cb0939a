import re

import numpy as np
import pytest

from qcnn.results.plots import distinct_colors, loss_curves


def _lowest(svg: str, color: str) -> float:
    """Return the largest y coordinate of the line of a color, in SVG units (downwards)."""
    (line,) = re.findall(rf'<path d="([^"]*)"[^>]*stroke: {color}', svg)
    return max(float(y) for y in re.findall(r"[ML] \S+ (\S+)", line))


@pytest.mark.parametrize("epochs", [100, 5000])
def test_loss_curves_keep_spikes_of_long_histories(epochs: int) -> None:
    losses = np.ones(epochs)
    flat = _lowest(loss_curves([losses.tolist()], ["#0072b2"], "Loss"), "#0072b2")
    losses[epochs // 3 + 5] = 0.5
    assert _lowest(loss_curves([losses.tolist()], ["#0072b2"], "Loss"), "#0072b2") > flat + 20


def test_loss_curves_of_many_runs_have_bounded_size() -> None:
    curves = np.random.default_rng(0).uniform(0.1, 1, (200, 5000)).tolist()
    assert len(loss_curves(curves, distinct_colors(200), "Loss")) < 2e6


def test_loss_curves_large_range_has_log_scale() -> None:
    svg = loss_curves([[1000.0, 1.0, 0.01]], ["#0072b2"], "Loss")
    assert {"0.01", "100"} <= set(re.findall(r">([\d.]+)</text>", svg))


def test_loss_curves_without_epochs_are_empty() -> None:
    assert "epoch</text>" in loss_curves([[], []], distinct_colors(2), "Loss")


@pytest.mark.parametrize("count", [0, 1, 10, 11, 300])
def test_distinct_colors_are_distinct(count: int) -> None:
    assert len(set(distinct_colors(count))) >= min(count, 100)
