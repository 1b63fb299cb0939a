"""Build and check the files of a release: `make wheels`.

Build the sdist, and from it the wheels of `PLATFORMS`. Check metadata, contents and symbols. Install the wheel of this
machine with the extra `run` into a fresh environment, and compare a run with the results in README.md. Then install the
wheel without kernels, which must report that it has none.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "build" / "release"
# Platform tags of the wheels (packaging.python.org, "Platform compatibility tags"). Package indexes accept a library
# for Linux only with a tag that states the release of glibc. Other platforms install the last wheel.
NO_KERNELS = "any"
PLATFORMS = ("manylinux_2_17_x86_64", "manylinux_2_17_aarch64", NO_KERNELS)
UV = str(ROOT / ".uv" / "uv")
_PROGRAMS = ROOT / ".venv-release" / "bin"
# Paths in a wheel.
_LIBRARY = "qcnn/simulators/kernels/statevector.so"
_REASON = "qcnn/simulators/kernels/not_compiled.txt"
_RESULT = re.compile(r"^((?:train|validation) loss|(?:test|fresh) MSE|sign accuracy) +(\S+)$", re.MULTILINE)
_ONLY_KERNELS = ("plan", "--simulator", "statevector_cpu")


class CheckError(Exception):
    """Error of a failed command or check, with a one-line message."""


def main() -> int:
    """Build and check the files, and return the exit code."""
    try:
        build_and_check()
    except CheckError as error:
        print(f"wheels: {error}", file=sys.stderr)
        return 1
    return 0


def build_and_check() -> Path:
    """Build and check the files, and return the path of the wheel of this machine.

    Raises:
        CheckError: If a file cannot be built, or a check fails.
    """
    wheels = build()
    check_files(wheels)
    own = of_this_machine(wheels)
    try_wheels(own, wheels[NO_KERNELS])
    return own


def build() -> dict[str, Path]:
    """Build the sdist and, from the sdist, the wheels. Return the paths of the wheels by platform tag.

    Raises:
        CheckError: If a file or the kernels cannot be built.
    """
    shutil.rmtree(BUILT, ignore_errors=True)
    command = [UV, "build", "--quiet", "--no-build-isolation", "--python", str(_PROGRAMS / "python")]
    run([*command, "--sdist", "--out-dir", str(BUILT)], ROOT)
    (sdist,) = BUILT.glob("*.tar.gz")
    for tag in PLATFORMS:
        variables = {"QCNN_WHEEL_PLATFORM": tag}
        run([*command, "--wheel", "--out-dir", str(BUILT), str(sdist)], ROOT, variables)
    wheels = {path.stem.rpartition("-")[2]: path for path in BUILT.glob("*.whl")}
    if wheels.keys() != set(PLATFORMS):
        raise CheckError(f"wheels: must have the tags {', '.join(PLATFORMS)}. Given: {', '.join(sorted(wheels))}")
    return wheels


def check_files(wheels: Mapping[str, Path]) -> None:
    """Check metadata, contents, processors and glibc symbols of the files.

    Args:
        wheels: Paths of the wheels by platform tag.

    Raises:
        CheckError: If a package index would reject a file, or a library does not run on the platform of its tag.
    """
    files = [*sorted(BUILT.glob("*.tar.gz")), *wheels.values()]
    run([str(_PROGRAMS / "twine"), "check", "--strict", *map(str, files)], ROOT)
    for tag, wheel in wheels.items():
        with zipfile.ZipFile(wheel) as content:
            kernels = {_LIBRARY, _REASON}.intersection(content.namelist())
        if kernels != {_REASON if tag == NO_KERNELS else _LIBRARY}:
            raise CheckError(f"{wheel.name}: must have a library or the reason. Given: {', '.join(sorted(kernels))}")
        if tag != NO_KERNELS:
            # It fails if no library is for the processor of the tag.
            check_symbols(tag, run([str(_PROGRAMS / "auditwheel"), "show", str(wheel)], ROOT))
    print(f"built {', '.join(f'{path.name} ({path.stat().st_size / 1e6:.1f} MB)' for path in files)}", flush=True)


def check_symbols(tag: str, report: str) -> None:
    """Check that a library needs no later release of glibc than its tag states.

    Args:
        tag: Platform tag.
        report: Output of auditwheel show.

    Raises:
        CheckError: If it needs a later release, or the report names no tag.
    """
    found = re.search(r'platform tag: "(\w+)"', " ".join(report.split()))
    needed = found[1] if found else "none"
    if not () < _glibc(needed) <= _glibc(tag):
        raise CheckError(f"{tag}: must be the platform tag of the library, or a later one. Given: {needed}")


def _glibc(tag: str) -> tuple[int, ...]:
    """Return the release of glibc in a platform tag, or an empty tuple for other tags."""
    match = re.fullmatch(r"manylinux_(\d+)_(\d+)_\w+", tag)
    return tuple(map(int, match.groups())) if match else ()


def of_this_machine(wheels: Mapping[str, Path]) -> Path:
    """Return the wheel that an installer selects on this machine."""
    system = f"_{platform.machine()}" if sys.platform == "linux" else NO_KERNELS
    return next((path for tag, path in wheels.items() if tag.endswith(system)), wheels[NO_KERNELS])


def try_wheels(own: Path, without_kernels: Path) -> None:
    """Run the wheel of this machine and the one without kernels in a fresh environment.

    Args:
        own: Path of the wheel of this machine.
        without_kernels: Path of the wheel without kernels.

    Raises:
        CheckError: If a result differs from README.md, or a wheel without kernels does not report it.
    """
    # Next to the build, where uv can link most files from its cache.
    with tempfile.TemporaryDirectory(prefix="release-", dir=BUILT.parent) as name:
        # An empty folder, as Python may import modules from the working directory.
        folder, environment = Path(name) / "empty", Path(name) / "environment"
        folder.mkdir()
        run([UV, "venv", "--quiet", "--python", sys.executable, str(environment)], folder)
        install = [UV, "pip", "install", "--quiet", "--python", str(environment / "bin" / "python")]
        program = str(environment / "bin" / "qcnn")
        run([*install, f"{own}[run]"], folder)
        check_results((ROOT / "README.md").read_text(), run([program, "run"], folder))
        print(f"{own.name}: results of README.md", flush=True)
        run([*install, "--no-deps", "--reinstall", str(without_kernels)], folder)
        planned = subprocess.run(
            [program, *_ONLY_KERNELS], cwd=folder, env=environment_of({}), capture_output=True, text=True, check=False
        )
        reason = planned.stderr.strip()
        if planned.returncode == 0 or "statevector_cpu needs kernels" not in reason:
            raise CheckError(f"qcnn {' '.join(_ONLY_KERNELS)}: must report that there are no kernels. Given: {reason}")
        print(f"{without_kernels.name}: {reason}", flush=True)


def check_results(readme: str, output: str) -> None:
    """Check that a run prints the results in README.md.

    Raises:
        CheckError: If a result differs.
    """
    wanted, given = dict(_RESULT.findall(readme)), dict(_RESULT.findall(output))
    if not wanted or wanted != given:
        raise CheckError(f"qcnn run: must print the results of README.md, {wanted}. Given: {given}")


def run(command: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None) -> str:
    """Run a command in a folder and return its output.

    Args:
        command: Program and arguments.
        folder: Working folder.
        variables: Further environment variables.

    Raises:
        CheckError: If it fails; its output goes to standard error.
    """
    environment = environment_of(variables or {})
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        output = (done.stdout + done.stderr).rstrip()
        print(output, file=sys.stderr, flush=True)
        shown = " ".join([Path(command[0]).name, *command[1:]])
        last = output.rpartition("\n")[2].strip()
        raise CheckError(f"{shown}: must succeed. Given: exit code {done.returncode}, {last}")
    return done.stdout


def environment_of(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of this process without those of its Python, and further ones."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT")
    return {name: value for name, value in os.environ.items() if name not in hidden} | dict(variables)


if __name__ == "__main__":
    sys.exit(main())
