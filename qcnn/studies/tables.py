"""Tables that a study writes itself: the datasets of its file, by their options."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qcnn.datasets.options import KINDS, DatasetOptions, parse_options
from qcnn.errors import ConfigError, format_value
from qcnn.experiment.config import ExperimentConfig
from qcnn.studies.rows import SEED_PLACEHOLDER

DATASETS = "datasets"
# Value of the option `seed` of a dataset with another table for each seed of the trials.
_TRIAL = "trial"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SUFFIX = ".parquet"


@dataclasses.dataclass(frozen=True)
class StudyDataset:
    """Dataset of a study. If `is_by_seed`, each seed of the trials has another table."""

    options: DatasetOptions
    is_by_seed: bool

    def path(self, folder: Path, name: str) -> str:
        """Return the path of its table, with a placeholder for the seed of a trial."""
        return str(folder / f"{name}-{SEED_PLACEHOLDER}{_SUFFIX}" if self.is_by_seed else folder / f"{name}{_SUFFIX}")


def parse_datasets(values: Any, source: Path | None = None) -> dict[str, StudyDataset]:
    """Return the datasets of a study file by name.

    Args:
        values: Mapping of names to mappings of `name` and the other options of a dataset. With the seed `trial`, each
            seed of the trials has another table.
        source: Folder of the files of datasets that do not name one.

    Raises:
        ConfigError: If an option is missing, unknown or invalid.
    """
    if values is None:
        return {}
    is_nested = isinstance(values, Mapping) and all(isinstance(each, Mapping) for each in values.values())
    if not is_nested or not all(isinstance(name, str) and _NAME.fullmatch(name) for name in values):
        raise ConfigError(
            f"{DATASETS}: must be a mapping of names (letters, digits, _, . and -) to options of `qcnn dataset`. "
            f"Given: {format_value(values)}"
        )
    found = {}
    for name, given in values.items():
        try:
            found[name] = _dataset(given, source)
        except ConfigError as error:
            raise ConfigError(f"{DATASETS}: {name}: {error}") from None
    return found


def _dataset(given: Mapping[Any, Any], source: Path | None) -> StudyDataset:
    options = {str(option): value for option, value in given.items()}
    known = [field.name for field in dataclasses.fields(DatasetOptions)]
    if unknown := [option for option in options if option not in known]:
        raise ConfigError(f"{unknown[0]}: must be one of {', '.join(known)}. Given: {format_value(given)}")
    is_by_seed = options.get("seed") == _TRIAL
    if is_by_seed:
        options.pop("seed")
    kind = KINDS.get(str(options.get("name")))
    if kind and kind.has_files and options.get("source") is None:
        options["source"] = source
    return StudyDataset(parse_options(options.pop("name", None), **options), is_by_seed)


@dataclasses.dataclass(frozen=True)
class StudyTables:
    """Folder of the tables of a study.

    Attributes:
        folder: Folder in which the tables are written.
        source: Folder of the files of datasets that do not name one, or None.
    """

    folder: Path
    source: Path | None = None

    def with_paths(
        self, datasets: Mapping[str, StudyDataset], shared: Mapping[str, Any], rows: Any
    ) -> tuple[dict[str, Any], Any]:
        """Return the fields that rows share, and the rows, with paths of tables instead of names of datasets.

        Args:
            datasets: Datasets by name.
            shared: Fields that all rows share.
            rows: Rows as given, valid or not.

        Raises:
            ConfigError: If no row uses a dataset.
        """
        paths = {name: dataset.path(self.folder, name) for name, dataset in datasets.items()}
        used = set()

        def replaced(fields: Any) -> Any:
            if not isinstance(fields, Mapping) or not isinstance(name := fields.get("data"), str) or name not in paths:
                return fields
            used.add(name)
            return {**fields, "data": paths[name]}

        changed = dict(replaced(shared)), [*map(replaced, rows)] if isinstance(rows, Sequence) else rows
        if unused := [name for name in datasets if name not in used]:
            raise ConfigError(f"{DATASETS}: each must be the data of the experiment or of a row. Given: {unused[0]}")
        return changed

    def write(self, datasets: Mapping[str, StudyDataset], trials: Sequence[ExperimentConfig]) -> None:
        """Write the tables that trials read. If one cannot be written, none is left.

        Args:
            datasets: Datasets by name.
            trials: Experiments of the trials, whose data are paths of `with_paths`.

        Raises:
            QcnnError: If a file of a dataset is missing or damaged, or an option does not fit its rows.
        """
        if not datasets:
            return
        # Loads NumPy and pyarrow.
        from qcnn.datasets.dataset_table import make, write

        options = {}
        for name, dataset in datasets.items():
            path = dataset.path(self.folder, name)
            for seed in dict.fromkeys(trial.seed for trial in trials):
                chosen = seed if dataset.is_by_seed else dataset.options.seed
                options[path.replace(SEED_PLACEHOLDER, str(seed))] = dataclasses.replace(dataset.options, seed=chosen)
        try:
            for path, each in options.items():
                self.folder.mkdir(parents=True, exist_ok=True)
                write(make(each), path)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            # The folder of the study, unless it has other content.
            with contextlib.suppress(OSError):
                self.folder.parent.rmdir()
            raise
