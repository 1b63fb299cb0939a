"""Installed packages with plug-ins, without an installer."""

from collections.abc import Mapping
from pathlib import Path


def install(folder: Path, files: Mapping[str, str], entry_points: Mapping[str, str], version: str = "1.2") -> None:
    """Write a package and the metadata of its installation to a folder of the search path.

    Args:
        folder: Folder to write to.
        files: Content of each file, by its path.
        entry_points: Line of an entry point by its group.
        version: Version of the package, whose name is qcnn-extra.
    """
    metadata = folder / f"qcnn_extra-{version}.dist-info"
    groups = "".join(f"[{group}]\n{line}\n" for group, line in entry_points.items())
    own = {"METADATA": f"Metadata-Version: 2.1\nName: qcnn-extra\nVersion: {version}\n", "entry_points.txt": groups}
    for path, content in {**{metadata / name: text for name, text in own.items()}, **_below(folder, files)}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def _below(folder: Path, files: Mapping[str, str]) -> dict[Path, str]:
    return {folder / name: text for name, text in files.items()}
