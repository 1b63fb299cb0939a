import re

import numpy as np
import pytest

from qcnn.results.plots import DISTINCT, OTHERS, loss_by_value, loss_curves, to_svg


def _lowest(svg: str, color: str) -> float:
    """Return the largest y coordinate of the line of a color, in SVG units (downwards)."""
    (line,) = re.findall(rf'<path d="([^"]*)"[^>]*stroke: {color}', svg)
    return max(float(y) for y in re.findall(r"[ML] \S+ (\S+)", line))


@pytest.mark.parametrize("epochs", [100, 5000])
def test_loss_curves_keep_spikes_of_long_histories(epochs: int) -> None:
    losses = np.ones(epochs)
    flat = _lowest(to_svg(loss_curves([losses.tolist()], ["#0072b2"]), "Loss"), "#0072b2")
    losses[epochs // 3 + 5] = 0.5
    assert _lowest(to_svg(loss_curves([losses.tolist()], ["#0072b2"]), "Loss"), "#0072b2") > flat + 20


def test_loss_curves_of_many_runs_have_bounded_size() -> None:
    curves = np.random.default_rng(0).uniform(0.1, 1, (200, 5000)).tolist()
    assert len(to_svg(loss_curves(curves, [*DISTINCT, *[OTHERS] * 190]), "Loss")) < 2e6


def test_loss_curves_large_range_has_log_scale() -> None:
    svg = to_svg(loss_curves([[1000.0, 1.0, 0.01]], ["#0072b2"]), "Loss")
    assert {"0.01", "100"} <= set(re.findall(r">([\d.]+)</text>", svg))


def test_loss_curves_without_epochs_are_empty() -> None:
    assert "epoch</text>" in to_svg(loss_curves([[], []], DISTINCT[:2]), "Loss")


def test_loss_curves_of_best_runs_are_above_others() -> None:
    colors = [DISTINCT[0], OTHERS, DISTINCT[1], OTHERS]
    drawn = re.findall(r"stroke: (#\w{6})", to_svg(loss_curves([[0.5, 0.4]] * 4, colors), "Loss"))
    assert [color for color in drawn if color in colors] == [OTHERS, OTHERS, *DISTINCT[:2]]


@pytest.mark.parametrize("losses", [[0.9], [0.9, 0.901], [0.9, 0.9005, 0.3]])
def test_loss_curves_of_single_epoch_are_not_cut(losses: list[float]) -> None:
    svg = to_svg(loss_curves([[loss] for loss in losses], DISTINCT[: len(losses)]), "Loss")
    (top,) = set(re.findall(r'<clipPath .*?<rect x="\S+" y="(\S+)"', svg, re.DOTALL))
    marks = re.findall(r'<use [^>]* y="(\S+)" style="fill: (#\w{6})', svg)
    heights = [float(y) for y, color in marks if color in DISTINCT]
    assert len(heights) == len(losses)
    # A marker has a diameter of 5 points.
    assert min(heights) - float(top) > 2.5


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0.001, 0.01, 0.1], {"0.001", "0.01", "0.1"}),
        ([4, 8, 12], {"4", "8", "12"}),
        (["deep", "hybrid", "deep"], {"deep", "hybrid"}),
        (["my_circuits:ladder_of_many_gates", 1, "x"], {"my_circuits…f_many_gates", "1", "x"}),
    ],
)
def test_loss_by_value_has_labels_of_values(values: list[object], labels: set[str]) -> None:
    figure = loss_by_value(values, [0.3, 0.2, 0.4], [OTHERS, DISTINCT[0], DISTINCT[1]], "field")
    svg = to_svg(figure, "Loss by field")
    assert labels <= set(re.findall(r">([^<>]+)</text>", svg))
    marks = re.findall(r'<use [^>]*style="fill: (#\w{6})', svg)
    assert [color for color in marks if color in (OTHERS, *DISTINCT)] == [OTHERS, *DISTINCT[:2]]
