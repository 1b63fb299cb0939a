"""Independent random streams that are derived from one seed and are equal on every machine."""

import numpy as np
import numpy.typing as npt

# One stream of random bits per purpose.
ANGLES, SPLIT, _ORDER, _TRAIN_SHOTS, _VALIDATION_SHOTS, _TEST_SHOTS, _STUDY, FRESH, _START, FIELDS = range(10)
_TRAJECTORIES = 10
# Order of the rows of a known dataset.
DATASET_ROWS = 11
# Subset of the rows to which a classical model is fitted.
BASELINE_ROWS = 12
_SHOTS = {"train": _TRAIN_SHOTS, "validation": _VALIDATION_SHOTS, "test": _TEST_SHOTS}


def random_bits(purpose: int, seed: int, count: int, stream: int = 0) -> npt.NDArray[np.uint64]:
    """Return `count` random 64-bit integers.

    These are raw PCG64 output: across versions NumPy guarantees that stream, but not its distributions (NEP 19).

    Args:
        purpose: Number of a stream constant of this module.
        seed: Seed of the experiment.
        count: Number of integers.
        stream: Index of the stream of this purpose, for example the epoch.
    """
    return np.random.PCG64(np.random.SeedSequence([purpose, seed, stream])).random_raw(count)


def random_units(purpose: int, seed: int, count: int, stream: int = 0) -> npt.NDArray[np.float64]:
    """Return `count` numbers uniform in [0, 1), float64.

    Args:
        purpose: Number of a stream constant of this module.
        seed: Seed of the experiment.
        count: Number of values.
        stream: Index of the stream of this purpose.
    """
    return (random_bits(purpose, seed, count, stream) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permutation(purpose: int, seed: int, count: int, stream: int = 0) -> npt.NDArray[np.int64]:
    """Return a permutation of 0 to count - 1.

    Args:
        purpose: Number of a stream constant of this module.
        seed: Seed of the experiment.
        count: Length of the permutation.
        stream: Index of the stream of this purpose.
    """
    return np.argsort(random_bits(purpose, seed, count, stream), kind="stable")


def study_units(seed: int, count: int) -> list[float]:
    """Return numbers in [0, 1) from which the trials of a random search are sampled.

    A larger `count` extends the same sequence.
    """
    units: list[float] = random_units(_STUDY, seed, count).tolist()
    return units


def start_seed(seed: int, start: int) -> int:
    """Return the seed of the weights of an initialization, for the first one the experiment's seed."""
    return int(random_bits(_START, seed, 1, stream=start)[0] >> np.uint64(33)) if start else seed


def epoch_order(seed: int, epoch: int, count: int) -> npt.NDArray[np.int64]:
    """Return the order of the training samples in an epoch.

    Args:
        seed: Seed of the experiment.
        epoch: Epoch, which with the seed determines the permutation.
        count: Number of training samples.
    """
    return permutation(_ORDER, seed, count, stream=epoch)


def shot_seeds(split: str, seed: int, epoch: int, batches: int) -> npt.NDArray[np.int64]:
    """Return seeds for the measurement shots of each batch, int64 (batches, 2).

    Args:
        split: Name of the split.
        seed: Seed of the experiment.
        epoch: Epoch, which with split and seed determines the seeds.
        batches: Number of batches.
    """
    return random_bits(_SHOTS[split], seed, 2 * batches, stream=epoch).view(np.int64).reshape(batches, 2)


def trajectory_units(seed: int, sample: int, trajectory: int, count: int) -> npt.NDArray[np.float64]:
    """Return numbers in [0, 1) from which a noise trajectory of a test sample is sampled.

    Args:
        seed: Seed of the experiment.
        sample: Index of the test sample.
        trajectory: Index of the trajectory.
        count: Number of values.
    """
    return random_units(_TRAJECTORIES, seed, count, stream=(sample << 32) + trajectory)
