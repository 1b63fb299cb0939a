"""Export of a model as a numbered version, in one folder for TensorFlow Serving and `qcnn serve`."""

import contextlib
import dataclasses
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from qcnn.artifact_io import FILES, load_description, save_description
from qcnn.atomic_files import complete_files, folder_lock, new_folder, readable
from qcnn.errors import ArtifactError, ConfigError
from qcnn.results.local_run import model_in
from qcnn.results.model_folder import FILE, PROGRAM, SAVED_MODEL, check_files, describe
from qcnn.serving.versions import parse_version
from qcnn.storage.copies import local_copy, new_copy
from qcnn.storage.store import MissingFileError, parse_bucket_uri
from qcnn.storage.sync import open_store


@dataclasses.dataclass(frozen=True)
class ExportedVersion:
    """Version of a model: its number, its path or URI, and whether the export created it."""

    number: int
    uri: str
    is_new: bool


def export_version(source: str, output: str, version: int | None = None) -> ExportedVersion:
    """Write a model as version N of a folder: OUTPUT/N with SavedModel, weights and model.json.

    Without a number, the version follows the highest one. If the highest version, or the one of the number, is the
    same model, nothing is written.

    Args:
        source: Path or bucket URI of a run or model.
        output: Path or bucket URI of the folder of versions.
        version: Number of the version, or None.

    Raises:
        ArtifactError: If the model is damaged or has no SavedModel, or the version cannot be written.
        ConfigError: If the version exists with another model, or the folder is one of a model.
    """
    with local_copy(source) as copied:
        model = model_in(copied, source)
        files = _checked_files(model, source)
        with contextlib.ExitStack() as stack:
            if not parse_bucket_uri(output):
                if (Path(output) / FILE).exists():
                    raise ConfigError(f"output: must be a folder of versions, not of a model. Given: {output}")
                # Two exports at the same time must not select the same number.
                stack.enter_context(folder_lock("model", Path(output)))
            existing = _versions(output)
            number = version or max(existing, default=0)
            if number in existing and _digests(output, number) == _digests_of(model, files):
                return ExportedVersion(number, f"{output.rstrip('/')}/{number}", is_new=False)
            if version in existing:
                raise ConfigError(f"version: must be new in {output}. Given: {version}")
            number = version or number + 1
            uri = f"{output.rstrip('/')}/{number}"
            with _new_version(uri) as folder:
                for name, target in files.items():
                    (folder / target).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(model / name, folder / target)
                description = load_description("model", model / FILE)
                values = {key: value for key, value in description.items() if key not in (FILES, "schema_version")}
                save_description(values, folder / FILE, files.values())
    return ExportedVersion(number, uri, is_new=True)


def _checked_files(model: Path, source: str) -> dict[str, str]:
    """Return the files of a model folder without model.json, with their names in a version.

    Raises:
        ArtifactError: If a file is missing or damaged.
    """
    description, _ = describe(model)
    names = sorted(set(complete_files(model)) - {FILE})
    if FILES in description:
        names = sorted(description[FILES])
        for part in dict.fromkeys(name.partition("/")[0] for name in names):
            check_files(model, description, part)
    files = {name: name.removeprefix(f"{SAVED_MODEL}/") for name in names}
    if PROGRAM not in files.values():
        raise ArtifactError(f"model: must have a SavedModel. Given: {source}")
    return files


def _versions(output: str) -> set[int]:
    """Return the numbers of the versions in a folder."""
    if bucket := parse_bucket_uri(output):
        with contextlib.closing(open_store(bucket)) as store:
            names = [PurePosixPath(name).parts[0] for name in store.names() if name]
    else:
        with readable("output", Path(output)):
            names = [path.name for path in Path(output).iterdir()]
    return {number for name in names if (number := parse_version(name))}


def _digests_of(model: Path, files: dict[str, str]) -> dict[str, str]:
    listed = load_description("model", model / FILE).get(FILES, {})
    return {files[name]: digest for name, digest in listed.items()}


def _digests(output: str, number: int) -> dict[str, str] | None:
    """Return the digests of the files of an existing version, or None if it is not complete."""
    with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
        path = Path(output, str(number), FILE)
        if bucket := parse_bucket_uri(output):
            path = Path(temporary, FILE)
            with contextlib.suppress(MissingFileError), contextlib.closing(open_store(bucket)) as store:
                store.read(f"{number}/{FILE}", path)
        with contextlib.suppress(ArtifactError):
            digests: dict[str, str] = load_description("model", path).get(FILES, {})
            return digests
    return None


@contextlib.contextmanager
def _new_version(uri: str) -> Iterator[Path]:
    """Context manager that yields a new local folder, and renames or uploads it if the block succeeds."""
    if parse_bucket_uri(uri):
        with new_copy(uri, FILE) as folder:
            folder.mkdir()
            yield folder
    else:
        with new_folder(Path(uri)) as folder:
            yield folder
