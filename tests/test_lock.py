"""Published packages in uv.lock for every supported platform."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging import tags
from packaging.markers import Marker
from packaging.utils import parse_wheel_filename

ROOT = Path(__file__).parents[1]
LOCK = tomllib.loads((ROOT / "uv.lock").read_text())
PACKAGES = {(package["name"], package["version"]): package for package in LOCK["package"]}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NAME = PROJECT["project"]["name"]
PYTHONS = ((3, 11), (3, 12), (3, 13))
# Debian 12 and macOS 14. TensorFlow requires macOS 12, other packages a later version.
GLIBC, MACOS = 36, (14, 0)


def _of_linux(machine: str) -> list[str]:
    return [*(f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC, 4, -1)), f"manylinux2014_{machine}"]


PLATFORMS = {
    ("linux", "x86_64"): [*_of_linux("x86_64"), "manylinux2010_x86_64", "manylinux1_x86_64"],
    ("linux", "aarch64"): _of_linux("aarch64"),
    ("darwin", "arm64"): list(tags.mac_platforms(MACOS, "arm64")),
}
# Pure Python packages that are published without wheels.
SOURCES = ("kfp", "kfp-kubernetes", "kfp-server-api")
# Extras and dependency groups by type of installation.
INSTALLED = {
    "a wheel with all extras": (("gpu", "kubeflow", "kubeflow-registry", "mlflow", "run", "serve", "vertex"), ()),
    "a clone": ((), ("dev", "docs")),
    "TensorFlow Quantum": (("tfq",), ()),
}


def _applies(marker: str, platform: tuple[str, str], python: tuple[int, int], chosen: frozenset[str]) -> bool:
    """Return whether a marker applies. uv encodes extras and groups of this project as extras in markers."""

    def constant(match: re.Match[str]) -> str:
        is_true = (match[2] in chosen) == (match[1] == "==")
        return f"python_version {'>=' if is_true else '<'} '3'"

    version = ".".join(map(str, python))
    system = {"linux": "Linux", "darwin": "Darwin"}[platform[0]]
    environment = {
        "implementation_name": "cpython",
        "implementation_version": f"{version}.9",
        "os_name": "posix",
        "platform_machine": platform[1],
        "platform_python_implementation": "CPython",
        "platform_system": system,
        "python_full_version": f"{version}.9",
        "python_version": version,
        "sys_platform": platform[0],
    }
    return not marker or Marker(re.sub(r"extra (==|!=) '([^']+)'", constant, marker)).evaluate(environment)


def _needed(
    platform: tuple[str, str], python: tuple[int, int], extras: tuple[str, ...], groups: tuple[str, ...]
) -> Iterator[Mapping[str, Any]]:
    """Yield the packages of an installation."""
    own = PACKAGES[NAME, PROJECT["project"]["version"]]
    # Groups may require extras.
    of_groups = [each for group in groups for each in own["dev-dependencies"][group]]
    group_extras = {extra for each in of_groups if each["name"] == NAME for extra in each["extra"]}
    # Extra run requires other extras.
    every = sorted({*extras, *group_extras, *(("kubeflow", "serve") if "run" in group_extras else ())})
    suffix = f"{len(NAME)}-{NAME}"
    chosen = frozenset((*(f"extra-{suffix}-{each}" for each in every), *(f"group-{suffix}-{each}" for each in groups)))
    waiting = [
        *own["dependencies"],
        *(each for extra in every for each in own["optional-dependencies"][extra]),
        *of_groups,
    ]
    seen = set()
    while waiting:
        requirement = waiting.pop()
        if requirement["name"] == NAME or not _applies(requirement.get("marker", ""), platform, python, chosen):
            continue
        found = [
            package
            for (name, version), package in PACKAGES.items()
            if name == requirement["name"]
            and version == requirement.get("version", version)
            and (
                not (markers := package.get("resolution-markers"))
                or any(_applies(marker, platform, python, chosen) for marker in markers)
            )
        ]
        assert len(found) == 1, requirement
        (package,) = found
        of_extras = tuple(requirement.get("extra", ()))
        if (package["name"], of_extras) in seen:
            continue
        seen.add((package["name"], of_extras))
        waiting += package.get("dependencies", [])
        waiting += [each for extra in of_extras for each in package.get("optional-dependencies", {}).get(extra, ())]
        yield package


# TensorFlow Quantum is published for one platform, without wheels for Python 3.13.
CASES = [
    (platform, python, installed)
    for platform in PLATFORMS
    for python in PYTHONS
    for installed in INSTALLED
    if installed != "TensorFlow Quantum" or (platform == ("linux", "x86_64") and python < (3, 13))
]


@pytest.mark.parametrize(("platform", "python", "installed"), CASES, ids=str)
def test_locked_packages_have_wheels_for_platform(
    platform: tuple[str, str], python: tuple[int, int], installed: str
) -> None:
    taken = {
        *tags.cpython_tags(python, platforms=PLATFORMS[platform]),
        *tags.compatible_tags(python, f"cp{python[0]}{python[1]}", PLATFORMS[platform]),
    }
    names = set()
    for package in _needed(platform, python, *INSTALLED[installed]):
        names.add(package["name"])
        wheels = [wheel["url"].rpartition("/")[2] for wheel in package.get("wheels", ())]
        has_wheel = any(not taken.isdisjoint(parse_wheel_filename(wheel)[3]) for wheel in wheels)
        assert has_wheel or (not wheels and package["name"] in SOURCES), (package["name"], package["version"])
    assert {"kfp", "click", "numpy", "cirq-core", "pyarrow"} <= names
    assert ("tensorflow-quantum" in names) == (installed == "TensorFlow Quantum")
    assert "tensorflow" in names
    # CUDA libraries are published for one platform, and are too large for every clone.
    has_cuda = installed == "a wheel with all extras" and platform == ("linux", "x86_64")
    assert ("nvidia-cudnn-cu12" in names) == has_cuda


def test_documents_state_size_of_cuda_libraries() -> None:
    sizes = [
        wheel["size"]
        for (name, _), each in PACKAGES.items()
        if name.startswith("nvidia-")
        for wheel in each["wheels"]
        if wheel["url"].endswith("x86_64.whl")
    ]
    text = f"{sum(sizes) / 1e9:.1f} GB"
    for page in ("docs/pod-settings.md", "docs/python.md", "CHANGELOG.md"):
        assert text in (ROOT / page).read_text(), page


def test_lock_file_covers_supported_platforms() -> None:
    def clauses(markers: list[str]) -> list[set[str]]:
        return [set(marker.split(" and ")) for marker in markers]

    wanted = [{f"sys_platform == '{system}'", f"platform_machine == '{machine}'"} for system, machine in PLATFORMS]
    assert clauses(PROJECT["tool"]["uv"]["required-environments"]) == wanted
    assert clauses(LOCK["required-markers"]) == wanted
