"""Estimates of runtime and cost on remote targets, by number of workers."""

from typing import Any

import pytest

from qcnn.circuits import circuits
from qcnn.circuits.preparation import Preparation
from qcnn.costs.platforms import on_kubernetes
from qcnn.costs.scaling import ScalingOptions, compare_worker_counts, gpu_speed, local_is_sufficient
from qcnn.experiment.parsing import from_mapping
from qcnn.jobs.accelerators import ACCELERATORS
from qcnn.jobs.pod_settings import pod_settings
from qcnn.jobs.pricing import load_default_prices
from qcnn.planning.machine import NOMINAL_MACHINE
from qcnn.planning.plan import count, predict
from qcnn.simulators import SimulatorLimits, registry
from qcnn.simulators.structure.gates import read_network

# Its states use a core fully, so more workers are faster.
LARGE = {"model": "deep", "qubits": 16, "rounds": 100, "batch_size": 256, "epochs": 200}


def estimated(settings: dict[str, Any], **fields: Any) -> ScalingOptions:
    config = from_mapping({**LARGE, **fields})
    requested = pod_settings({"image": "qcnn", **settings})
    return compare_worker_counts(
        config, count(config), on_kubernetes(requested, load_default_prices()), NOMINAL_MACHINE, requested.spot
    )


def test_more_workers_are_faster_and_cost_more() -> None:
    found = estimated({"cpu": "4", "memory": "4Gi"}, workers=3, simulator="statevector")
    assert [option.workers for option in found.compared] == [1, 2, 3, 4, 8, 16, 32]
    assert found.requested.workers == 3
    assert found.cheapest.workers < found.fastest.workers
    assert found.fastest.seconds < 0.5 * found.cheapest.seconds
    assert found.fastest.bill.dollars > found.cheapest.bill.dollars
    assert found.fastest.bill.machines > found.cheapest.bill.machines


def test_requested_option_equals_prediction() -> None:
    config = from_mapping({**LARGE, "workers": 3})
    expected = predict(config, count(config), NOMINAL_MACHINE.with_cores(4)).chosen
    assert estimated({"cpu": "4", "memory": "4Gi"}, workers=3).requested.epoch_seconds == expected


def test_cost_includes_evaluator_and_parameter_servers() -> None:
    """An evaluator and a parameter server are pods, too."""
    alone = estimated({"cpu": "7", "memory": "4Gi"}, workers=4, strategy="parameter_server", options={"ps": 1})
    more = estimated({"cpu": "7", "memory": "4Gi"}, workers=4, strategy="parameter_server", options={"ps": 4})
    assert [option.workers for option in alone.compared] == [4]
    # Six pods run on three nodes, two each. Nine pods run on nine smaller nodes: the last of five would be half empty.
    assert (alone.requested.bill.machines, more.requested.bill.machines) == (3, 9)
    assert more.requested.bill.dollars > alone.requested.bill.dollars


def test_option_that_exceeds_memory_is_not_selected() -> None:
    """The process of one worker takes 1.36 GB, and each of two workers 1.23 GB."""
    found = estimated({"cpu": "1", "memory": "1250Mi"}, qubits=20, options={"simulator_memory_gib": 64})
    fits = {option.workers: option.fits for option in found.compared}
    assert not fits[1]
    assert fits[2]
    assert fits[found.cheapest.workers]
    assert fits[found.fastest.workers]


def test_time_on_gpu_is_that_of_three_tenths_of_its_peak_rates() -> None:
    """Memory bandwidth determines the time in complex64. In complex128, it is the low 64-bit rate of this GPU."""
    gpu = ACCELERATORS["nvidia-l4"]
    speed, seconds = gpu_speed(gpu), {}
    for precision, flops in (("complex64", gpu.flops), ("complex128", 2 * gpu.double_flops)):
        fields = {**LARGE, "simulator": "statevector", "workers": 1, "options": {"precision": precision}}
        cost = count(from_mapping(fields)).chosen.cost
        seconds[precision] = speed.seconds(cost) - cost.kernels * speed.kernel_seconds
        assert seconds[precision] == pytest.approx(max(cost.flops / flops, cost.traffic / gpu.traffic) / 0.3)
        assert gpu_speed(ACCELERATORS["nvidia-h100-80gb"]).seconds(cost) < speed.seconds(cost)
    assert seconds["complex128"] > 4 * seconds["complex64"]


@pytest.mark.parametrize(
    ("qubits", "batch", "precision", "measured"),
    [
        (12, 32, "complex64", 0.75e-3),
        (16, 32, "complex64", 2.30e-3),
        (16, 256, "complex64", 11.9e-3),
        (20, 32, "complex64", 33.8e-3),
        (24, 32, "complex64", 742e-3),
        (16, 32, "complex128", 3.32e-3),
        (20, 32, "complex128", 44.2e-3),
    ],
)
def test_time_on_gpu_is_within_a_factor_of_two_of_measured_steps(
    qubits: int, batch: int, precision: str, measured: float
) -> None:
    """The steps of docs/gpus.md: deep on an H200, with one feature per qubit."""
    network = read_network(circuits.build("deep", qubits), circuits.ring(qubits), Preparation("ry", qubits))
    real_bytes = {"complex64": 4, "complex128": 8}[precision]
    limits = SimulatorLimits(120 * 2**30, batch, real_bytes=real_bytes, builtin_operations=True)
    cost = registry.estimate("statevector", network, limits)
    assert measured / 2 < gpu_speed(ACCELERATORS["nvidia-h200-141gb"]).seconds(cost) < 2 * measured


def test_workers_on_gpus_are_compared_by_their_gpus() -> None:
    settings = {"cpu": "4", "memory": "4Gi"}
    on_cores, on_gpus = estimated(settings, workers=2), estimated({**settings, "accelerator": "nvidia-l4"}, workers=2)
    assert (on_cores.requested.on_gpu, on_gpus.requested.on_gpu) == (False, True)
    assert on_gpus.requested.epoch_seconds < on_cores.requested.epoch_seconds
    same_simulator = estimated(settings, workers=2, simulator=on_gpus.simulator)
    assert on_gpus.requested.epoch_seconds < 0.5 * same_simulator.requested.epoch_seconds
    # Devices of a processor share its cores, but each GPU has its own rates.
    mirrored: dict[str, Any] = {"strategy": "mirrored", "workers": 1, "options": {"devices": 2}}
    two = estimated({**settings, "accelerator": "nvidia-l4", "gpus": 2}, **mirrored).requested.epoch_seconds
    one = estimated({**settings, "accelerator": "nvidia-l4"}, workers=1, strategy="none").requested.epoch_seconds
    assert two < one


def test_gpu_of_unknown_model_has_time_of_cores() -> None:
    settings, fields = {"cpu": "4", "memory": "4Gi"}, {"simulator": "statevector"}
    on_cores, unknown = estimated(settings, **fields), estimated({**settings, "gpus": 1}, **fields)
    assert not unknown.requested.on_gpu
    assert unknown.requested.epoch_seconds == on_cores.requested.epoch_seconds
    assert unknown.requested.bill.dollars > on_cores.requested.bill.dollars


@pytest.mark.parametrize(("seconds", "enough"), [(10, True), (900, True), (1e5, False)])
def test_local_is_sufficient_for_short_training(seconds: float, enough: bool) -> None:
    assert local_is_sufficient(seconds, 1e6, estimated({"cpu": "4", "memory": "4Gi"})) == enough


def test_local_without_memory_is_not_sufficient() -> None:
    assert not local_is_sufficient(10, 1e16, estimated({"cpu": "4", "memory": "4Gi"}))
