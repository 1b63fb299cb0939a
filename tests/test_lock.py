"""What uv.lock names can be installed, as it is published, on every platform that the documents name."""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging import tags
from packaging.markers import Marker
from packaging.utils import parse_wheel_filename

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
LOCK = tomllib.loads((ROOT / "uv.lock").read_text())
PACKAGES = {(package["name"], package["version"]): package for package in LOCK["package"]}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = ((3, 10), (3, 11), (3, 12))
# Of which Debian 11 and macOS 14 are: TensorFlow needs macOS 12, the newest of the others more.
GLIBC, MACOS = 31, (14, 0)


def _of_linux(machine: str) -> list[str]:
    return [*(f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC, 4, -1)), f"manylinux2014_{machine}"]


PLATFORMS = {
    ("linux", "x86_64"): [*_of_linux("x86_64"), "manylinux2010_x86_64", "manylinux1_x86_64"],
    ("linux", "aarch64"): _of_linux("aarch64"),
    ("darwin", "arm64"): list(tags.mac_platforms(MACOS, "arm64")),
}
# Published as source alone, of Python alone.
SOURCES = ("kfp", "kfp-kubernetes", "kfp-server-api")
# What a user installs, what checks a clone, and what calls the steps in the image.
INSTALLED = {
    "a wheel with all extras": (("kubeflow", "run", "serve", "vertex"), ()),
    "a clone": ((), ("dev", "docs")),
    "the steps' caller": ((), ("executor",)),
}


def _applies(marker: str, platform: tuple[str, str], python: tuple[int, int], chosen: frozenset[str]) -> bool:
    """Whether a marker does; uv writes an extra of this project, and a group, as an extra that is chosen or not."""

    def told(match: re.Match[str]) -> str:
        is_so = (match[2] in chosen) == (match[1] == "==")
        return f"python_version {'>=' if is_so else '<'} '3'"

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
    return not marker or Marker(re.sub(r"extra (==|!=) '([^']+)'", told, marker)).evaluate(environment)


def _needed(
    platform: tuple[str, str], python: tuple[int, int], extras: tuple[str, ...], groups: tuple[str, ...]
) -> Iterator[Mapping[str, Any]]:
    """Yield the packages that are installed."""
    own = PACKAGES["qcnn", PROJECT["project"]["version"]]
    # A group may ask for extras.
    of_groups = [each for group in groups for each in own["dev-dependencies"][group]]
    asked = {extra for each in of_groups if each["name"] == "qcnn" for extra in each["extra"]}
    # And an extra for others.
    every = sorted({*extras, *asked, *(("kubeflow", "serve") if "run" in asked else ())})
    chosen = frozenset((*(f"extra-4-qcnn-{each}" for each in every), *(f"group-4-qcnn-{each}" for each in groups)))
    waiting = [
        *own["dependencies"],
        *(each for extra in every for each in own["optional-dependencies"][extra]),
        *of_groups,
    ]
    seen = set()
    while waiting:
        asked_for = waiting.pop()
        if asked_for["name"] == "qcnn" or not _applies(asked_for.get("marker", ""), platform, python, chosen):
            continue
        found = [
            package
            for (name, version), package in PACKAGES.items()
            if name == asked_for["name"]
            and version == asked_for.get("version", version)
            and (
                not (markers := package.get("resolution-markers"))
                or any(_applies(marker, platform, python, chosen) for marker in markers)
            )
        ]
        assert len(found) == 1, asked_for
        (package,) = found
        of_extras = tuple(asked_for.get("extra", ()))
        if (package["name"], of_extras) in seen:
            continue
        seen.add((package["name"], of_extras))
        waiting += package.get("dependencies", [])
        waiting += [each for extra in of_extras for each in package.get("optional-dependencies", {}).get(extra, ())]
        yield package


@pytest.mark.parametrize("platform", PLATFORMS, ids=" ".join)
@pytest.mark.parametrize("python", PYTHONS, ids=str)
@pytest.mark.parametrize("installed", INSTALLED)
def test_every_package_has_a_wheel_for_the_platform(
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
    assert {"kfp", "click", "numpy"} <= names
    if installed != "the steps' caller":
        assert {"tensorflow", "cirq-core", "pyarrow"} <= names
        assert ("tensorflow-quantum" in names) == (platform == ("linux", "x86_64"))


def test_the_lock_is_made_for_these_platforms() -> None:
    def clauses(markers: list[str]) -> list[set[str]]:
        return [set(marker.split(" and ")) for marker in markers]

    wanted = [{f"sys_platform == '{system}'", f"platform_machine == '{machine}'"} for system, machine in PLATFORMS]
    assert clauses(PROJECT["tool"]["uv"]["required-environments"]) == wanted
    assert clauses(LOCK["required-markers"]) == wanted
