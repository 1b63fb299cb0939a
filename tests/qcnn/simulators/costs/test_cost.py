"""Arithmetic and formatting of simulation costs."""

import dataclasses
import math

import cirq
import pytest
import sympy

from qcnn.circuits.ansatz import Ansatz
from qcnn.circuits.preparation import Preparation
from qcnn.simulators import SimulatorLimits, registry
from qcnn.simulators.costs.cost import MachineSpeed, StepCost, evolution, format_bytes, step
from qcnn.simulators.structure.gate_fusion import fuse, group_blocks
from qcnn.simulators.structure.gates import read_model, read_network


def test_step_cost_sum_adds_work_and_takes_maximum_memory() -> None:
    one = StepCost(flops=1, traffic=2, few_flops=6, kernels=3, memory=5)
    other = StepCost(flops=10, traffic=20, few_flops=60, kernels=30, memory=4)
    assert one + other == StepCost(flops=11, traffic=22, few_flops=66, kernels=33, memory=5)
    assert (one + StepCost(compiled_flops=2)) * 3 == StepCost(3, 6, 18, 6, 9, 5)
    assert one * 3 == StepCost(flops=3, traffic=6, few_flops=18, kernels=9, memory=5)
    assert (one + other).operations == 77


def test_seconds_overlap_arithmetic_and_traffic_and_add_kernels() -> None:
    speed = MachineSpeed(flops=10, traffic=100, few_flops=4, kernel_seconds=0.5)
    assert speed.seconds(StepCost(flops=20, traffic=100, kernels=3)) == 1.5 + 2
    assert speed.seconds(StepCost(flops=5, traffic=100, kernels=3)) == 1.5 + 1
    compiled = dataclasses.replace(speed, compiled_flops=2)
    assert compiled.seconds(StepCost(flops=20, traffic=100, compiled_flops=8, kernels=3)) == 1.5 + 2 + 4
    # Arithmetic on one core does not overlap.
    assert speed.seconds(StepCost(flops=20, traffic=100, few_flops=8, kernels=3)) == 1.5 + 2 + 2


def test_evolution_few_amplitudes_use_one_core() -> None:
    groups = group_blocks(fuse(read_model("hybrid", 4)[1].gates))
    assert {len(group.qubits) for group in groups} == {4}
    few, many = evolution(groups, 2.0**15, 8), evolution(groups, 2.0**16, 8)
    assert few == StepCost(few_flops=4 * 8 * 2**4 * 2.0**15 * len(groups))
    # The speed halves for 8-byte numbers. Each sweep reads and writes two of them per amplitude.
    traffic = 4 * 2 * 2 * 8 * 2.0**16 * len(groups)
    assert many == StepCost(flops=2 * 2 * few.few_flops, traffic=traffic, real_bytes=8)


def test_seconds_on_gpu_depend_on_64_bit_rate() -> None:
    """An operation on 64-bit numbers counts as two."""
    single, double = StepCost(flops=640.0), StepCost(flops=640.0, real_bytes=8)
    processor = MachineSpeed(flops=64.0, traffic=1.0, few_flops=1.0, kernel_seconds=1.0)
    assert processor.seconds(single) == processor.seconds(double) == 10
    gpu = dataclasses.replace(processor, double_flops=2.0)
    assert (gpu.seconds(single), gpu.seconds(double)) == (10, 160)
    # A sum has the larger numbers, also after repetition.
    assert gpu.seconds((single + double) * 2) == 4 * 160


def test_step_equal_gates_count_once_on_any_ring() -> None:
    short, long, deep = (
        step(group_blocks(fuse(read_model(model, qubits)[1].gates)))
        for model, qubits in (("hybrid", 16), ("hybrid", 64), ("deep", 16))
    )
    assert short == long
    assert deep.kernels > 2 * short.kernels


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1023.4 * 2**10, "1023 KiB"),
        (1.5 * 2**30, "1.5 GiB"),
        (2.0**60, "1.05e+06 TiB"),
        (math.inf, "more than any machine has"),
    ],
)
def test_format_bytes_uses_binary_units(count: float, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize("simulator", ["statevector", "statevector_cpu"])
def test_gates_with_inputs_cost_more_in_larger_batches(simulator: str) -> None:
    qubit, w, x = cirq.LineQubit(0), sympy.Symbol("w"), sympy.Symbol("x")

    def operations(gates: int, batch: int) -> float:
        circuit = cirq.Circuit([cirq.rx(x)(qubit), cirq.ry(w)(qubit)] * gates)
        network = read_network(Ansatz(circuit, [w], [qubit], [x]), [qubit], Preparation("circuit", 1))
        return registry.estimate(simulator, network, SimulatorLimits(memory=2**31, batch=batch)).operations

    of_a_gate = {batch: operations(9, batch) - operations(1, batch) for batch in (32, 256)}
    # Fitted to circuits in which a sample and gate takes 0.3 or 2 microseconds.
    assert of_a_gate[256] == pytest.approx(8 * of_a_gate[32], rel=0.01)
    assert of_a_gate[32] > 8 * 32 * 5_000
