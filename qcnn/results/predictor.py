"""Predictor of an exported model: a table for excitations, or compiled kernels for rows, without TensorFlow.

TensorFlow predicts where the kernels cannot run, under noise, for functions of Python modules, and for excitations of
models that earlier versions exported. The SavedModel is for other servers: loading it would execute a program.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from qcnn.artifact_io import FILES
from qcnn.atomic_files import readable
from qcnn.circuits.formats.embedded import is_function, model_display_name
from qcnn.circuits.input_functions import evaluate_form
from qcnn.data.dataset import parse_description
from qcnn.data.samples import FeatureLayout
from qcnn.errors import ArtifactError
from qcnn.experiment.config import ExperimentConfig
from qcnn.model.array_layers import ACTIVATIONS, Dense, probability_layers, softmax_layers, two_classes
from qcnn.process.library_loading import load_tensorflow
from qcnn.results import predictor_file
from qcnn.results.model_folder import DENSE_LAYERS, PARAMETERS, PREDICTOR, WEIGHTS, check_files, describe
from qcnn.results.predictor_file import ExactPredictor, ExcitationTable, StoredCircuit
from qcnn.simulators import kernels
from qcnn.simulators.interface import ROUNDING

_Floats: TypeAlias = npt.NDArray[np.float64]

# Number of excitations that are predicted together.
_CHUNK = 2**16


@dataclasses.dataclass(frozen=True)
class Predictor:
    """Exported network, with the layout that converts table rows to its inputs. Threads may share it.

    `predict` takes samples by input name, each (samples, ...), and returns the predictions, float64 (samples,) or
    (samples, classes). Readouts are exact, even if the network was trained with shots. `rounding` is the bound on their
    rounding error. `row_work` is the number of vector operations of a row, or infinite if it is unknown.
    """

    config: ExperimentConfig
    layout: FeatureLayout
    predict: ExactPredictor
    rounding: float
    row_work: float = math.inf

    @property
    def predicts_columns(self) -> Callable[[Mapping[str, npt.NDArray[Any]]], _Floats]:
        """Function that returns the predictions for checked columns of a table, (samples,) each."""
        return lambda columns: self.predict(self.layout.inputs(columns))


def load_predictor(folder: Path) -> Predictor:
    """Load a predictor from a model folder.

    Raises:
        ArtifactError: If a file is missing or damaged, or belongs to another model.
        ConfigError: If the model is a function of a Python module that cannot be used.
        ModuleNotFoundError: If the model needs TensorFlow, and it is not installed.

    After the example of `qcnn.results.export.export`:

    >>> from pathlib import Path
    >>> import numpy as np
    >>> predictor = load_predictor(Path("model"))
    >>> predictor.predict({"qubit": np.int32([0, 3]), "angle": np.float32([0.1, -3])}).shape
    (2,)
    """
    description, config = describe(folder)
    with readable("model", folder):
        layout, _ = parse_description(description)
    stored = _stored(folder, description, config)
    if isinstance(stored, ExcitationTable):
        check_files(folder, description, WEIGHTS)
        return Predictor(config, layout, table_predictor(stored, layout), stored.rounding, 1.0)
    if stored is None and not (config.preparation.kind == "excitation" or needs_tensorflow(config)):
        # The model of an earlier version. Cirq takes seconds to import.
        from qcnn.results.stored_circuit import read_circuit

        stored = read_circuit(config)
    if stored is not None and stored.fingerprint != description["circuit"]:
        raise ArtifactError(
            f"model: was trained with another circuit of that name. Given: {model_display_name(config.model)}"
        )
    if stored is not None and not kernels.library_reason():
        # Excitations do not need h5py.
        from qcnn.results.weights import load_arrays

        arrays = load_arrays(folder, description)
        with readable("model", folder / WEIGHTS):
            predict, work = circuit_predictor(stored, arrays, config)
        return Predictor(config, layout, predict, ROUNDING[8], work)
    load_tensorflow()
    # TensorFlow takes seconds to import.
    from qcnn.results.export import load_network

    predict, rounding = load_network(folder)
    return Predictor(config, layout, predict, rounding)


def needs_tensorflow(config: ExperimentConfig) -> bool:
    """Return whether only TensorFlow predicts rows: under noise, and for functions of Python modules."""
    return bool(config.noise_in_training) or is_function(config.model)


def _stored(
    folder: Path, description: Mapping[str, Any], config: ExperimentConfig
) -> ExcitationTable | StoredCircuit | None:
    """Return the content of predictor.json, or None if the model does not have it."""
    if PREDICTOR not in description.get(FILES, {}) or is_function(config.model):
        return None
    check_files(folder, description, PREDICTOR)
    return predictor_file.read(folder, config.qubits, config.preparation, description["weights_sha256"])


def table_predictor(table: ExcitationTable, layout: FeatureLayout) -> ExactPredictor:
    """Return the predictor of a table.

    Args:
        table: Table of the model.
        layout: Layout of its rows.
    """
    activation = ACTIVATIONS[table.activation]
    outputs = len(layout.predicted_classes) if layout.is_classification else 1

    def predictions(qubit: npt.NDArray[Any], angle: npt.NDArray[Any]) -> _Floats:
        rotation = np.ascontiguousarray(angle, np.float64)
        cosine, sine = np.cos(rotation)[:, None], np.sin(rotation)[:, None]
        values = activation(table.constant[qubit] + table.cosine[qubit] * cosine + table.sine[qubit] * sine)
        for layer in table.layers:
            values = layer(values)
        return _predictions(values, outputs)

    def predict(inputs: Mapping[str, npt.NDArray[Any]]) -> _Floats:
        starts = range(0, len(inputs["qubit"]), _CHUNK)
        chunks = [predictions(**{name: each[at : at + _CHUNK] for name, each in inputs.items()}) for at in starts]
        return np.concatenate([_empty(outputs), *chunks])

    return predict


def _predictions(values: _Floats, outputs: int) -> _Floats:
    """Return outputs of the head as predictions: numbers (rows,), or probabilities (rows, classes)."""
    if values.shape[1] != outputs:
        values = two_classes(values)
    return values[:, 0] if outputs == 1 else values


def _empty(outputs: int) -> _Floats:
    return np.zeros([0, outputs] if outputs > 1 else 0)


def circuit_predictor(
    stored: StoredCircuit, arrays: Mapping[str, _Floats], config: ExperimentConfig
) -> tuple[ExactPredictor, float]:
    """Return the predictor of a circuit by the compiled kernels, and the number of vector operations of a row.

    Args:
        stored: Circuit of the model.
        arrays: Weights by their names in the weights file.
        config: Experiment of the model.

    Raises:
        LookupError, ValueError: If the weights are those of another circuit.
    """
    # Excitations do not need these modules.
    from qcnn.simulators.kernels.evaluation import CircuitKernels, Samples, qubit_states

    network, preparation = stored.network, stored.network.preparation
    parameters = arrays[PARAMETERS]
    layers = [*_dense_layers(arrays, config)] if stored.head == "dense" else []
    if parameters.shape != (network.parameters,):
        raise ValueError("its circuit parameters are those of another circuit")
    circuit = CircuitKernels(network, parameters)
    exponents = _Exponents(stored, parameters)
    outputs = config.options.classes if config.is_classification else 1

    def strings(inputs: Mapping[str, npt.NDArray[Any]]) -> _Floats:
        (values,) = inputs.values()
        if preparation.kind == "state":
            return circuit.expectations(Samples(states=values))
        if preparation.kind == "circuit":
            return circuit.expectations(Samples(exponents=exponents(values)))
        angles = np.zeros((len(values), (2 if preparation.kind == "dense" else 1) * network.qubits))
        angles[:, : values.shape[1]] = values
        return circuit.expectations(Samples(qubits=qubit_states(preparation.kind, angles)))

    is_centered = (
        stored.head == "dense"
        and config.options.readout_normalization == "centered"
        and preparation.kind not in ("state", "circuit")
    )
    unexcited = strings({"features": np.zeros((1, preparation.features))}) if is_centered else 0.0
    sums, linear = network.sums, []
    if sums.coefficients is not None and not network.joint:
        constants = np.zeros_like(sums.constants) if is_centered else sums.constants
        linear = [Dense(sums.coefficients, constants)]
    if stored.head == "probabilities":
        layers = probability_layers(len(network.strings), outputs, config.options.temperature)
    elif stored.head == "softmax":
        if len(sums.constants) != outputs:
            raise ValueError("its readouts are not those of the classes")
        layers = softmax_layers(outputs, config.options.temperature)

    def predict(inputs: Mapping[str, npt.NDArray[Any]]) -> _Floats:
        count, chunks = len(next(iter(inputs.values()))), [_empty(outputs)]
        # At most the memory of the strings of a chunk.
        size = max(1, min(_CHUNK, 2**20 // (len(network.strings) + 2 * network.qubits)))
        for start in range(0, count, size):
            values = strings({name: each[start : start + size] for name, each in inputs.items()}) - unexcited
            for layer in itertools.chain(linear, layers):
                values = layer(values)
            chunks.append(_predictions(values, outputs))
        return np.concatenate(chunks)

    return predict, circuit.row_work


def _dense_layers(arrays: Mapping[str, _Floats], config: ExperimentConfig) -> Iterator[Dense]:
    activations = (config.hidden_activation, "softmax" if config.is_classification else "linear")
    for name, activation in zip(DENSE_LAYERS, activations, strict=True):
        kernel, bias = (arrays[f"{name}/vars/{number}"] for number in (0, 1))
        if kernel.ndim != 2 or bias.shape != kernel.shape[1:]:
            raise ValueError(f"{name} has no matrix")
        yield Dense(kernel, bias, activation)


class _Exponents:
    """Function that returns the exponents that depend on inputs, as `simulators.input_exponents` does."""

    def __init__(self, stored: StoredCircuit, parameters: _Floats) -> None:
        self._expressions = stored.expressions
        # The constant of each exponent at the parameters, and the factor and number of the function of each term.
        self._exponents = [
            (
                each.constant + sum(value * parameters[index] for index, value in each.coefficients),
                [
                    (
                        term.coefficient * (1.0 if term.parameter is None else parameters[term.parameter]),
                        int(term.expression),
                    )
                    for term in each.terms
                ],
            )
            for each in stored.network.exponents_by_sample
        ]

    def __call__(self, features: npt.NDArray[Any]) -> _Floats:
        """Return the exponents, float64 (samples, exponents), of inputs (samples, inputs)."""
        columns = [*np.ascontiguousarray(features.T, np.float64)]
        functions = [evaluate_form(each, columns, functools.partial(getattr, np)) for each in self._expressions]
        exponents = np.zeros((len(features), len(self._exponents)))
        for number, (constant, terms) in enumerate(self._exponents):
            exponents[:, number] = constant
            for factor, function in terms:
                exponents[:, number] += factor * functions[function]
        return exponents
