"""Plan of a study and selection of its best trial."""

import sys
import types
from collections.abc import Sequence
from pathlib import Path

import cirq
import pytest
import sympy

from qcnn.circuits.circuits import Ansatz
from qcnn.components.steps.study import plan_study, plan_tuning, select_best
from qcnn.experiment.parsing import from_json, from_mapping
from qcnn.studies.trials import FailedTrial, save_failure
from tests.components.conftest import error_line, in_component


def _measuring_circuit(qubits: Sequence[cirq.Qid]) -> Ansatz:
    """Return a circuit with a measurement, which cannot be differentiated."""
    s = sympy.symbols("s0:1")
    return Ansatz(cirq.Circuit(cirq.X(qubits[0]) ** s[0], cirq.measure(qubits[0])), s, (qubits[0],))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("tests.no_such:f", "model: cannot be imported"),
        ("measuring:circuit", "model: a measurement must condition a gate"),
    ],
)
def test_plan_study_rejects_invalid_circuit(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], model: str, reason: str
) -> None:
    measuring = types.ModuleType("measuring")
    measuring.circuit = _measuring_circuit  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "measuring", measuring)
    with pytest.raises(SystemExit) as stopped:
        in_component(plan_study, {}, {"model": ["hybrid", model]}, {}, 0, {})
    assert stopped.value.code == 2
    assert error_line(capfd).startswith(f"error: {reason}")


_FILES = ["gs://bucket/a.csv", "gs://bucket/b.csv"]


@pytest.mark.parametrize(
    ("data", "given", "line"),
    [
        (_FILES[:1], [], "gs://bucket/a.csv. Given: none"),
        (
            _FILES,
            _FILES[:1],
            "gs://bucket/a.csv, gs://bucket/b.csv. Given: gs://bucket/a",
        ),
        (["excitations"], _FILES[:1], "none. Given: gs://bucket/a.csv"),
    ],
)
def test_plan_study_rejects_wrong_sha256_keys(
    capfd: pytest.CaptureFixture[str], data: list[str], given: list[str], line: str
) -> None:
    message = "error: data_sha256: must contain the SHA-256, as printed by sha256sum, of these data files: "
    with pytest.raises(SystemExit):
        in_component(plan_study, {}, {"data": data}, {}, 0, dict.fromkeys(given, 64 * "0"))
    assert error_line(capfd).startswith(message + line)
    with pytest.raises(SystemExit):
        in_component(plan_tuning, {"data": data[0]}, {"seed": [1, 2]}, {}, 2, dict.fromkeys(_FILES, 64 * "0"))
    assert error_line(capfd).startswith(message)


def test_plan_study_of_several_files_has_a_trial_for_each(capfd: pytest.CaptureFixture[str]) -> None:
    trials = plan_study({}, {"data": ["excitations", *_FILES]}, {}, 0, dict.fromkeys(_FILES, 64 * "0"))
    assert [from_json(trial).data for trial in trials] == ["excitations", *_FILES]


def test_select_best_without_successful_trial_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        save_failure(FailedTrial(from_mapping({}), f"loss: is not finite. Given: {folder.name}"), folder)
    with pytest.raises(SystemExit) as stopped:
        in_component(select_best, list(map(str, folders)), str(tmp_path / "results.csv"), str(tmp_path / "table.html"))
    assert stopped.value.code == 2
    message = "error: study: all 2 trials failed; the first: loss: is not finite. Given: first"
    assert message in capfd.readouterr().err.splitlines()
    assert "Given: second" in (tmp_path / "results.csv").read_text()
