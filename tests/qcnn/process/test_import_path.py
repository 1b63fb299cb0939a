"""Import path: modules of the working directory are found, but do not shadow installed libraries."""

import subprocess
import sys
from pathlib import Path

import pytest

from qcnn.circuits import circuits
from qcnn.errors import ConfigError

CIRCUIT = "from qcnn.circuits.circuits import hybrid as mine\n"
HIDES = "raise RuntimeError('hidden')\n"


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working directory of the test process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    return tmp_path


def test_build_finds_circuit_without_shadowing_libraries(users: Path) -> None:
    (users / "circuits_of_the_user.py").write_text(CIRCUIT)
    # Name of an installed module that is not loaded yet.
    (users / "hatchling.py").write_text(CIRCUIT)
    assert circuits.build("circuits_of_the_user:mine", 4) == circuits.build("hybrid", 4)
    assert sys.path[-1] == str(users)
    with pytest.raises(ConfigError, match=r"^model: cannot be imported or fails \(AttributeError: .*hatchling"):
        circuits.build("hatchling:mine", 4)


def test_build_in_deleted_folder_reports_missing_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "deleted"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(ConfigError, match=r"^model: cannot be imported .*no_such_circuits"):
        circuits.build("no_such_circuits:mine", 4)


@pytest.mark.parametrize("options", [(), ("-I",)], ids=["as usual", "isolated"])
@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (("qcnn.trainer.predict", "--help"), "usage: "),
        (("qcnn.cli", "--version"), "qcnn 0"),
        (("qcnn.process.run_module", "qcnn.cli", "--version"), "qcnn 0"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_programs_load_installed_libraries(
    users: Path, command: tuple[str, ...], printed: str, options: tuple[str, ...]
) -> None:
    for library in ("click", "numpy", "pydantic", "yaml", "psutil", "trainer"):
        (users / f"{library}.py").write_text(HIDES)
    done = subprocess.run([sys.executable, *options, "-m", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(printed)


def test_run_module_searches_working_directory_last(users: Path) -> None:
    (users / "shown.py").write_text("import os, sys\nprint(__name__, sys.argv[1:], sys.path.index(os.getcwd()) > 0)\n")
    command = [sys.executable, "-m", "qcnn.process.run_module", "shown", "--a", "b"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "__main__ ['--a', 'b'] True\n"


def test_import_qcnn_keeps_import_path(users: Path) -> None:
    (users / "own.py").write_text("import os, sys\nbefore = list(sys.path)\nimport qcnn\nprint(before == sys.path)\n")
    for command in (("-m", "own"), ("own.py",)):
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
        assert done.stdout == "True\n"
