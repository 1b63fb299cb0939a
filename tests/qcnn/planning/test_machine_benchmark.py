"""Benchmark of the local machine."""

import dataclasses
import math

import pytest

from qcnn.planning import machine_benchmark
from qcnn.planning.machine_benchmark import benchmark_machine
from qcnn.process.operating_system import cores
from qcnn.simulators import SimulatorLimits, kernels
from qcnn.simulators.costs import statevector
from qcnn.simulators.costs.cost import NOMINAL
from qcnn.simulators.structure.gates import read_model


def test_benchmark_without_compiled_kernels_has_rate_of_typical_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "missing_reason", lambda: "not compiled at installation")
    # The other rates, which take seconds.
    cost = statevector.estimate(read_model("deep", 4)[1], SimulatorLimits(2**30, 1))
    monkeypatch.setattr(machine_benchmark, "_epoch", lambda: (1e-3, 1e-6))
    monkeypatch.setattr(machine_benchmark, "_evolution", lambda *_: (1.0, cost))
    assert benchmark_machine().speed.compiled_flops == NOMINAL.compiled_flops * cores() / 2


def test_benchmark_machine_returns_plausible_rates() -> None:
    machine = benchmark_machine()
    # The 64-bit rate of a processor follows from the others.
    assert machine.speed.double_flops is None
    speed = dataclasses.replace(machine.speed, double_flops=machine.speed.flops)
    rates = [*dataclasses.astuple(speed), machine.call_seconds, machine.sample_seconds]
    assert all(math.isfinite(rate) and rate > 0 for rate in rates), machine
    # Wide bounds that hold on any machine: a kernel takes more than a cycle, and a call more than a kernel.
    assert 1e-9 < machine.speed.kernel_seconds < machine.call_seconds < 1
    assert 1e7 < machine.speed.few_flops < 1e14
    assert 1e7 < machine.speed.flops < 1e16
    assert 1e7 < machine.speed.compiled_flops < 1e14
