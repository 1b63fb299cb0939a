"""Symmetries of spin chains, and bases of their common eigenspaces (sectors)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Parity:
    """Product of Z over some sites, with eigenvalues +1 and -1."""

    sites: tuple[int, ...]

    def eigenvalues(self, states: Numbers, qubits: int) -> Numbers:
        """Return the eigenvalue of each basis state."""
        return signs(states & sum(1 << (qubits - 1 - site) for site in self.sites))


@dataclasses.dataclass(frozen=True)
class Magnetization:
    """Sum of Z over all sites."""

    def eigenvalues(self, states: Numbers, qubits: int) -> Numbers:
        """Return the eigenvalue of each basis state."""
        return np.asarray(qubits - 2 * np.bitwise_count(states).astype(np.int64))


@dataclasses.dataclass(frozen=True)
class SpinFlip:
    """Product of X over all sites, with eigenvalues +1 and -1."""

    def images(self, states: Numbers, qubits: int) -> Numbers:
        """Return the basis state to which each basis state is mapped."""
        return np.asarray(states ^ (2**qubits - 1))


@dataclasses.dataclass(frozen=True)
class Reflection:
    """Reflection of the chain about its center, with eigenvalues +1 and -1."""

    def images(self, states: Numbers, qubits: int) -> Numbers:
        """Return the basis state to which each basis state is mapped."""
        found = np.zeros_like(states)
        for site in range(qubits):
            found |= ((states >> site) & 1) << (qubits - 1 - site)
        return found


# Symmetries that are diagonal in the basis of Z, and those that permute its states. All of them commute.
Symmetry: TypeAlias = Parity | Magnetization | SpinFlip | Reflection
# Eigenvalue of each symmetry of a chain.
Sector: TypeAlias = tuple[int, ...]


class SectorBasis(NamedTuple):
    """Basis of a sector.

    Attributes:
        states: Basis states of Z with the eigenvalues of the diagonal symmetries, in ascending order.
        isometry: Basis vectors of the sector as columns, (states, vectors), or None if these are the states.
    """

    states: Numbers
    isometry: csr_matrix | None


def signs(numbers: Numbers) -> Numbers:
    """Return +1 for numbers with an even number of bits 1, and -1 for the others."""
    return np.asarray(1 - 2 * (np.bitwise_count(numbers).astype(np.int64) & 1))


def sector_basis(qubits: int, symmetries: Sequence[Symmetry], sector: Sector) -> SectorBasis:
    """Return the basis of a sector.

    Args:
        qubits: Number of qubits.
        symmetries: Symmetries.
        sector: Eigenvalue of each symmetry.
    """
    states = np.arange(2**qubits)
    permutations = []
    for symmetry, eigenvalue in zip(symmetries, sector, strict=True):
        if isinstance(symmetry, Parity | Magnetization):
            states = states[symmetry.eigenvalues(states, qubits) == eigenvalue]
        else:
            permutations.append((symmetry, eigenvalue))
    return SectorBasis(states, _isometry(qubits, states, permutations) if permutations else None)


def _isometry(qubits: int, states: Numbers, permutations: Sequence[tuple[SpinFlip | Reflection, int]]) -> csr_matrix:
    """Return the basis vectors of the common eigenspaces of permutations, (states, vectors).

    Each vector is a sum over the images of one state under all products of permutations, each with the eigenvalue of
    its product. The sum vanishes if a product maps the state to itself and has eigenvalue -1.
    """
    from scipy.sparse import csr_matrix

    images, values = [], []
    for used in itertools.product((False, True), repeat=len(permutations)):
        image, value = states, 1
        for is_used, (permutation, eigenvalue) in zip(used, permutations, strict=True):
            if is_used:
                image, value = permutation.images(image, qubits), value * eigenvalue
        images.append(image)
        values.append(value)
    is_first = np.min(images, axis=0) == states
    rows = np.concatenate([np.searchsorted(states, image[is_first]) for image in images])
    count = int(is_first.sum())
    data = np.repeat(np.array(values, np.float64), count)
    # The sum of duplicates is the sum over the images.
    vectors = csr_matrix((data, (rows, np.tile(np.arange(count), len(images)))), shape=(len(states), count)).tocsc()
    norms = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=0)).ravel())
    vectors = vectors[:, norms > 0]
    scaled = vectors.multiply(1 / norms[norms > 0])
    found = csr_matrix(scaled)
    found.eliminate_zeros()
    return found
