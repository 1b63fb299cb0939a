"""Bond-alternating XXZ chain: trivial and topological dimer phases, and an antiferromagnet with broken symmetry.

Elben, Yu, Zhu, Hafezi, Pollmann, Zoller and Vermersch, Science Advances 6, eaaz3666 (2020), arXiv:1906.05011: on an
open chain of an even number of sites, in units of J = 1,

    H = sum J_i (X_i X_{i+1} + Y_i Y_{i+1} + delta Z_i Z_{i+1}),

where J_i is J on the first bond and every second one, and J' on the others. With J' < J each strong bond has a singlet.
With J' > J the two sites at the ends are free, and the chain has symmetry-protected topological order. For large delta
the ground states are antiferromagnetic.
"""

from __future__ import annotations

import numpy as np

from qcnn.circuits.chains.chain import Boundary, Chain, Floats, Integers, Parameter, PauliString, placements
from qcnn.circuits.chains.symmetries import Magnetization, Reflection, Sector, SpinFlip, Symmetry

MAX_DELTA, MAX_RATIO = 4.0, 3.0
# Delta of the training lines.
TRAINING_DELTAS = (0.5, 3.0)
TRIVIAL, TOPOLOGICAL, SYMMETRY_BROKEN = range(3)
# Delta of the Heisenberg chain, where the three phases meet.
_ISOTROPIC = 1.0
_DELTA = np.arange(4, 17) / 4
# J' / J of the transition from the trivial phase to the antiferromagnet, for each delta. The first value is exact.
_ANTIFERROMAGNET = (
    *(1.0, 0.9933, 0.9671, 0.9212, 0.8625, 0.8005, 0.7412, 0.6869, 0.6383, 0.5949, 0.5563, 0.5220, 0.4914),
)


def boundaries(delta: Floats) -> tuple[Floats, Floats]:
    """Return the minimum and the maximum J' / J of the antiferromagnet for delta from 0 to MAX_DELTA.

    The minimum is interpolated linearly. A translation by one site exchanges J and J' of an infinite chain, so the
    maximum is its inverse. Up to delta = 1 both are 1, where the dimer phases meet.
    """
    minimum = np.interp(delta, _DELTA, _ANTIFERROMAGNET)
    return minimum, 1 / minimum


def _class_of(delta: Floats, ratio: Floats) -> Integers:
    """Return the class of each point: on a line the antiferromagnet, and with J' = J below delta = 1 topological."""
    minimum, maximum = boundaries(delta)
    is_broken = (delta >= _ISOTROPIC) & (minimum <= ratio) & (ratio <= maximum)
    return np.where(is_broken, SYMMETRY_BROKEN, np.where(ratio < 1, TRIVIAL, TOPOLOGICAL))


def _strings(qubits: int) -> list[list[PauliString]]:
    """Return the strings of exchange and of Z Z on the bonds with J, then those with J'."""
    groups = []
    for first in (0, 1):
        exchange = [string for pair in ("XX", "YY") for string in placements(pair, qubits, first=first, step=2)]
        groups += [exchange, placements("ZZ", qubits, first=first, step=2)]
    return groups


def _symmetries(_: int) -> tuple[Symmetry, ...]:
    return Magnetization(), SpinFlip(), Reflection()


def _sectors(qubits: int) -> tuple[Sector, ...]:
    """Return the sector of the ground state.

    After a rotation of every second site by pi about Z, exchange has negative elements only. So the ground state
    without magnetization is unique with positive amplitudes (Marshall, Proceedings of the Royal Society A 232, 48,
    1955). The rotation gives each state the sign of its number of spins down on every second site, which determines how
    flips and reflections change it. States with magnetization have no lower energy (Lieb and Mattis, Journal of
    Mathematical Physics 3, 749, 1962; Affleck and Lieb, Letters in Mathematical Physics 12, 57, 1986).
    """
    sign = (-1) ** (qubits // 2)
    return ((0, sign, sign),)


def _lines() -> list[Boundary]:
    dimers, broken = np.array([0.0, _ISOTROPIC]), np.linspace(_ISOTROPIC, MAX_DELTA, 81)
    minimum, maximum = boundaries(broken)
    return [
        Boundary("trivial to topological", dimers, np.ones(2)),
        Boundary("to trivial", broken, minimum),
        Boundary("to topological", broken, maximum),
    ]


CHAIN = Chain(
    name="bond_alternating_xxz",
    parameters=(Parameter("delta", 0.0, MAX_DELTA, "delta"), Parameter("j_ratio", 0.0, MAX_RATIO, "J' / J")),
    classes=("trivial", "topological", "symmetry_broken"),
    strings=_strings,
    coefficients=lambda delta, ratio: (1.0, delta, ratio, ratio * delta),
    symmetries=_symmetries,
    sectors=_sectors,
    class_of=_class_of,
    # Below delta = 1 the only transition is exact, at J' = J. Beyond, a line crosses all phases.
    training_lines=tuple(((delta, 0.0), (delta, MAX_RATIO)) for delta in TRAINING_DELTAS),
    boundaries=_lines,
    is_even=True,
    caption="Between the lines to trivial and to topological the symmetry is broken.",
)
