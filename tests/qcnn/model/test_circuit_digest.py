"""By its digest the user's own circuit is recognised, whatever its gates."""

from pathlib import Path

import pytest

from qcnn.model.circuit_digest import fingerprint

CIRCUITS = """
import cirq, sympy
from qcnn.circuits.circuits import Ansatz

class Turn(cirq.Gate):
    def __init__(self, power): self.power = power
    def num_qubits(self): return 1
    def _unitary_(self): return cirq.unitary(cirq.Y ** self.power)

def _of(gate, qubits):
    s = sympy.Symbol("s")
    return Ansatz(cirq.Circuit(gate(qubits[0]), cirq.X(qubits[0]) ** s), (s,), (qubits[0],))

def known(qubits): return _of(cirq.Y ** 0.3, qubits)
def another(qubits): return _of(cirq.Y ** 0.4, qubits)
def unknown(qubits): return _of(Turn(0.3), qubits)
def another_unknown(qubits): return _of(Turn(0.4), qubits)
"""


def test_circuits_that_differ_have_digests_that_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of gates that cirq can write down, and of those that it cannot."""
    (tmp_path / "fingerprinted.py").write_text(CIRCUITS)
    monkeypatch.syspath_prepend(tmp_path)
    models = [f"fingerprinted:{name}" for name in ("known", "another", "unknown", "another_unknown")]
    digests = [fingerprint(model, 4) for model in models]
    assert len(set(digests)) == 4
    assert {len(digest) for digest in digests} == {64}
    assert [fingerprint(model, 4) for model in models] == digests


@pytest.mark.parametrize("model", ["hybrid", "deep"])
def test_a_built_in_model_is_known_by_its_name(model: str) -> None:
    assert fingerprint(model, 4) == ""
