"""Random bits that all follow from one seed: equal on every machine, and no draw depends on how many another made."""

import numpy as np
import numpy.typing as npt

# One stream of random bits per purpose.
ANGLES, SPLIT, _ORDER, _TRAIN_SHOTS, _VALIDATION_SHOTS, _TEST_SHOTS, _STUDY, FRESH, _START, FIELDS = range(10)
_TRAJECTORIES = 10
_SHOTS = {"train": _TRAIN_SHOTS, "validation": _VALIDATION_SHOTS, "test": _TEST_SHOTS}


def random_bits(purpose: int, seed: int, count: int, stream: int = 0) -> npt.NDArray[np.uint64]:
    """Return `count` random 64-bit words.

    Raw PCG64 output, because NumPy promises only that stream, not its distributions', across versions
    (NEP 19).
    """
    return np.random.PCG64(np.random.SeedSequence([purpose, seed, stream])).random_raw(count)


def random_units(purpose: int, seed: int, count: int, stream: int = 0) -> npt.NDArray[np.float64]:
    """Return `count` numbers uniform in [0, 1), float64."""
    return (random_bits(purpose, seed, count, stream) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permutation(purpose: int, seed: int, count: int, stream: int = 0) -> npt.NDArray[np.int64]:
    """Return a permutation of 0 to count - 1."""
    return np.argsort(random_bits(purpose, seed, count, stream), kind="stable")


def study_units(seed: int, count: int) -> list[float]:
    """Return the numbers in [0, 1) that the trials of a random search are drawn from; more begin with the same."""
    units: list[float] = random_units(_STUDY, seed, count).tolist()
    return units


def start_seed(seed: int, start: int) -> int:
    """Return the seed of the weights that a start begins with; the first begins with the experiment's own."""
    return int(random_bits(_START, seed, 1, stream=start)[0] >> np.uint64(33)) if start else seed


def epoch_order(seed: int, epoch: int, count: int) -> npt.NDArray[np.int64]:
    """Return the order of the training samples in an epoch: a permutation fixed by seed and epoch alone."""
    return permutation(_ORDER, seed, count, stream=epoch)


def shot_seeds(split: str, seed: int, epoch: int, batches: int) -> npt.NDArray[np.int64]:
    """Return a seed for the shots of each batch of a split, (batches, 2): fixed by split, seed and epoch alone."""
    return random_bits(_SHOTS[split], seed, 2 * batches, stream=epoch).view(np.int64).reshape(batches, 2)


def trajectory_units(seed: int, sample: int, trajectory: int, count: int) -> npt.NDArray[np.float64]:
    """Return the numbers in [0, 1) that a trajectory of a test sample is drawn from: fixed by these alone."""
    return random_units(_TRAJECTORIES, seed, count, stream=(sample << 32) + trajectory)
