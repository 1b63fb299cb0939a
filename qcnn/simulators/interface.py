"""Common interface of the simulators: declaration, limits, inputs and readouts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from qcnn.circuits.preparation import Preparation

if TYPE_CHECKING:
    import tensorflow as tf

    from qcnn.simulators.structure.network import CircuitIR


# Bytes of the real part of an amplitude by its type.
REAL_BYTES = {"complex64": 4, "complex128": 8}
# Bounds on the rounding error of a Pauli string, by the bytes of the real part of an amplitude.
ROUNDING = {4: 1e-6, 8: 1e-12}


@dataclasses.dataclass(frozen=True)
class Declaration:
    """Features and limits of a simulator, available without TensorFlow.

    Attributes:
        module: Name of the TensorFlow module, with `create`.
        max_qubits: Maximum number of qubits, or None if only memory limits it.
        holds: The stored values that limit the number of qubits, for error messages.
        noise: Whether noise channels are supported.
        states: Whether samples may be states.
        strings: Whether readouts may have other Pauli strings than Z on a qubit.
        inputs: Whether gates may depend on inputs, so that they differ between samples.
        shifts: Whether gate exponents can be shifted for gradients by parameter shift.
        builtin_operations: Whether the simulator uses built-in TensorFlow operations only. Every device and TensorFlow
            server runs these.
        compiled_kernels: Whether the simulator needs the kernels that are compiled at installation.
        library: Name in `qcnn.process.extras` of a library that only this simulator needs.
    """

    module: str
    max_qubits: int | None = None
    holds: str = ""
    noise: bool = False
    states: bool = True
    strings: bool = False
    inputs: bool = False
    shifts: bool = True
    builtin_operations: bool = True
    compiled_kernels: bool = False
    library: str = ""


@dataclasses.dataclass(frozen=True)
class SimulatorLimits:
    """Memory limit and batch of a training step.

    Attributes:
        memory: Maximum memory of the states of a replica, in bytes.
        batch: Global batch size.
        real_bytes: Bytes of the real part of an amplitude, 4 or 8.
        replicas: Number of replicas that share the batch.
        builtin_operations: Whether only built-in TensorFlow operations can run, for example in TensorFlow Serving.
        is_remote: Whether the step runs on another machine, so that libraries of this one do not matter.
    """

    memory: float
    batch: int
    real_bytes: int = 4
    replicas: int = 1
    builtin_operations: bool = False
    is_remote: bool = False

    @property
    def share(self) -> int:
        """Maximum number of samples of a replica if the batch is split by sample."""
        return -(-self.batch // self.replicas)


class ExcitationBatch(NamedTuple):
    """Excitation samples: the excited qubit and its rotation angle.

    Attributes:
        qubit: int32 (batch,).
        angle: float32 (batch,), in radians.
        own: int32 (count,), the qubits whose samples the replica evaluates, filled with -1. The values of the other
            samples are finite but arbitrary. None: all samples.
    """

    qubit: tf.Tensor
    angle: tf.Tensor
    own: tf.Tensor | None = None


class ProductStateBatch(NamedTuple):
    """Product state samples: rotation angles of the qubits, float32 (batch, features), in radians."""

    features: tf.Tensor


class StateBatch(NamedTuple):
    """State samples: real, normalized amplitudes, float32 (batch, 2^qubits), qubit 0 most significant."""

    state: tf.Tensor


class AmplitudeBatch(StateBatch):
    """State samples whose readouts are differentiable in the amplitudes, float64 (batch, 2^qubits)."""


class CircuitInputBatch(NamedTuple):
    """Samples whose features are inputs of the circuit, float64 (batch, inputs)."""

    features: tf.Tensor


# Samples of the preparation excitation; rx, ry, rz or dense; state; circuit. The field names are the names of the model
# inputs.
Inputs: TypeAlias = ExcitationBatch | ProductStateBatch | StateBatch | CircuitInputBatch


def batch_of(preparation: Preparation, inputs: Mapping[str, tf.Tensor]) -> Inputs:
    """Convert the model inputs, by name, to the batch of a preparation."""
    # No match statement: AutoGraph cannot convert it and logs a warning.
    kinds: dict[str, type[Inputs]] = {
        "excitation": ExcitationBatch,
        "state": StateBatch,
        "circuit": CircuitInputBatch,
    }
    return kinds.get(preparation.kind, ProductStateBatch)(**inputs)


class StringCoefficients(NamedTuple):
    """Coefficients from which the Pauli strings of every possible excitation are computed, float64.

    In a shallow circuit a sample changes only the strings in the row `reached` of its qubit. To each it adds
    (1 - cos(angle)) / 2 x flipped + sin(angle) / 2 x mixed. Unused columns have zero coefficients. Under noise the
    strings depend on the rotated qubit even at angle 0: `unexcited` is then the value for qubit 0, and `still` the
    difference for the other qubits.
    """

    unexcited: tf.Tensor  # (strings,)
    reached: tf.Tensor  # int32 (qubits, columns)
    flipped: tf.Tensor  # (qubits, columns)
    mixed: tf.Tensor  # (qubits, columns)
    still: tf.Tensor | None = None  # (qubits, columns); None without noise


class Simulator(Protocol):
    """Exact expectation values of an ansatz on data states of its network's preparation."""

    @property
    def name(self) -> str:
        """Value of the experiment field `simulator`."""

    @property
    def network(self) -> CircuitIR:
        """Simulated network."""

    @property
    def compiles(self) -> bool:
        """Whether XLA can compile the simulator."""

    @property
    def large(self) -> bool:
        """Whether compilation pays off even for a few calls."""

    @property
    def rounding(self) -> float:
        """Bound on the rounding error of a Pauli string, see `ROUNDING`."""

    def shards_by_qubit(self, batch: int, replicas: int) -> bool:
        """Return whether replicas should split a batch by qubit (`ExcitationBatch.own`) instead of by sample.

        False if samples are not excitations.
        """

    def expectations(self, parameters: tf.Tensor, batch: Inputs) -> tf.Tensor:
        """Return the expectation values of the network's Pauli strings, float64 (batch, strings).

        Differentiable in the parameters; the gradient sums over the samples. Differentiable in the samples of an
        `AmplitudeBatch` and a `CircuitInputBatch`. Works in a tf.function and under every
        strategy that the simulator's hardware supports.

        Args:
            parameters: Circuit parameters, float64 (parameters,).
            batch: Samples of the network's preparation.
        """

    def table(self, parameters: tf.Tensor) -> StringCoefficients:
        """Return the coefficients of every possible excitation.

        Only called if samples are excitations: the other preparations have no finite set of coefficients.

        Args:
            parameters: Circuit parameters, float64 (parameters,).
        """
