import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.split_states.__main__ import run_processes
from benchmarks.split_states.counts import ALL_TO_ALL, GATHER, REDUCE, SEND, estimate, network, sent_bytes, step_bytes
from benchmarks.split_states.evolution import SplitState
from benchmarks.split_states.exchanges import remote_seconds
from benchmarks.split_states.schedule import schedule
from benchmarks.split_states.shares import RemoteShares
from qcnn.circuits.preparation import Preparation
from qcnn.jobs.pricing import MachinePrice
from qcnn.simulators.interface import ProductStateBatch
from qcnn.simulators.statevector import StatevectorSimulator
from qcnn.simulators.structure.gate_fusion import fuse
from qcnn.simulators.structure.gates import read_model


@pytest.mark.parametrize(("qubits", "shares"), [(14, 2), (14, 32), (34, 16), (5, 1)])
def test_schedule_applies_each_block_once_to_local_qubits(qubits: int, shares: int) -> None:
    circuit = network(qubits)
    segments = schedule(circuit, shares)
    applied = [block for segment in segments for group in segment.groups for block in group.blocks]
    blocks = fuse(circuit.gates)
    assert sorted(map(id, (block.gates[0] for block in applied))) == sorted(id(block.gates[0]) for block in blocks)
    # The order of blocks on the same qubit is that of the circuit.
    for qubit in range(qubits):
        assert [b for b in applied if qubit in b.qubits] == [b for b in blocks if qubit in b.qubits]
    for segment in segments:
        assert 2 ** len(segment.global_qubits) == shares
        assert all(set(segment.global_qubits).isdisjoint(group.qubits) for group in segment.groups)
    for before, after in itertools.pairwise(segments):
        assert set(before.global_qubits).isdisjoint(after.global_qubits)


@pytest.mark.parametrize(("qubits", "shares"), [(14, 3), (7, 4)])
def test_schedule_with_wrong_number_of_shares_raises(qubits: int, shares: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        schedule(network(qubits), shares)


def test_deep_network_needs_one_exchange() -> None:
    assert [len(schedule(network(qubits), 4)) for qubits in (14, 20, 34)] == [2, 2, 2]


@pytest.mark.parametrize(("model", "kind", "shares"), [("deep", "rz", 4), ("hybrid", "rx", 2), ("deep", "ry", 1)])
def test_split_state_has_loss_and_gradient_of_statevector(model: str, kind: str, shares: int) -> None:
    circuit = read_model(model, 9, Preparation(kind, 9))[1]  # type: ignore[arg-type]
    random = np.random.default_rng(0)
    shapes = circuit.parameters, (3, 9), (3, len(circuit.readouts))
    parameters, features, labels = (tf.constant(random.uniform(-1, 1, shape)) for shape in shapes)
    simulator = StatevectorSimulator(circuit, 3, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        expected = tf.reduce_mean(tf.square(simulator.expectations(parameters, ProductStateBatch(features)) - labels))
    split = SplitState(circuit, RemoteShares(["/cpu:0"] * shares), tf.float64)
    loss, gradient = tf.function(split.loss_and_gradient)(parameters, features, labels)
    np.testing.assert_allclose(loss, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(gradient, tape.gradient(expected, parameters), rtol=0, atol=1e-12)


def test_exchange_sends_blocks_to_their_shares() -> None:
    # `remote_seconds` raises RuntimeError for wrong blocks.
    assert remote_seconds(RemoteShares(["/cpu:0"] * 4), 8)[SEND] > 0


def test_sent_bytes_are_those_of_each_method() -> None:
    sent = {method: sent_bytes(method, 4, 4) / (8 * 2**4) for method in (SEND, ALL_TO_ALL, GATHER, REDUCE)}
    assert sent == {SEND: 0.75, ALL_TO_ALL: 0.75, GATHER: 3, REDUCE: 6}


def test_step_bytes_are_three_exchanges_and_matrices() -> None:
    segments = schedule(network(14), 2)
    groups = [len(group.qubits) for segment in segments for group in segment.groups]
    matrices = 8 * sum((2 * 2**size) ** 2 for size in groups)
    states = 3 * 2 * 16 * 2**14 // 2
    assert step_bytes(segments, ALL_TO_ALL, 14, 2, states=2, real_bytes=8) == states + 2 * matrices
    assert step_bytes(segments, SEND, 14, 2, states=2, real_bytes=8) == states + 4 * matrices


def test_estimate_selects_cheapest_machine_with_enough_memory() -> None:
    machines = {
        "small": MachinePrice(cpus=16, memory=64, price=0.1),
        "large": MachinePrice(cpus=16, memory=128, price=1),
        "dear": MachinePrice(cpus=16, memory=128, price=2),
    }
    found = estimate(34, 16, machines, bytes_per_second=1e9, evolved=3600)
    assert (found.machine_type, found.share_gib, found.needed_gib) == ("large", 8, 81)
    assert math.isclose(found.hours, found.compute_seconds + found.exchange_seconds)
    assert math.isclose(found.dollars, 16 * found.hours)
    # Three exchanges of 15/16 of a share.
    assert math.isclose(found.exchange_seconds, 3 * 8 * 2**30 * 15 / 16 / 1e9, rel_tol=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("roles", [["server", "server", "client"], ["worker", "worker"]])
def test_processes_train_as_one_process(roles: list[str]) -> None:
    results = run_processes(roles, exchanged=[8], trained=[8])
    (step,) = [line["step"] for line in results if "step" in line]
    assert step["difference"] < 1e-12
    assert [line["qubits"] for line in results if "exchange" in line] == [8]
