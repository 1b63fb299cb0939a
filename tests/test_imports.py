"""Import rules: a package imports only packages of its layer or lower layers."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Folders at the top of the repository that are part of the package.
LINKED = ("pipelines", "components", "trainer")
# Lowest layer first. Packages of a layer may import each other, without cycles.
LAYERS = (
    (
        *(
            "errors",
            "figures",
            "frozen",
            "input_files",
            "yaml_files",
            "atomic_files",
            "artifact_io",
            "monitoring",
            "process",
        ),
        *("run_names", "tensorflow_internals", "plugins"),
    ),
    ("storage", "tables", "circuits"),
    ("simulators", "published"),
    ("experiment", "provenance"),
    ("data",),
    ("datasets",),
    ("model",),
    ("studies", "results", "planning"),
    ("serving", "tracking"),
    ("registry",),
    ("jobs", "trainer"),
    ("costs",),
    ("components",),
    ("pipelines",),
    ("targets",),
    ("cli", "api"),
    ("testing", "keras"),
)
LEVELS = {name: level for level, names in enumerate(LAYERS) for name in names}
# Jobs must not depend on experiments, so they may import only these packages.
JOB_IMPORTS = ("errors", "provenance", "monitoring", "process")
# Cost models must be usable before TensorFlow is loaded. Only the benchmark uses TensorFlow.
COST_MODELS = ("qcnn.simulators.structure.", "qcnn.simulators.costs.", "qcnn.planning.", "qcnn.costs.")
TENSORFLOW_USERS = {"qcnn.planning.machine_benchmark"}
TENSORFLOW = {"tensorflow", "tensorflow_quantum", "tf_keras"}
# The lowest layer that may use a library.
LOWEST = {"kfp": "components", "kubernetes": "jobs", "click": "cli", "pytest": "testing"}


@functools.cache
def _imported(path: Path, *, when_loaded: bool = False) -> frozenset[str]:
    """Return the dotted names that a module imports, optionally without imports inside functions."""
    names: set[str] = set()
    tree = ast.parse(path.read_text())
    for node in tree.body if when_loaded else ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "qcnn" else ("qcnn", *parts)).removesuffix(".__init__")


def _modules() -> Iterator[tuple[Path, str, frozenset[str]]]:
    for folder in ("qcnn", *LINKED):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.relative_to(ROOT).parts[:2] not in [("qcnn", linked) for linked in LINKED]:
                yield path, _dotted(path), _imported(path)


def _package(name: str) -> str:
    """Return the top-level package or module of qcnn that contains a dotted name."""
    return name.split(".")[1] if name.startswith("qcnn.") else ""


def test_layers_list_every_package() -> None:
    assert {_package(name) for _, name, _ in _modules()} - {""} == LEVELS.keys()


@pytest.mark.parametrize("package", LEVELS)
def test_package_imports_only_same_or_lower_layers(package: str) -> None:
    for path, name, imported in _modules():
        if _package(name) != package:
            continue
        used = {_package(other) for other in imported} - {""}
        assert not {other for other in used if LEVELS[other] > LEVELS[package]}, path
        libraries = {other.split(".")[0] for other in imported} & LOWEST.keys()
        assert not {each for each in libraries if LEVELS[package] < LEVELS[LOWEST[each]]}, path


def test_modules_do_not_import_public_names() -> None:
    for path, name, imported in _modules():
        assert name == "qcnn" or not {other for other in imported if other in ("qcnn", "infra")}, path


def test_infra_and_package_are_independent() -> None:
    for path in sorted((ROOT / "infra").rglob("*.py")):
        allowed = ("qcnn.errors.", "qcnn.input_files.", "qcnn.jobs.accelerators.")
        assert all(name.startswith(allowed) for name in _imported(path) if name.startswith("qcnn")), path
    for path, _, imported in _modules():
        assert not {name for name in imported if name.split(".")[0] == "infra"}, path


def test_imports_have_no_cycles() -> None:
    """Includes imports inside functions, because modules in a cycle cannot be understood separately."""
    modules = {name: imported for _, name, imported in _modules()}
    known = {
        name: {used if used in modules else used.rpartition(".")[0] for used in imported} - {name}
        for name, imported in modules.items()
        # Its names are loaded lazily.
        if name != "qcnn"
    }
    # Remove modules without remaining imports until only cycles remain.
    while leaves := {name for name, imported in known.items() if imported.isdisjoint(known)}:
        known = {name: imported for name, imported in known.items() if name not in leaves}
    assert not known


def test_cost_models_do_not_import_tensorflow() -> None:
    loads = {name: _imported(path, when_loaded=True) for path, name, _ in _modules()}
    for name in loads:
        if not name.startswith(COST_MODELS) or name in TENSORFLOW_USERS:
            continue
        reached, waiting = set[str](), {name}
        while waiting:
            module = waiting.pop()
            reached.add(module)
            used = {used if used in loads else used.rpartition(".")[0] or used for used in loads.get(module, ())}
            waiting |= used - reached
        assert not {module.split(".")[0] for module in reached} & TENSORFLOW, name


def test_jobs_do_not_import_experiments() -> None:
    for path, name, imported in _modules():
        if _package(name) == "jobs":
            used = {_package(other) for other in imported} - {"", "jobs"}
            assert used <= set(JOB_IMPORTS), path


@pytest.mark.parametrize("kind", sorted(path.parent.name for path in (ROOT / "qcnn" / "jobs").glob("*/__init__.py")))
def test_job_types_do_not_import_each_other(kind: str) -> None:
    shared = tuple(f"qcnn.jobs.{path.stem}." for path in (ROOT / "qcnn" / "jobs").glob("*.py"))
    # Engines share code for Kubernetes jobs.
    shared += ("qcnn.jobs.kubernetes.",) if (ROOT / "qcnn" / "jobs" / kind / "engine.py").exists() else ()
    for path, name, imported in _modules():
        if name.startswith(f"qcnn.jobs.{kind}"):
            of_jobs = {other for other in imported if other.startswith("qcnn.jobs.")}
            assert not {other for other in of_jobs if not f"{other}.".startswith((*shared, f"qcnn.jobs.{kind}."))}, path
