import re

import numpy as np
import pytest

from qcnn.results.plots import distinct_colors, loss_curves


def _lowest(svg: str, color: str) -> float:
    """Return how far down the line of a color reaches, in the figure's units."""
    (line,) = re.findall(rf'<path d="([^"]*)"[^>]*stroke: {color}', svg)
    return max(float(y) for y in re.findall(r"[ML] \S+ (\S+)", line))


@pytest.mark.parametrize("epochs", [100, 5000])
def test_no_spike_is_lost_however_long_the_training(epochs: int) -> None:
    losses = np.ones(epochs)
    flat = _lowest(loss_curves([losses.tolist()], ["#0072b2"], "Loss"), "#0072b2")
    losses[epochs // 3 + 5] = 0.5
    assert _lowest(loss_curves([losses.tolist()], ["#0072b2"], "Loss"), "#0072b2") > flat + 20


def test_many_long_curves_stay_small() -> None:
    curves = np.random.default_rng(0).uniform(0.1, 1, (200, 5000)).tolist()
    assert len(loss_curves(curves, distinct_colors(200), "Loss")) < 2e6


def test_a_curve_that_falls_far_is_drawn_on_a_logarithmic_scale() -> None:
    svg = loss_curves([[1000.0, 1.0, 0.01]], ["#0072b2"], "Loss")
    assert {"0.01", "100"} <= set(re.findall(r">([\d.]+)</text>", svg))


def test_runs_without_an_epoch_leave_an_empty_figure() -> None:
    assert "epoch</text>" in loss_curves([[], []], distinct_colors(2), "Loss")


@pytest.mark.parametrize("count", [0, 1, 10, 11, 300])
def test_every_run_has_a_color_of_its_own(count: int) -> None:
    assert len(set(distinct_colors(count))) >= min(count, 100)
