"""The folder that python -m is typed in hides no library, and a user's own module is found there all the same."""

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
    """The folder that this process is in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    return tmp_path


def test_a_model_is_found_where_the_user_is_and_hides_nothing(users: Path) -> None:
    (users / "circuits_of_the_user.py").write_text(CIRCUIT)
    # Not loaded yet, and installed.
    (users / "hatchling.py").write_text(CIRCUIT)
    assert circuits.build("circuits_of_the_user:mine", 4) == circuits.build("hybrid", 4)
    assert sys.path[-1] == str(users)
    with pytest.raises(ConfigError, match=r"^model: cannot be imported or fails \(AttributeError: .*hatchling"):
        circuits.build("hatchling:mine", 4)


def test_a_folder_that_is_gone_hides_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match=r"^model: cannot be imported .*no_such_circuits"):
        circuits.build("no_such_circuits:mine", 4)


@pytest.mark.parametrize("options", [(), ("-I",)], ids=["as usual", "isolated"])
@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (("qcnn.trainer.predict", "--help"), "usage: "),
        (("qcnn.cli", "--version"), "qcnn 0"),
        (("qcnn.run_module", "qcnn.cli", "--version"), "qcnn 0"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_our_programs_load_what_is_installed(
    users: Path, command: tuple[str, ...], printed: str, options: tuple[str, ...]
) -> None:
    for library in ("click", "numpy", "pydantic", "yaml", "psutil", "trainer"):
        (users / f"{library}.py").write_text(HIDES)
    done = subprocess.run([sys.executable, *options, "-m", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(printed)


def test_a_module_that_is_run_looks_in_the_users_folder_last(users: Path) -> None:
    (users / "shown.py").write_text("import os, sys\nprint(__name__, sys.argv[1:], sys.path.index(os.getcwd()) > 0)\n")
    command = [sys.executable, "-m", "qcnn.run_module", "shown", "--a", "b"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "__main__ ['--a', 'b'] True\n"


def test_a_program_of_the_users_own_that_imports_us_looks_where_it_did(users: Path) -> None:
    (users / "own.py").write_text("import os, sys\nbefore = list(sys.path)\nimport qcnn\nprint(before == sys.path)\n")
    for command in (("-m", "own"), ("own.py",)):
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
        assert done.stdout == "True\n"
