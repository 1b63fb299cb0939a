"""Seconds of an epoch follow from counts and the rates of a machine."""

import dataclasses
from typing import Any

import pytest

from qcnn.experiment import ExperimentConfig
from qcnn.experiment_io import from_mapping
from qcnn.planning.machine import MachineProfile, expected_seconds, steps_of
from qcnn.simulators.costs.cost import MachineSpeed, StepCost
from qcnn.simulators.registry import Estimate

# Whose kernels take a millisecond; nothing else takes any time.
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


def test_a_step_without_a_gradient_takes_a_quarter() -> None:
    """560 training samples and 120 of validation."""
    assert steps_of(config_of()) == (18, 4)
    assert seconds(SLOW) == pytest.approx((18 + 0.25 * 4) * 1e-3)


def test_training_and_validation_are_entered_once_each() -> None:
    entered = dataclasses.replace(SLOW, call_seconds=1.0)
    assert seconds(entered) - seconds(SLOW) == pytest.approx(2.0)


def test_every_training_sample_is_brought_into_order() -> None:
    ordered = dataclasses.replace(SLOW, sample_seconds=1.0)
    assert seconds(ordered) - seconds(SLOW) == pytest.approx(560.0)


def test_workers_reduce_once_an_update_and_once_for_validation() -> None:
    assert seconds(SLOW, workers=2, strategy="multi_worker") - seconds(SLOW) == pytest.approx(19e-3)


def test_the_hidden_layer_takes_longer_with_readouts_units_and_samples_and_one_readout_has_none() -> None:
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
    # Half of the steps, of twice as many samples.
    assert seconds(machine, batch_size=64) == pytest.approx(plain, rel=0.1)


def test_workers_that_are_not_in_step_train_side_by_side_as_fast_as_batches_are_handed_out() -> None:
    slow = dataclasses.replace(SLOW, speed=dataclasses.replace(SLOW.speed, kernel_seconds=1.0))
    servers: dict[str, Any] = {"strategy": "parameter_server", "simulator": "lightcone"}
    assert seconds(slow, workers=4, **servers) == pytest.approx(18 / 4 + 0.25 * 4)
    # 8 ms each.
    assert seconds(SLOW, workers=4, **servers) == pytest.approx(18 * 8e-3 + 0.25 * 4 * 1e-3)


@pytest.mark.parametrize("strategy", ["mirrored", "central_storage"])
def test_devices_of_a_processor_share_its_cores(strategy: str) -> None:
    one = seconds(SLOW, strategy=strategy)
    assert one == pytest.approx(seconds(SLOW))
    assert seconds(SLOW, strategy=strategy, options={"devices": 2}) > 2 * one


@pytest.mark.parametrize(
    ("cores", "many", "one"), [(2, 1.0, 1.0), (8, 4.0, 1.0), (1, 0.5, 1.0), (0.5, 0.25, 0.5)], ids=str
)
def test_what_many_cores_share_grows_with_them_and_what_one_does_stays(cores: float, many: float, one: float) -> None:
    """With less than a core all of it takes longer."""
    machine = MachineProfile(MachineSpeed(8.0, 4.0, 2.0, 1e-6), call_seconds=1e-3, sample_seconds=1e-5, cores=2)
    found = machine.with_cores(cores)
    assert (found.speed.flops, found.speed.traffic) == (8.0 * many, 4.0 * many)
    assert found.speed.few_flops == 2.0 * one
    seconds = (found.speed.kernel_seconds, found.call_seconds, found.sample_seconds)
    assert seconds == pytest.approx((1e-6 / one, 1e-3 / one, 1e-5 / one))
