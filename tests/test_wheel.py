"""Built and installed package, in a working directory whose files have the names of other modules."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Names of top-level folders of repositories, and of imported libraries.
FOLDERS = ("trainer", "components", "pipelines", "cli", "launchers", "examples", "tests", "numpy")
MODULES = ("tensorflow", "kfp", "cirq", "click", "yaml", "tensorboard")
CIRCUITS = """
from qcnn.circuits.circuits import deep


def mine(qubits):
    return deep(qubits)
"""
ZIG = "import pathlib, sys; pathlib.Path(sys.argv[sys.argv.index('-o') + 1]).write_text(' '.join(sys.argv[1:]))\n"
IMAGE = ("--image", "registry.example/qcnn:1")
CLOUD = ("--project", "my-project", "--location", "us-central1")
TARGETS = {
    "kubeflow": ("--host", "http://localhost:1", *IMAGE),
    "tfjob": ("--output", "gs://bucket/run", *IMAGE),
    "vertex": (*CLOUD, "--pipeline-root", "gs://bucket/runs", *IMAGE),
    "vertex-job": (*CLOUD, "--output", "gs://bucket/run", *IMAGE),
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of programs in an environment with the wheel and the installed libraries, but without the clone."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(packages)
    # Python does not read .pth files in a folder that a .pth file adds, so the editable installation is not found.
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    script = folder / "bin" / "qcnn"
    script.write_text("import sys\nfrom qcnn.cli.main import main\nsys.exit(main())\n")
    return script.parent


# One process for all targets, because imports take most of the time. Each module is still imported there.
DRY_RUNS = """
import contextlib, io, json, runpy, sys

script, targets = sys.argv[1], json.loads(sys.argv[2])
printed = {}
for target, arguments in targets.items():
    sys.argv = [script, "submit", "--target", target, "--dry-run", "--qubits", "4", *arguments]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as stopped:
            assert not stopped.code, (target, stopped.code)
    printed[target] = output.getvalue()
print(json.dumps(printed))
"""


@pytest.fixture(scope="module")
def dry_runs(installed: Path, users: Path) -> dict[str, str]:
    """Output of `qcnn submit --dry-run` by target."""
    # In the folder of the script, which comes first in the search path.
    program = installed / "dry_runs.py"
    program.write_text(DRY_RUNS)
    printed: dict[str, str] = json.loads(
        _run(installed, users, str(program), str(installed / "qcnn"), json.dumps(TARGETS))
    )
    return printed


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Working directory of a user, in which importing any module except the user's circuit fails."""
    folder = tmp_path_factory.mktemp("users")
    for name in FOLDERS:
        (folder / name).mkdir()
    for path in (*(folder / name / "__init__.py" for name in FOLDERS), *(folder / f"{name}.py" for name in MODULES)):
        path.write_text(f"raise RuntimeError('the user has {path.name}')\n")
    (folder / "circuits_of_mine.py").write_text(CIRCUITS)
    return folder


def _build(target: str, source: Path, folder: Path, **variables: str) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(command, cwd=source, env=os.environ | variables, capture_output=True, check=True)
    (built,) = folder.iterdir()
    return built


def _run(installed: Path, users: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    command = [str(installed / "python"), *arguments]
    done = subprocess.run(command, cwd=users, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_wheel_contains_single_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        tops = {name.partition("/")[0] for name in content.namelist()}
        names = set(content.namelist())
    assert {top for top in tops if not top.endswith(".dist-info")} == {"qcnn"}
    assert len(tops) == 2
    of_clone = {path.relative_to(ROOT).as_posix() for path in (ROOT / "qcnn").rglob("*.py")}
    of_clone |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "qcnn" / "published").glob("*.yaml")}
    linked = {
        f"qcnn/{path.relative_to(ROOT).as_posix()}"
        for folder in (ROOT / "trainer", ROOT / "components", ROOT / "pipelines")
        for path in folder.rglob("*.py")
    }
    assert of_clone | linked <= names


def test_wheel_from_sdist_has_same_files(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(_build("sdist", ROOT, tmp_path / "sdist")) as content:
        content.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    with zipfile.ZipFile(wheel) as wanted, zipfile.ZipFile(_build("wheel", source, tmp_path / "wheel")) as rebuilt:
        assert sorted(rebuilt.namelist()) == sorted(wanted.namelist())


@pytest.mark.parametrize(
    ("platform", "file", "content", "is_pure"),
    [
        ("manylinux_2_17_aarch64", "statevector.so", "-target aarch64-linux-gnu.2.17", False),
        ("any", "not_compiled.txt", "the wheel for any platform has no kernels", True),
    ],
)
def test_published_wheel_has_tag_and_kernels_of_platform(
    tmp_path: Path, platform: str, file: str, content: str, is_pure: bool
) -> None:
    # The compiler of this package writes its arguments instead of a library.
    (tmp_path / "ziglang").mkdir()
    (tmp_path / "ziglang" / "__main__.py").write_text(ZIG)
    library = ROOT / "qcnn" / "simulators" / "kernels" / "statevector.so"
    before = library.read_bytes()
    variables = {"QCNN_WHEEL_PLATFORM": platform, "PYTHONPATH": str(tmp_path)}
    wheel = _build("wheel", ROOT, tmp_path / "wheel", **variables)
    assert wheel.name.startswith("qcnn_pipelines-")
    assert wheel.name.endswith(f"-py3-none-{platform}.whl")
    with zipfile.ZipFile(wheel) as opened:
        kernels = [name for name in opened.namelist() if name.endswith((".so", "not_compiled.txt"))]
        assert kernels == [f"qcnn/simulators/kernels/{file}"]
        assert content in opened.read(kernels[0]).decode()
        (metadata,) = (opened.read(name).decode() for name in opened.namelist() if name.endswith("/WHEEL"))
    assert f"Root-Is-Purelib: {str(is_pure).lower()}" in metadata
    assert library.read_bytes() == before


def test_import_uses_installed_package(installed: Path, users: Path) -> None:
    program = users.parent / "which.py"
    program.write_text("import qcnn, sys; print(qcnn.__file__, *sys.path)\n")
    file, *path = _run(installed, users, str(program)).split()
    assert Path(file).is_relative_to(installed.parent)
    assert str(ROOT) not in path


@pytest.mark.parametrize("target", TARGETS)
def test_installed_submit_dry_run_prints_job(dry_runs: dict[str, str], target: str) -> None:
    assert "registry.example/qcnn:1" in dry_runs[target]
    assert "qcnn.trainer.worker" in dry_runs[target] or "qcnn.components" in dry_runs[target]


def test_installed_module_searches_working_directory_last(installed: Path, users: Path) -> None:
    (users / "shows.py").write_text("import sys, numpy; print(sys.path.index(sys.argv[1]) == len(sys.path) - 1)\n")
    assert "--model" in _run(installed, users, "-m", "qcnn.trainer.worker", "--help")
    assert _run(installed, users, "-m", "qcnn.process.run_module", "shows", str(users)) == "True\n"


@pytest.mark.long
def test_installed_run_trains_custom_circuit(installed: Path, users: Path) -> None:
    flags = "--qubits 4 --rounds 10 --epochs 1 --batch-size 8 --strategy none --workers 1"
    model = ("--model", "circuits_of_mine:mine")
    printed = _run(installed, users, str(installed / "qcnn"), "run", *model, *flags.split())
    assert "sign accuracy" in printed
