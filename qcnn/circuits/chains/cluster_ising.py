"""Cluster-Ising chain: symmetry-protected topological phase, paramagnet and antiferromagnet.

Cong, Choi and Lukin, Nature Physics 15, 1273 (2019), arXiv:1810.03787: on an open chain, in units of J = 1,

    H = -sum Z_i X_{i+1} Z_{i+2} - h1 sum X_i - h2 sum X_i X_{i+1}.

With small fields its ground states have symmetry-protected topological (SPT) order. That paper's network learns to
distinguish this phase from the adjacent paramagnet and antiferromagnet.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qcnn.circuits.chains import ground_states
from qcnn.circuits.chains.chain import Boundary, Chain, Integers, Parameter, PauliString, placements
from qcnn.circuits.chains.ground_states import RESOLUTION, GroundState
from qcnn.circuits.chains.symmetries import Parity

__all__ = ["CHAIN", "RESOLUTION", "GroundState", "boundaries", "ground_state", "is_spt", "sector_energies"]

_Floats = npt.NDArray[np.float64]


class Sector(NamedTuple):
    """Eigenvalues, +1 or -1, of the product of X over the sites 0, 2, 4... and over the sites 1, 3, 5..."""

    even: int
    odd: int


# The ground state is in the first sector in a positive field, except deep in the antiferromagnet.
SECTORS = (Sector(1, 1), Sector(1, -1), Sector(-1, 1), Sector(-1, -1))


def ground_state(qubits: int, h1: float, h2: float) -> GroundState:
    """Return the ground state of an open chain of 4 to 16 qubits.

    H commutes with two products of X (see `Sector`). If the ground state is degenerate, or nearly so because of the
    open ends, each sector contains exactly one of the ground states. The result has the lowest energy of the four
    sectors. Of equal energies, the first sector is used. The sign makes the largest amplitude in the X basis positive.

    Args:
        qubits: Number of qubits.
        h1: Field, in units of J.
        h2: Coupling of X X, in units of J.

    >>> ground = ground_state(4, h1=0.0, h2=0.0)
    >>> round(ground.energy, 6), ground.sector
    (-2.0, Sector(even=1, odd=1))
    """
    return ground_states.ground_state(CHAIN, qubits, h1, h2)


def sector_energies(qubits: int, h1: float, h2: float) -> _Floats:
    """Return the lowest energy of each sector in `SECTORS`, (4,).

    They differ by an exponentially small amount in the SPT phase, whose open ends are free, and by a gap elsewhere.

    Args:
        qubits: Number of qubits, 4 to 16.
        h1: Field, in units of J.
        h2: Coupling of X X, in units of J.
    """
    return ground_states.sector_energies(CHAIN, qubits, h1, h2)


def string_order(state: npt.NDArray[np.float32], first: int, last: int) -> float:
    """Return the expectation value of Z_first X_{first+1} X_{first+3} ... X_{last-1} Z_last.

    It is 1 in the cluster state. Outside the SPT phase it vanishes with increasing distance.

    Args:
        state: Amplitudes, float32 (2^qubits,).
        first: First site.
        last: Last site, an even number of sites from the first.
    """
    qubits = len(state).bit_length() - 1
    amplitudes = state.astype(np.float64)
    number = np.arange(len(state))
    flipped = sum(1 << (qubits - 1 - site) for site in range(first + 1, last, 2))
    parity = ((number >> (qubits - 1 - first)) ^ (number >> (qubits - 1 - last))) & 1
    return float(np.sum(amplitudes * (1 - 2 * parity) * amplitudes[number ^ flipped]))


MAX_H1 = 1.6
MAX_H2 = 1.6
_H1 = np.arange(17) / 10
# Upper boundary h2 of the SPT phase, to the paramagnet, for each h1.
_PARAMAGNET = (
    *(1.0, 0.8255, 0.7123, 0.6071, 0.5085, 0.4149, 0.3254, 0.2393, 0.1560, 0.0751, 0.0),
    *(-0.0809, -0.1565, -0.2311, -0.3046, -0.3773, -0.4492),
)
# Lower boundary h2 of the SPT phase, to the antiferromagnet, for each h1.
_ANTIFERROMAGNET = (
    *(-1.0, -0.9948, -0.9995, -1.0073, -1.0186, -1.0329, -1.0505, -1.0712, -1.0954, -1.1224, -1.1525),
    *(-1.1850, -1.2198, -1.2565, -1.2950, -1.3347, -1.3759),
)


def boundaries(h1: _Floats) -> tuple[_Floats, _Floats]:
    """Return the minimum and the maximum h2 of the SPT phase for h1 from 0 to MAX_H1.

    Boundaries are interpolated linearly.
    """
    return np.interp(h1, _H1, _ANTIFERROMAGNET), np.interp(h1, _H1, _PARAMAGNET)


def is_spt(h1: _Floats, h2: _Floats) -> npt.NDArray[np.bool_]:
    """Return whether long chains have SPT order. On the solvable line h2 = 0 this means h1 < 1."""
    below, above = boundaries(h1)
    return (below < h2) & (h2 < above)


def _strings(qubits: int) -> list[list[PauliString]]:
    """Return the Pauli strings in the basis of X, in which Z is X and X is Z."""
    return [placements("XZX", qubits), placements("Z", qubits), placements("ZZ", qubits)]


def _class_of(h1: _Floats, h2: _Floats) -> Integers:
    return is_spt(h1, h2).astype(np.int64)


def _lines() -> list[Boundary]:
    h1 = np.linspace(0, MAX_H1, 81)
    below, above = boundaries(h1)
    return [Boundary("to the paramagnet", h1, above), Boundary("to the antiferromagnet", h1, below)]


CHAIN = Chain(
    name="cluster_ising",
    parameters=(Parameter("h1", 0.0, MAX_H1, "h1 / J"), Parameter("h2", -MAX_H2, MAX_H2, "h2 / J")),
    # Labels -1 and +1 as classes.
    classes=("-1", "1"),
    strings=_strings,
    coefficients=lambda h1, h2: (-1.0, -h1, -h2),
    symmetries=lambda qubits: (Parity(tuple(range(0, qubits, 2))), Parity(tuple(range(1, qubits, 2)))),
    sectors=lambda qubits: SECTORS,
    class_of=_class_of,
    # The model is solvable without coupling.
    training_lines=(((0.0, 0.0), (MAX_H1, 0.0)),),
    boundaries=_lines,
    in_x_basis=True,
    caption="The SPT phase, label +1, is between the lines.",
)
