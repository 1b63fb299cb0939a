"""Served models: versions that are found, loaded, replaced and released while requests are answered."""

import contextlib
import dataclasses
import importlib
import logging
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from qcnn.atomic_files import complete_files
from qcnn.circuits.formats.embedded import is_function
from qcnn.errors import ArtifactError, ConfigError, QcnnError, format_value
from qcnn.process.extras import MissingLibraryError, missing
from qcnn.results.local_run import model_in
from qcnn.results.model_folder import FILE, check_all_files, describe
from qcnn.results.predictor import Predictor, load_predictor
from qcnn.serving.errors import not_found
from qcnn.serving.labels import read_labels
from qcnn.serving.signature import Signature
from qcnn.serving.versions import (
    ModelSource,
    VersionPolicy,
    kept_versions,
    moved_labels,
    parse_version,
    resolve,
    wanted_versions,
)
from qcnn.storage.store import parse_bucket_uri

logger = logging.getLogger("qcnn")

# State of the files of a folder, which changes with them.
FolderState = tuple[tuple[str, int, int], ...]


@dataclasses.dataclass(frozen=True, eq=False)
class LoadedVersion:
    """Version of a model. A request holds it until its answer is complete."""

    number: int
    predictor: Predictor
    signature: Signature
    state: FolderState


@dataclasses.dataclass(frozen=True)
class _Versions:
    """Loaded versions and labels at one time. It is replaced as a whole, so a request reads both consistently."""

    loaded: Mapping[int, LoadedVersion]
    labels: Mapping[str, int]


class ServedModel:
    """Model of a name. One thread polls it, and any thread resolves its versions."""

    def __init__(
        self,
        name: str,
        source: str,
        folder: Path,
        policy: VersionPolicy,
        on_failure: Callable[[str], None],
        *,
        trust: bool,
    ) -> None:
        """Create a model without loaded versions.

        Args:
            name: Name of the model.
            source: Path or URI of the model, for messages.
            folder: Local folder with version folders, or of a model or run.
            policy: Versions to load.
            on_failure: Function of the name of the model that counts failures.
            trust: Whether Python functions may be imported.
        """
        self.name, self.source = name, source
        self._folder, self._policy, self._on_failure, self._trust = folder, policy, on_failure, trust
        self._current = _Versions({}, {})
        # State of the version folders that could not be loaded, and the messages that were logged.
        self._failed: dict[int, FolderState] = {}
        self._said: dict[str, str] = {}

    @property
    def versions(self) -> list[int]:
        """Loaded versions, ascending."""
        return sorted(self._current.loaded)

    @property
    def labels(self) -> Mapping[str, int]:
        """Version of each label."""
        return self._current.labels

    def resolve(self, version: str | None = None, label: str | None = None) -> LoadedVersion:
        """Return the version that a request means.

        Raises:
            RequestError: If it does not exist.
        """
        current = self._current
        return current.loaded[resolve(self.name, current.loaded, current.labels, version, label)]

    def poll(self) -> None:
        """Load new and changed versions, then release those that are not wanted."""
        folders, requested = self._version_folders(), self._policy.labels_of(self._read_labels())
        states = {number: _state_of(folder) for number, folder in folders.items()}
        current = self._current
        loaded = dict(current.loaded)
        # A version that cannot be loaded does not count: the next lower one takes its place.
        available = {number for number in folders if self._failed.get(number) != states[number]}
        while True:
            wanted = wanted_versions(available | loaded.keys() & folders.keys(), self._policy, requested)
            waiting = [
                number
                for number in wanted
                if number in available and (number not in loaded or loaded[number].state != states[number])
            ]
            if not waiting:
                break
            number = waiting[-1]
            available.discard(number)
            if version := self._load(number, folders[number], states[number]):
                loaded[number] = version
                # Requests may use it before the other versions are loaded.
                self._current = _Versions(dict(loaded), moved_labels(current.labels, requested, loaded))
                logger.info("model %s: version %d is loaded", self.name, number)
        if missing := sorted(self._policy.only - folders.keys()):
            versions = ", ".join(map(str, sorted(folders))) or "none"
            self._say("versions", f"model {self.name}: version {missing[0]} does not exist, of {versions}")
        labels = moved_labels(current.labels, requested, loaded)
        for label in requested.keys() - {each for each, number in labels.items() if requested.get(each) == number}:
            self._say(
                f"label {label}",
                f"label {label} of model {self.name} is not moved: version {requested[label]} is not loaded",
            )
        kept = kept_versions(loaded, wanted, labels)
        self._current = _Versions({number: loaded[number] for number in kept}, labels)
        for number in loaded.keys() - kept:
            logger.info("model %s: version %d is released", self.name, number)
        if labels != current.labels:
            logger.info("model %s: labels %s", self.name, labels or "none")

    def report_problem(self, error: QcnnError | None) -> None:
        """Log the error of a poll once, until a poll succeeds."""
        if error is None:
            self._said.pop("poll", None)
        else:
            self._say("poll", f"model {self.name}: {error}")

    def _version_folders(self) -> dict[int, Path]:
        """Return the folders of the versions. A model or run without version folders is version 1."""
        found: dict[int, Path] = {}
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                number = parse_version(path.name)
                if number is not None and (path / FILE).is_file():
                    found[number] = path
        if not found:
            with contextlib.suppress(ArtifactError):
                found[1] = model_in(self._folder, self.source)
        return found

    def _read_labels(self) -> Mapping[str, int]:
        try:
            labels = read_labels(self._folder)
        except ArtifactError as error:
            self._say("labels", str(error))
            return self._current.labels
        self._said.pop("labels", None)
        return labels

    def _load(self, number: int, folder: Path, state: FolderState) -> LoadedVersion | None:
        try:
            predictor = _load(folder, trust=self._trust)
        except (QcnnError, OSError) as error:
            self._failed[number] = state
            self._on_failure(self.name)
            self._say(f"version {number}", f"model {self.name}: version {number} is not loaded: {error}")
            return None
        self._failed.pop(number, None)
        self._said.pop(f"version {number}", None)
        return LoadedVersion(number, predictor, Signature(predictor.layout, predictor.config.qubits), state)

    def _say(self, subject: str, line: str) -> None:
        """Log a warning once."""
        if self._said.get(subject) != line:
            self._said[subject] = line
            logger.warning("%s", line)


