"""File predictor.json of a model folder: what predicts without TensorFlow and Cirq.

For excitations, it has the table of coefficients. For rows, it has the gates of the circuit, from which the programs of
the kernels are built. It contains numbers only, which are checked before they are used.
"""

import dataclasses
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from qcnn.artifact_io import check_size
from qcnn.atomic_files import readable
from qcnn.circuits.input_functions import check_form
from qcnn.circuits.preparation import Preparation
from qcnn.model.array_layers import ACTIVATIONS, Dense
from qcnn.results.model_folder import MAX_BYTES, PREDICTOR
from qcnn.simulators.structure.network import MAX_GATE_QUBITS, CircuitIR, Gate, GateSpectrum, LinearExponent
from qcnn.simulators.structure.pauli_strings import PauliString, ReadoutSums

if TYPE_CHECKING:
    import cirq

    from qcnn.circuits.ansatz import Ansatz
    from qcnn.circuits.input_expressions import InputTerm

_Floats: TypeAlias = npt.NDArray[np.float64]
# Function of model inputs by name, each (samples, ...). It returns predictions from exact readouts, float64
# (samples,) or (samples, classes).
ExactPredictor: TypeAlias = Callable[[Mapping[str, npt.NDArray[Any]]], _Floats]

_TABLE, _CIRCUIT, _WEIGHTS, _ROUNDING, _FINGERPRINT = "table", "circuit", "weights_sha256", "rounding", "fingerprint"


@dataclasses.dataclass(frozen=True, eq=False)
class ExcitationTable:
    """Table that replaces the circuit and the first layer for excitations.

    Each input of the first activation is constant + cosine x cos(angle) + sine x sin(angle), float64 (qubits, units).

    Attributes:
        constant: Constants.
        cosine: Coefficients of the cosine.
        sine: Coefficients of the sine.
        activation: Name of the first activation.
        layers: Later layers.
        rounding: Bound on the rounding error of predictions.
    """

    constant: _Floats
    cosine: _Floats
    sine: _Floats
    activation: str
    layers: tuple[Dense, ...]
    rounding: float


@dataclasses.dataclass(frozen=True, eq=False)
class StoredCircuit:
    """Circuit of rows, and the head of its readouts.

    Attributes:
        network: Circuit, of which `ansatz` and `ring` have valid lengths only.
        expressions: Functions of the inputs, see `input_functions`, in the order of the terms' expressions.
        head: Head of the network: expectation, probabilities, softmax or dense.
        fingerprint: Fingerprint of the circuit, see `structure.gates.fingerprint`.
    """

    network: CircuitIR
    expressions: tuple[Any, ...]
    head: str
    fingerprint: str


def table_content(table: ExcitationTable, weights_sha256: str) -> dict[str, Any]:
    """Return the content of the file for excitations.

    Args:
        table: Table of the model.
        weights_sha256: SHA-256 of the weights from which it was computed.
    """
    layers = [[each.kernel.tolist(), each.bias.tolist(), each.activation] for each in table.layers]
    parts = {name: getattr(table, name).tolist() for name in ("constant", "cosine", "sine")}
    return {
        _WEIGHTS: weights_sha256,
        _ROUNDING: table.rounding,
        _TABLE: {**parts, "activation": table.activation, "layers": layers},
    }


def circuit_content(
    network: CircuitIR, head: str, fingerprint: str, to_array_form: Callable[[Any, Sequence[str]], Any]
) -> dict[str, Any]:
    """Return the content of the file for rows.

    Args:
        network: Circuit without noise.
        head: Head of the network.
        fingerprint: Fingerprint of the circuit.
        to_array_form: Function that converts an expression of inputs, see `input_expressions.array_form`.
    """
    spectra = {gate.spectrum.key: gate.spectrum for gate in network.gates}
    exponents = dict.fromkeys(gate.exponent for gate in network.gates)
    expressions = list(dict.fromkeys(term.expression for each in exponents for term in each.terms))
    place_of_spectrum = {key: number for number, key in enumerate(spectra)}
    place_of_exponent = {exponent: number for number, exponent in enumerate(exponents)}
    sums = network.sums
    return {
        _FINGERPRINT: fingerprint,
        _CIRCUIT: {
            "head": head,
            "qubits": network.qubits,
            "parameters": network.parameters,
            "spectra": [
                [each.phases.tolist(), each.projectors.real.tolist(), each.projectors.imag.tolist()]
                for each in spectra.values()
            ],
            "expressions": [to_array_form(each, network.inputs) for each in expressions],
            "exponents": [
                [
                    each.constant,
                    [list(pair) for pair in each.coefficients],
                    [[term.coefficient, expressions.index(term.expression), term.parameter] for term in each.terms],
                ]
                for each in exponents
            ],
            "gates": [
                [place_of_spectrum[gate.spectrum.key], place_of_exponent[gate.exponent], list(gate.qubits)]
                for gate in network.gates
            ],
            "strings": [[list(each.qubits), each.axes] for each in network.strings],
            "coefficients": None if sums.coefficients is None else sums.coefficients.tolist(),
            "constants": sums.constants.tolist(),
        },
    }


