"""Tests of shell completion and of the flags of experiments."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from qcnn.circuits.formats.loading import embed_file
from qcnn.cli.main import qcnn
from qcnn.cli.options.experiment import ExperimentOptions, complete_field, experiment_options
from qcnn.cli.options.search import SearchOptions, read_study
from qcnn.experiment.config import ALL_FIELDS
from qcnn.results.local_run import RunRecorder
from tests.docs.documents import ROOT


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second"):
        with RunRecorder({}) as recorder:
            recorder.begin_step("generate-data", tmp_path / "runs" / name)


def completions(line: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Return the completions for bash, as type,value."""
    words = line.split()
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - (not line.endswith(" "))))
    monkeypatch.setenv("_QCNN_COMPLETE", "bash_complete")
    with pytest.raises(SystemExit):
        qcnn.main(prog_name="qcnn")
    return capfd.readouterr().out.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("qcnn stu", ["plain,study"]),
        ("qcnn --ver", ["plain,--version"]),
        ("qcnn run --learning", ["plain,--learning-rate", "plain,--learning-rate-schedule"]),
        ("qcnn run --model d", ["plain,deep"]),
        ("qcnn run --model circuits/", ["file,circuits/"]),
        ("qcnn run --learning-rate-schedule ", ["plain,cosine", "plain,constant"]),
        ("qcnn run --evaluator ", ["plain,0", "plain,1"]),
        ("qcnn run --qubits ", []),
        ("qcnn run --config ex", ["file,ex"]),
        ("qcnn run --resume ", ["plain,runs/first", "plain,runs/second"]),
        ("qcnn circuit ", ["plain,hybrid", "plain,deep"]),
        ("qcnn circuit circuits/", ["file,circuits/"]),
        ("qcnn compare s", ["plain,second"]),
        ("qcnn compare elsewhere/", ["dir,elsewhere/"]),
        ("qcnn submit --target ku", ["plain,kubeflow", "plain,kubernetes"]),
        ("qcnn submit --target kubeflow --dry", ["plain,--dry-run"]),
        ("qcnn submit --target tfjob --active", ["plain,--active-deadline-seconds"]),
        ("qcnn schedule --target kubeflow cr", ["plain,create"]),
    ],
)
def test_shell_completion(
    line: str, expected: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert completions(line, monkeypatch, capfd) == expected


def test_complete_field_returns_values_or_files() -> None:
    import click

    for name, field in ALL_FIELDS.items():
        items = complete_field(name, field)(click.Context(qcnn), click.Option([f"--{name}"]), "")
        assert all(item.type == "plain" for item in items) or name in ("model", "continue_from", "data")


def _typed(*arguments: str) -> dict[str, object]:
    """Return the fields that a command reads from its arguments."""
    received: list[ExperimentOptions] = []

    @click.command()
    @experiment_options
    def command(options: ExperimentOptions) -> None:
        received.append(options)

    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return received[0].mapping()


def test_switch_flag_needs_no_value() -> None:
    assert _typed("--chief", "--workers", "4", "--evaluator") == {
        "workers": 4,
        "options": {"chief": 1, "evaluator": 1},
    }
    assert _typed("--evaluator", "0", "--placement-log", "1") == {"options": {"evaluator": 0, "placement_log": 1}}


def test_circuit_file_is_embedded(tmp_path: Path) -> None:
    """In a flag, in a file and in the grid of a study."""
    circuit = str(ROOT / "examples" / "stabilizers.qasm")
    (config := tmp_path / "file.yaml").write_text(f"model: {circuit}\ngrid: {{model: [hybrid, {circuit}]}}\n")
    text = embed_file(circuit)
    assert _typed("--model", circuit) == {"model": text}
    study = read_study(SearchOptions((), (), None), ExperimentOptions(str(config), {}))
    assert study.arguments["experiment"]["model"] == text
    assert study.arguments["grid"] == {"model": ["hybrid", text]}
    assert [trial.model for trial in study.trials] == ["hybrid", text]
    typed = read_study(SearchOptions((f"model=deep,{circuit}",), (), None), ExperimentOptions(None, {}))
    assert [trial.model for trial in typed.trials] == ["deep", text]


def test_flag_accepts_negative_value() -> None:
    assert _typed("--qubits", "-1", "--ps", "2") == {"qubits": -1, "options": {"ps": 2}}
