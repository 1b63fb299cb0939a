"""Environment that contains only the distributions of this package without extras, or with selected extras."""

import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from packaging.requirements import Requirement

from qcnn.process.installation import DISTRIBUTION


def distributions(*extras: str) -> set[str]:
    """Return the names of the distributions that an installation of this package with extras contains."""
    found: set[tuple[str, frozenset[str]]] = set()
    waiting = [(DISTRIBUTION, frozenset(extras))]
    while waiting:
        name, selected = waiting.pop()
        if (name, selected) in found:
            continue
        found.add((name, selected))
        try:
            requirements = importlib.metadata.requires(name) or ()
        except importlib.metadata.PackageNotFoundError:
            # Required on another platform only.
            continue
        for requirement in map(Requirement, requirements):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *selected)):
                waiting.append((_normal(requirement.name), frozenset(requirement.extras)))
    return {name for name, _ in found}


def modules(names: Iterable[str]) -> set[str]:
    """Return the dotted names of all modules and packages of distributions."""
    found: set[str] = set()
    for name in names:
        for file in importlib.metadata.files(name) or ():
            if file.suffix == ".py":
                found |= {".".join(part.parts) for part in (file.with_suffix(""), *file.parents)}
    return found


def hide(extras: Iterable[str] = ()) -> None:
    """Hide all other distributions from imports of this process and its forked processes."""
    hidden = set(map(_normal, _all())) - distributions(*extras)
    without = _Without(hidden)
    sys.meta_path[:] = [without if finder is PathFinder else finder for finder in sys.meta_path]


class _Without(PathFinder):
    """Path finder that does not find modules of hidden distributions."""

    def __init__(self, hidden: set[str]) -> None:
        self._files = {
            str(found.locate_file(file))
            for found in importlib.metadata.distributions()
            if _normal(found.name) in hidden
            for file in found.files or ()
        }

    def find_spec(  # type: ignore[override]
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module, or None if it is hidden or does not exist."""
        spec = PathFinder.find_spec(name, path, target)
        return None if spec is not None and spec.origin in self._files else spec


def _all() -> Iterable[str]:
    return (found.name for found in importlib.metadata.distributions())


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
