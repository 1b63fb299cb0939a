"""What TensorFlow Quantum can run and costs, and which gates it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from qcnn.errors import ConfigError, single_line
from qcnn.simulators.costs.cost import StepCost
from qcnn.simulators.interface import Declaration, SimulatorLimits

if TYPE_CHECKING:
    import cirq
    import numpy as np
    import numpy.typing as npt

    from qcnn.simulators.structure.gates import CircuitIR, Gate

# Three state vectors of 2^26 complex64 are 1.5 GiB: what one worker can be expected to hold.
DECLARATION = Declaration(
    most_qubits=26,
    holds="2^qubits amplitudes",
    states=False,
    shifts=False,
    # They are for processors alone, and in no server of TensorFlow's.
    own_operations=False,
    library="tensorflow_quantum",
)

# What the library spends on a gate of a sample beside the arithmetic, in kernels of a compiled program: it reads the
# circuit anew. From the seconds of its steps at 8 to 16 qubits (docs/benchmarks.md).
_KERNELS_OF_A_GATE = 7


def estimate(network: CircuitIR, limits: SimulatorLimits) -> StepCost:
    """Return the cost of a training step: every gate of every sample, forward, back twice, and its gradient."""
    amplitudes = 2.0**network.qubits
    circuit = StepCost(
        flops=sum(8.0 * 2 ** len(gate.qubits) for gate in network.gates) * amplitudes,
        kernels=_KERNELS_OF_A_GATE * len(network.gates),
        memory=3 * 8 * amplitudes,
    )
    return circuit * (4 * limits.share)


def check(network: CircuitIR, _: SimulatorLimits) -> None:
    """Refuse what TensorFlow Quantum cannot run, whatever memory it needs: the library decides that itself.

    Raises:
        ConfigError: TensorFlow Quantum is not installed, lacks a gate, or takes it for another.
    """
    # NumPy and cirq are not needed to declare the simulator.
    import cirq

    from qcnn.simulators.structure.gates import read_gates

    tfq = library()
    ansatz, qubits = network.ansatz, network.ring

    def runs(circuit: cirq.Circuit, gates: Sequence[Gate]) -> bool:
        # The library refuses most gates that it lacks and writes the others as another gate, so its text is read back.
        try:
            (written,) = tfq.from_tensor(tfq.convert_to_tensor([circuit]))
            taken = read_gates(written.all_operations(), ansatz.symbols, qubits)
        except (ValueError, TypeError, RuntimeError, ConfigError):
            return False
        return len(taken) == len(gates) and all(map(_nearly_equal, taken, gates))

    if not runs(network.circuit, network.gates):
        for operation in network.circuit.all_operations():
            if not runs(cirq.Circuit(operation), read_gates([operation], ansatz.symbols, qubits)):
                raise ConfigError(
                    "model: TensorFlow Quantum has no such gate, or not with such an exponent; the other simulators "
                    f"run it. Given: {single_line(operation)}"
                )


def library() -> Any:
    """Return the module tensorflow_quantum, which loads TensorFlow and is not installed everywhere.

    Raises:
        ConfigError: it is not installed.
    """
    from qcnn.startup import loading

    try:
        with loading():
            import tensorflow_quantum
    except ImportError as error:
        reason = single_line(error)
        raise ConfigError(f"simulator: TensorFlow Quantum is not installed here ({reason}). Given: tfq") from None
    return tensorflow_quantum


def _nearly_equal(one: Gate, other: Gate) -> bool:
    """Compare gates as far as numbers of 32 bits tell."""
    import numpy as np

    if one.qubits != other.qubits or one.spectrum.projectors.shape != other.spectrum.projectors.shape:
        return False
    pairs = (
        (one.spectrum.phases, other.spectrum.phases),
        (one.spectrum.projectors, other.spectrum.projectors),
        (_exponent(one), _exponent(other)),
    )
    return all(mine.shape == its.shape and np.allclose(mine, its, rtol=1e-6, atol=1e-6) for mine, its in pairs)


def _exponent(gate: Gate) -> npt.NDArray[np.float64]:
    """Return the constant, then index and coefficient of each parameter, (1 + parameters, 2)."""
    import numpy as np

    return np.array([(gate.exponent.constant, 0.0), *gate.exponent.coefficients])
