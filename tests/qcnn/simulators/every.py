"""The simulators of the registry, as parameters of tests."""

import pytest

from qcnn.simulators import registry

EVERY = [
    pytest.param(name, marks=[pytest.mark.tfq] * bool(each.DECLARATION.library))
    for name, each in registry.SIMULATORS.items()
]
# Simulators of all gates on more than a few qubits.
GENERAL = [name for name in registry.SIMULATORS if name not in ("tfq", "density")]
