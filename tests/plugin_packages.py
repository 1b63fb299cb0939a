"""Installed packages with plug-ins, without an installer."""

from collections.abc import Mapping
from pathlib import Path


def install(
    folder: Path,
    files: Mapping[str, str],
    entry_points: Mapping[str, str],
    package: tuple[str, str] = ("qcnn-extra", "1.2"),
) -> None:
    """Write a package and the metadata of its installation to a folder of the search path.

    Args:
        folder: Folder to write to.
        files: Content of each file, by its path.
        entry_points: Lines of entry points, by their group.
        package: Name and version of the package.
    """
    name, version = package
    metadata = f"{name.replace('-', '_')}-{version}.dist-info"
    groups = "".join(f"[{group}]\n{lines}\n" for group, lines in entry_points.items())
    installed = {
        **files,
        f"{metadata}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{metadata}/entry_points.txt": groups,
    }
    for path, content in installed.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
