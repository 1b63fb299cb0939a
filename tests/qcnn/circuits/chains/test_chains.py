"""Properties of all chains: names, symmetries and the smallest basis of a sector."""

import numpy as np
import pytest

from qcnn.circuits.chains import CHAINS, chain_of
from qcnn.circuits.chains.ground_states import sector_energies
from qcnn.circuits.chains.pauli_matrices import pauli_matrix
from qcnn.circuits.chains.symmetries import Magnetization, Parity, Reflection, SpinFlip, sector_basis


@pytest.mark.parametrize("name", CHAINS)
def test_chain_has_module_name_and_classes_on_training_lines(name: str) -> None:
    chain = chain_of(name)
    assert chain.name == name
    points = np.concatenate([np.linspace(start, end, 50) for start, end in chain.training_lines])
    assert set(chain.class_of(*points.T)) == set(range(len(chain.classes)))


@pytest.mark.parametrize("name", CHAINS)
def test_strings_commute_with_symmetries(name: str) -> None:
    n, chain = 6, chain_of(name)
    states = np.arange(2**n)
    for group in chain.strings(n):
        matrix = pauli_matrix([(letters, 1.0) for letters in group], states)
        dense = np.diag(matrix.diagonal) + (0 if matrix.flips is None else matrix.flips.toarray())
        for symmetry in chain.symmetries(n):
            if isinstance(symmetry, Parity | Magnetization):
                operator = np.diag(symmetry.eigenvalues(states, n).astype(float))
            else:
                operator = np.eye(2**n)[symmetry.images(states, n)]
            np.testing.assert_allclose(operator @ dense, dense @ operator)


def test_sectors_of_permutations_are_complete() -> None:
    """The bases of all sectors are an orthonormal basis of the whole space."""
    n, symmetries = 5, (SpinFlip(), Reflection())
    bases = [sector_basis(n, symmetries, (flip, reflection)) for flip in (1, -1) for reflection in (1, -1)]
    vectors = np.concatenate([basis.isometry.toarray().T for basis in bases if basis.isometry is not None])
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(2**n), atol=1e-12)


def test_sector_of_16_qubits_has_number_of_symmetric_states() -> None:
    n = 16
    magnetization, flip, reflection = chain_of("bond_alternating_xxz").sectors(n)[0]
    basis = sector_basis(n, (Magnetization(), SpinFlip(), Reflection()), (magnetization, flip, reflection))
    # 12,870 states have no magnetization. None is its own flip, 70 are their reflections, 256 the flips of those.
    assert len(basis.states) == 12_870
    assert basis.isometry is not None
    assert basis.isometry.shape[1] == (12_870 + 0 + 70 + 256) / 4
    assert sector_energies(chain_of("bond_alternating_xxz"), n, 0.0, 0.0) == pytest.approx(-16)


def test_strings_that_leave_states_raise() -> None:
    with pytest.raises(ValueError, match="strings must map the basis states of a sector to each other"):
        pauli_matrix([("XX", 1.0)], np.array([1, 3]))
