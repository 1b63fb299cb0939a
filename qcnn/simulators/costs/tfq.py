"""Cost and supported gates of simulator tfq (TensorFlow Quantum)."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from qcnn.errors import ConfigError, single_line
from qcnn.simulators.costs.cost import StepCost
from qcnn.simulators.interface import Declaration, SimulatorLimits

if TYPE_CHECKING:
    import cirq
    import numpy as np
    import numpy.typing as npt

    from qcnn.simulators.structure.network import CircuitIR, Gate

_MODULE = "tensorflow_quantum"
# Three state vectors of 2^26 complex64 take 1.5 GiB, which fits in the memory of an ordinary worker.
DECLARATION = Declaration(
    "qcnn.simulators.tfq",
    max_qubits=26,
    holds="2^qubits amplitudes",
    states=False,
    strings=True,
    shifts=False,
    # The library's operations run on CPUs only, and TensorFlow servers do not load them.
    builtin_operations=False,
    library=_MODULE,
)

# Overhead per gate and sample, in kernels of a compiled program: the library parses the circuit in every step. Derived
# from step times at 8 to 16 qubits (docs/benchmarks.md).
_KERNELS_OF_A_GATE = 7


def estimate(network: CircuitIR, limits: SimulatorLimits) -> StepCost:
    """Return the cost of a training step.

    Each gate of each sample is applied once forward and twice backward. The factor 4 includes its gradient.
    """
    amplitudes = 2.0**network.qubits
    circuit = StepCost(
        flops=sum(8.0 * 2 ** len(gate.qubits) for gate in network.gates) * amplitudes,
        kernels=_KERNELS_OF_A_GATE * len(network.gates),
        memory=3 * 8 * amplitudes,
    )
    return circuit * (4 * limits.share)


def check(network: CircuitIR, limits: SimulatorLimits) -> None:
    """Check that TensorFlow Quantum supports all gates.

    Memory is not checked, because the library manages its memory itself. Without the library, the gates are not checked
    for another machine.

    Raises:
        ConfigError: If TensorFlow Quantum is not installed, does not support a gate, or misreads it.
    """
    # Deferred import: the declaration does not need cirq.
    import cirq

    from qcnn.simulators.structure.gates import read_gates

    if limits.is_remote and importlib.util.find_spec(_MODULE) is None:
        return
    tfq = library()
    ansatz, qubits = network.ansatz, network.ring

    def is_supported(circuit: cirq.Circuit, gates: Sequence[Gate]) -> bool:
        # The library rejects most unsupported gates but serializes some as a different gate. Therefore compare the
        # deserialized circuit.
        try:
            (converted,) = tfq.from_tensor(tfq.convert_to_tensor([circuit]))
            converted_gates = read_gates(converted.all_operations(), ansatz.symbols, qubits)
        except (ValueError, TypeError, RuntimeError, ConfigError):
            return False
        return len(converted_gates) == len(gates) and all(map(_nearly_equal, converted_gates, gates))

    if not is_supported(network.circuit, network.gates):
        for operation in network.circuit.all_operations():
            if not is_supported(cirq.Circuit(operation), read_gates([operation], ansatz.symbols, qubits)):
                raise ConfigError(
                    "model: TensorFlow Quantum does not support this gate or its exponent; use another simulator. "
                    f"Given: {single_line(operation)}"
                )


def library() -> Any:
    """Import the optional module tensorflow_quantum, which loads TensorFlow.

    Raises:
        ConfigError: If the module is not installed.
    """
    from qcnn.process.library_loading import loading

    try:
        with loading():
            import tensorflow_quantum
    except ImportError as error:
        reason = single_line(error)
        raise ConfigError(f"simulator: TensorFlow Quantum is not installed ({reason}). Given: tfq") from None
    return tensorflow_quantum


def _nearly_equal(one: Gate, other: Gate) -> bool:
    """Compare gates to float32 precision."""
    import numpy as np

    if one.qubits != other.qubits or one.spectrum.projectors.shape != other.spectrum.projectors.shape:
        return False
    pairs = (
        (one.spectrum.phases, other.spectrum.phases),
        (one.spectrum.projectors, other.spectrum.projectors),
        (_exponent(one), _exponent(other)),
    )
    return all(left.shape == right.shape and np.allclose(left, right, rtol=1e-6, atol=1e-6) for left, right in pairs)


def _exponent(gate: Gate) -> npt.NDArray[np.float64]:
    """Return the constant, then the index and coefficient of each parameter, float64 (1 + parameters, 2)."""
    import numpy as np

    return np.array([(gate.exponent.constant, 0.0), *gate.exponent.coefficients])
