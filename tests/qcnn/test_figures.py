"""Figures for notebooks."""

import concurrent.futures

import matplotlib as mpl
import pytest
from IPython.core.formatters import DisplayFormatter
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from qcnn.circuits import circuits
from qcnn.results import plots

PNG = b"\x89PNG"


def _loss_curves() -> Figure:
    return plots.complete(plots.loss_curves([[0.5, 0.4]], ["#0072b2"]))


def test_figure_is_image_in_notebook_without_pyplot() -> None:
    figure = _loss_curves()
    data, _ = DisplayFormatter().format(figure)  # type: ignore[no-untyped-call]
    assert data["image/png"].startswith(PNG)
    assert "text/html" not in data
    assert not plt.get_fignums()


def test_figures_do_not_depend_on_settings_of_session() -> None:
    expected = [_loss_curves(), circuits.build("hybrid", 4).plot()]
    with mpl.rc_context({"text.color": "red", "axes.facecolor": "black", "grid.color": "red", "xtick.color": "red"}):
        settings = dict(mpl.rcParams)
        found = [_loss_curves(), circuits.build("hybrid", 4).plot()]
        assert dict(mpl.rcParams) == settings
    for mine, other in zip(expected, found, strict=True):
        assert mine._repr_png_() == other._repr_png_()  # type: ignore[attr-defined]


def test_figures_in_threads_keep_settings() -> None:
    before = dict(mpl.rcParams)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        figures = [each.result() for each in [pool.submit(_loss_curves) for _ in range(12)]]
    assert dict(mpl.rcParams) == before
    assert len(figures) == 12


@pytest.mark.parametrize("qubits", [4, 64])
def test_circuit_plot_has_gates_of_drawn_qubits(qubits: int) -> None:
    texts = {text.get_text() for text in circuits.build("hybrid", qubits).plot().axes[0].texts}
    assert {"ZZ", "X^s0"} <= texts
