"""Tests of the record of durations, and of the selection and order that follow from it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.durations import RECORD, Durations, longest_first, split

ROOT = Path(__file__).parents[1]
RECORDED: Durations = json.loads(RECORD.read_text())
DURATIONS: Durations = {"a.py": {"test_one": 0.4, "test_two[x::y]": 3.0}, "b.py": {"test_one": 2.0}}


def test_split_returns_file_and_name() -> None:
    assert split("tests/a.py::TestClass::test_one[x::y]") == ("tests/a.py", "TestClass::test_one[x::y]")


@pytest.mark.parametrize(
    ("tests", "order"),
    [
        (["c.py::test_new", "b.py::test_one", "a.py::test_one", "a.py::test_two[x::y]"], ["a.py", "b.py", "c.py"]),
        # Only selected tests count.
        (["a.py::test_one", "b.py::test_one"], ["b.py", "a.py"]),
        (["c.py::test_new", "a.py::test_new"], ["c.py", "a.py"]),
    ],
)
def test_files_with_longest_selected_tests_are_first(tests: list[str], order: list[str]) -> None:
    assert list(longest_first(DURATIONS, tests)) == order


@pytest.mark.parametrize("file", RECORDED)
def test_recorded_tests_exist(file: str) -> None:
    assert (ROOT / file).is_file(), f"{file} is recorded in {RECORD.name}: rename or delete its entry"
    text = (ROOT / file).read_text()
    for name in RECORDED[file]:
        owner, _, function = name.partition("[")[0].rpartition("::")
        # A class may inherit its tests.
        definition = f"class {owner}(" if owner else f"def {function}("
        assert definition in text, f"{function} is recorded in {RECORD.name}: rename or delete its entry"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder with two test files and a record, in which the plugin is used."""
    (tmp_path / "durations.json").write_text(json.dumps({"test_b.py": {"test_slow": 1.1, "test_quick": 1.0}}))
    (tmp_path / "conftest.py").write_text(
        "import pathlib\nfrom tests import durations\nfrom tests.durations import *\n"
        "durations.RECORD = pathlib.Path(__file__).with_name('durations.json')\n"
    )
    (tmp_path / "test_a.py").write_text("def test_new(): pass\n")
    (tmp_path / "test_b.py").write_text(
        "import threading\ndef test_quick(): pass\ndef test_slow(): threading.Event().wait(0.3)\n"
    )
    return tmp_path


def _pytest(folder: Path, *arguments: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(folder), "-c", "/dev/null"]
    done = subprocess.run([*command, *arguments, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_fast_skips_tests_recorded_above_limit(folder: Path) -> None:
    lines = _pytest(folder, "--fast", "--collect-only", "-q")
    assert lines[:2] == ["test_b.py::test_quick", "test_a.py::test_new"]
    assert "2/3 tests collected (1 deselected)" in lines[-1]


def test_record_replaces_durations_by_those_of_run(folder: Path) -> None:
    _pytest(folder, "--record")
    recorded: Durations = json.loads((folder / "durations.json").read_text())
    assert list(recorded) == ["test_b.py"]
    assert list(recorded["test_b.py"]) == ["test_slow"]
    assert recorded["test_b.py"]["test_slow"] >= 0.3
