"""Circuit diagrams as text and images."""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import cirq
import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from qcnn.atomic_files import new_file
from qcnn.circuits.observables import Readout, qubits_of
from qcnn.errors import ConfigError
from qcnn.figures import NotebookFigure, figure_style

# Limits that keep diagrams of large circuits legible and drawing time below 1 s.
MAX_QUBITS = 16
MAX_COLUMNS, MAX_IMAGE_COLUMNS = 256, 64
IMAGES = (".png", ".svg")
_WIDTH, _HEIGHT = 0.62, 0.42  # Size of a column and a line in inches.
_DPI = 80


class TrainableCircuit(Protocol):
    """Circuit to draw, such as a `qcnn.circuits.ansatz.Ansatz`."""

    @property
    def circuit(self) -> cirq.Circuit:
        """Circuit with free symbols."""

    @property
    def symbols(self) -> Sequence[object]:
        """Circuit parameters."""

    @property
    def readouts(self) -> Sequence[Readout]:
        """Readouts."""

    @property
    def qubits(self) -> frozenset[cirq.Qid]:
        """Qubits of the circuit and of the readouts."""


@dataclasses.dataclass(frozen=True)
class CircuitDiagram:
    """Circuit diagram as text and image.

    Attributes:
        title: Numbers of qubits, parameters and readouts, and the part of the circuit that is drawn.
        text: Diagram as text.
        is_complete: Whether the text has all gates.
        first_columns: Columns of the image.
    """

    title: str
    text: str
    is_complete: bool
    first_columns: cirq.TextDiagramDrawer

    @functools.cached_property
    def figure(self) -> Figure:
        """Image as a figure."""
        return _figure(self.first_columns)

    @functools.cached_property
    def image(self) -> npt.NDArray[np.uint8]:
        """Image, uint8 (height, width, 3), read-only."""
        canvas = FigureCanvasAgg(self.figure)
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba())[:, :, :3].copy()
        pixels.flags.writeable = False
        return pixels


def draw(ansatz: TrainableCircuit) -> CircuitDiagram:
    """Draw a circuit as text and as an image.

    Circuits of up to 16 qubits are drawn on all qubits. Of larger ones, at most 16 qubits of the first readout's light
    cone are drawn. The text ends after 256 columns, and the image after 64.
    """
    operations = list(ansatz.circuit.all_operations())
    # Readouts may be on qubits without gates.
    total = len(ansatz.qubits)
    title = f"{total} qubits, {len(ansatz.symbols)} parameters, {len(ansatz.readouts)} readouts"
    drawn = operations
    if total > MAX_QUBITS:
        first = qubits_of(ansatz.readouts[0])
        drawn = _operations_before(operations, first)
        names = ", ".join(map(str, first))
        title += f"; drawn: what readout {names} depends on, on at most {MAX_QUBITS} qubits"
    diagram, is_whole = _first_columns(drawn)
    if not is_whole:
        title += f"; text: the first {MAX_COLUMNS} columns"
    if diagram.width() > MAX_IMAGE_COLUMNS:
        whole = f" of {diagram.width()}" if is_whole else ""
        title += f"; image: the first {MAX_IMAGE_COLUMNS}{whole} columns"
    text, is_complete = diagram.render(horizontal_spacing=1), is_whole and len(drawn) == len(operations)
    return CircuitDiagram(title, text, is_complete, _cut(diagram, MAX_IMAGE_COLUMNS))


def _first_columns(operations: Sequence[cirq.Operation]) -> tuple[cirq.TextDiagramDrawer, bool]:
    """Return the diagram of operations up to the maximum number of columns, and whether there are no more."""
    # Schedules every gate as early as possible, so that parallel gates share columns.
    circuit = cirq.Circuit(operations)
    # A moment takes one or more columns. Cirq's time is quadratic in the number of moments.
    first = circuit[:MAX_COLUMNS].to_text_diagram_drawer(qubit_order=sorted(circuit.all_qubits()))
    if len(circuit) <= MAX_COLUMNS and first.width() <= MAX_COLUMNS:
        return first, True
    return _cut(first, MAX_COLUMNS), False


def _cut(diagram: cirq.TextDiagramDrawer, columns: int) -> cirq.TextDiagramDrawer:
    """Return a diagram up to a number of columns."""
    entries = {(x, y): entry for (x, y), entry in diagram.entries.items() if x < columns}
    horizontal = [line._replace(x2=min(line.x2, columns)) for line in diagram.horizontal_lines if line.x1 < columns]
    vertical = [line for line in diagram.vertical_lines if line.x < columns]
    return cirq.TextDiagramDrawer(entries, horizontal, vertical)


def _operations_before(operations: Sequence[cirq.Operation], readout: Sequence[cirq.Qid]) -> list[cirq.Operation]:
    """Return the operations in the light cone of a readout's qubits, except those beyond the qubit limit."""
    qubits = set(readout)
    kept: list[cirq.Operation] = []
    for operation in reversed(operations):
        if not qubits.isdisjoint(operation.qubits) and len(joined := qubits.union(operation.qubits)) <= MAX_QUBITS:
            qubits = joined
            kept.append(operation)
    return kept[::-1]


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


@figure_style({})
def _figure(diagram: cirq.TextDiagramDrawer) -> Figure:
    columns, lines = diagram.width(), diagram.height()
    figure = NotebookFigure(figsize=(_WIDTH * (columns + 1), _HEIGHT * (lines + 1)), dpi=_DPI)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(-1, columns), ylim=(lines, -1))
    axes.axis("off")
    for horizontal in diagram.horizontal_lines:
        axes.plot([horizontal.x1, horizontal.x2], [horizontal.y] * 2, color="0.6", linewidth=0.8)
    for vertical in diagram.vertical_lines:
        axes.plot([vertical.x] * 2, [vertical.y1, vertical.y2], color="0.2", linewidth=0.8)
    box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "0.4", "linewidth": 0.6}
    for (x, y), entry in diagram.entries.items():
        axes.text(x, y, entry.text, ha="center", va="center", fontsize=7, bbox=box)
    return figure
