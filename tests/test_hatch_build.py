"""Build hook: the kernels are compiled, or the reason is recorded where the package finds it."""

import types
from pathlib import Path

import pytest

from qcnn.simulators import kernels
from tests.scripts_as_modules import load_script

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def hook() -> types.ModuleType:
    """Return the hook as a module."""
    return load_script(ROOT / "hatch_build.py")


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
    recorded = kernels.library_reason.__wrapped__()
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
    ("platform", "target", "architecture"),
    [
        ("manylinux_2_17_x86_64", "-target x86_64-linux-gnu.2.17", "-march=x86_64_v3"),
        ("manylinux_2_28_aarch64", "-target aarch64-linux-gnu.2.28", ""),
    ],
)
def test_published_kernels_are_compiled_for_platform(
    hook: types.ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    platform: str,
    target: str,
    architecture: str,
) -> None:
    script = 'arguments="$*"; while [ "$1" != -o ]; do shift; done; echo "$arguments" >"$2"'
    monkeypatch.setattr(hook, "_ZIG", (_compiler(tmp_path, script),))
    (tmp_path / "built").mkdir()
    hook.build_for_platform(platform, ROOT / hook.FOLDER, tmp_path / "built")
    command = (tmp_path / "built" / hook.LIBRARY).read_text()
    assert target in command
    assert [word for word in command.split() if word.startswith("-march=")] == [architecture][: bool(architecture)]
    assert "-ffp-contract=fast" in command


@pytest.mark.parametrize(
    ("platform", "message"),
    [
        ("linux_x86_64", r"must be any or .*\. Given: linux_x86_64$"),
        ("manylinux_2_17_x86_64", r"must .* Given: manylinux_2_17_x86_64, .*compiler ended with .*unknown type$"),
    ],
)
def test_published_wheel_without_kernels_is_an_error(
    hook: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, message: str
) -> None:
    monkeypatch.setattr(hook, "_ZIG", (_compiler(tmp_path, _ERRORS),))
    with pytest.raises(ValueError, match=rf"^QCNN_WHEEL_PLATFORM: {message}"):
        hook.build_for_platform(platform, ROOT / hook.FOLDER, tmp_path)


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
    assert kernels.library_reason.__wrapped__().startswith(reason)
