"""What every simulator declares and offers, and the limits that it has to keep to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from qcnn.circuits.preparation import Preparation

if TYPE_CHECKING:
    import tensorflow as tf

    from qcnn.simulators.structure.gates import CircuitIR


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What a simulator can run, which is known before TensorFlow is loaded.

    `most_qubits`: None for as many as memory holds. `holds`: what it holds of them, which is why they are limited.
    `noise`: it knows noise. `states`: samples may be states. `shifts`: it reads the gates of a network, which may be
    shifted, and not the circuit that they were read from. `own_operations`: it consists of TensorFlow's own operations,
    which XLA compiles, and which every device and server of TensorFlow's runs. `library`: the name in `qcnn.extras` of
    one that no other simulator needs.
    """

    most_qubits: int | None = None
    holds: str = ""
    noise: bool = False
    states: bool = True
    shifts: bool = True
    own_operations: bool = True
    library: str = ""


@dataclasses.dataclass(frozen=True)
class SimulatorLimits:
    """Bytes that states may take at a time and of a real number of a state; a step's samples and who share them.

    `own_operations`: whoever runs the simulator runs TensorFlow's own operations only.
    """

    memory: float
    batch: int
    real_bytes: int = 4
    replicas: int = 1
    own_operations: bool = False

    @property
    def share(self) -> int:
        """The most samples of a step that one replica has, shared by sample."""
        return -(-self.batch // self.replicas)


class ExcitationBatch(NamedTuple):
    """Samples: the excited qubit, int32 (batch,), and its angle, float32 (batch,), rad.

    With `own`, int32 (most,), only the samples of these qubits count (-1 stands for none); what is returned for the
    others is any finite value.
    """

    qubit: tf.Tensor
    angle: tf.Tensor
    own: tf.Tensor | None = None


class ProductStateBatch(NamedTuple):
    """Samples of a product state: what each feature's qubit is turned by, float32 (batch, features), rad."""

    features: tf.Tensor


class StateBatch(NamedTuple):
    """Samples that are states: real amplitudes of length 1, float32 (batch, 2^qubits), qubit 0 most significant."""

    state: tf.Tensor


# By the network's preparation: excitation; rx, ry or rz; state. Its fields are the names of the model's inputs.
Inputs: TypeAlias = ExcitationBatch | ProductStateBatch | StateBatch


def batch_of(preparation: Preparation, inputs: Mapping[str, tf.Tensor]) -> Inputs:
    """Return samples of a preparation from what the model takes of them, by name."""
    # Without match, which TensorFlow cannot read where it compiles this, and says so.
    kinds: dict[str, type[Inputs]] = {"excitation": ExcitationBatch, "state": StateBatch}
    return kinds.get(preparation.kind, ProductStateBatch)(**inputs)


class ReadoutCoefficients(NamedTuple):
    """What the readouts of every possible sample follow from, float64.

    Where the circuit is shallow a sample changes few readouts, those in its qubit's row of `reached` (a place that is
    not used changes nothing); it adds (1 - cos(angle)) / 2 x flipped + sin(angle) / 2 x mixed to each. Under noise,
    which qubit is turned tells even at angle 0: `unexcited` is then of qubit 0, and `still` what others differ by.
    """

    unexcited: tf.Tensor  # (readouts,)
    reached: tf.Tensor  # int32 (qubits, most)
    flipped: tf.Tensor  # (qubits, most)
    mixed: tf.Tensor  # (qubits, most)
    still: tf.Tensor | None = None  # (qubits, most); None for nothing


class Simulator(Protocol):
    """Exact expectation values of an ansatz on data states, which are what its network's preparation says."""

    @property
    def name(self) -> str:
        """Its name in the experiment's word `simulator`."""

    @property
    def network(self) -> CircuitIR:
        """What it simulates."""

    @property
    def compiles(self) -> bool:
        """Whether it consists of TensorFlow's own operations, which XLA compiles together with what is around them."""

    @property
    def large(self) -> bool:
        """Whether compiling it pays off even for a few calls."""

    def shards_by_qubit(self, batch: int, replicas: int) -> bool:
        """Whether replicas had better share a step of so many samples by qubit (`Batch.own`) than by sample.

        False wherever samples are no excitations.
        """

    def expectations(self, parameters: tf.Tensor, batch: Inputs) -> tf.Tensor:
        """Return Z on the readouts, float64 (batch, readouts), of samples of the network's preparation.

        Differentiable in `parameters`, float64 (parameters,), whose gradient sums over the samples; works
        in a tf.function and under every strategy the simulator's hardware allows.
        """

    def table(self, parameters: tf.Tensor) -> ReadoutCoefficients:
        """Return what the readouts of every possible excitation follow from, for parameters float64 (parameters,).

        Asked for only where samples are excitations: no table holds every other sample.
        """
