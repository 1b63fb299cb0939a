"""Every gate with a parameter of its own, and by how much it is shifted for a gradient that hardware can measure.

In one gate's exponent t a readout is a trigonometric polynomial, whose frequencies are the differences of the gate's
phases. With R of them, all multiples of the least, its slope is a sum over 2R shifted readouts (Wierichs, Izaac, Wang
and Lin, Quantum 6, 677, equation 18); with two phases, R = 1, this is the rule of Mitarai et al. (Phys. Rev. A 98,
032309) and Schuld et al. (Phys. Rev. A 99, 032331).
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import sympy

from qcnn.errors import ConfigError
from qcnn.simulators.structure.gates import PHASE_ROUNDING, CircuitIR, Gate, GateSpectrum, LinearExponent

# Beyond that, the factors of the rule are so many and so large that shots cannot follow.
_MOST_FREQUENCIES = 8


@dataclasses.dataclass(frozen=True, eq=False)
class ShiftedCircuit:
    """A network whose parameters are the exponents of single gates, and the points at which its slopes are measured.

    Its parameters are `constants` + `coefficients` @ those of the network it was made of. Point k shifts the parameter
    `occurrence[k]` by `shift[k]`; its readouts count `factor[k]` times in the slope there.
    """

    network: CircuitIR
    constants: npt.NDArray[np.float64]  # (occurrences,)
    coefficients: npt.NDArray[np.float64]  # (occurrences, parameters)
    occurrence: npt.NDArray[np.int32]  # (points,)
    shift: npt.NDArray[np.float64]  # (points,)
    factor: npt.NDArray[np.float64]  # (points,)


# Estimates for several batches, and the simulator itself, ask for the same.
@functools.lru_cache(maxsize=1)
def shift_parameters(network: CircuitIR) -> ShiftedCircuit:
    """Give each gate of a network a parameter of its own.

    Raises:
        ConfigError: a gate has phases that are too many, or no multiples of one difference.
    """
    gates: list[Gate] = []
    constants: list[float] = []
    rows: list[npt.NDArray[np.float64]] = []
    points: list[tuple[int, float, float]] = []
    rules: dict[int, list[tuple[float, float]]] = {}
    for gate in network.gates:
        if not gate.exponent.coefficients:
            gates.append(gate)
            continue
        number = len(constants)
        if id(gate.spectrum) not in rules:
            rules[id(gate.spectrum)] = list(_rule(gate.spectrum))
        points += [(number, shift, factor) for shift, factor in rules[id(gate.spectrum)]]
        gates.append(dataclasses.replace(gate, exponent=LinearExponent(0.0, ((number, 1.0),))))
        constants.append(gate.exponent.constant)
        row = np.zeros(network.parameters)
        for index, coefficient in gate.exponent.coefficients:
            row[index] = coefficient
        rows.append(row)
    symbols = sympy.symbols(f"occurrence0:{len(constants)}")
    own = dataclasses.replace(
        network,
        ansatz=dataclasses.replace(network.ansatz, symbols=symbols),
        gates=tuple(gates),
        evaluations=1 + len(points),
    )
    occurrence, shift, factor = np.array(points, np.float64).reshape(-1, 3).T
    coefficients = np.array(rows).reshape(len(rows), network.parameters)
    return ShiftedCircuit(own, np.array(constants), coefficients, occurrence.astype(np.int32), shift, factor)


def with_shift_rule(network: CircuitIR, gradient: str) -> CircuitIR:
    """Return what is simulated of a network for a kind of gradient, the experiment's word.

    Raises:
        ConfigError: as `shift_parameters`.
    """
    return shift_parameters(network).network if gradient == "parameter_shift" else network


def _rule(spectrum: GateSpectrum) -> Iterator[tuple[float, float]]:
    """Yield the shifts of a gate's exponent, and the factor of the readouts at each."""
    phases = np.unique(spectrum.phases)
    phases = phases[np.diff(phases, prepend=-np.inf) > PHASE_ROUNDING]
    differences = [later - earlier for earlier, later in itertools.combinations(phases.tolist(), 2)]
    if not differences:
        return
    least = min(differences)
    multiples = np.array(differences) / least
    count = round(max(multiples))
    # Of the least difference, whose rounding counts once for each multiple of it.
    rounding = count * PHASE_ROUNDING / least
    if count > _MOST_FREQUENCIES or not np.allclose(multiples, np.round(multiples), rtol=0, atol=rounding):
        raise ConfigError(
            f"gradient: parameter_shift needs gates whose phases differ by multiples of one number, at most "
            f"{_MOST_FREQUENCIES} of it. Given: phases {', '.join(f'{phase:g}' for phase in phases)} in units of pi"
        )
    for number in range(1, 2 * count + 1):
        angle = (2 * number - 1) * math.pi / (2 * count)
        factor = math.pi * least * (-1) ** (number - 1) / (4 * count * math.sin(angle / 2) ** 2)
        yield angle / (math.pi * least), factor
