"""Parameter-shift rules, for gradients that hardware can measure.

As a function of one gate's exponent t, a readout is a trigonometric polynomial. Its frequencies are the differences of
the gate's phases. If the R frequencies are multiples of the smallest one, the derivative is a sum over 2R shifted
readouts (Wierichs, Izaac, Wang and Lin, Quantum 6, 677, equation 18). For two phases, R = 1, this is the rule of
Mitarai et al. (Phys. Rev. A 98, 032309) and Schuld et al. (Phys. Rev. A 99, 032331).
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import sympy

from qcnn.circuits.input_expressions import InputTerm
from qcnn.errors import ConfigError
from qcnn.simulators.structure.gates import PHASE_ROUNDING
from qcnn.simulators.structure.network import CircuitIR, Gate, GateSpectrum, LinearExponent

# With more frequencies, the factors of the rule are too many and too large for estimates from shots.
_MAX_FREQUENCIES = 8


@dataclasses.dataclass(frozen=True, eq=False)
class ShiftedCircuit:
    """Network with one parameter per gate, and the shift points that determine its gradient.

    The parameters are constants + coefficients @ parameters of the original network. Shift point k shifts parameter
    `occurrence[k]` by `shift[k]`, and contributes its readouts with weight `factor[k]` to that partial derivative.

    Of a gate that depends on inputs, the parameter is 0. Its exponent by sample, an input of the network with one
    parameter per gate, is added to it. `by_sample` has the number of that input for each occurrence, or -1.
    """

    network: CircuitIR
    constants: npt.NDArray[np.float64]  # (occurrences,)
    coefficients: npt.NDArray[np.float64]  # (occurrences, parameters)
    occurrence: npt.NDArray[np.int32]  # (points,)
    shift: npt.NDArray[np.float64]  # (points,)
    factor: npt.NDArray[np.float64]  # (points,)
    by_sample: npt.NDArray[np.int32]  # (occurrences,)


# Cached, because the estimates for several batches and the simulator use the same result.
@functools.lru_cache(maxsize=1)
def shift_parameters(network: CircuitIR) -> ShiftedCircuit:
    """Convert a network to one parameter per gate, with shift points.

    Raises:
        ConfigError: If a gate has too many frequencies, or they are not multiples of the smallest one.
    """
    gates: list[Gate] = []
    constants: list[float] = []
    rows: list[npt.NDArray[np.float64]] = []
    points: list[tuple[int, float, float]] = []
    rules: dict[int, list[tuple[float, float]]] = {}
    inputs = tuple(sympy.symbols(f"exponent0:{len(network.exponents_by_sample)}"))
    numbers = {exponent: number for number, exponent in enumerate(network.exponents_by_sample)}
    by_sample: list[int] = []
    for gate in network.gates:
        if not (gate.exponent.coefficients or gate.is_by_sample):
            gates.append(gate)
            continue
        number = len(constants)
        if id(gate.spectrum) not in rules:
            rules[id(gate.spectrum)] = list(_rule(gate.spectrum))
        points += [(number, shift, factor) for shift, factor in rules[id(gate.spectrum)]]
        added = numbers.get(gate.exponent, -1)
        by_sample.append(added)
        terms = () if added < 0 else (InputTerm(1.0, inputs[added], None),)
        gates.append(dataclasses.replace(gate, exponent=LinearExponent(0.0, ((number, 1.0),), terms)))
        row = np.zeros(network.parameters)
        rows.append(row)
        constants.append(0.0 if terms else gate.exponent.constant)
        if terms:
            continue
        for index, coefficient in gate.exponent.coefficients:
            row[index] = coefficient
    symbols = sympy.symbols(f"occurrence0:{len(constants)}")
    shifted = dataclasses.replace(
        network,
        ansatz=dataclasses.replace(network.ansatz, symbols=symbols, inputs=inputs),
        gates=tuple(gates),
        evaluations=1 + len(points),
    )
    occurrence, shift, factor = np.array(points, np.float64).reshape(-1, 3).T
    coefficients = np.array(rows).reshape(len(rows), network.parameters)
    return ShiftedCircuit(
        shifted,
        np.array(constants),
        coefficients,
        occurrence.astype(np.int32),
        shift,
        factor,
        np.array(by_sample, np.int32),
    )


def with_shift_rule(network: CircuitIR, gradient: str) -> CircuitIR:
    """Return the network that is simulated for a value of the experiment field `gradient`.

    Raises:
        ConfigError: If the parameter-shift rule does not support a gate, see `shift_parameters`.
    """
    return shift_parameters(network).network if gradient == "parameter_shift" else network


def _rule(spectrum: GateSpectrum) -> Iterator[tuple[float, float]]:
    """Yield the shifts of a gate's exponent, with the weight of the readouts at each."""
    phases = np.unique(spectrum.phases)
    phases = phases[np.diff(phases, prepend=-np.inf) > PHASE_ROUNDING]
    differences = [later - earlier for earlier, later in itertools.combinations(phases.tolist(), 2)]
    if not differences:
        return
    smallest = min(differences)
    multiples = np.array(differences) / smallest
    count = round(max(multiples))
    # The rounding error of the smallest difference is multiplied by up to `count`.
    rounding = count * PHASE_ROUNDING / smallest
    if count > _MAX_FREQUENCIES or not np.allclose(multiples, np.round(multiples), rtol=0, atol=rounding):
        raise ConfigError(
            f"gradient: parameter_shift needs gates whose phases differ by multiples of one number, at most "
            f"{_MAX_FREQUENCIES} times. Given: phases {', '.join(f'{phase:g}' for phase in phases)} in units of pi"
        )
    for number in range(1, 2 * count + 1):
        angle = (2 * number - 1) * math.pi / (2 * count)
        factor = math.pi * smallest * (-1) ** (number - 1) / (4 * count * math.sin(angle / 2) ** 2)
        yield angle / (math.pi * smallest), factor