def _load(folder: Path, *, trust: bool) -> Predictor:
    """Load a model folder whose files all have their digests.

    Raises:
        ArtifactError: If a file is missing or damaged.
        ConfigError: If the model is a Python function, and these are not trusted.
        MissingLibraryError: If the model needs a library of another extra.
    """
    description, config = describe(folder)
    if is_function(config.model) and not trust:
        raise ConfigError(f"model: must not be a Python function without --trust. Given: {config.model}")
    check_all_files(folder, description)
    try:
        # Checks of rows load it. The first request need not wait for that.
        importlib.import_module("qcnn.tables.chunks")
        return load_predictor(folder)
    except ModuleNotFoundError as error:
        if message := missing(error, "qcnn serve", "run"):
            raise MissingLibraryError(message) from None
        raise ConfigError(f"model: must be importable. Given: {error.name}") from None


def _state_of(folder: Path) -> FolderState:
    states = []
    with contextlib.suppress(OSError):
        for name in sorted(complete_files(folder)):
            with contextlib.suppress(OSError):
                found = (folder / name).stat()
                states.append((name, found.st_mtime_ns, found.st_size))
    return tuple(states)


class Repository:
    """Served models by name, and the thread that polls them."""

    def __init__(
        self, models: Mapping[str, ServedModel], mirrors: Mapping[str, Callable[[], None]], seconds: float
    ) -> None:
        """Create the repository of models.

        Args:
            models: Models by name.
            mirrors: Functions that download the changes of the models in buckets and services, by name.
            seconds: Seconds between two polls.
        """
        self.models = models
        self._mirrors, self._seconds = mirrors, seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="versions", daemon=True)

    @property
    def is_ready(self) -> bool:
        """Whether every model has a loaded version."""
        return all(model.versions for model in self.models.values())

    def model(self, name: str) -> ServedModel:
        """Return the model of a name.

        Raises:
            RequestError: If it does not exist.
        """
        if name not in self.models:
            raise not_found(f"model: must be one of {', '.join(sorted(self.models))}. Given: {format_value(name)}")
        return self.models[name]

    def poll(self) -> None:
        """Poll all models once."""
        for name, model in self.models.items():
            try:
                if name in self._mirrors:
                    self._mirrors[name]()
                model.poll()
                model.report_problem(None)
            except QcnnError as error:
                model.report_problem(error)

    @contextlib.contextmanager
    def polled(self) -> Iterator[None]:
        """Context manager that polls the models in a thread."""
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()

    def _follow(self) -> None:
        while not self._stopped.wait(self._seconds):
            try:
                self.poll()
            except Exception:
                # Without this thread, later versions would not be loaded.
                logger.exception("the versions cannot be read")


@contextlib.contextmanager
def open_repository(
    sources: Mapping[str, ModelSource],
    seconds: float,
    on_failure: Callable[[str], None],
    *,
    trust: bool,
) -> Iterator[Repository]:
    """Context manager that opens the repository of models, after its first poll.

    Args:
        sources: Path or URI of each model by name, and its versions to load.
        seconds: Seconds between two polls.
        on_failure: Function of the name of a model that counts failures to load a version.
        trust: Whether Python functions may be imported.

    Raises:
        ConfigError: If a folder does not exist, or a bucket denies access.
    """
    models, mirrors = {}, {}
    with contextlib.ExitStack() as stack:
        for name, source in sources.items():
            folder = Path(source.address)
            if source.mirror:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qcnn-")))
                mirrors[name] = stack.enter_context(source.mirror.open(folder))
            elif bucket := parse_bucket_uri(source.address):
                # The clients of buckets take seconds to import.
                from qcnn.storage.sync import FolderDownloader, open_store

                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qcnn-")))
                downloader = FolderDownloader(open_store(bucket), folder, deletes=True)
                stack.callback(downloader.close)
                mirrors[name] = downloader.update
            elif not folder.is_dir():
                raise ConfigError(f"model: must be an existing folder, or a bucket. Given: {source.address}")
            models[name] = ServedModel(name, source.address, folder, source.policy, on_failure, trust=trust)
        repository = Repository(models, mirrors, seconds)
        repository.poll()
        with repository.polled():
            yield repository
