"""Readouts that are equal for all samples, from which a network cannot learn."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from qcnn.circuits.formats.embedded import model_display_name
from qcnn.data import Samples
from qcnn.errors import ConfigError
from qcnn.experiment.config import ExperimentConfig
from qcnn.simulators import Simulator, batch_of
from qcnn.simulators.structure.pauli_strings import texts_of

# Random circuit parameters at which a constant readout must be constant.
_DRAWS = 2
# Maximum number of qubits in a message.
_NAMED = 5


def constant_readouts(model: tf_keras.Model, samples: Samples, batch: int) -> tuple[int | str, ...]:
    """Return the names of the readouts that are equal for all samples, up to rounding.

    The circuit parameters are random, so that a readout is not constant because of its initial parameters. Excitations
    are all excitations instead of those of the samples.

    Args:
        model: Model of the experiment.
        samples: Samples of the training split.
        batch: Number of samples to evaluate together.
    """
    simulator = model.get_layer("quantum").simulator
    # A single sample has nothing to differ from.
    if len(samples) == 1:
        return ()
    network, random = simulator.network, np.random.default_rng(0)
    constant = np.ones(len(network.strings), bool)
    # Of a difference, both values have a rounding error.
    for _ in range(_DRAWS):
        parameters = tf.constant(random.uniform(0, 2, network.parameters))
        if network.preparation.kind == "excitation":
            constant &= _changes_of_excitations(simulator, parameters) <= 2 * simulator.rounding
        else:
            constant &= _are_equal(simulator, parameters, samples, batch, constant)
        if not constant.any():
            break
    coefficients = network.sums.coefficients
    if coefficients is not None and not network.joint:
        constant = ~np.any((coefficients != 0) & ~constant[:, None], axis=0)
    return tuple(name for name, is_constant in zip(network.head_inputs, constant, strict=True) if is_constant)


def check_readouts(config: ExperimentConfig, readouts: Sequence[int | str], constant: Sequence[int | str]) -> str:
    """Return a warning if some readouts are constant, or an empty string.

    Args:
        config: Experiment.
        readouts: Names of the readouts.
        constant: Those of `constant_readouts`.

    Raises:
        ConfigError: If all readouts are constant.
    """
    if not constant:
        return ""
    number = f" and {len(constant) - _NAMED} more" if len(constant) > _NAMED else ""
    named = f"{_named(constant[:_NAMED])}{number}"
    if len(constant) == len(readouts):
        raise ConfigError(
            f"model: must have a readout that differs between samples, because otherwise the network cannot learn; "
            f"{named} is equal for all samples. Given: {model_display_name(config.model)}"
        )
    return f"{len(constant)} of {len(readouts)} readouts are equal for all samples, so nothing is learned from {named}"


def _named(readouts: Sequence[int | str]) -> str:
    if all(isinstance(readout, int) for readout in readouts):
        return f"Z on qubit {', '.join(map(str, readouts))}"
    return ", ".join(texts_of(readouts))


def _changes_of_excitations(simulator: Simulator, parameters: tf.Tensor) -> npt.NDArray[np.float64]:
    """Return the maximum difference of each string between excitations, (strings,)."""
    table, changes = simulator.table(parameters), np.zeros(len(simulator.network.strings))
    for change in (table.flipped, table.mixed, *([] if table.still is None else [table.still])):
        np.maximum.at(changes, table.reached.numpy(), np.abs(change.numpy()))
    return changes


def _are_equal(
    simulator: Simulator, parameters: tf.Tensor, samples: Samples, batch: int, constant: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return which of the strings are equal for all samples, (strings,). Other strings have any value."""
    first = None
    for start in range(0, len(samples), batch):
        inputs = {name: tf.constant(values[start : start + batch]) for name, values in samples.inputs.items()}
        values = simulator.expectations(parameters, batch_of(simulator.network.preparation, inputs)).numpy()
        first = values[0] if first is None else first
        constant = constant & (np.abs(values - first).max(axis=0) <= 2 * simulator.rounding)
        if not constant.any():
            break
    return constant
