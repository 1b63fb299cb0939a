"""Axial next-nearest-neighbor Ising (ANNNI) chain: ferromagnet, antiphase and paramagnet.

Monaco, Kiss, Mandarino, Vallecorsa and Grossi, Physical Review B 107, L081105 (2023), arXiv:2208.08748: on an open
chain, in units of the coupling J = 1,

    H = -sum X_i X_{i+1} + kappa sum X_i X_{i+2} - h sum Z_i.

That paper's network is trained where the model is solvable, without frustration (kappa = 0) or without field (h = 0),
and tested on the whole phase diagram.
"""

from __future__ import annotations

import numpy as np

from qcnn.circuits.chains.chain import Boundary, Chain, Floats, Integers, Parameter, PauliString, placements
from qcnn.circuits.chains.symmetries import Parity, Reflection

MAX_KAPPA, MAX_H = 1.0, 2.0
# Without field the ground states are degenerate. A field of at least this selects one of them.
MIN_H = 1e-3
# The three phases meet here at h = 0.
_MULTIPHASE_KAPPA = 0.5
FERROMAGNETIC, ANTIPHASE, PARAMAGNETIC = range(3)


def ising_line(kappa: Floats) -> Floats:
    """Return the field h of the transition from the ferromagnet to the paramagnet, for kappa from 0 to 0.5.

    Second order of perturbation theory, (1 - k) / k (1 - sqrt((1 - 3 k + 4 k^2) / (1 - k))): Suzuki, Inoue and
    Chakrabarti, Quantum Ising Phases and Transitions in Transverse Ising Models (Springer, 2013), as in
    arXiv:2208.08748. This form of it is also exact at k = 0, where h is 1.

    >>> ising_line(np.array([0.0, 0.25, 0.5])).round(4).tolist()
    [1.0, 0.5505, 0.0]
    """
    root = np.sqrt((1 - 3 * kappa + 4 * kappa**2) / (1 - kappa))
    return np.asarray(2 * (1 - 2 * kappa) / (1 + root))


def antiphase_line(kappa: Floats) -> Floats:
    """Return the field h of the transition from the antiphase to the paramagnet, for kappa from 0.5 on.

    Fit 1.05 sqrt((k - 0.5) (k - 0.1)) to density-matrix renormalization: Beccaria, Campostrini and Feo, Physical Review
    B 76, 094410 (2007), as in arXiv:2208.08748.

    >>> antiphase_line(np.array([0.5, 1.0])).round(4).tolist()
    [0.0, 0.7044]
    """
    return np.asarray(1.05 * np.sqrt((kappa - 0.5) * (kappa - 0.1)))


def floating_line(kappa: Floats) -> Floats:
    """Return the field h above which the antiphase is a floating phase, for kappa from 0.5 on.

    Fit 1.05 (k - 0.5) with the same source as `antiphase_line`. The floating phase is no class: it is narrow, and part
    of the antiphase as in arXiv:2208.08748.
    """
    return np.asarray(1.05 * (kappa - 0.5))


def _class_of(kappa: Floats, h: Floats) -> Integers:
    """Return the class of each point. On a line, and at kappa = 0.5, it is the paramagnet."""
    below, above = np.minimum(kappa, _MULTIPHASE_KAPPA), np.maximum(kappa, _MULTIPHASE_KAPPA)
    is_ferromagnetic = (kappa < _MULTIPHASE_KAPPA) & (h < ising_line(below))
    is_antiphase = (kappa > _MULTIPHASE_KAPPA) & (h < antiphase_line(above))
    return np.where(is_ferromagnetic, FERROMAGNETIC, np.where(is_antiphase, ANTIPHASE, PARAMAGNETIC))


def _strings(qubits: int) -> list[list[PauliString]]:
    return [placements("XX", qubits), placements("XIX", qubits), placements("Z", qubits)]


def _lines() -> list[Boundary]:
    below, above = np.linspace(0, _MULTIPHASE_KAPPA, 81), np.linspace(_MULTIPHASE_KAPPA, MAX_KAPPA, 81)
    return [
        Boundary("Ising", below, ising_line(below)),
        Boundary("antiphase", above, antiphase_line(above)),
        Boundary("floating", above, floating_line(above), separates_classes=False),
    ]


CHAIN = Chain(
    name="annni",
    parameters=(Parameter("kappa", 0.0, MAX_KAPPA, "kappa"), Parameter("h", 0.0, MAX_H, "h / J")),
    classes=("ferromagnetic", "antiphase", "paramagnetic"),
    strings=_strings,
    coefficients=lambda kappa, h: (-1.0, kappa, -max(h, MIN_H)),
    symmetries=lambda qubits: (Parity(tuple(range(qubits))), Reflection()),
    # In the basis of X, every element of -h Z_i is negative and connects two states, and nothing else connects states.
    # So the ground state is unique with positive amplitudes (Perron-Frobenius), and even under both symmetries.
    sectors=lambda qubits: ((1, 1),),
    class_of=_class_of,
    training_lines=(((0.0, 0.0), (0.0, MAX_H)), ((0.0, 0.0), (MAX_KAPPA, 0.0))),
    boundaries=_lines,
    caption="The ferromagnet is below the Ising line, the antiphase below the antiphase line.",
)
