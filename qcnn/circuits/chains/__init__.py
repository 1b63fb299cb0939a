"""Spin chains whose ground states are samples. Each chain is one module of this package and one name in `CHAINS`.

Does not import NumPy, because every command imports the names.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qcnn.circuits.chains.chain import Chain

# Values of the experiment field `data`, which are also the names of the modules.
CHAINS = ("cluster_ising", "annni", "bond_alternating_xxz")
# A sector of the cluster-Ising chain, or of a chain without known symmetries, then has up to 2^16 rows.
MAX_QUBITS = 16


def chain_of(name: str) -> Chain:
    """Return the chain of a name in `CHAINS`.

    >>> [parameter.name for parameter in chain_of("annni").parameters], chain_of("annni").classes
    (['kappa', 'h'], ('ferromagnetic', 'antiphase', 'paramagnetic'))
    """
    found: Chain = importlib.import_module(f"{__name__}.{name}").CHAIN
    return found
