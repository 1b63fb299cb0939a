"""Cost estimates and checks of simulator lightcone."""

import pytest

from qcnn.circuits.preparation import Preparation
from qcnn.errors import ConfigError
from qcnn.simulators.costs import lightcone
from qcnn.simulators.costs.cost import NOMINAL
from qcnn.simulators.interface import SimulatorLimits
from qcnn.simulators.structure.gates import read_model

LIMITS = SimulatorLimits(memory=2**31, batch=32)


def test_lightcone_cost_is_independent_of_ring_length() -> None:
    costs = [lightcone.estimate(read_model("hybrid", qubits)[1], LIMITS) for qubits in (24, 64, 256)]
    assert costs[0].memory == costs[1].memory == costs[2].memory
    assert costs[0].kernels == costs[1].kernels == costs[2].kernels
    # Only the combination of readouts takes longer. Measured: 1.1 and 2 times as long.
    assert NOMINAL.seconds(costs[1]) < 1.1 * NOMINAL.seconds(costs[0])
    assert NOMINAL.seconds(costs[2]) < 1.6 * NOMINAL.seconds(costs[0])


@pytest.mark.parametrize(("qubits", "need"), [(32, "[0-9.e+]+ TiB"), (129, "more than any machine has")])
def test_check_too_wide_light_cone_raises(qubits: int, need: str) -> None:
    _, network = read_model("deep", qubits)
    with pytest.raises(
        ConfigError,
        match=rf"^qubits: .*too wide.*lightcone.*{need}; simulator_memory_gib allows 2 GiB. Given: {qubits}$",
    ):
        lightcone.check(network, LIMITS)


def test_product_state_cost_is_proportional_to_samples() -> None:
    _, network = read_model("hybrid", 24, Preparation("ry", 24))
    one, many = (lightcone.estimate(network, SimulatorLimits(2**40, batch)) for batch in (100, 1000))
    assert many.memory == 10 * one.memory
    assert many.operations > 9 * one.operations
    # Replicas split the batch by sample.
    assert lightcone.estimate(network, SimulatorLimits(2**40, 1000, replicas=10)) == one


def test_product_state_chunks_fit_memory_limit() -> None:
    _, network = read_model("hybrid", 24, Preparation("ry", 24))
    sample = lightcone.estimate(network, SimulatorLimits(2**40, 1)).memory
    limits = SimulatorLimits(3.5 * sample, 32)
    bound, free = lightcone.estimate(network, limits), lightcone.estimate(network, LIMITS)
    assert lightcone.fitting(network, limits) == 3
    assert bound.memory == 3 * sample
    assert bound.operations > free.operations
    with pytest.raises(ConfigError, match=r"^qubits: .*too wide for simulator lightcone.* Given: 24$"):
        lightcone.check(network, SimulatorLimits(sample - 1, 32))
