"""Which room may import which: cli -> pipelines -> components -> launchers -> trainer, and qcnn beside cli."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ["trainer", "launchers", "components", "pipelines", "cli"]
# The Python interface, which needs no Kubeflow.
API = "qcnn"
ROOMS = [*LAYERS, API, "infra"]
# What runs the processes of a training knows nothing of what they train.
LAUNCHERS_KNOW = ("qcnn.trainer.errors", "qcnn.trainer.startup", "qcnn.trainer.provenance", "qcnn.trainer.monitoring.")
# What counts, and so answers before TensorFlow is loaded; only the probe computes.
COUNTING = ("qcnn.trainer.simulators.structure.", "qcnn.trainer.simulators.costs.", "qcnn.trainer.planning.")
COMPUTING = {"qcnn.trainer.planning.probe"}
TENSORFLOW = {"tensorflow", "tensorflow_quantum", "tf_keras"}
# Libraries that a layer leaves to those above.
LEFT = {"trainer": {"kfp", "kubernetes"}, "launchers": {"kfp"}}


def _imported(path: Path, *, when_loaded: bool = False) -> set[str]:
    """Return the dotted names that a module imports, only those that it imports when it is itself if so asked."""
    names: set[str] = set()
    tree = ast.parse(path.read_text())
    for node in tree.body if when_loaded else ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _modules(layer: str) -> Iterator[tuple[Path, set[str]]]:
    for path in sorted((ROOT / layer).rglob("*.py")):
        yield path, _imported(path)


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_never_point_upwards(layer: str) -> None:
    forbidden = {*LAYERS[LAYERS.index(layer) + 1 :], *LEFT.get(layer, ())}
    for path, imported in _modules(layer):
        assert not {name.split(".")[0] for name in imported} & forbidden, path
        assert layer != "trainer" or not any(name.startswith("google.cloud.aiplatform") for name in imported), path


def test_the_python_interface_stands_beside_the_commands() -> None:
    for path, imported in _modules(API):
        assert not {name.split(".")[0] for name in imported} & {"cli", "pipelines", "kfp", "kubernetes"}, path
    for layer in LAYERS:
        for path, imported in _modules(layer):
            assert not {name for name in imported if name.split(".")[0] == API}, path


def test_what_makes_a_cloud_ready_stands_apart() -> None:
    for path, imported in _modules("infra"):
        of_ours = {name for name in imported if name.split(".")[0] in LAYERS}
        assert all(name.startswith("qcnn.trainer.errors.") for name in of_ours), path
    for layer in LAYERS:
        for path, imported in _modules(layer):
            assert not {name for name in imported if name.split(".")[0] == "infra"}, path


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions count, too: modules in a circle cannot be understood one at a time."""
    modules = {_dotted(path): imported for layer in ROOMS for path, imported in _modules(layer)}
    known = {
        name: {used if used in modules else used.rpartition(".")[0] for used in imported} - {name}
        for name, imported in modules.items()
    }
    # Modules that import nothing that is left are taken away until none is left, or only circles are.
    while leaves := {name for name, imported in known.items() if imported.isdisjoint(known)}:
        known = {name: imported for name, imported in known.items() if name not in leaves}
    assert not known


def test_what_counts_loads_no_tensorflow() -> None:
    paths = {_dotted(path): path for path, _ in _modules("trainer")}
    loads = {name: _imported(path, when_loaded=True) for name, path in paths.items()}
    for name in paths:
        if not name.startswith(COUNTING) or name in COMPUTING:
            continue
        reached, waiting = set[str](), {name}
        while waiting:
            module = waiting.pop()
            reached.add(module)
            used = {used if used in loads else used.rpartition(".")[0] or used for used in loads.get(module, ())}
            waiting |= used - reached
        assert not {module.split(".")[0] for module in reached} & TENSORFLOW, name


def test_launchers_know_no_experiments() -> None:
    for path, imported in _modules("launchers"):
        of_trainer = {name for name in imported if name.startswith("trainer.")}
        assert not {name for name in of_trainer if not name.startswith(LAUNCHERS_KNOW)}, path


@pytest.mark.parametrize("kind", sorted(path.parent.name for path in (ROOT / "launchers").glob("*/__init__.py")))
def test_one_way_to_start_a_training_knows_nothing_of_another(kind: str) -> None:
    shared = tuple(f"launchers.{path.stem}." for path in (ROOT / "launchers").glob("*.py"))
    # What machines hold and cost; what any job on a cluster of Kubernetes needs.
    shared += ("qcnn.jobs.costs.", *(("qcnn.jobs.kubernetes.",) if kind in ("tfjob", "tensorboard") else ()))
    for path, imported in _modules(f"qcnn/jobs/{kind}"):
        of_launchers = {name for name in imported if name.startswith("launchers.")}
        assert not {name for name in of_launchers if not f"{name}.".startswith((*shared, f"launchers.{kind}."))}, path


def test_a_folder_holds_no_more_than_fifteen_modules() -> None:
    modules = Counter(path.parent for layer in ROOMS for path, _ in _modules(layer) if path.name != "__init__.py")
    assert {folder for folder, count in modules.items() if count > 15} == set()
