"""Circuit diagrams as text and images."""

import dataclasses
from pathlib import Path

import cirq
import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from qcnn.atomic_files import new_file
from qcnn.circuits.circuits import Ansatz
from qcnn.errors import ConfigError

# Limits that keep diagrams of large circuits legible and drawing time at about 1 s.
MAX_QUBITS = 16
MAX_COLUMNS = 64
IMAGES = (".png", ".svg")
_WIDTH, _HEIGHT = 0.62, 0.42  # Size of a column and a line in inches.
_DPI = 80


@dataclasses.dataclass(frozen=True)
class CircuitDiagram:
    """Circuit diagram as text and figure, with a title that reports which part of the circuit is drawn."""

    title: str
    text: str
    figure: Figure

    @property
    def image(self) -> npt.NDArray[np.uint8]:
        """Image, uint8 (height, width, 3)."""
        canvas = FigureCanvasAgg(self.figure)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def draw(ansatz: Ansatz) -> CircuitDiagram:
    """Draw a circuit as text and as an image.

    Circuits of up to 16 qubits are drawn completely. Of larger ones, at most 16 qubits of the first readout's light
    cone are drawn. The image ends after 64 columns.
    """
    # Readouts may be on qubits without gates.
    total = len(ansatz.circuit.all_qubits().union(ansatz.readouts))
    title = f"{total} qubits, {len(ansatz.symbols)} parameters, {len(ansatz.readouts)} readouts"
    if total <= MAX_QUBITS:
        # Schedules every gate as early as possible, so that parallel gates share columns.
        drawn = cirq.Circuit(ansatz.circuit.all_operations())
    else:
        drawn = _operations_before(ansatz.circuit, ansatz.readouts[0])
        title += f"; drawn: what readout {ansatz.readouts[0]} depends on, on at most {MAX_QUBITS} qubits"
    diagram = drawn.to_text_diagram_drawer()
    if diagram.width() > MAX_COLUMNS:
        title += f"; image: the first {MAX_COLUMNS} of {diagram.width()} columns"
    return CircuitDiagram(title, diagram.render(horizontal_spacing=1), _figure(diagram))


def _operations_before(circuit: cirq.Circuit, readout: cirq.Qid) -> cirq.Circuit:
    """Return the operations in a readout's light cone, except those beyond the qubit limit."""
    qubits = {readout}
    kept: list[cirq.Operation] = []
    for operation in reversed(list(circuit.all_operations())):
        if not qubits.isdisjoint(operation.qubits) and len(joined := qubits.union(operation.qubits)) <= MAX_QUBITS:
            qubits = joined
            kept.append(operation)
    return cirq.Circuit(reversed(kept))


def save(drawing: CircuitDiagram, path: Path) -> None:
    """Write the image of a diagram. The file extension selects the format.

    Raises:
        ConfigError: If the extension is not one of `IMAGES`.
        ArtifactError: If the file cannot be written.
    """
    check_extension(path)
    with new_file(path) as unfinished:
        drawing.figure.savefig(unfinished, format=path.suffix.removeprefix("."))


def check_extension(path: Path) -> None:
    """Raise ConfigError if the file extension is not an image format.

    Raises:
        ConfigError: If the extension is not one of `IMAGES`.
    """
    if path.suffix not in IMAGES:
        raise ConfigError(f"image: the file's name must end in one of {', '.join(IMAGES)}. Given: {path}")


def _figure(diagram: cirq.TextDiagramDrawer) -> Figure:
    columns, lines = min(diagram.width(), MAX_COLUMNS), diagram.height()
    # pyplot would keep a reference to every figure.
    figure = Figure(figsize=(_WIDTH * (columns + 1), _HEIGHT * (lines + 1)), dpi=_DPI)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(-1, columns), ylim=(lines, -1))
    axes.axis("off")
    for horizontal in diagram.horizontal_lines:
        axes.plot([horizontal.x1, min(horizontal.x2, columns)], [horizontal.y] * 2, color="0.6", linewidth=0.8)
    for vertical in diagram.vertical_lines:
        if vertical.x < columns:
            axes.plot([vertical.x] * 2, [vertical.y1, vertical.y2], color="0.2", linewidth=0.8)
    box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "0.4", "linewidth": 0.6}
    for (x, y), entry in diagram.entries.items():
        if x < columns:
            axes.text(x, y, entry.text, ha="center", va="center", fontsize=7, bbox=box)
    return figure
