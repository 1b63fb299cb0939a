"""Check what a release publishes: `make release-check`.

Build and check the files of a release (`release_files.py`). Install the wheel of this machine into a fresh environment
of each Python with each extra, run there what the extra exists for, and write the licenses of the installed packages to
build/licenses.txt.
"""

import argparse
import importlib.metadata
import itertools
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from release_files import BUILT, ROOT, UV, CheckError, build_and_check, environment_of, run

LICENSES = ROOT / "build" / "licenses.txt"
# The name of an installation without extras.
NO_EXTRA = "none"
_PYTHON_CLASSIFIER = "Programming Language :: Python :: "
_IMAGE = ("--image", "registry.example/qcnn:1")
_GOOGLE = ("--project", "my-project", "--location", "us-central1", "--pipeline-root", "gs://bucket/runs")
_MODEL = ROOT / "tests" / "golden" / "0.1.0-predictor" / "excitations" / "export-weights" / "model"
_PREDICT = "import qcnn, sys; qcnn.load(sys.argv[1]).predict(qubit=[0, 3], angle=[0.1, -2.0])"
_SIGNATURE = (
    "import pathlib, sys; from qcnn.tracking.pyfunc_model import signature_of as f; f(pathlib.Path(sys.argv[1]))"
)
_CLIENT = "import mr_openapi, qcnn.registry.kubeflow_registry"
_RUN = ("qcnn", "run", "--qubits", "4", "--rounds", "10", "--epochs", "1", "--batch-size", "8", "--workers", "1")
# One command for each extra, by a program of the environment. It loads the libraries of the extra without a network.
COMMANDS: Mapping[str, Sequence[str]] = {
    NO_EXTRA: ("qcnn", "submit", "--target", "tfjob", "--dry-run", "--output", "gs://bucket/run", *_IMAGE),
    "kubeflow": ("qcnn", "submit", "--target", "kubeflow", "--dry-run", "--host", "http://localhost:1", *_IMAGE),
    "vertex": ("qcnn", "submit", "--target", "vertex", "--dry-run", *_GOOGLE, *_IMAGE),
    "serve": ("python", "-c", _PREDICT, str(_MODEL)),
    "mlflow": ("python", "-c", _SIGNATURE, str(_MODEL)),
    "kubeflow-registry": ("python", "-c", _CLIENT),
    "run": _RUN,
    "tfq": (*_RUN, "--simulator", "tfq"),
}
# Extra that is resolved with `run`, but not installed: no code imports its packages, which are too large.
RESOLVED = "gpu"
EXTRAS = (*COMMANDS, RESOLVED)


