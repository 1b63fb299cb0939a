"""Tests of qcnn export."""

import json
from pathlib import Path

import pytest

from tests.qcnn.cli.conftest import Typed
from tests.qcnn.serving.conftest import EXCITATIONS

RUN = str(EXCITATIONS.parents[1])


def test_export_prints_version(typed: Typed, tmp_path: Path) -> None:
    output = f"{tmp_path}/digits"
    assert typed("export", RUN, "--output", output) == (0, f"version 1 created: {output}/1\n", "")
    code, out, err = typed("export", RUN, "--output", output)
    assert (code, out, err) == (0, f"version 1 exists already, with this model: {output}/1\n", "")
    code, out, _ = typed("export", RUN, "--output", output, "--version", "20", "--format", "json")
    assert json.loads(out) == {"version": 20, "uri": f"{output}/20", "created": True}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("none",), "model: must be the folder of a model or of a run, with model.json in it. Given: none"),
        ((RUN, "--version", "0"), "Invalid value for '--version': 0 is not in the range 1<=x<=999999999999999999."),
    ],
)
def test_invalid_arguments_are_one_line(typed: Typed, tmp_path: Path, arguments: tuple[str, ...], line: str) -> None:
    assert typed("export", *arguments, "--output", f"{tmp_path}/m") == (2, "", f"error: {line}\n")
    assert not list(tmp_path.iterdir())
