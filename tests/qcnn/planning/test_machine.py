"""Seconds of an epoch from operation counts and the rates of a machine."""

import dataclasses
from typing import Any

import pytest

from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.parsing import from_mapping
from qcnn.planning.machine import MachineProfile, expected_seconds, steps_of
from qcnn.simulators.costs.cost import MachineSpeed, StepCost
from qcnn.simulators.registry import Estimate

# Kernels take 1 ms, and nothing else takes any time.
SLOW = MachineProfile(
    MachineSpeed(flops=1e30, traffic=1e30, few_flops=1e30, kernel_seconds=1e-3),
    call_seconds=0.0,
    sample_seconds=0.0,
    cores=2,
)


def config_of(**words: Any) -> ExperimentConfig:
    return from_mapping({"qubits": 8, "rounds": 100, "batch_size": 32, "workers": 1, "strategy": "none", **words})


def seconds(machine: MachineProfile, readouts: int = 4, **words: Any) -> float:
    return expected_seconds(
        config_of(**words), readouts, Estimate("lightcone", StepCost(kernels=1.0), fits=True), machine
    )


def test_expected_seconds_validation_step_is_quarter() -> None:
    """The dataset has 560 training and 120 validation samples."""
    assert steps_of(config_of()) == (18, 4)
    assert seconds(SLOW) == pytest.approx((18 + 0.25 * 4) * 1e-3)


def test_expected_seconds_has_three_calls_per_epoch() -> None:
    with_calls = dataclasses.replace(SLOW, call_seconds=1.0)
    assert seconds(with_calls) - seconds(SLOW) == pytest.approx(3.0)


def test_expected_seconds_includes_sample_ordering() -> None:
    ordered = dataclasses.replace(SLOW, sample_seconds=1.0)
    assert seconds(ordered) - seconds(SLOW) == pytest.approx(560.0)


def test_expected_seconds_workers_add_reductions() -> None:
    assert seconds(SLOW, workers=2, strategy="multi_worker") - seconds(SLOW) == pytest.approx(19e-3)


def test_expected_seconds_hidden_layer_scales_with_its_size() -> None:
    machine = MachineProfile(
        MachineSpeed(flops=1e30, traffic=1e30, few_flops=1e6, kernel_seconds=0.0),
        call_seconds=0.0,
        sample_seconds=0.0,
        cores=2,
    )
    assert seconds(machine, readouts=1) == pytest.approx(0.0, abs=1e-12)
    plain = seconds(machine)
    assert seconds(machine, readouts=500) > 10 * plain
    assert seconds(machine, hidden_units=80) == pytest.approx(10 * plain)
    # Half as many steps, each with twice as many samples.
    assert seconds(machine, batch_size=64) == pytest.approx(plain, rel=0.1)


def test_expected_seconds_asynchronous_limited_by_dispatch() -> None:
    slow = dataclasses.replace(SLOW, speed=dataclasses.replace(SLOW.speed, kernel_seconds=1.0))
    servers: dict[str, Any] = {"strategy": "parameter_server", "simulator": "lightcone"}
    assert seconds(slow, workers=4, **servers) == pytest.approx(18 / 4 + 0.25 * 4)
    # A dispatch takes 8 ms.
    assert seconds(SLOW, workers=4, **servers) == pytest.approx(18 * 8e-3 + 0.25 * 4 * 1e-3)


@pytest.mark.parametrize("strategy", ["mirrored", "central_storage"])
def test_expected_seconds_cpu_devices_share_cores(strategy: str) -> None:
    one = seconds(SLOW, strategy=strategy)
    assert one == pytest.approx(seconds(SLOW))
    assert seconds(SLOW, strategy=strategy, options={"devices": 2}) > 2 * one


@pytest.mark.parametrize(
    ("cores", "many", "one"), [(2, 1.0, 1.0), (8, 4.0, 1.0), (1, 0.5, 1.0), (0.5, 0.25, 0.5)], ids=str
)
def test_with_cores_scales_only_parallel_rates(cores: float, many: float, one: float) -> None:
    """A fraction of a core slows down all rates."""
    speed = MachineSpeed(8.0, 4.0, 2.0, 1e-6, compiled_flops=6.0)
    machine = MachineProfile(speed, call_seconds=1e-3, sample_seconds=1e-5, cores=2)
    scaled = machine.with_cores(cores)
    assert (scaled.speed.flops, scaled.speed.traffic) == (8.0 * many, 4.0 * many)
    assert scaled.speed.few_flops == 2.0 * one
    assert scaled.speed.compiled_flops == 6.0 * many
    seconds = (scaled.speed.kernel_seconds, scaled.call_seconds, scaled.sample_seconds)
    assert seconds == pytest.approx((1e-6 / one, 1e-3 / one, 1e-5 / one))
