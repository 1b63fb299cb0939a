"""What a shell is offered for words that have been begun."""

from pathlib import Path

import pytest

from qcnn.cli.main import qcnn
from qcnn.cli.options.completion import complete_word
from qcnn.experiment import WORDS
from qcnn.results.local_run import Recorder


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second"):
        with Recorder({}) as recorder:
            recorder.begin_step("generate-data", tmp_path / "runs" / name)


def offered(line: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Return what bash is told, as kind,value."""
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
        ("qcnn run --learning", ["plain,--learning-rate"]),
        ("qcnn run --model d", ["plain,deep"]),
        ("qcnn run --model circuits/", ["file,circuits/"]),
        ("qcnn run --schedule ", ["plain,cosine", "plain,constant"]),
        ("qcnn run --evaluator ", ["plain,0", "plain,1"]),
        ("qcnn run --qubits ", []),
        ("qcnn run --config ex", ["file,ex"]),
        ("qcnn run --resume ", ["plain,runs/first", "plain,runs/second"]),
        ("qcnn circuit ", ["plain,hybrid", "plain,deep"]),
        ("qcnn circuit circuits/", ["file,circuits/"]),
        ("qcnn compare s", ["plain,second"]),
        ("qcnn compare elsewhere/", ["dir,elsewhere/"]),
        ("qcnn submit --target ku", ["plain,kubeflow"]),
        ("qcnn submit --target kubeflow --dry", ["plain,--dry-run"]),
        ("qcnn submit --target tfjob --active", ["plain,--active-seconds"]),
        ("qcnn schedule --target kubeflow cr", ["plain,create"]),
    ],
)
def test_a_shell_is_offered(
    line: str, expected: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert offered(line, monkeypatch, capfd) == expected


def test_every_value_that_is_offered_is_allowed() -> None:
    import click

    for name, field in WORDS.items():
        items = complete_word(name, field)(click.Context(qcnn), click.Option([f"--{name}"]), "")
        assert all(item.type == "plain" for item in items) or name in ("model", "continue_from", "data")
