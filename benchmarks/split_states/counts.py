"""Counts of a split state: bytes between processes, and machines, hours and dollars of a cluster."""

import dataclasses
from collections.abc import Mapping, Sequence

from benchmarks.split_states.schedule import Segment, schedule
from qcnn.circuits.preparation import Preparation
from qcnn.jobs.pricing import MachinePrice, allocatable_memory
from qcnn.planning.machine import NOMINAL_MACHINE
from qcnn.simulators.costs.cost import evolution
from qcnn.simulators.structure.gates import CircuitIR, read_model

# Methods to exchange qubits.
SEND, ALL_TO_ALL, GATHER, REDUCE = "send and receive", "all-to-all", "all-gather", "all-reduce of zero-padded blocks"
SOCKETS = "raw sockets"
# Network and number of samples of the training step.
MODEL, SAMPLES = "deep", 2
# The gradient reverses each exchange for the states and for their adjoint.
_BACKWARD = 2
# Real numbers of an amplitude.
_PARTS = 2
_COMPLEX64_BYTES = 8
# Copies of a share in memory (exchanges took 8 to 11), and memory of a process without states, in GiB.
_COPIES, _PROCESS_GIB = 10, 1.0


def network(qubits: int) -> CircuitIR:
    """Return the network of the benchmark, on features of all qubits."""
    return read_model(MODEL, qubits, Preparation("ry", qubits))[1]


def sent_bytes(method: str, qubits: int, shares: int) -> int:
    """Return the bytes that all processes send for one exchange of complex64 amplitudes.

    An all-gather sends each share to all other processes. A ring all-reduce of the whole state, in which the blocks of
    other processes are zero, sends twice as much (Patarasuk and Yuan, doi:10.1016/j.jpdc.2008.09.002).

    Args:
        method: Method to exchange qubits.
        qubits: Number of qubits.
        shares: Number of shares, each in a separate process.
    """
    state = _COMPLEX64_BYTES << qubits
    factor = {GATHER: shares, REDUCE: 2 * shares}.get(method, 1)
    return state * factor * (shares - 1) // shares


def exchanges(segments: Sequence[Segment]) -> int:
    """Return the number of exchanges of a training step: forward, and backward for states and adjoints."""
    return (1 + _BACKWARD) * (len(segments) - 1)


def step_bytes(segments: Sequence[Segment], method: str, qubits: int, shares: int, states: int, real_bytes: int) -> int:
    """Return the bytes that all processes send in a training step.

    They are those of the exchanges, and of the matrices of all groups and their gradients. A client sends the matrices
    to each server, and each server returns its gradients. Workers compute the matrices and sum the gradients in a ring.

    Args:
        segments: Schedule of the circuit.
        method: `SEND` or `ALL_TO_ALL`.
        qubits: Number of qubits.
        shares: Number of shares, each in a separate process.
        states: Number of states.
        real_bytes: Bytes of a real number, 4 or 8.
    """
    state = _PARTS * real_bytes << qubits
    sizes = (_PARTS << len(group.qubits) for segment in segments for group in segment.groups)
    matrices = real_bytes * sum(size**2 for size in sizes)
    copies = 2 * shares if method == SEND else 2 * (shares - 1)
    return exchanges(segments) * states * state * (shares - 1) // shares + copies * matrices


@dataclasses.dataclass(frozen=True)
class ClusterEstimate:
    """Estimated training on a cluster, with one share on each machine.

    Attributes:
        shares: Number of shares and machines.
        machine_type: Name of the machine type.
        share_gib: Memory of one share of one state, in GiB.
        needed_gib: Memory of a process that evolves one state, in GiB.
        compute_seconds: Seconds of one state in a step, without exchanges.
        exchange_seconds: Seconds of the exchanges of one state in a step.
        hours: Hours of the training.
        dollars: Price of the training.
    """

    shares: int
    machine_type: str
    share_gib: float
    needed_gib: float
    compute_seconds: float
    exchange_seconds: float
    hours: float
    dollars: float


def estimate(
    qubits: int, shares: int, machines: Mapping[str, MachinePrice], bytes_per_second: float, evolved: int
) -> ClusterEstimate:
    """Return the estimate of the machine type with the lowest price of those that have enough memory.

    Amplitudes are complex64. Seconds are those of the cost model of `qcnn plan` on the nominal machine, scaled to the
    cores. Exchanges do not overlap with computation.

    Args:
        qubits: Number of qubits.
        shares: Number of shares.
        machines: Machine types by name.
        bytes_per_second: Bytes that a machine sends per second, while it receives as many.
        evolved: Number of states of all steps of the training.

    Raises:
        ValueError: If no machine type has enough memory.
    """
    segments = schedule(network(qubits), shares)
    cost = evolution([group for segment in segments for group in segment.groups], 2.0**qubits / shares, real_bytes=4)
    share = 2.0**qubits * _COMPLEX64_BYTES / shares / 2**30
    needed = _COPIES * share + _PROCESS_GIB
    moved = step_bytes(segments, ALL_TO_ALL, qubits, shares, states=1, real_bytes=4) / shares / bytes_per_second

    def estimate_of(name: str, machine: MachinePrice) -> ClusterEstimate:
        compute = NOMINAL_MACHINE.with_cores(machine.cpus).speed.seconds(cost)
        hours = evolved * (compute + moved) / 3600
        return ClusterEstimate(shares, name, share, needed, compute, moved, hours, hours * shares * machine.price)

    sufficient = {name: each for name, each in machines.items() if allocatable_memory(each.memory) >= needed}
    return min((estimate_of(*each) for each in sufficient.items()), key=lambda each: each.dollars)
