"""Commands with a file that cannot be read: one line, no waiting, and nothing is written."""

import os
import re
from pathlib import Path

import pytest

from tests.qcnn.cli.conftest import Typed

CLUSTER = ("--target", "tfjob", "--image", "qcnn:1", "--output", "gs://bucket/run")
BACKEND = ("--target", "kubeflow", "--host", "http://localhost:1")


@pytest.mark.parametrize("is_fifo", [True, False], ids=["fifo", "loop"])
@pytest.mark.parametrize(
    ("ending", "arguments"),
    [
        (".yaml", ("run", "--config")),
        (".qasm", ("run", "--model")),
        (".csv", ("run", "--encoding", "ry", "--data")),
        (".yaml", ("study", "--config")),
        (".qasm", ("study", "--grid")),
        (".yaml", ("plan", "--target", "tfjob", "--prices")),
        (".yaml", ("submit", *CLUSTER, "--pod")),
        (".yaml", ("submit", *BACKEND, "--package")),
        (".json", ("circuit",)),
    ],
    ids=lambda value: " ".join((value[0], value[-1])) if isinstance(value, tuple) else "",
)
def test_command_with_unreadable_file_prints_one_line(
    is_fifo: bool, ending: str, arguments: tuple[str, ...], tmp_path: Path, typed: Typed
) -> None:
    path = tmp_path / f"file{ending}"
    if is_fifo:
        os.mkfifo(path)
    else:
        path.symlink_to(path.name)
    code, out, err = typed(*arguments, f"model={path}" if arguments[-1] == "--grid" else str(path))
    assert (code, out) == (2, "")
    given = f"Given: {path}"
    reason = rf"must be a file. {given}, a FIFO" if is_fifo else rf"cannot be read \(Too many levels of .*\). {given}"
    assert re.fullmatch(rf"error: .*{reason}\n", err), err
    assert list(tmp_path.iterdir()) == [path]
