"""Cost prediction of experiments, without TensorFlow."""

import functools
import subprocess
import sys

import cirq
import pytest

from qcnn.circuits.ansatz import Ansatz, ring
from qcnn.experiment.parsing import from_mapping
from qcnn.planning.machine import NOMINAL_MACHINE
from qcnn.planning.plan import count, kind_of, network_of, predict, summarize_circuit
from qcnn.planning.training_estimate import estimate_for_workers
from qcnn.simulators.interface import SimulatorLimits
from qcnn.simulators.registry import SIMULATORS
from qcnn.simulators.structure.gates import read_model, read_network
from tests.calls import count_calls
from tests.qcnn.circuits.test_drawing import in_layers

ALONE = {"qubits": 12, "rounds": 10, "batch_size": 16, "workers": 1, "strategy": "none"}


def test_predict_chosen_seconds_match_simulator_and_workers() -> None:
    config = from_mapping(ALONE)
    counts = count(config)
    predicted = predict(config, counts, NOMINAL_MACHINE)
    assert predicted.by_simulator.keys() == {"lightcone", "statevector", "statevector_cpu", "tfq", "density"}
    assert predicted.chosen == predicted.by_simulator["lightcone"] == predicted.by_workers[1]
    # At most as many workers as samples in a batch.
    assert list(predicted.by_workers) == list(counts.by_workers) == [1, 2, 4, 8, 16]


def test_count_does_not_import_tensorflow() -> None:
    program = """
import sys
from qcnn.experiment.parsing import from_mapping
from qcnn.planning.training_estimate import expectation
from qcnn.planning.plan import count
from qcnn.simulators.structure.gates import read_model
for model, simulator in (("hybrid", "auto"), ("deep", "statevector"), ("hybrid", "lightcone")):
    config = from_mapping({"qubits": 12, "model": model, "simulator": simulator})
    chosen = count(config).chosen.simulator
    expectation(config, read_model(model, 12)[1], chosen, 1)
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"tensorflow", "tf_keras", "tensorflow_quantum"} & set(done.stdout.split())


LIMITS = SimulatorLimits(memory=2**31, batch=32)


def test_summary_calls_grow_linearly_with_gates() -> None:
    networks = [read_network(in_layers(layers), ring(4)) for layers in (20, 80)]
    small, large = (count_calls(functools.partial(summarize_circuit, network, LIMITS)) for network in networks)
    assert large < 4.4 * small


def test_estimates_for_workers_analyze_the_circuit_once() -> None:
    config = from_mapping(ALONE | {"simulator": "density", "qubits": 6})
    network = network_of(config)
    first, second = (
        count_calls(functools.partial(estimate_for_workers, config, network, "density", workers)) for workers in (1, 2)
    )
    assert second < first / 10


def test_summarize_circuit_counts_gates_and_blocks() -> None:
    a, b, c, d = ring(4)
    # The three successive gates on the first two qubits are one block.
    circuit = cirq.Circuit(cirq.H(a), cirq.CNOT(a, b), cirq.X(b) ** 0.3, cirq.Y(c), cirq.CNOT(b, c))
    found = summarize_circuit(read_network(Ansatz(circuit, (), (c, d)), ring(4)), LIMITS)
    assert found.gates == {"CX": 2, "H": 1, "XPow": 1, "Y": 1}
    assert (found.depth, found.fused_depth, found.blocks) == (4, 2, 2)
    assert (found.qubits, found.parameters, found.readouts) == (4, (), (2, 3))
    # Number of qubits in the light cone of each readout, with the neighbors that CZ gates of the preparation connect.
    assert found.cones == ((4,), (3,))


def test_summarize_circuit_chooses_simulator() -> None:
    found = summarize_circuit(read_model("hybrid", 64)[1], LIMITS)
    assert found.chosen
    assert found.chosen.simulator == "lightcone"
    assert [estimate.simulator for estimate in found.estimates] == list(SIMULATORS)


def test_summarize_circuit_too_large_has_reason() -> None:
    found = summarize_circuit(read_model("deep", 512)[1], LIMITS)
    assert (found.chosen, found.cones) == (None, None)
    expected = "qubits: no simulator can run this circuit in 2 GiB (simulator_memory_gib); "
    assert found.unsupported_reason.startswith(expected)


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (cirq.X(ring(1)[0]), "X"),
        (cirq.S(ring(1)[0]), "ZPow"),
        (cirq.ry(0.3)(ring(1)[0]), "Ry"),
        (cirq.CCX(*ring(3)), "CCX"),
        (cirq.H(ring(2)[0]).controlled_by(ring(2)[1]), "Controlled HPow"),
        (cirq.MatrixGate(cirq.unitary(cirq.T))(ring(1)[0]).with_tags("a"), "Matrix"),
    ],
)
def test_kind_of_omits_parameters(operation: cirq.Operation, kind: str) -> None:
    assert kind_of(operation) == kind
