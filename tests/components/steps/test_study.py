"""The first step of a study."""

import sys
import types
from collections.abc import Sequence
from pathlib import Path

import cirq
import pytest
import sympy

from qcnn.circuits.circuits import Ansatz
from qcnn.components.steps.study import plan_study, plan_tuning, select_best
from qcnn.experiment_io import from_json, from_mapping
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
        plan_study({}, {"model": ["hybrid", model]}, {}, 0, {})
    assert stopped.value.code == 2
    assert refused_line(capfd).startswith(f"error: {reason}")


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
def test_a_study_is_refused_before_its_trials_begin_where_a_file_is_without_its_contents(
    capfd: pytest.CaptureFixture[str], data: list[str], given: list[str], line: str
) -> None:
    said = "error: data_sha256: must hold the SHA-256, as printed by sha256sum, of these data files: "
    with pytest.raises(SystemExit):
        plan_study({}, {"data": data}, {}, 0, dict.fromkeys(given, 64 * "0"))
    assert refused_line(capfd).startswith(said + line)
    with pytest.raises(SystemExit):
        plan_tuning({"data": data[0]}, {"seed": [1, 2]}, {}, 2, dict.fromkeys(_FILES, 64 * "0"))
    assert refused_line(capfd).startswith(said)


def test_a_study_of_several_files_has_a_trial_for_each(capfd: pytest.CaptureFixture[str]) -> None:
    trials = plan_study({}, {"data": ["excitations", *_FILES]}, {}, 0, dict.fromkeys(_FILES, 64 * "0"))
    assert [from_json(trial).data for trial in trials] == ["excitations", *_FILES]


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