def write(content: Mapping[str, Any], folder: Path) -> None:
    """Write the file into a model folder."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    (folder / PREDICTOR).write_text(text + "\n", encoding="utf-8")


def read(
    folder: Path, qubits: int, preparation: Preparation, weights_sha256: str
) -> ExcitationTable | StoredCircuit | None:
    """Read the file of a model folder, after the check of its digest.

    Args:
        folder: Model folder.
        qubits: Number of qubits of the model.
        preparation: Preparation of its data states.
        weights_sha256: SHA-256 of its weights.

    Returns:
        The table or the circuit, or None if the table is that of other weights.

    Raises:
        ArtifactError: If the file is missing or damaged, or belongs to another model.
    """
    path = folder / PREDICTOR
    with readable("model", path):
        check_size(path, MAX_BYTES[PREDICTOR])
        try:
            content = json.loads(path.read_bytes())
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if preparation.kind != "excitation":
            return circuit_of(content, qubits, preparation)
        return _table(content, qubits) if content[_WEIGHTS] == weights_sha256 else None


def _table(content: Mapping[str, Any], qubits: int) -> ExcitationTable:
    of = content[_TABLE]
    constant, cosine, sine = (_array(of[name], 2) for name in ("constant", "cosine", "sine"))
    if not constant.shape == cosine.shape == sine.shape or len(constant) != qubits:
        raise ValueError(f"the table must have {qubits} rows")
    layers, width = [], constant.shape[1]
    for kernel, bias, activation in of["layers"]:
        layers.append(Dense(_array(kernel, 2), _array(bias, 1), _activation(activation)))
        if layers[-1].kernel.shape != (width, len(layers[-1].bias)):
            raise ValueError("a layer must fit the previous one")
        width = len(layers[-1].bias)
    rounding = float(content[_ROUNDING])
    if not 0 <= rounding < 1:
        raise ValueError(f"{_ROUNDING} must be from 0 to 1")
    return ExcitationTable(constant, cosine, sine, _activation(of["activation"]), tuple(layers), rounding)


def _activation(name: object) -> str:
    if name not in ACTIVATIONS:
        raise ValueError("an activation is unknown")
    return str(name)


@dataclasses.dataclass(frozen=True)
class _StoredSymbols:
    """Stand-in for the ansatz of a stored circuit, with the number of its symbols and inputs."""

    symbols: Sequence[int]
    inputs: Sequence[int]


def circuit_of(content: Mapping[str, Any], qubits: int, preparation: Preparation) -> StoredCircuit:
    """Return the circuit of the content of a file.

    Args:
        content: Result of `circuit_content`, which may be damaged.
        qubits: Number of qubits of the model.
        preparation: Preparation of its data states.

    Raises:
        LookupError, TypeError, ValueError: If the content is damaged.
    """
    of = content[_CIRCUIT]
    parameters = of["parameters"]
    if of["qubits"] != qubits or type(parameters) is not int or not 0 <= parameters <= MAX_BYTES[PREDICTOR]:
        raise ValueError(f"the circuit must have {qubits} qubits")
    if of["head"] not in ("expectation", "probabilities", "softmax", "dense"):
        raise ValueError("the head is unknown")
    inputs = preparation.features if preparation.kind == "circuit" else 0
    for each in of["expressions"]:
        check_form(each, inputs)
    # Expressions of terms are compared and hashed, so they are numbers of expressions.
    exponents = [_exponent(each, parameters, len(of["expressions"])) for each in of["exponents"]]
    spectra = [_spectrum(*each) for each in of["spectra"]]
    gates = []
    for spectrum, exponent, places in of["gates"]:
        own = tuple(_index(place, qubits) for place in places)
        gate = Gate(own, spectra[_index(spectrum, len(spectra))], exponents[_index(exponent, len(exponents))])
        if len(set(own)) < len(own) or gate.spectrum.projectors.shape[1] != 2 ** len(own):
            raise ValueError("a gate must act on as many qubits as its matrix")
        gates.append(gate)
    sums = _sums(of, qubits)
    joint = of["head"] == "probabilities"
    if not sums.strings or (joint and len(sums.strings) != 2 ** len(sums.names) - 1):
        raise ValueError("the readouts must be those of the head")
    symbols = cast("Ansatz", _StoredSymbols(range(parameters), range(inputs)))
    ring = cast("tuple[cirq.Qid, ...]", tuple(range(qubits)))
    network = CircuitIR(symbols, ring, tuple(gates), sums, preparation, joint=joint)
    return StoredCircuit(network, tuple(of["expressions"]), of["head"], str(content[_FINGERPRINT]))


def _sums(of: Mapping[str, Any], qubits: int) -> ReadoutSums:
    strings = []
    for places, axes in of["strings"]:
        string = PauliString(tuple(_index(place, qubits) for place in places), axes)
        if len(axes) != len(string.qubits) or not axes or not set(axes) <= {"X", "Y", "Z"}:
            raise ValueError("a string must have an operator for each qubit")
        if any(first >= second for first, second in itertools.pairwise(string.qubits)):
            raise ValueError("the qubits of a string must ascend")
        strings.append(string)
    constants = _array(of["constants"], 1)
    coefficients = None if of["coefficients"] is None else _array(of["coefficients"], 2)
    expected = len(strings) if coefficients is None else coefficients.shape[1]
    if len(constants) != expected or (coefficients is not None and len(coefficients) != len(strings)):
        raise ValueError("readouts must have a coefficient for each string")
    return ReadoutSums(tuple(strings), tuple(range(len(constants))), coefficients, constants)


def _exponent(of: Sequence[Any], parameters: int, expressions: int) -> LinearExponent:
    constant, coefficients, terms = of
    return LinearExponent(
        _finite(constant),
        tuple((_index(index, parameters), _finite(value)) for index, value in coefficients),
        tuple(
            cast(
                "InputTerm", _StoredTerm(_finite(value), _index(expression, expressions), _parameter(index, parameters))
            )
            for value, expression, index in terms
        ),
    )


@dataclasses.dataclass(frozen=True)
class _StoredTerm:
    """Term of an exponent, see `InputTerm`, whose `expression` is a number of a stored expression."""

    coefficient: float
    expression: int
    parameter: int | None


def _parameter(index: object, parameters: int) -> int | None:
    return None if index is None else _index(index, parameters)


def _spectrum(phases: Any, real: Any, imaginary: Any) -> GateSpectrum:
    shape = np.shape(real)
    spectrum = GateSpectrum(_array(phases, 1), _array(real, 3) + 1j * _array(imaginary, 3))
    sizes = [2**count for count in range(1, MAX_GATE_QUBITS + 1)]
    if len(shape) != 3 or shape[0] != len(phases) or shape[1] != shape[2] or shape[1] not in sizes:
        raise ValueError("a gate must have a square matrix for each phase")
    if not spectrum.is_unitary:
        raise ValueError("a gate must be unitary")
    return spectrum


def _array(values: Any, dimensions: int) -> _Floats:
    array = np.array(values, np.float64)
    if array.ndim != dimensions or not array.size or not np.isfinite(array).all():
        raise ValueError("it must contain arrays of finite numbers")
    return array


def _index(value: object, count: int) -> int:
    if type(value) is not int or not 0 <= value < count:
        raise ValueError(f"an index must be a whole number below {count}")
    return value


def _finite(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(cast("float", value)):
        raise ValueError("a number must be finite")
    return float(cast("float", value))
