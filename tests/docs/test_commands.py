"""Tests of all commands in the documents: each is run, or its options are checked if its block requires a resource.

Commands that train are run up to their first pipeline step. tests/qcnn/cli tests complete runs; tests/kfp and
tests/cluster test commands that require a backend or a cluster.
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

COMMANDS = list(commands())
_INFRA = ".venv/bin/python -m infra "
# Options with which a command prints something and exits.
_PRINT = {"--help", "--print-config"}
_CHECKED = (".venv/bin/qcnn ", "make ", _INFRA)


class StartedError(Exception):
    """Raised instead of starting the first step."""


def _raise_started(request: Any, *_: object) -> None:
    raise StartedError(request)


def _test_id(command: Command) -> str:
    return f"{command.document}: {command.line}"


def _recipe(target: str) -> str:
    """Return the recipe of a Makefile target."""
    found = re.search(rf"^{target}:[^\n]*\n((?:\t[^\n]*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found, f"make has no target {target}"
    return found[1]


def _arguments(line: str) -> list[str]:
    """Return the arguments of a command line; of `make TARGET ARGS=...`, those of the recipe with its ARGS."""
    arguments = shlex.split(line)
    if arguments[0] != "make" or len(arguments) == 1:
        return arguments
    (make_args,) = [each.removeprefix("ARGS=") for each in arguments if each.startswith("ARGS=")] or [""]
    recipe = _recipe(arguments[1]).splitlines()[0].strip().lstrip("@").replace("$(BIN)", ".venv/bin")
    return shlex.split(recipe.replace("$(ARGS)", make_args)) if "$(ARGS)" in recipe else ["make", arguments[1]]


def _run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run `qcnn` or `python -m infra` in this process and return its exit code."""
    is_infra = arguments[:3] == _INFRA.split()
    # click names the program by it, which `python -m pytest` sets.
    monkeypatch.setattr(sys.modules["__main__"], "__package__", None)
    monkeypatch.setattr(sys, "argv", arguments[2:] if is_infra else [Path(arguments[0]).name, *arguments[1:]])
    try:
        infra.__main__.main() if is_infra else main()
    except SystemExit as error:
        return int(error.code or 0)
    return 0


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.runs], ids=_test_id)
def test_command_without_requirements_runs(
    command: Command, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Skip the benchmark of the machine, which takes seconds.
    monkeypatch.setenv("XDG_CACHE_HOME", str(checkout / "cache"))
    keep(NOMINAL_MACHINE)
    monkeypatch.setattr(qcnn.cli.run, "run_pipeline", _raise_started)
    monkeypatch.setattr(qcnn.cli.study, "run_study", _raise_started)
    monkeypatch.syspath_prepend(checkout)
    match _arguments(command.line):
        case ["make", *targets]:
            for target in targets:
                assert _recipe(target)
        case [".venv/bin/pytest", "$(fast)", "$(parallel)"]:
            pass  # Its arguments are those of this process.
        case [".venv/bin/python", "compile.py", *arguments]:
            monkeypatch.setattr(sys, "argv", ["compile.py", *arguments])
            runpy.run_path(str(ROOT / "compile.py"), run_name="__main__")
            listed = set(re.findall(r"`(build/[\w-]+\.yaml)`", (ROOT / "docs" / "kubeflow.md").read_text()))
            # Vertex AI requires an image.
            written = {name for name in listed if "--image" in arguments or name.endswith("-kubeflow.yaml")}
            assert {str(path) for path in Path("build").iterdir()} == written
        case [".venv/bin/qcnn", "run" | "study" as kind, *arguments] if not _PRINT & set(arguments):
            with pytest.raises(StartedError) as started:
                _run([".venv/bin/qcnn", kind, *arguments], monkeypatch)
            assert started.value.args[0]
        case [".venv/bin/qcnn", *_] | [".venv/bin/python", "-m", "infra", *_] as words:
            assert _run(words, monkeypatch) == 0, capsys.readouterr().err
            assert capsys.readouterr().out
        case _:
            pytest.fail(f"no test runs this command: add {NOT_RUN!r} to its block. Given: {command.line}")


@pytest.mark.parametrize("command", [c for c in COMMANDS if not c.runs and c.line.startswith(_CHECKED)], ids=_test_id)
def test_command_with_requirements_has_valid_options(
    command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = _arguments(command.line)
    if arguments[0] == "make":
        assert _recipe(arguments[1])
        return
    # click parses all options before --help takes effect, so it rejects unknown ones.
    assert _run([*arguments, "--help"], monkeypatch) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.startswith(("Usage: qcnn ", "Usage: python -m infra "))


def test_unknown_option_is_rejected_before_help(monkeypatch: pytest.MonkeyPatch) -> None:
    for words in ("submit --target tfjob --outputs gs://B", "compare --sorted mse", "schedule create --crons 1"):
        assert _run([".venv/bin/qcnn", *words.split(), "--help"], monkeypatch) != 0


def test_invalid_field_prints_error_of_quickstart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "quickstart.md").read_text()
    ((error, value),) = re.findall(r"^(error: qubits: .* Given: (\S+))$", page, re.MULTILINE)
    assert _run([".venv/bin/qcnn", "run", "--qubits", value], monkeypatch) != 0
    assert capsys.readouterr().err.strip() == error


def test_port_forward_before_other_commands_is_in_background() -> None:
    for path in DOCUMENTS:
        for block in blocks(path, "sh"):
            lines = [re.split(r"\s+# ", line)[0].strip() for line in block.text.splitlines()]
            for line in lines[:-1]:
                assert "port-forward" not in line or line.endswith("&"), f"{path.name}: {line}"
