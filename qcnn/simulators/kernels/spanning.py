"""Programs for the states that determine the readouts of all excitations of some qubits.

The data states are superpositions of the graph state and one flipped state per qubit (`data_states`). Lane 0 holds the
sample at the angle 0, and every other lane the sample of a qubit at the angle pi. The sample at pi / 2 is their sum
over sqrt(2), before and after the gates, so it is not evolved.
"""

import dataclasses

from qcnn.simulators.kernels.program import Measurement, Mix, Program, Register


def with_mixture(program: Program) -> Program:
    """Return a program of one register with the values of the readouts, and then those of the mixture of each lane.

    Args:
        program: Program that evolves a sample in each lane.
    """
    (register,) = program.registers
    mixture = len(program.registers)
    measured = [each for each in program.operations if isinstance(each, Measurement)]
    again = [dataclasses.replace(each, target=mixture, first=len(program.split.observables)) for each in measured]
    return dataclasses.replace(
        program,
        registers=(register, Register(register.qubits, program.rows)),
        operations=(*program.operations, Mix(mixture, 0), *again),
    )
