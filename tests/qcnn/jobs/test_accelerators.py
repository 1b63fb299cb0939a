"""Table of accelerators."""

import re

import pytest

from qcnn.jobs.accelerators import ACCELERATORS, DATE
from qcnn.jobs.vertex.machines import MACHINES


@pytest.mark.parametrize("name", ACCELERATORS)
def test_accelerator_rates_are_plausible(name: str) -> None:
    """Exchanged columns or units would violate these bounds."""
    found = ACCELERATORS[name]
    assert 5e12 <= found.flops <= 1e14
    assert found.flops / 64 <= found.double_flops <= 0.51 * found.flops
    # A GPU executes 7 to 150 operations per byte of memory traffic.
    assert 7 <= found.flops / found.traffic <= 150
    assert 8e9 <= found.memory <= 2e11
    assert found.source.startswith("NVIDIA ")
    if named := re.search(r"(\d+)gb$", name):
        assert found.memory == float(named[1]) * 1e9


def test_table_has_all_accelerators_of_machines_and_prices() -> None:
    assert re.fullmatch(r"20\d\d-\d\d", DATE)
    of_machines = {machine.accelerator for machine in MACHINES} - {""}
    assert of_machines <= ACCELERATORS.keys()
