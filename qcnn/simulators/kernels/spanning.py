"""Programs for the states that determine the readouts of all excitations of some qubits.

The data states are superpositions of the graph state and one flipped state per qubit (`data_states`): a lane holds the
sample of a qubit at the angle pi. The sample at pi / 2 is the sum of the states at 0 and pi over sqrt(2), before and
after the gates, so it is not evolved. The state at the angle 0, the unexcited one, is in lane 0 of each bundle, or in
a separate register with qubits in its lanes.
"""

import dataclasses
from collections.abc import Sequence

from qcnn.simulators.kernels.lanes import spread
from qcnn.simulators.kernels.program import BasisChange, Measurement, Mix, Operation, Program, Register


def with_mixture(program: Program) -> Program:
    """Return a program of one register with the values of the readouts, and then those of the mixture of each lane.

    Args:
        program: Program that evolves a sample in each lane.
    """
    (register,) = program.registers
    mixture = Register(register.qubits, program.rows)
    operations = (
        *program.operations,
        Mix(1, 0),
        *_measured_again(program.operations, 1, len(program.split.observables)),
    )
    return dataclasses.replace(program, registers=(register, mixture), operations=operations)


def with_unexcited(program: Program, lanes: int) -> Program:
    """Return a program with the values of `with_mixture`, and then those of the unexcited state.

    The unexcited state is a second leaf. The lanes of its register hold qubits, so its values are sums over the lanes,
    and it takes the time of 1 / lanes bundles.

    Args:
        program: Program that evolves a sample in each lane, large enough for `spread`.
        lanes: Number of lanes of a vector, a power of two.
    """
    unexcited, readouts = spread(program, lanes), len(program.split.observables)
    (register,), (own,) = program.registers, unexcited.registers
    alone = [_moved(each, 1, 2 * readouts) for each in unexcited.operations]
    registers = (register, dataclasses.replace(own, row=program.rows))
    mixture = Register(register.qubits, program.rows + unexcited.rows)
    return dataclasses.replace(
        program,
        leaves=2,
        registers=(*registers, mixture),
        operations=(*program.operations, *alone, Mix(2, 0, 1), *_measured_again(program.operations, 2, readouts)),
    )


def _measured_again(operations: Sequence[Operation], register: int, first: int) -> list[Operation]:
    return [_moved(each, register, first) for each in operations if isinstance(each, Measurement | BasisChange)]


def _moved(operation: Operation, register: int, first: int) -> Operation:
    """Return an operation on another register, whose values start at another number."""
    if isinstance(operation, Measurement):
        return dataclasses.replace(operation, target=register, first=first)
    return dataclasses.replace(operation, target=register)
