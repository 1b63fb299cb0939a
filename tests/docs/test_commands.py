"""Every command of the documents: run as it stands there, or marked "not run here" and then at least understood.

What trains is run up to the start of its first step, with the experiment that it would train. Whole runs are tested in
tests/qcnn/cli, and what needs a backend or a cluster in tests/kfp and tests/cluster.
"""

import re
import runpy
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import infra.__main__
import qcnn.cli.run
import qcnn.cli.study
from qcnn.cli.main import main
from qcnn.planning.machine import NOMINAL_MACHINE
from qcnn.planning.machine_cache import keep
from tests.docs.documents import DOCUMENTS, NOT_RUN, ROOT, Command, blocks, commands

EVERY = list(commands())
# Of a block that is not run, what a test can still understand.
_INFRA = ".venv/bin/python -m infra "
# Options with which a command prints something and ends.
_PRINT = {"--help", "--print-config"}
_OURS = (".venv/bin/qcnn ", "make ", _INFRA)


class StartedError(Exception):
    """The first step would start now, with this."""


def _start(made: Any, *_: object) -> None:
    raise StartedError(made)


def _name(command: Command) -> str:
    return f"{command.document}: {command.line}"


def _recipe(target: str) -> str:
    """Return what a target of make runs."""
    found = re.search(rf"^{target}:[^\n]*\n((?:\t[^\n]*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found, f"make has no target {target}"
    return found[1]


def _words(line: str) -> list[str]:
    """Return the words of a command, those of `make TARGET ARGS=...` as the target's recipe passes them on."""
    words = shlex.split(line)
    if words[0] != "make" or len(words) == 1:
        return words
    (given,) = [word.removeprefix("ARGS=") for word in words if word.startswith("ARGS=")] or [""]
    recipe = _recipe(words[1]).splitlines()[0].strip().lstrip("@").replace("$(BIN)", ".venv/bin")
    return shlex.split(recipe.replace("$(ARGS)", given)) if "$(ARGS)" in recipe else ["make", words[1]]


def _type(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Type a command of ours; return its exit code."""
    is_infra = words[:3] == _INFRA.split()
    monkeypatch.setattr(sys, "argv", words[2:] if is_infra else [Path(words[0]).name, *words[1:]])
    try:
        infra.__main__.main() if is_infra else main()
    except SystemExit as error:
        return int(error.code or 0)
    return 0


@pytest.mark.parametrize("command", [c for c in EVERY if c.runs], ids=_name)
def test_a_command_runs_as_it_stands(
    command: Command, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The machine is not measured here, which takes seconds.
    monkeypatch.setenv("XDG_CACHE_HOME", str(checkout / "cache"))
    keep(NOMINAL_MACHINE)
    monkeypatch.setattr(qcnn.cli.run, "run_pipeline", _start)
    monkeypatch.setattr(qcnn.cli.study, "run_study", _start)
    monkeypatch.syspath_prepend(checkout)
    match _words(command.line):
        case ["make", *targets]:
            for target in targets:
                assert _recipe(target)
        case [".venv/bin/pytest", "$(parallel)"]:
            pass  # It runs now.
        case [".venv/bin/python", "compile.py", *arguments]:
            monkeypatch.setattr(sys, "argv", ["compile.py", *arguments])
            runpy.run_path(str(ROOT / "compile.py"), run_name="__main__")
            assert {path.name for path in Path("build").iterdir()} >= {"qcnn-kubeflow.yaml", "study-kubeflow.yaml"}
        case [".venv/bin/qcnn", "run" | "study" as kind, *arguments] if not _PRINT & set(arguments):
            with pytest.raises(StartedError) as started:
                _type([".venv/bin/qcnn", kind, *arguments], monkeypatch)
            assert started.value.args[0]
        case [".venv/bin/qcnn", *_] | [".venv/bin/python", "-m", "infra", *_] as words:
            assert _type(words, monkeypatch) == 0, capsys.readouterr().err
            assert capsys.readouterr().out
        case _:
            pytest.fail(f"no test knows how to run this: say {NOT_RUN!r} in its block. Given: {command.line}")


@pytest.mark.parametrize("command", [c for c in EVERY if not c.runs and c.line.startswith(_OURS)], ids=_name)
def test_a_command_that_is_not_run_here_has_options_that_exist(
    command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = _words(command.line)
    if words[0] == "make":
        assert _recipe(words[1])
        return
    # Options are read before any of them acts: an unknown one is refused even beside --help.
    assert _type([*words, "--help"], monkeypatch) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.startswith(("Usage: qcnn ", "Usage: python -m infra "))


def test_a_command_with_an_option_that_does_not_exist_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for words in ("submit --target tfjob --outputs gs://B", "compare --sorted mse", "schedule create --crons 1"):
        assert _type([".venv/bin/qcnn", *words.split(), "--help"], monkeypatch) != 0


def test_a_wrong_word_is_refused_as_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "first-run.md").read_text()
    ((shown, value),) = re.findall(r"^(error: qubits: .* Given: (\S+))$", page, re.MULTILINE)
    assert _type([".venv/bin/qcnn", "run", "--qubits", value], monkeypatch) != 0
    assert capsys.readouterr().err.strip() == shown


def test_no_command_keeps_those_after_it_in_its_block_waiting() -> None:
    for path in DOCUMENTS:
        for block in blocks(path, "sh"):
            lines = [re.split(r"\s+# ", line)[0].strip() for line in block.text.splitlines()]
            for line in lines[:-1]:
                assert "port-forward" not in line or line.endswith("&"), f"{path.name}: {line}"
