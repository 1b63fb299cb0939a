"""Circuits as Keras layers and as functions of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from qcnn.api.circuits import Circuit, CircuitFunction, embedded_circuit, is_circuit_function
from qcnn.circuits.formats.embedded import MODELS, embedded_content, is_embedded, is_function, model_display_name
from qcnn.circuits.formats.loading import embed_ansatz, with_embedded_circuit
from qcnn.errors import ConfigError, format_value
from qcnn.process.library_loading import load_tensorflow

if TYPE_CHECKING:
    from qcnn.circuits.ansatz import Ansatz
    from qcnn.model.quantum_layer import CircuitLayer

_ROTATIONS = ("rx", "ry", "rz", "dense")
_Rotation = Literal["rx", "ry", "rz", "dense"]
Encoding = _Rotation | Literal["amplitude"]
_Floats = npt.NDArray[np.float64]


def QuantumLayer(  # noqa: N802 - it is used as a class of Keras
    circuit: Circuit | CircuitFunction | str,
    qubits: int | None = None,
    *,
    inputs: str = "",
    encoding: Encoding | None = None,
    feature_map: str = "",
    observables: str = "",
    **settings: Any,
) -> CircuitLayer:
    """Return a circuit as a layer of tf_keras, differentiable in its parameters and its inputs.

    It maps features, (batch, inputs), to readouts, (batch, readouts). A classical layer can be before and after it.
    For Keras 3 there is `qcnn.keras.QuantumLayer`.

    Args:
        circuit: Circuit, function of the qubits of the ring that returns one, name of a model, or path to a file.
        qubits: Number of qubits on the ring. None: those of the circuit.
        inputs: Names of parameters that are inputs, such as "x0,x1". Empty: those of a `qcnn.Ansatz`.
        encoding: Encoding before a circuit without inputs: rotations, with angles in radians, or `amplitude`, by which
            features are amplitudes of the start state, at most 2^qubits, which are divided by their norm.
        feature_map: Feature map before a circuit without inputs, such as "zz".
        observables: Readouts that replace those of the circuit, such as "Z0*Z1".
        **settings: Further arguments of `CircuitLayer`, such as simulator, noise and seed, and those of Keras.

    Raises:
        ConfigError: If the circuit has no inputs, or an argument is invalid.

    >>> import qcnn, tf_keras
    >>> layer = qcnn.QuantumLayer("hybrid", 4, encoding="ry", seed=1)
    >>> model = tf_keras.Sequential([tf_keras.layers.Dense(4), layer, tf_keras.layers.Dense(1)])
    >>> model(tf_keras.backend.ones((2, 7))).shape
    TensorShape([2, 1])
    """
    arguments = circuit_arguments(circuit, qubits, inputs, encoding, feature_map, observables)
    load_tensorflow()
    from qcnn.model.quantum_layer import CircuitLayer

    return CircuitLayer(**arguments, **settings)


def circuit_arguments(
    circuit: Circuit | CircuitFunction | str,
    qubits: int | None,
    inputs: str,
    encoding: Encoding | None,
    feature_map: str,
    observables: str,
) -> dict[str, Any]:
    """Return the circuit, its qubits and the encoding of a layer, as arguments of `CircuitReadouts`.

    Args:
        circuit: Argument of `QuantumLayer`.
        qubits: Argument of `QuantumLayer`.
        inputs: Argument of `QuantumLayer`.
        encoding: Argument of `QuantumLayer`.
        feature_map: Argument of `QuantumLayer`.
        observables: Argument of `QuantumLayer`.

    Raises:
        ConfigError: If the circuit has no inputs, or an argument is invalid.
    """
    ansatz = _with_inputs(circuit, qubits, inputs, encoding, feature_map, observables)
    own = "amplitude" if encoding == "amplitude" else "circuit"
    return {"circuit": embed_ansatz(ansatz, "circuit.json"), "qubits": qubits, "encoding": own}


def expectations(
    circuit: Circuit | CircuitFunction | str,
    parameters: npt.ArrayLike,
    inputs: npt.ArrayLike,
    *,
    qubits: int | None = None,
    encoding: Encoding | None = None,
    feature_map: str = "",
    observables: str = "",
    gradients: Literal["parameters", "inputs"] | None = None,
    simulator: str = "auto",
    noise: str = "",
) -> _Floats | tuple[_Floats, _Floats]:
    """Return the readouts of a circuit with inputs, float64 (rows, readouts), and with `gradients` their Jacobian.

    Args:
        circuit: Circuit, see `QuantumLayer`, whose inputs a `qcnn.Ansatz` names.
        parameters: Circuit parameters, (parameters,), in the order of the circuit's symbols.
        inputs: Inputs of each row, (rows, inputs), or amplitudes.
        qubits: Argument of `QuantumLayer`.
        encoding: Argument of `QuantumLayer`.
        feature_map: Argument of `QuantumLayer`.
        observables: Argument of `QuantumLayer`.
        gradients: Whether to return the derivatives, float64 (rows, readouts, parameters) or (rows, readouts, inputs).
        simulator: Simulator, or `auto` for the cheapest one.
        noise: Noise as the field of an experiment.

    Raises:
        ConfigError: If an argument is invalid.

    >>> import cirq, qcnn, sympy
    >>> (qubit,), x = cirq.LineQubit.range(1), sympy.Symbol("x")
    >>> circuit = qcnn.Ansatz(cirq.Circuit(cirq.rx(x)(qubit)), (), [qubit], [x])
    >>> values, slopes = qcnn.expectations(circuit, [], [[0.0], [np.pi / 2]], gradients="inputs")
    >>> values.round(6).tolist(), slopes.round(6).tolist()
    ([[1.0], [0.0]], [[[0.0]], [[-1.0]]])
    """
    ansatz = _with_inputs(circuit, qubits, "", encoding, feature_map, observables)
    values = _numbers("parameters", parameters, (len(ansatz.symbols),))
    is_amplitude = encoding == "amplitude"
    features = _numbers("inputs", inputs, (None, None if is_amplitude else len(ansatz.inputs)))
    if gradients not in (None, "parameters", "inputs"):
        raise ConfigError(f"gradients: must be parameters, inputs or None. Given: {format_value(gradients)}")
    load_tensorflow()
    from qcnn.model.expectations import ArrayFunction

    function = ArrayFunction(ansatz, qubits, "amplitude" if is_amplitude else "circuit", simulator, noise)
    if gradients is None:
        return function.readouts(values, features)
    return function.readouts_and_jacobian(values, features, of_parameters=gradients == "parameters")


def _with_inputs(
    circuit: object, qubits: int | None, inputs: str, encoding: str | None, feature_map: str, observables: str
) -> Ansatz:
    """Return a circuit with inputs, or without for amplitudes, on the first qubits of the ring."""
    if encoding is not None and (encoding not in (*_ROTATIONS, "amplitude") or feature_map):
        allowed = f"one of {', '.join(_ROTATIONS)}, amplitude without feature_map, or None"
        raise ConfigError(f"encoding: must be {allowed}. Given: {format_value(encoding)}")
    if qubits is not None and (not isinstance(qubits, int) or isinstance(qubits, bool) or qubits < 1):
        raise ConfigError(f"qubits: must be a whole number from 1, or None. Given: {format_value(qubits)}")
    if isinstance(circuit, str) and circuit in MODELS and qubits is None:
        raise ConfigError(f"qubits: must be given with {circuit}. Given: none")
    model = circuit
    if not isinstance(model, str):
        if qubits is None and is_circuit_function(model):
            raise ConfigError(f"qubits: must be given with a function. Given: none with {format_value(model)}")
        model, inputs = embedded_circuit(model, qubits or 1, inputs), ""
    fields = {"model": model, "inputs": inputs, "observables": observables, "feature_map": feature_map}
    changed = with_embedded_circuit({name: text for name, text in fields.items() if text} | {"qubits": qubits})
    from qcnn.circuits import circuits, feature_maps
    from qcnn.circuits.formats import cirq_json

    name = str(changed["model"])
    if is_embedded(name):
        ansatz = cirq_json.read(embedded_content(name), model_display_name(name))
        width = qubits or cirq_json.width(ansatz)
    else:
        if qubits is None and is_function(name):
            raise ConfigError(f"qubits: must be given with a function. Given: none with {name}")
        width = qubits or 1
        ansatz = circuits.build(name, width)
    if encoding is not None:
        if ansatz.inputs:
            raise ConfigError(f"encoding: must be None with a circuit that has inputs. Given: {encoding}")
        if encoding == "amplitude":
            return ansatz
        ansatz = feature_maps.with_rotations(ansatz, circuits.ring(width), cast("_Rotation", encoding))
    if not ansatz.inputs:
        raise ConfigError(
            "inputs: must be given for a circuit without inputs, or encoding or feature_map. Given: none with "
            f"{model_display_name(name)}"
        )
    return ansatz


def _numbers(name: str, values: npt.ArrayLike, shape: tuple[int | None, ...]) -> _Floats:
    try:
        found = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"{name}: must be an array of numbers. Given: {format_value(values)}") from None
    fits = found.ndim == len(shape) and all(size in (None, own) for size, own in zip(shape, found.shape, strict=True))
    if not fits or not np.isfinite(found).all():
        text = ", ".join(("rows", "features")[place] if size is None else str(size) for place, size in enumerate(shape))
        given = f"shape {found.shape}" if not fits else "a number that is not finite"
        raise ConfigError(f"{name}: must be finite numbers of shape ({text}). Given: {given}")
    return found
