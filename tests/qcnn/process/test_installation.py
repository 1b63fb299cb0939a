"""Name of the distribution, and the warning about another distribution with the name of the package."""

import importlib.metadata
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import qcnn
from qcnn.process.installation import DISTRIBUTION

ROOT = Path(__file__).parents[3]
ANOTHER_PROJECT = (
    "Distribution QCNN 1.0.3 is another project than qcnn-pipelines, which does not use it: pip uninstall qcnn\n"
)
REPLACED = (
    "Distribution QCNN 1.0.3 is another project and replaced files of qcnn-pipelines, so commands may fail: "
    "pip uninstall qcnn qcnn-pipelines, then pip install qcnn-pipelines\n"
)
# Package of another project whose modules are those of this package, except __init__.py.
REPLACED_PACKAGE = f"__path__.append({str(ROOT / 'qcnn')!r})\n"


def _install(folder: Path, name: str, version: str, *files: str) -> None:
    """Write the metadata of an installed distribution with these files, and those that do not exist."""
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    for file in files:
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).touch()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (metadata / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def _run(folder: Path, *arguments: str) -> tuple[str, str]:
    """Run Python with a folder of distributions, and return its output and its errors."""
    environment = os.environ | {"PYTHONPATH": str(folder)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def test_distribution_is_that_of_project_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (project["name"], project["version"]) == (DISTRIBUTION, qcnn.__version__)
    required = {Requirement(each).name for each in importlib.metadata.requires(DISTRIBUTION) or ()}
    assert "numpy" in required
    # An extra that requires extras of another project would install that project.
    assert "qcnn" not in required


@pytest.mark.parametrize(
    ("files", "warning"),
    [
        (["QCNN.py"], ANOTHER_PROJECT),
        (["qcnn/network.py"], REPLACED),
        (["QCNN.py", "bin/qcnn"], REPLACED),
    ],
)
def test_other_distribution_is_reported_in_one_line(tmp_path: Path, files: list[str], warning: str) -> None:
    _install(tmp_path, "QCNN", "1.0.3", *files)
    # In another folder, it cannot replace files.
    assert _run(tmp_path, "-m", "qcnn.cli", "--version") == (f"qcnn {qcnn.__version__}\n", "")
    _install(tmp_path, DISTRIBUTION, "7.8.9")
    assert _run(tmp_path, "-m", "qcnn.cli", "--version") == ("qcnn 7.8.9\n", warning)
    assert _run(tmp_path, "-c", "import qcnn; print(qcnn.__version__)") == ("7.8.9\n", warning)


def test_command_reports_replaced_package(tmp_path: Path) -> None:
    _install(tmp_path, "QCNN", "1.0.3", "qcnn/__init__.py")
    _install(tmp_path, DISTRIBUTION, "7.8.9", "qcnn/__init__.py")
    (tmp_path / "qcnn" / "__init__.py").write_text(REPLACED_PACKAGE)
    assert _run(tmp_path, "-m", "qcnn.cli", "--version") == ("qcnn 7.8.9\n", REPLACED)
