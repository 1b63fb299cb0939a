"""Tests of scripts/release_check.py."""

import importlib.metadata
import sys
import tomllib
import types
from pathlib import Path

import pytest

from tests.scripts_as_modules import load_script

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RELEASED = (
    "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-01-31\n\n### Added\n\n- A target.\n\n## [1.1.0] - 2026-01-01\n"
)
NO_SECTION = "CHANGELOG.md: must have a section [1.2.0] - YYYY-MM-DD. Given: no such section"
EMPTY_SECTION = "CHANGELOG.md: must have a section [1.2.0] - YYYY-MM-DD. Given: an empty section"
OTHER_TAG = "tag: must be v1.2.0, as in pyproject.toml. Given: v1.3.0"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Return the script as a module."""
    # Python puts the folder of a script first. The script imports another one.
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return load_script(ROOT / "scripts" / "release_check.py")


def test_commands_contain_all_extras(script: types.ModuleType) -> None:
    assert {*script.COMMANDS, script.RESOLVED} == {script.NO_EXTRA, *PROJECT["optional-dependencies"]}
    assert script.RESOLVED not in script.COMMANDS


@pytest.mark.long
@pytest.mark.parametrize("extra", ["none", *sorted(PROJECT["optional-dependencies"].keys() - {"gpu", "tfq"})])
def test_use_of_installed_extra_succeeds(script: types.ModuleType, tmp_path: Path, extra: str) -> None:
    script.use(Path(sys.executable).parent, PROJECT["version"], extra, tmp_path)


@pytest.mark.parametrize(
    ("tag", "changelog", "lines"),
    [
        ("v1.2.0", RELEASED, []),
        ("", RELEASED, []),
        ("v1.3.0", RELEASED, [OTHER_TAG]),
        ("", "## [Unreleased]\n\n- A target.\n", [NO_SECTION]),
        # A date is missing.
        ("", RELEASED.replace("[1.2.0] - 2026-01-31", "[1.2.0]"), [NO_SECTION]),
        ("", RELEASED.replace("1.2.0", "1x2.0"), [NO_SECTION]),
        ("", RELEASED.replace("\n### Added\n\n- A target.\n", ""), [EMPTY_SECTION]),
        ("", "## [1.2.0] - 2026-01-31\n", [EMPTY_SECTION]),
    ],
)
def test_missing_reports_tag_and_changelog_section(
    script: types.ModuleType, tag: str, changelog: str, lines: list[str]
) -> None:
    assert script.missing("1.2.0", tag, changelog, []) == lines


def test_untried_reports_missing_pairs(script: types.ModuleType) -> None:
    done = {("3.11", extra) for extra in script.EXTRAS} | {("3.12", "none"), ("3.12", "run")}
    assert script.untried(["3.10", "3.11", "3.12"], done) == [
        "Python 3.10: must work with every extra. Given: not tried",
        "Python 3.12: must work with every extra. Given: not tried with kubeflow, vertex, serve, mlflow, "
        "kubeflow-registry, tfq, gpu",
    ]


@pytest.mark.parametrize(
    ("fields", "license_name"),
    [
        ("License-Expression: MIT\nLicense: Custom\n", "MIT"),
        ("Classifier: License :: OSI Approved :: MIT License\nLicense: The whole text\n", "MIT License"),
        ("Classifier: Programming Language :: Python\nLicense: BSD\n        The whole text\n", "BSD"),
        ("License:\n", "unknown"),
        ("", "unknown"),
    ],
)
def test_license_of_package(script: types.ModuleType, tmp_path: Path, fields: str, license_name: str) -> None:
    (tmp_path / "METADATA").write_text(f"Metadata-Version: 2.4\nName: package\nVersion: 1\n{fields}")
    assert script.license_of(importlib.metadata.PathDistribution(tmp_path).metadata) == license_name


@pytest.mark.parametrize(
    ("arguments", "failures", "code"),
    [
        ([], [], 0),
        (["--tag", "v1.2.0"], [], 1),
        ([], ["Python 3.11, extra none: failed"], 1),
    ],
)
def test_main_with_incomplete_release_fails_only_with_tag(
    script: types.ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    failures: list[str],
    code: int,
) -> None:
    classifier = '"Programming Language :: Python :: 3.11"'
    (tmp_path / "pyproject.toml").write_text(f'[project]\nversion = "1.2.0"\nclassifiers = [{classifier}]\n')
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n")
    tried = {("3.11", extra) for extra in script.EXTRAS}
    monkeypatch.setattr(script, "ROOT", tmp_path)
    # It installs gigabytes from a package index.
    monkeypatch.setattr(script, "try_release", lambda version, pythons, extras: (tried, failures))
    monkeypatch.setattr(sys, "argv", ["release_check.py", *arguments])
    assert script.main() == code
    printed = capsys.readouterr()
    assert f"release-check: {NO_SECTION}" in (printed.err if arguments else printed.out).splitlines()
    assert [f"release-check: {failure}" for failure in failures] == (printed.err.splitlines() if failures else [])
