import numpy as np
import pytest

from qcnn.trainer.quantum.cluster_ising import ground_state, sector_energies, string_order
from qcnn.trainer.quantum.phase_diagram import MOST_H1, MOST_H2, boundaries, is_spt

# Points of infinite chains in the figure of arXiv:1810.03787, h1 and h2 of both boundaries, as they were read off it
# in github.com/Jaybsoni/Quantum-Convolutional-Neural-Networks.
PUBLISHED = (
    *((0.1000, -1.004, 0.8439), (0.2556, -1.0009, 0.6636), (0.4111, -1.024, 0.5033), (0.5667, -1.049, 0.3631)),
    *((0.7222, -1.079, 0.2229), (0.8778, -1.109, 0.09766), (1.0333, -1.154, -0.02755), (1.1889, -1.225, -0.1377)),
    *((1.3444, -1.285, -0.2479), (1.5000, -1.35, -0.3531)),
)


def test_holds_the_points_that_are_known_exactly() -> None:
    assert [float(ends[0]) for ends in boundaries(np.array([0.0]))] == [-1, 1]
    line = np.array([0.0, 0.5, 0.999, 1.0, 1.001, 1.6])
    assert is_spt(line, np.zeros(6)).tolist() == [True, True, True, False, False, False]


@pytest.mark.parametrize(("h1", "below", "above"), PUBLISHED)
def test_agrees_with_the_published_boundaries(h1: float, below: float, above: float) -> None:
    assert [float(ends[0]) for ends in boundaries(np.array([h1]))] == pytest.approx([below, above], abs=0.03)


@pytest.mark.parametrize("h1", [0.2, 0.7, 1.2])
def test_the_sectors_part_in_the_paramagnet_and_join_in_the_spt_phase(h1: float) -> None:
    (_, above) = boundaries(np.array([h1]))

    def spread(qubits: int, h2: float) -> float:
        return qubits * float(np.ptp(sector_energies(qubits, h1, h2)))

    assert spread(11, float(above[0]) - 0.2) < spread(7, float(above[0]) - 0.2)
    assert spread(11, float(above[0]) + 0.2) > spread(7, float(above[0]) + 0.2)


def test_strings_are_longest_where_there_is_spt_order() -> None:
    fields = [(h1, h2) for h1 in np.linspace(0.1, MOST_H1, 6) for h2 in np.linspace(-MOST_H2, MOST_H2, 9)]
    strings = np.array([string_order(ground_state(9, h1, h2).state, 1, 7) for h1, h2 in fields])
    inside = is_spt(*np.array(fields, np.float64).T)
    assert strings[inside].mean() > 5 * np.abs(strings[~inside]).mean()
    assert np.mean((strings > 0.2) == inside) > 0.9