def main() -> int:
    """Check the files of a release and return the exit code.

    What a release lacks is an error only if --tag names the tag of a release. Before that it is printed.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version, pythons = project["version"], supported_pythons(project)
    options = _arguments(pythons)
    tried, failures = try_release(version, options.python or pythons, options.extra or list(EXTRAS))
    lacking = missing(version, options.tag, (ROOT / "CHANGELOG.md").read_text(), untried(pythons, tried))
    for failure in failures:
        print(f"release-check: {failure}", file=sys.stderr)
    for each in lacking:
        print(f"release-check: {each}", file=sys.stderr if options.tag else sys.stdout)
    if failures or (options.tag and lacking):
        return 1
    print(f"release-check: no check failed; {version} {'is not complete yet' if lacking else 'is complete'}")
    return 0


def try_release(version: str, pythons: Sequence[str], extras: Sequence[str]) -> tuple[set[tuple[str, str]], list[str]]:
    """Build and check the files, test the wheel with each Python and each extra, and write the licenses.

    Args:
        version: Version of the release.
        pythons: Versions of Python, such as 3.11. Those that are not installed are skipped.
        extras: Names in `EXTRAS`.

    Returns:
        The pairs of Python and extra that work, and one line for each failure.
    """
    try:
        wheel = build_and_check()
    except CheckError as error:
        return set(), [str(error)]
    tried: set[tuple[str, str]] = set()
    failures: list[str] = []
    licenses: dict[str, str] = {}
    found = {each: path for each in pythons if (path := find_python(each))}
    for python, extra in itertools.product(found, extras):
        try:
            installed = try_wheel(wheel, version, found[python], extra)
        except CheckError as error:
            failures.append(f"Python {python}, extra {extra}: {error}")
            continue
        result = "can be installed" if extra == RESOLVED else f"works, {len(installed)} packages"
        print(f"Python {python}, extra {extra}: {result}", flush=True)
        tried.add((python, extra))
        licenses |= installed
    _write_licenses(licenses)
    return tried, failures


def supported_pythons(project: Mapping[str, Any]) -> list[str]:
    """Return the Python versions that the classifiers of a project name, such as 3.11."""
    names = [name.removeprefix(_PYTHON_CLASSIFIER) for name in project["classifiers"] if _PYTHON_CLASSIFIER in name]
    return [name for name in names if re.fullmatch(r"3\.\d+", name)]


def find_python(version: str) -> str:
    """Return the path of a Python of this machine, or an empty string if there is none."""
    command = [UV, "python", "find", "--no-project", "--no-python-downloads", version]
    done = subprocess.run(command, cwd=ROOT, env=environment_of({}), capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def try_wheel(wheel: Path, version: str, python: str, extra: str) -> dict[str, str]:
    """Install a wheel with an extra into a new environment, use it, and return licenses by package.

    The packages of `RESOLVED` are not installed, and none is returned.

    Args:
        wheel: Path of the wheel.
        version: Version that the installed program must print.
        python: Path of the Python of the environment.
        extra: A name in `EXTRAS`.

    Raises:
        CheckError: If the installation or a command fails.
    """
    # Next to the build, where uv can link most files from its cache.
    with tempfile.TemporaryDirectory(prefix="release-", dir=BUILT.parent) as name:
        # An empty folder, as Python may import modules from the working directory.
        folder, environment = Path(name) / "empty", Path(name) / "environment"
        folder.mkdir()
        run([UV, "venv", "--quiet", "--python", python, str(environment)], folder)
        if extra == RESOLVED:
            path = str(environment / "bin" / "python")
            run([UV, "pip", "install", "--dry-run", "--python", path, f"{wheel}[run,{RESOLVED}]"], folder)
            return {}
        wanted = str(wheel) if extra == NO_EXTRA else f"{wheel}[{extra}]"
        of_environment = ("--quiet", "--python", str(environment / "bin" / "python"))
        run([UV, "pip", "install", *of_environment, wanted], folder)
        run([UV, "pip", "check", *of_environment], folder)
        use(environment / "bin", version, extra, folder)
        (packages,) = environment.glob("lib/python*/site-packages")
        found = importlib.metadata.distributions(path=[str(packages)])
        return {f"{each.name} {each.version}": license_of(each.metadata) for each in found}


def use(programs: Path, version: str, extra: str, folder: Path) -> None:
    """Import the installed package and run its program in a folder.

    Args:
        programs: Folder of the programs of the environment.
        version: Version that the program must print.
        extra: A key of `COMMANDS`.
        folder: Working folder.

    Raises:
        CheckError: If a command fails, a library of the extra is missing or another version is printed.
    """
    statement = "import qcnn" if extra == NO_EXTRA else f"from qcnn.process import extras; extras.check({extra!r})"
    run([str(programs / "python"), "-c", statement], folder)
    printed = run([str(programs / "qcnn"), "--version"], folder).strip()
    if version not in printed.split():
        raise CheckError(f"qcnn --version: must print {version}. Given: {printed}")
    program, *arguments = COMMANDS[extra]
    run([str(programs / program), *arguments], folder)


def license_of(metadata: importlib.metadata.PackageMetadata) -> str:
    """Return the license that the metadata of a package names, or `unknown`."""
    expression, text = ((metadata.get_all(field) or [""])[0].strip() for field in ("License-Expression", "License"))
    classifiers = [each.rpartition(" :: ")[2] for each in metadata.get_all("Classifier") or () if "License ::" in each]
    # Older packages keep the whole text of their license in the field License.
    return expression or ", ".join(classifiers) or text.partition("\n")[0] or "unknown"


def untried(pythons: Iterable[str], tried: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each Python that was not tried with every extra."""
    done = set(tried)
    lines = []
    for version in pythons:
        left = [extra for extra in EXTRAS if (version, extra) not in done]
        if left:
            given = "not tried" if len(left) == len(EXTRAS) else f"not tried with {', '.join(left)}"
            lines.append(f"Python {version}: must work with every extra. Given: {given}")
    return lines


def missing(version: str, tag: str, changelog: str, environments: Sequence[str]) -> list[str]:
    """Return a line for each thing that a release lacks.

    Args:
        version: Version in pyproject.toml.
        tag: Tag of the release, empty if no version is being released.
        changelog: Text of CHANGELOG.md.
        environments: Lines about the environments that were not tried.
    """
    lines = []
    if tag and tag != f"v{version}":
        lines.append(f"tag: must be v{version}, as in pyproject.toml. Given: {tag}")
    heading = re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    if not heading or not heading[1].strip():
        given = "an empty section" if heading else "no such section"
        lines.append(f"CHANGELOG.md: must have a section [{version}] - YYYY-MM-DD. Given: {given}")
    return [*lines, *environments]


def _arguments(pythons: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Check the files of a release.")
    parser.add_argument("--tag", default="", help="tag of the release; an incomplete release is then an error")
    parser.add_argument("--python", action="append", choices=pythons, help="try this Python alone; repeatable")
    parser.add_argument("--extra", action="append", choices=EXTRAS, help="try this extra alone; repeatable")
    return parser.parse_args()


def _write_licenses(licenses: Mapping[str, str]) -> None:
    lines = [f"{package}: {name}\n" for package, name in sorted(licenses.items(), key=lambda item: item[0].lower())]
    LICENSES.write_text("".join(lines))
    unknown = ", ".join(package for package, name in licenses.items() if name == "unknown")
    print(f"licenses of {len(licenses)} packages: {LICENSES.relative_to(ROOT)}; unknown: {unknown or 'none'}")


if __name__ == "__main__":
    sys.exit(main())
