"""Copy of a registered model for a server, from a registry that is not in files."""

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from qcnn.atomic_files import new_folder
from qcnn.registry.interface import Registry
from qcnn.serving import labels as label_files
from qcnn.serving.versions import VersionPolicy


@dataclasses.dataclass(frozen=True)
class RegistryMirror:
    """Versions of a registered model, in the layout that a server loads (see `qcnn.serving.versions.Mirror`).

    Attributes:
        kind: Class of the registry.
        address: Address of the registry, which may have secrets.
        name: Name of the model.
        policy: Versions to download: that of a label, or named ones.
    """

    kind: Callable[[str], Registry]
    address: str = dataclasses.field(repr=False)
    name: str
    policy: VersionPolicy

    @contextlib.contextmanager
    def open(self, folder: Path) -> Iterator[Callable[[], None]]:
        """Context manager that yields a function, which downloads the changes to a folder."""
        with contextlib.closing(self.kind(self.address)) as registry:

            def update() -> None:
                labels = self.policy.labels_of(registry.labels(self.name).versions)
                for number in self.policy.only or {*labels.values()}:
                    version = folder / str(number)
                    if not version.exists():
                        with registry.open(self.name, number) as copy, new_folder(version) as unfinished:
                            shutil.copytree(copy, unfinished, dirs_exist_ok=True)
                # A label moves when its version has been downloaded.
                label_files.write_labels(labels, folder)

            yield update
