"""The rules behind words that may be left to be chosen: samples, batches and epochs with which a network trains.

Measured by benchmarks/convergence.py. Least squares with p parameters on N samples errs on fresh ones by about p / N of
the floor more than the floor; so the number of parameters says how many samples a size needs.
"""

import math

# Training samples for each parameter; with 60 `hybrid` ends about 0.003 above its floor.
_SAMPLES = {"hybrid": 60, "deep": 20}
# Updates that training takes to arrive.
_UPDATES = {"hybrid": 640, "deep": 1000}
# Starts of which one arrives at the floor: of `deep` about every second does.
_STARTS = {"hybrid": 1, "deep": 12}
_GROUND_STATES = 400
_BATCHES_AN_EPOCH = 16
_LEAST_BATCH, _LARGEST_BATCH = 32, 256
# Quantum parameters of a convolution and a pooling layer.
_LAYER = 21


def train_samples(model: str, qubits: int) -> int:
    """Return how many training samples a network needs; one of the user's own is taken for as deep as `deep`."""
    kind = _kind(model)
    layers = 1 if kind == "hybrid" else math.ceil(math.log2(qubits))
    # Dense layers with linear activations amount to a weight for each readout and a constant.
    head = math.ceil(qubits / 2) + 1 if kind == "hybrid" else 0
    return _SAMPLES[kind] * (_LAYER * layers + head)


def rounds(model: str, qubits: int, train_fraction: float, most: int) -> int:
    """Return the excitation rounds that give so many training samples, at most so many samples in all."""
    return max(1, min(math.ceil(train_samples(model, qubits) / (train_fraction * qubits)), most // qubits))


def rounds_of_ground_states(qubits: int) -> int:
    """Return the rounds that give some 400 ground states: more on the line of training are nearly equal."""
    return math.ceil(_GROUND_STATES / qubits)


def batch_size(samples: int, workers: int) -> int:
    """Return the samples of a batch: a power of two near a sixteenth of the training samples, between 32 and 256."""
    power = 1 << round(math.log2(max(1, samples / _BATCHES_AN_EPOCH)))
    return max(workers, min(max(power, _LEAST_BATCH), _LARGEST_BATCH))


def epochs(model: str, samples: int, batch: int) -> int:
    """Return the epochs that make as many updates as training takes."""
    return math.ceil(_UPDATES[_kind(model)] / math.ceil(samples / batch))


def num_initializations(model: str) -> int:
    """Return from how many initial weights to train."""
    return _STARTS[_kind(model)]


def _kind(model: str) -> str:
    return "hybrid" if model == "hybrid" else "deep"
