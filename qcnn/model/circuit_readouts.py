"""Readouts of a circuit as a function of its parameters and of features, for layers of Keras 2 and Keras 3."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import tensorflow as tf

from qcnn import simulators, tensorflow_internals
from qcnn.circuits import circuits, noise
from qcnn.circuits.formats import cirq_json
from qcnn.circuits.formats.embedded import embedded_content, is_embedded, model_display_name
from qcnn.circuits.preparation import preparation_of
from qcnn.errors import ConfigError, format_value
from qcnn.model.network import PRECISION, readouts_of
from qcnn.simulators import AmplitudeBatch, CircuitInputBatch, Simulator, SimulatorLimits, registry
from qcnn.simulators.data_states import normalized_states
from qcnn.simulators.interface import REAL_BYTES
from qcnn.simulators.tensor_ops import map_groups

Encoding: TypeAlias = Literal["circuit", "amplitude"]
# Samples that are evolved together if the size of a batch is unknown when a function is traced.
_GROUP = 32
_GIB = 2**30
# Simulator of SavedModels.
_PORTABLE = "statevector"


@dataclasses.dataclass(frozen=True)
class CircuitReadouts:
    """Function that returns the readouts of a circuit, differentiable in its parameters and in features.

    Attributes:
        circuit: Embedded circuit, with inputs unless features are amplitudes.
        qubits: Number of qubits on the ring. None: those of the circuit.
        encoding: `circuit`: features are the inputs of the circuit. `amplitude`: they are the amplitudes of its start
            state, at most 2^qubits, which are divided by their norm; missing ones are 0.
        simulator: Simulator, or `auto` for the cheapest one.
        noise: Noise as the field of an experiment.
        gradient: `adjoint` or `parameter_shift`.
        precision: Type of amplitudes, `complex64` or `complex128`.
        memory_gib: Memory limit of the states, in GiB.

    Raises:
        ConfigError: If the circuit has no inputs for features, or the simulator cannot run it.
    """

    circuit: str
    _: dataclasses.KW_ONLY
    qubits: int | None = None
    encoding: Encoding = "circuit"
    simulator: str = "auto"
    noise: str = ""
    gradient: str = "adjoint"
    precision: str = "complex64"
    memory_gib: float = 2.0

    @classmethod
    def of_layer(cls, circuit: str, settings: Mapping[str, Any]) -> tuple["CircuitReadouts", dict[str, Any]]:
        """Return the readouts of a layer's circuit, and the settings of the layer that are Keras'.

        Args:
            circuit: Embedded circuit.
            settings: Arguments of the layer.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        own = {name: value for name, value in settings.items() if name in names}
        return cls(circuit, **own), {name: value for name, value in settings.items() if name not in names}

    def __post_init__(self) -> None:
        # A function by name, in the file of a saved model, would be executed.
        if not is_embedded(self.circuit):
            given = format_value(self.circuit)
            raise ConfigError(f"circuit: must be the text of an embedded circuit. Given: {given}")
        if self.encoding not in ("circuit", "amplitude"):
            raise ConfigError(f"encoding: must be circuit or amplitude. Given: {format_value(self.encoding)}")
        if self.precision not in REAL_BYTES:
            allowed = " or ".join(REAL_BYTES)
            raise ConfigError(f"precision: must be {allowed}. Given: {format_value(self.precision)}")
        name, inputs = model_display_name(self.circuit), len(self.ansatz.inputs)
        if self.encoding == "circuit" and not inputs:
            raise ConfigError(f"inputs: must be those of the circuit. Given: none with {name}")
        if self.encoding == "amplitude" and inputs:
            raise ConfigError(
                f"encoding: must not be amplitude with a circuit that has inputs. Given: amplitude with {name}"
            )
        # Simulators are created here, so that an invalid circuit is an error of the layer and not of its first call.
        _ = self._simulator

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments, for the configuration of a layer."""
        return dataclasses.asdict(self)

    @functools.cached_property
    def ansatz(self) -> circuits.Ansatz:
        """Circuit, symbols, inputs and readouts."""
        return cirq_json.read(embedded_content(self.circuit), model_display_name(self.circuit))

    @functools.cached_property
    def _qubits(self) -> int:
        width = cirq_json.width(self.ansatz)
        if self.qubits is not None and self.qubits < width:
            raise ConfigError(f"qubits: must be at least {width} for the circuit. Given: {format_value(self.qubits)}")
        return self.qubits or width

    @functools.cached_property
    def _simulator(self) -> Simulator:
        return self._create(self.simulator)

    @functools.cached_property
    def _portable(self) -> Simulator:
        """Simulator whose program needs built-in TensorFlow operations only, for SavedModels."""
        name = self._simulator.name
        return self._simulator if registry.declaration(name).builtin_operations else self._create(_PORTABLE)

    def _create(self, simulator: str) -> Simulator:
        preparation = preparation_of(self.encoding, self._qubits, len(self.ansatz.inputs))
        limits = SimulatorLimits(
            self.memory_gib * _GIB,
            _GROUP,
            real_bytes=REAL_BYTES[self.precision],
            builtin_operations=bool(tf.config.get_visible_devices("GPU")),
        )
        ring = circuits.ring(self._qubits)
        channels = _parse_noise(self.noise)
        return simulators.create(simulator, self.ansatz, ring, limits, preparation, channels, self.gradient)

    def __call__(self, parameters: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        """Return the readouts, float64 (batch, readouts).

        A row of zeros, which is no state, has readouts NaN.

        Args:
            parameters: Circuit parameters, (parameters,), which are computed in float64.
            inputs: Features, (batch, features).

        Raises:
            ConfigError: If the number of features does not fit the circuit.
        """
        self._check_shape(inputs.shape)
        features, values = tf.cast(inputs, PRECISION), tf.cast(tf.convert_to_tensor(parameters), PRECISION)
        if self.encoding == "amplitude":
            # Before rows are added that fill a group: the state of a row of zeros is NaN, and so its gradient.
            features = normalized_states(features, 2**self._qubits)
        # The kernels of a simulator for this machine are unknown where a SavedModel is loaded.
        simulator = self._portable if tensorflow_internals.is_saving() else self._simulator
        # AutoGraph would take seconds to analyze the simulators' code, which needs no conversion.
        strings = tf.autograph.experimental.do_not_convert(self._strings)(simulator, values, features)
        return readouts_of(simulator.network, strings)

    def output_shape(self, input_shape: Any) -> tuple[int | None, int]:
        """Return the shape (batch, readouts) of the readouts of features of a shape."""
        return tf.TensorShape(input_shape)[0], len(self.ansatz.readouts)

    def _check_shape(self, shape: tf.TensorShape) -> None:
        if self.encoding == "amplitude":
            most = 2**self._qubits
            expected, fits = f"at most {most}", shape.rank == 2 and 1 <= (shape[1] or 0) <= most
        else:
            count = len(self.ansatz.inputs)
            expected, fits = str(count), shape.rank == 2 and shape[1] == count
        if not fits:
            raise ConfigError(f"inputs: must have the shape (batch, {expected}). Given: {shape}")

    def _strings(self, simulator: Simulator, parameters: tf.Tensor, features: tf.Tensor) -> tf.Tensor:
        batch_type = AmplitudeBatch if self.encoding == "amplitude" else CircuitInputBatch

        def measure(parameters: tf.Tensor, features: tf.Tensor) -> tf.Tensor:
            return simulator.expectations(parameters, batch_type(features))

        if features.shape[0] is not None:
            return measure(parameters, features)
        count, strings = tf.shape(features)[0], len(simulator.network.strings)
        groups = tf.maximum(-(-count // _GROUP), 1)
        padded = tf.pad(features, [[0, groups * _GROUP - count], [0, 0]])
        grouped = tf.reshape(padded, [-1, _GROUP, features.shape[1]])
        every = map_groups(measure, parameters, (grouped,), (_GROUP, strings), of_inputs=True)
        return tf.reshape(every, [-1, strings])[:count]


def _parse_noise(text: str) -> noise.Noise:
    try:
        return noise.parse(text)
    except ValueError:
        raise ConfigError(f"noise: must be {noise.ALLOWED}. Given: {format_value(text)}") from None
