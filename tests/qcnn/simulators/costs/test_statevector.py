"""Cost estimates, checks and batch splitting of simulator statevector."""

import itertools
import math

import pytest

from qcnn.errors import ConfigError
from qcnn.simulators import registry
from qcnn.simulators.costs import statevector
from qcnn.simulators.interface import SimulatorLimits
from qcnn.simulators.structure.gates import read_model

QUBITS = 5
_, NETWORK = read_model("hybrid", QUBITS)


def test_estimate_chunked_batch_costs_more_within_memory() -> None:
    network = read_model("hybrid", 12)[1]
    free, bound = (statevector.estimate(network, SimulatorLimits(memory=memory, batch=32)) for memory in (2**31, 2**20))
    assert bound.memory <= 2**20 < free.memory
    assert bound.operations > 1.25 * free.operations


def test_check_memory_below_two_states_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    # Use complex64, as for many qubits.
    monkeypatch.setattr(statevector, "FEW_AMPLITUDES", 0)
    column = 2**QUBITS * 8 * statevector._COPIES
    with pytest.raises(ConfigError, match=r"^qubits: .*needs at least 3.5 KiB; .* allows 3.5 KiB. Given: 5$"):
        statevector.check(NETWORK, SimulatorLimits(memory=2 * column - 1, batch=32))
    # Double precision needs twice the memory.
    statevector.check(NETWORK, SimulatorLimits(memory=2 * column, batch=32))
    with pytest.raises(ConfigError, match=r"needs at least 7 KiB"):
        statevector.check(NETWORK, SimulatorLimits(memory=2 * column, batch=32, real_bytes=8))


def test_check_above_30_qubits_raises() -> None:
    network, limits = read_model("hybrid", 31)[1], SimulatorLimits(memory=2.0**60, batch=32)
    assert math.isinf(registry.estimate("statevector", network, limits).memory)
    with pytest.raises(ConfigError, match=r"^qubits: must be at most 30 with simulator statevector.* Given: 31$"):
        registry.check("statevector", network, limits)


@pytest.mark.parametrize(
    ("qubits", "batch", "replicas", "shards_by_qubit", "states"),
    [
        (16, 32, 1, False, 17),
        (16, 32, 2, True, 9),
        (16, 256, 4, True, 5),
        (16, 32, 5, True, 5),
        # More replicas than qubits: some evolve only the graph state.
        (16, 256, 64, True, 2),
        # There are fewer samples than flipped states of a replica's qubits.
        (16, 8, 2, False, 4),
        (16, 32, 32, False, 1),
        # Short states: reading all samples in every replica costs more than splitting by qubit saves.
        (4, 10_000, 2, False, 5),
    ],
)
def test_shards_by_qubit_if_replicas_evolve_fewer_states(
    qubits: int, batch: int, replicas: int, shards_by_qubit: bool, states: int
) -> None:
    assert statevector.shards_by_qubit(qubits, batch, replicas) == shards_by_qubit
    _, network = read_model("hybrid", qubits)
    limits = SimulatorLimits(memory=2**31, batch=batch, replicas=replicas)
    column = statevector._column_bytes(network, limits)
    assert statevector.estimate(network, limits).memory == max(2, states) * column


@pytest.mark.parametrize("model", ["hybrid", "deep"])
def test_statevector_cost_doubles_with_each_qubit(model: str) -> None:
    limits = SimulatorLimits(memory=2.0**60, batch=1000, real_bytes=8)
    costs = [statevector.estimate(read_model(model, qubits)[1], limits) for qubits in range(6, 26)]
    for fewer, more in itertools.pairwise(costs):
        assert more.memory > 2 * fewer.memory
    for fewer, more in zip(costs, costs[2:], strict=False):
        assert more.operations >= 4 * fewer.operations
