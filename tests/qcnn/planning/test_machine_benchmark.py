"""A machine is measured by real programs."""

import dataclasses
import math

from qcnn.planning.machine_benchmark import benchmark_machine


def test_a_machine_has_rates() -> None:
    machine = benchmark_machine()
    rates = [*dataclasses.astuple(machine.speed), machine.call_seconds, machine.sample_seconds]
    assert all(math.isfinite(rate) and rate > 0 for rate in rates), machine
    # Within orders of magnitude of any machine: a kernel takes more than a cycle, and a call more than a kernel.
    assert 1e-9 < machine.speed.kernel_seconds < machine.call_seconds < 1
    assert 1e7 < machine.speed.few_flops < 1e14
    assert 1e7 < machine.speed.flops < 1e16
