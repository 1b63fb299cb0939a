"""Files for services and tools: workflows, issue forms, pre-commit hooks and the citation."""

import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKED = {package["name"]: package["version"] for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}
PYTHONS = [
    name.rpartition(" ")[2]
    for name in PROJECT["classifiers"]
    if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", name)
]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# Actions without a known commit hash.
PINNED_BY_TAG = ("pypa/gh-action-pypi-publish",)


def _read(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text())


def _jobs(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from _read(path)["jobs"].items()


def test_classifiers_match_supported_python_versions() -> None:
    supported = SpecifierSet(PROJECT["requires-python"])
    assert [f"3.{minor}" for minor in range(8, 20) if f"3.{minor}" in supported] == PYTHONS


def _made(commands: str) -> set[str]:
    """Return the targets that the lines of a script make."""
    lines = re.findall(r"^ *make ([a-z -]+)$", commands, re.MULTILINE)
    return {name for line in lines for name in line.split()}


def _checked() -> set[str]:
    """Return the targets of checks.yml, whose jobs may have a matrix of targets."""
    jobs = [job for _, job in _jobs(ROOT / ".github" / "workflows" / "checks.yml")]
    commands = "\n".join(step["run"] for job in jobs for step in job["steps"] if "run" in step)
    return _made(commands).union(*(job["strategy"]["matrix"]["target"] for job in jobs if "strategy" in job))


def test_checks_workflow_runs_targets_of_ci_on_supported_python_versions() -> None:
    checks = dict(_jobs(ROOT / ".github" / "workflows" / "checks.yml"))
    assert checks["tests"]["strategy"]["matrix"]["python"] == PYTHONS
    # docs.yml builds the documentation. Separate jobs run what `test-complete` runs in one session.
    of_ci = _made((ROOT / ".ci" / "run").read_text()) - {"docs", "test-complete"} | {"test-all", "test-long"}
    assert _checked() - {"release-check"} == of_ci
    assert "make test-complete\n" in (ROOT / ".ci" / "run").read_text()
    assert all(os.access(ROOT / ".ci" / name, os.X_OK) for name in ("run", "cluster"))


def test_release_workflow_checks_supported_versions_first() -> None:
    jobs = dict(_jobs(ROOT / ".github" / "workflows" / "release.yml"))
    (versions,) = [step["with"]["python-version"] for step in jobs["check"]["steps"] if "setup-python" in str(step)]
    assert set(versions.split()) == set(PYTHONS)
    assert jobs["publish"]["needs"] == "check"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_privileged_workflow_job_runs_no_repository_code(path: Path) -> None:
    assert _read(path)["permissions"] == {"contents": "read"}
    for name, job in _jobs(path):
        if "permissions" in job:
            assert name == "publish"
            assert not [step for step in job["steps"] if "run" in step or "actions/checkout" in step["uses"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_actions_are_pinned_and_jobs_have_timeouts(path: Path) -> None:
    for name, job in _jobs(path):
        assert job["timeout-minutes"] <= 120, name
    for line in path.read_text().splitlines():
        if match := re.search(r"uses: ([^@]+)@(.*)", line):
            form = r"v\d+\.\d+\.\d+" if match[1] in PINNED_BY_TAG else r"[0-9a-f]{40} # v\d+\.\d+\.\d+"
            assert re.fullmatch(form, match[2]), line


def test_workflows_use_one_version_of_each_action() -> None:
    jobs = [job for path in WORKFLOWS for _, job in _jobs(path)]
    used = {step["uses"] for job in jobs for step in job["steps"] if "uses" in step}
    assert len({each.partition("@")[0] for each in used}) == len(used)


def test_make_targets_in_workflows_hooks_and_forms_exist() -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    files = [*ROOT.glob(".github/**/*.*"), ROOT / ".pre-commit-config.yaml"]
    named = {name for path in files for name in re.findall(r"\bmake ([a-z][a-z0-9-]*)", path.read_text())}
    named |= _checked()
    assert {"test-all", "test-long", "docs", "release-check", "types"} <= named <= targets


def test_hooks_use_locked_linter_versions() -> None:
    hooks = [hook for each in _read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in each["hooks"]]
    installed = [one.partition("==") for hook in hooks for one in hook.get("additional_dependencies", ())]
    assert {name for name, _, _ in installed} == {"ruff"}
    for name, _, version in installed:
        assert version == LOCKED[name]


def test_citation_matches_package_metadata() -> None:
    citation = _read(ROOT / "CITATION.cff")
    # The distribution has a different name, because that of the package is taken on PyPI.
    assert [citation["title"]] == list(PROJECT["scripts"])
    assert citation["abstract"] == PROJECT["description"]
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]
