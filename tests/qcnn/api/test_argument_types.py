"""Types and signatures of the Python interface, for editors and type checkers."""

import inspect
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import qcnn
from qcnn.experiment.config import ALL_FIELDS
from qcnn.experiment.fields import written_default

ROOT = Path(__file__).parents[3]


def test_argument_types_are_those_of_schema() -> None:
    pytest.importorskip("ruff", reason="the types are written with ruff")
    script = runpy.run_path(str(ROOT / "scripts" / "argument_types.py"))
    assert script["MODULE"].read_text() == script["formatted"](script["module"]())


def test_type_checker_accepts_and_rejects_calls() -> None:
    pytest.importorskip("mypy")
    calls = Path(__file__).with_name("typed_calls.py")
    # Reports an error, and also each comment that allows an error where there is none.
    checked = subprocess.run([sys.executable, "-m", "mypy", str(calls)], cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_signatures_have_every_field_with_its_default() -> None:
    parameters = inspect.signature(qcnn.Experiment).parameters
    assert {name: each.default for name, each in parameters.items()} == {
        name: written_default(field) for name, field in ALL_FIELDS.items()
    }
    assert str(parameters["qubits"]) == "qubits: int = 8"
    for method, arguments in ((qcnn.Experiment.from_file, {"path"}), (qcnn.Experiment.replace, {"self"})):
        assert inspect.signature(method).parameters.keys() == arguments | ALL_FIELDS.keys()
    help_text = inspect.getdoc(qcnn.Experiment) or ""
    for name, field in ALL_FIELDS.items():
        assert f"\n    {name}: {field.description}" in help_text
