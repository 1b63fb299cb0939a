"""Costs add up, and are put into words."""

import math

import pytest

from qcnn.simulators.costs.cost import MachineSpeed, StepCost, evolution, format_bytes, step
from qcnn.simulators.structure.gate_fusion import fuse, group_blocks
from qcnn.simulators.structure.gates import read_model


def test_one_after_the_other_adds_the_work_and_needs_the_larger_memory() -> None:
    one = StepCost(flops=1, traffic=2, few_flops=6, kernels=3, memory=5)
    other = StepCost(flops=10, traffic=20, few_flops=60, kernels=30, memory=4)
    assert one + other == StepCost(flops=11, traffic=22, few_flops=66, kernels=33, memory=5)
    assert one * 3 == StepCost(flops=3, traffic=6, few_flops=18, kernels=9, memory=5)
    assert (one + other).operations == 77


def test_arithmetic_and_traffic_overlap_and_every_kernel_takes_its_time() -> None:
    speed = MachineSpeed(flops=10, traffic=100, few_flops=4, kernel_seconds=0.5)
    assert speed.seconds(StepCost(flops=20, traffic=100, kernels=3)) == 1.5 + 2
    assert speed.seconds(StepCost(flops=5, traffic=100, kernels=3)) == 1.5 + 1
    # What one core does comes before or after.
    assert speed.seconds(StepCost(flops=20, traffic=100, few_flops=8, kernels=3)) == 1.5 + 2 + 2


def test_few_amplitudes_are_one_cores_and_a_group_sweeps_them_four_times() -> None:
    groups = group_blocks(fuse(read_model("hybrid", 4)[1].gates))
    assert {len(group.qubits) for group in groups} == {4}
    few, many = evolution(groups, 2.0**15, 8), evolution(groups, 2.0**16, 8)
    assert few == StepCost(few_flops=4 * 8 * 2**4 * 2.0**15 * len(groups))
    # Of numbers of 8 bytes half as many in a second; each sweep reads and writes two of them an amplitude.
    assert many == StepCost(flops=2 * 2 * few.few_flops, traffic=4 * 2 * 2 * 8 * 2.0**16 * len(groups))


def test_a_step_makes_the_matrices_of_equal_gates_once_however_long_the_ring() -> None:
    short, long, deep = (
        step(group_blocks(fuse(read_model(model, qubits)[1].gates)))
        for model, qubits in (("hybrid", 16), ("hybrid", 64), ("deep", 16))
    )
    assert short == long
    assert deep.kernels > 2 * short.kernels


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1.5 * 2**30, "1.5 GiB"),
        (2.0**60, "1.05e+06 TiB"),
        (math.inf, "more than any machine has"),
    ],
)
def test_bytes_are_put_into_words(count: float, words: str) -> None:
    assert format_bytes(count) == words
