"""Features that are inputs of a circuit: each row must be in the domain of the functions in its gates."""

from typing import TYPE_CHECKING

import numpy as np

from qcnn.data.samples import FeatureLayout
from qcnn.experiment.config import ExperimentConfig

if TYPE_CHECKING:
    from qcnn.tables.chunks import Chunk


def check_inputs(rows: "Chunk", layout: FeatureLayout, config: ExperimentConfig) -> None:
    """Check that the gates of a circuit with inputs have a finite exponent for each row.

    Args:
        rows: Rows to validate.
        layout: Conversion of the rows to samples.
        config: Experiment with the circuit.

    Raises:
        QcnnError: If a row is outside of the domain of a function. The message has the row and the columns.
        ConfigError: If the circuit cannot be used.
    """
    if layout.preparation.kind != "circuit":
        return
    # The import of cirq takes a second, and most experiments have no inputs.
    from qcnn.circuits.input_expressions import invalid_rows
    from qcnn.simulators.structure.gates import read_model

    _, network = read_model(config.model, config.qubits, config.preparation)
    expressions = dict.fromkeys(term.expression for each in network.exponents_by_sample for term in each.terms)
    values = layout.rotation_angles([rows.columns[name] for name in layout.features]).T
    columns = dict(zip(network.inputs, values, strict=True))
    for expression, is_invalid in invalid_rows(expressions, columns):
        row = int(np.argmax(is_invalid))
        used = sorted(str(symbol) for symbol in expression.free_symbols)
        names = [layout.features[network.inputs.index(name)] for name in used]
        given = ", ".join(f"{name} = {columns[name][row]:g}" for name in used)
        place, what = rows.place(rows.first + row), f"must give {expression} a finite value"
        raise rows.error(place, ", ".join(names), what, given)
