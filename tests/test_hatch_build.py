"""Build hook: the kernels are compiled, or the reason is recorded where the package finds it."""

import importlib.util
import types
from pathlib import Path

import pytest

from qcnn.simulators import kernels

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def hook() -> types.ModuleType:
    """Return the hook as a module."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compiler(folder: Path, script: str) -> str:
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


_ERRORS = "echo 'In file included from a.c:' >&2; echo 'a.c:3:1: error: unknown type' >&2; exit 4"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "no C compiler (COMPILER)"),
        (_ERRORS, "COMPILER ended with exit code 4: a.c:3:1: error: unknown type"),
        (
            "echo; echo 'collect2: ld returned 1' >&2; exit 1",
            "COMPILER ended with exit code 1: collect2: ld returned 1",
        ),
        ("kill -9 $$", "COMPILER ended with exit code -9: it printed nothing"),
    ],
)
def test_kernels_that_are_not_compiled_have_reason(
    hook: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, reason: str
) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    # A library of an earlier build may not fit the programs of this version.
    (folder / kernels.LIBRARY.name).write_bytes(b"earlier")
    compiler = _compiler(tmp_path, script) if script else str(tmp_path / "missing")
    monkeypatch.setenv("CC", compiler)
    assert hook.compile_kernels(folder) == reason.replace("COMPILER", compiler)
    assert [path.name for path in folder.iterdir()] == [kernels.NOT_COMPILED.name]
    monkeypatch.setattr(kernels, "LIBRARY", folder / kernels.LIBRARY.name)
    monkeypatch.setattr(kernels, "NOT_COMPILED", folder / kernels.NOT_COMPILED.name)
    recorded = kernels.missing_reason.__wrapped__()
    assert recorded == f"not compiled at installation, {reason.replace('COMPILER', compiler)}"


def test_compiled_kernels_replace_recorded_reason(
    hook: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / kernels.NOT_COMPILED.name).write_text("no C compiler (cc)\n")
    # The compiler writes the file that follows -o.
    monkeypatch.setenv("CC", _compiler(tmp_path, 'while [ "$1" != -o ]; do shift; done; echo library >"$2"'))
    assert hook.compile_kernels(folder) == ""
    assert [path.name for path in folder.iterdir()] == [kernels.LIBRARY.name]


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "not compiled at installation"), (b"no library", "the library cannot be loaded (")],
)
def test_missing_or_damaged_library_has_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, reason: str
) -> None:
    library = tmp_path / kernels.LIBRARY.name
    if content:
        library.write_bytes(content)
    monkeypatch.setattr(kernels, "LIBRARY", library)
    monkeypatch.setattr(kernels, "NOT_COMPILED", tmp_path / kernels.NOT_COMPILED.name)
    assert kernels.missing_reason.__wrapped__().startswith(reason)
