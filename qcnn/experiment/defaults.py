"""Rules for the automatic values of experiment fields: rounds, batch size, epochs and initializations.

Measured by benchmarks/convergence.py. The MSE of least squares with p parameters on N samples exceeds the MSE lower
bound on freshly sampled data by about a factor 1 + p / N. So the required samples are proportional to the parameters.
"""

import math

# Training samples per parameter. With 60, `hybrid` ends about 0.003 above its MSE lower bound.
_SAMPLES = {"hybrid": 60, "deep": 20}
# Updates until convergence.
_UPDATES = {"hybrid": 640, "deep": 1000}
# Initializations of which at least one converges to the MSE lower bound. For `deep`, about half of them do.
_INITIALIZATIONS = {"hybrid": 1, "deep": 12}
_GROUND_STATES = 400
_BATCHES_PER_EPOCH = 16
_MIN_BATCH, _MAX_BATCH = 32, 256
# Circuit parameters of a convolution and a pooling layer.
_LAYER_PARAMETERS = 21


def train_samples(model: str, qubits: int) -> int:
    """Return the number of training samples for a model. A custom circuit counts as `deep`."""
    kind = _kind(model)
    layers = 1 if kind == "hybrid" else math.ceil(math.log2(qubits))
    # Dense layers with linear activations are equivalent to one weight per readout and a constant.
    head = math.ceil(qubits / 2) + 1 if kind == "hybrid" else 0
    return _SAMPLES[kind] * (_LAYER_PARAMETERS * layers + head)


def rounds(model: str, qubits: int, train_fraction: float, max_samples: int) -> int:
    """Return the number of excitation rounds.

    Args:
        model: Name of the model.
        qubits: Number of qubits, which is the number of samples of a round.
        train_fraction: Fraction of the samples in the training split.
        max_samples: Maximum number of samples in all splits.
    """
    return max(1, min(math.ceil(train_samples(model, qubits) / (train_fraction * qubits)), max_samples // qubits))


def rounds_of_ground_states(qubits: int) -> int:
    """Return the rounds of about 400 ground states.

    With more ground states, neighbors on the training line are nearly equal.
    """
    return math.ceil(_GROUND_STATES / qubits)


def batch_size(samples: int, workers: int) -> int:
    """Return the batch size: a power of 2 from 32 to 256 near 1/16 of the training samples.

    It is at least the number of workers.
    """
    power = 1 << round(math.log2(max(1, samples / _BATCHES_PER_EPOCH)))
    return max(workers, min(max(power, _MIN_BATCH), _MAX_BATCH))


def epochs(model: str, samples: int, batch: int) -> int:
    """Return the number of epochs with enough updates for convergence.

    Args:
        model: Name of the model.
        samples: Number of training samples.
        batch: Batch size.
    """
    return math.ceil(_UPDATES[_kind(model)] / math.ceil(samples / batch))


def num_initializations(model: str) -> int:
    """Return the number of initializations to train."""
    return _INITIALIZATIONS[_kind(model)]


def _kind(model: str) -> str:
    return "hybrid" if model == "hybrid" else "deep"
