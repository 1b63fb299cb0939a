"""Which package may import which: cli -> pipelines -> components -> trainer."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ["trainer", "components", "pipelines", "cli"]


def _imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_never_point_upwards(layer: str) -> None:
    forbidden = set(LAYERS[LAYERS.index(layer) + 1 :])
    if layer == "trainer":
        forbidden |= {"kfp", "kubernetes"}
    for path in (ROOT / layer).rglob("*.py"):
        assert not _imported(path) & forbidden, path
