"""The first step of a study."""

import sys
import types
from collections.abc import Sequence
from pathlib import Path

import cirq
import pytest
import sympy

from qcnn.circuits.circuits import Ansatz
from qcnn.components.steps.study import plan_study, select_best
from qcnn.experiment_io import from_mapping
from qcnn.studies.trials import FailedTrial, save_failure
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


def test_a_study_without_a_trained_trial_fails_in_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        save_failure(FailedTrial(from_mapping({}), f"loss: is not finite. Given: {folder.name}"), folder)
    with pytest.raises(SystemExit) as stopped:
        select_best(list(map(str, folders)), str(tmp_path / "results.csv"), str(tmp_path / "table.html"))
    assert stopped.value.code == 2
    said = "error: study: all 2 trials failed; the first: loss: is not finite. Given: first"
    assert said in capfd.readouterr().err.splitlines()
    assert "Given: second" in (tmp_path / "results.csv").read_text()
