"""Programs of deep circuits."""

import functools

from qcnn.circuits import circuits
from qcnn.circuits.preparation import Preparation
from qcnn.simulators.kernels.lanes import spread
from qcnn.simulators.kernels.program import Program, build
from qcnn.simulators.structure.gates import read_network
from tests.calls import count_calls
from tests.qcnn.simulators.test_statevector_cpu import layered

# Calls for 4 times as many layers, relative to those for one number of layers.
LINEAR = 4.4


def program_of(qubits: int, layers: int) -> Program:
    return build(read_network(layered(qubits, layers), circuits.ring(qubits), Preparation("ry", qubits)))


def test_build_calls_grow_linearly_with_gates() -> None:
    small, large = (count_calls(functools.partial(program_of, 6, layers)) for layers in (20, 80))
    assert large < LINEAR * small


def test_spread_calls_grow_linearly_with_gates() -> None:
    programs = [program_of(15, layers) for layers in (20, 80)]
    small, large = (count_calls(functools.partial(spread, program, 8)) for program in programs)
    assert large < LINEAR * small
