"""The experiment's words as flags."""

from pathlib import Path

import click
from click.testing import CliRunner

from qcnn.circuits.formats.loading import embedded
from qcnn.cli.options.experiment import Words, experiment_options
from qcnn.cli.options.search import SearchFlags, read_study
from tests.docs.documents import ROOT


def _typed(*arguments: str) -> dict[str, object]:
    """Return the words that a command takes of what was typed."""
    taken: list[Words] = []

    @click.command()
    @experiment_options
    def command(words: Words) -> None:
        taken.append(words)

    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return taken[0].mapping()


def test_a_word_for_yes_needs_no_value() -> None:
    assert _typed("--chief", "--workers", "4", "--evaluator") == {
        "workers": 4,
        "options": {"chief": 1, "evaluator": 1},
    }
    assert _typed("--evaluator", "0", "--placement-log", "1") == {"options": {"evaluator": 0, "placement_log": 1}}


def test_a_circuits_file_becomes_the_circuit(tmp_path: Path) -> None:
    """As a flag, in a file, and among the values of a study's grid."""
    circuit = str(ROOT / "examples" / "stabilizers.qasm")
    (config := tmp_path / "file.yaml").write_text(f"model: {circuit}\ngrid: {{model: [hybrid, {circuit}]}}\n")
    text = embedded(circuit)
    assert _typed("--model", circuit) == {"model": text}
    study = read_study(SearchFlags((), (), None), Words(str(config), {}))
    assert study.arguments["experiment"]["model"] == text
    assert study.arguments["grid"] == {"model": ["hybrid", text]}
    assert [trial.model for trial in study.trials] == ["hybrid", text]
    typed = read_study(SearchFlags((f"model=deep,{circuit}",), (), None), Words(None, {}))
    assert [trial.model for trial in typed.trials] == ["deep", text]


def test_other_words_take_what_follows_whatever_it_looks_like() -> None:
    assert _typed("--qubits", "-1", "--ps", "2") == {"qubits": -1, "options": {"ps": 2}}
