"""Scripts that are no modules of a package, for tests of their functions."""

import importlib.util
import types
from pathlib import Path


def load_script(path: Path) -> types.ModuleType:
    """Return a script as a module, whose main program does not run."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
