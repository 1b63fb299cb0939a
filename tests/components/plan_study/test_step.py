"""The first step of a study."""

import sys
import types
from collections.abc import Sequence

import cirq
import pytest
import sympy

from qcnn.components.plan_study.step import plan_study
from qcnn.trainer.quantum.circuits import Ansatz
from tests.components.conftest import refused_line


def _measured(qubits: Sequence[cirq.Qid]) -> Ansatz:
    """Build what is a circuit, but cannot be differentiated."""
    s = sympy.symbols("s0:1")
    return Ansatz(cirq.Circuit(cirq.X(qubits[0]) ** s[0], cirq.measure(qubits[0])), s, (qubits[0],))


@pytest.mark.parametrize(
    ("model", "reason"),
    [("tests.no_such:f", "model: cannot be imported"), ("measuring:circuit", "model: an operation is a measurement")],
)
def test_a_study_is_refused_before_its_trials_begin_where_a_circuit_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], model: str, reason: str
) -> None:
    measuring = types.ModuleType("measuring")
    measuring.circuit = _measured  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "measuring", measuring)
    with pytest.raises(SystemExit) as stopped:
        plan_study({}, {"model": ["hybrid", model]}, {}, 0)
    assert stopped.value.code == 2
    assert refused_line(capfd).startswith(f"error: {reason}")
