"""The phase diagram of the cluster-Ising Hamiltonian on long chains: where its ground states have SPT order.

`benchmarks/phase_boundary.py` computes the boundaries by exact diagonalization and prints them beside h1. Three of
their points are known exactly, by duality, and stand here as they are: (h1, h2) = (0, 1), (0, -1) and (1, 0).
"""

import numpy as np
import numpy.typing as npt

MOST_H1 = 1.6
MOST_H2 = 1.6
_H1 = np.arange(17) / 10
# The h2 above which there is a paramagnet.
_PARAMAGNET = (
    *(1.0, 0.8255, 0.7123, 0.6071, 0.5085, 0.4149, 0.3254, 0.2393, 0.1560, 0.0751, 0.0),
    *(-0.0809, -0.1565, -0.2311, -0.3046, -0.3773, -0.4492),
)
# The h2 below which there is an antiferromagnet.
_ANTIFERROMAGNET = (
    *(-1.0, -0.9948, -0.9995, -1.0073, -1.0186, -1.0329, -1.0505, -1.0712, -1.0954, -1.1224, -1.1525),
    *(-1.1850, -1.2198, -1.2565, -1.2950, -1.3347, -1.3759),
)
_Floats = npt.NDArray[np.float64]


def boundaries(h1: _Floats) -> tuple[_Floats, _Floats]:
    """Return the least and the greatest h2 of the SPT phase, of h1 from 0 to MOST_H1; linear between points."""
    return np.interp(h1, _H1, _ANTIFERROMAGNET), np.interp(h1, _H1, _PARAMAGNET)


def is_spt(h1: _Floats, h2: _Floats) -> npt.NDArray[np.bool_]:
    """Return whether long chains have SPT order; on the solvable line h2 = 0 exactly where h1 < 1."""
    below, above = boundaries(h1)
    return (below < h2) & (h2 < above)
