"""The contract of every simulator in the registry."""

import pytest

from qcnn.simulators import Simulator
from qcnn.testing.simulators import SimulatorContract
from tests.qcnn.simulators.every import EVERY


class TestSimulators(SimulatorContract):
    @pytest.fixture(params=EVERY)
    def simulator(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    def readout_error(self, simulator: Simulator) -> float:
        # TensorFlow Quantum computes in float32.
        return 1e-5 if simulator.name == "tfq" else super().readout_error(simulator)

    def gradient_error(self, simulator: Simulator) -> float:
        # TensorFlow Quantum differentiates gates numerically.
        return 3e-3 if simulator.name == "tfq" else super().gradient_error(simulator)

    def test_too_little_memory_is_one_clear_error(self, simulator: str) -> None:
        if simulator == "tfq":
            pytest.skip("TensorFlow Quantum manages its memory itself")
        super().test_too_little_memory_is_one_clear_error(simulator)
